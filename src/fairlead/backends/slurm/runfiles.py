"""The files through which the scheduler and a run's agents on the nodes talk, on the filesystem that the nodes share.

    order.json    what the agents are to do; only the job's user can read it
    notes.json    what the scheduler wrote down for itself: which Slurm job it is, how it was asked to leave, how it ended
    ask           one word from the scheduler to the agents: nothing, suspend, stop, fence, or "continue" and a run's name
    out/          the agents' own, and the user's: claim-N, beat-N, part-N.json for the N-th node, failed

The directory itself is the scheduler's: nobody else can put a link where it writes. `ask` is there from the beginning and is
written in place, since a network filesystem asks its server about a file that it opens, and not about one that is missing.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

Doc = dict[str, Any]

ORDER, NOTES, ASK, OUT, FAILED_MARK = "order.json", "notes.json", "ask", "out", "failed"
#: what is asked of agents
SUSPEND, STOP, FENCE, CONTINUE = "suspend", "stop", "fence", "continue"
#: phases of a part
RUNNING, SUSPENDED, ENDED, FAILED = "running", "suspended", "ended", "failed"

_LARGEST = 1 << 22
#: of what users could have written themselves
LARGEST_PART = 1 << 16
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
_OLD = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def open_dir(path: str, dir_fd: int | None = None, *, only_through: bool = False) -> int:
    """`only_through`: to open what is in it, which is all that its owner lets us do."""
    flags = os.O_PATH if only_through else os.O_RDONLY
    return os.open(path, flags | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=dir_fd)


def put(folder: int, name: str, doc: Doc, mode: int = 0o600) -> None:
    """Replace a file as a whole, and force it to disk."""
    temporary = f".{name}.new"
    fd = os.open(temporary, _NEW, mode, dir_fd=folder)
    try:
        data = json.dumps(doc).encode()
        while data:
            data = data[os.write(fd, data) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def get(folder: int, name: str, most: int = _LARGEST) -> Doc | None:
    """None where there is none. What can't be read is {}: it may be anybody's file, and made to be trouble. `most`: bytes."""
    try:
        text = get_text(folder, name, most)
    except FileNotFoundError:
        return None
    except OSError:
        return {}
    with contextlib.suppress(ValueError, RecursionError):
        doc = json.loads(text)
        if isinstance(doc, dict):
            return doc
    return {}


def get_text(folder: int, name: str, most: int = _LARGEST) -> str:
    fd = os.open(name, _OLD, dir_fd=folder)
    try:
        return os.read(fd, most).decode("utf-8", "replace")
    finally:
        os.close(fd)


def mark(folder: int, name: str, text: str = "") -> bool:
    """Make a file; False where it is there already."""
    try:
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    except FileExistsError:
        return False
    try:
        os.write(fd, text.encode())
        os.fsync(fd)
    finally:
        os.close(fd)
    return True


def is_there(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def part(number: int) -> str:
    return f"part-{number}.json"


def claim(number: int) -> str:
    return f"claim-{number}"


def beat(number: int) -> str:
    return f"beat-{number}"
