"""The CUDA driver's process checkpoint: an unmodified program's GPU memory goes to the host, and comes back later.

The calls are in libcuda since driver 570; going on on other GPUs than before (of the same type) works since 580. They are
made in a process of their own, which takes as long as moving the memory takes; a supervisor never loads libcuda.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

RUNNING, LOCKED, CHECKPOINTED, FAILED = range(4)
#: how long a program may take to finish what its GPU is doing before it counts as not lockable
LOCK_TIMEOUT_MS = 10_000
LEAVING = "leaving"
_CALLS = ("Lock", "Checkpoint", "Restore", "Unlock", "GetState")


class DriverError(Exception):
    """The driver could not do it: which call, for which process, and what it said."""


class Leaving(DriverError):
    """One of the processes takes leave of its GPU: it is about to end, and nothing of it can be moved any more."""


class Checkpointer(Protocol):
    """The driver's five calls. Each raises DriverError."""

    def state(self, pid: int) -> int: ...
    def lock(self, pid: int) -> None: ...
    def checkpoint(self, pid: int) -> None: ...
    def restore(self, pid: int, moves: Mapping[str, str]) -> None: ...
    def unlock(self, pid: int) -> None: ...


class CudaDriver:
    def __init__(self) -> None:
        self._lib = ctypes.CDLL("libcuda.so.1")
        # the driver wants to be initialised before it restores; that makes no context and takes no GPU memory
        self._check("cuInit", 0, self._lib.cuInit(0))

    def _check(self, call: str, pid: int, code: int) -> None:
        if code:
            text = ctypes.c_char_p()
            self._lib.cuGetErrorString(code, ctypes.byref(text))
            said = text.value.decode() if text.value else "unknown error"
            raise DriverError(f"{call} of process {pid} failed: {said} ({code})")

    def _call(self, name: str, pid: int, args: bytes) -> None:
        # every one takes a process and a block of 64 bytes in which what is not used is zero
        block = ctypes.create_string_buffer(args.ljust(64, b"\0"), 64)
        call = f"cuCheckpointProcess{name}"
        self._check(call, pid, getattr(self._lib, call)(ctypes.c_int(pid), block))

    def state(self, pid: int) -> int:
        state = ctypes.c_int(-1)
        code = self._lib.cuCheckpointProcessGetState(ctypes.c_int(pid), ctypes.byref(state))
        self._check("cuCheckpointProcessGetState", pid, code)
        return state.value

    def lock(self, pid: int) -> None:
        self._call("Lock", pid, struct.pack("I", LOCK_TIMEOUT_MS))

    def checkpoint(self, pid: int) -> None:
        self._call("Checkpoint", pid, b"")

    def restore(self, pid: int, moves: Mapping[str, str]) -> None:
        """`moves`: from UUID to UUID, every GPU that the process had; empty where it goes on where it was."""
        if not moves:
            self._call("Restore", pid, b"")
            return
        pairs = b"".join(uuid_bytes(old) + uuid_bytes(new) for old, new in moves.items())
        table = ctypes.create_string_buffer(pairs, len(pairs))
        self._call("Restore", pid, struct.pack("PI", ctypes.addressof(table), len(moves)))

    def unlock(self, pid: int) -> None:
        self._call("Unlock", pid, b"")


def uuid_bytes(text: str) -> bytes:
    """`GPU-xxxxxxxx-xxxx-…` as NVML writes it."""
    return bytes.fromhex(text.removeprefix("GPU-").replace("-", ""))


def has_calls() -> bool:
    """Whether this machine's driver has them at all."""
    try:
        lib = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return all(hasattr(lib, f"cuCheckpointProcess{name}") for name in _CALLS)


def freeze(driver: Checkpointer, pids: Iterable[int], leaving: Callable[[int], bool] = lambda pid: False) -> list[int]:
    """Take the GPU memory of these processes to the host: all of them or none. Returns those that had any.

    All are locked before the first is moved: processes of a gang wait for each other on the GPU. `leaving`: whether one
    that the driver does not know holds a GPU all the same. Raises Leaving for such a one, and where the driver loses one
    meanwhile: a program that has done its work gives its GPU memory back for seconds before it ends."""
    users: list[int] = []
    for pid in pids:
        if _knows(driver, pid):
            users.append(pid)
        elif leaving(pid):
            raise Leaving(f"process {pid} is ending")
        # else it has libcuda loaded but has not begun to use it
    try:
        for pid in users:
            driver.lock(pid)
        for pid in users:
            driver.checkpoint(pid)
    except DriverError as error:
        left = [pid for pid in users if _knows(driver, pid)]
        thaw(driver, left, {})
        if len(left) < len(users):
            raise Leaving(f"{error}, since it ended meanwhile") from None
        raise
    return users


def _knows(driver: Checkpointer, pid: int) -> bool:
    try:
        driver.state(pid)
    except DriverError:
        return False
    return True


def thaw(driver: Checkpointer, pids: Sequence[int], moves: Mapping[str, str]) -> None:
    """Bring the memory back and let them go on. Where it can't be brought back for all, all are as they were before."""
    try:
        for pid in pids:
            if driver.state(pid) == CHECKPOINTED:
                driver.restore(pid, moves)
    except DriverError:
        for pid in pids:
            if driver.state(pid) == LOCKED:
                driver.checkpoint(pid)
        raise
    for pid in pids:
        if driver.state(pid) == LOCKED:
            driver.unlock(pid)


def in_child(work: Callable[[], object]) -> tuple[int, int]:
    """Do it in a process of its own. Returns that process and a pipe with its answer: [result, error].

    The result of one that found a process leaving is LEAVING."""
    answer, end = os.pipe()
    pid = os.fork()
    if pid:
        os.close(end)
        return pid, answer
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            said: list[object] = [work(), ""]
        except Leaving as error:
            said = [LEAVING, str(error)]
        except Exception as error:
            said = [None, str(error) or type(error).__name__]
        os.write(end, json.dumps(said).encode())
    finally:
        os._exit(0)


def read_answer(answer: int) -> tuple[object, str]:
    with os.fdopen(answer, "rb") as file:
        text = file.read()
    if not text:
        return None, "the process that talks to the driver died or took too long"
    result, error = json.loads(text)
    return result, error
