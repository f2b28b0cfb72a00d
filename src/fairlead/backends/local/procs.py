"""Processes as /proc shows them. A process is known by its id and the tick at which it started: ids are used again."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)

#: a flag of the kernel's in /proc/PID/stat
_PF_EXITING = 0x4


def _prctl(option: int, value: int | bytes) -> None:
    if _libc.prctl(option, ctypes.c_char_p(value) if isinstance(value, bytes) else ctypes.c_ulong(value), 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl({option})")


def become_subreaper() -> None:
    """From now on orphans among our descendants become our children, so that none gets away."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Called in a child: no job goes on without its supervisor. `parent` may be dead already."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def set_name(name: bytes) -> None:
    with contextlib.suppress(OSError):
        _prctl(_PR_SET_NAME, name)


def stat(pid: int) -> tuple[str, int, int] | None:
    """State letter, parent and start ticks; None where there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    return fields[0].decode(), int(fields[1]), int(fields[19])


def start_ticks(pid: int) -> int:
    found = stat(pid)
    return found[2] if found else 0


def is_alive(pid: int, ticks: int) -> bool:
    """Whether it is that very process, and not dead already."""
    found = stat(pid)
    return found is not None and found[2] == ticks and found[0] not in "ZX"


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _children_by_parent() -> dict[int, list[int]]:
    table: dict[int, list[int]] = {}
    for pid in all_pids():
        found = stat(pid)
        if found:
            table.setdefault(found[1], []).append(pid)
    return table


def children(pid: int) -> list[int]:
    """Raises FileNotFoundError where this kernel keeps no such list."""
    found: list[int] = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    for task in tasks:
        try:
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += map(int, file.read().split())
        except ProcessLookupError:
            continue
        except FileNotFoundError:
            if os.path.exists(f"/proc/{pid}/task/{task}"):
                raise
    return found


def descendants(root: int) -> list[int]:
    """Parents before their children. What forks meanwhile may be missed: whoever must have all of them asks again."""
    try:
        found = children(root)
        for pid in found:
            found += children(pid)
    except FileNotFoundError:
        table = _children_by_parent()
        found = list(table.get(root, ()))
        for pid in found:
            found += table.get(pid, ())
    return found


def catches(pid: int, signum: int) -> bool:
    """Whether the process has a handler of its own for the signal."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"SigCgt:"):
                    return bool(int(line.split()[1], 16) >> (signum - 1) & 1)
    except OSError:
        pass
    return False


def catchers(root: int, signum: int) -> list[int]:
    """Who below `root` (itself included) to send a signal that programs answer: from each line of descent the first
    process with a handler for it. So a shell around the program is passed over, and the program's own helpers, which
    inherit its handler, are left alone."""
    found: list[int] = []
    todo = [root]
    while todo:
        pid = todo.pop()
        if catches(pid, signum):
            found.append(pid)
            continue
        try:
            todo += children(pid)
        except FileNotFoundError:
            todo += _children_by_parent().get(pid, ())
    return found


def send(pid: int, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signum)


def available_mib() -> int:
    with open("/proc/meminfo", "rb") as file:
        for line in file:
            if line.startswith(b"MemAvailable:"):
                return int(line.split()[1]) >> 10
    return 0


def uses_cuda(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            return any(b"libcuda.so" in line for line in file)
    except OSError:
        return False


def is_exiting(pid: int, proc: str = "/proc") -> bool:
    """Whether it has left its program for good and still gives back what it held: with much GPU memory that takes seconds,
    mostly after its first thread is over."""
    states = []
    try:
        for task in os.listdir(f"{proc}/{pid}/task"):
            with open(f"{proc}/{pid}/task/{task}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            if not int(fields[6]) & _PF_EXITING:
                return False
            states.append(fields[0])
    except OSError:
        return False
    return any(state != b"Z" for state in states)


def holds_gpu(pid: int) -> bool:
    """Whether it has a GPU's device file open."""
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    for name in names:
        with contextlib.suppress(OSError):
            if os.readlink(f"{folder}/{name}").removeprefix("/dev/nvidia").isdigit():
                return True
    return False


def marked(token: str) -> list[int]:
    """Processes that carry a run's token in their environment, wherever they have gone."""
    mark = f"FAIRLEAD_RUN_TOKEN={token}".encode()
    found = []
    for pid in all_pids():
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    found.append(pid)
        except OSError:
            continue
    return found
