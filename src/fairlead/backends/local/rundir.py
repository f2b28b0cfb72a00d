"""A run's directory: what it was told, what became of it, and who looks after it.

    order.json    what to do; there from the first moment on, since the directory gets its name only when it is complete
    state.json    what became of it so far; replaced as a whole
    lock          held by the run's supervisor as long as that lives; also a reserve of space
    control.sock  where the supervisor can be reached

A directory without a state has never started a process, whoever died in between: the supervisor takes the lock and
writes its first state before it starts anything. So an order may be launched any number of times and is carried out once.

Power loss: nothing of a run outlives it, and the boot id tells that it happened. So only results are forced to disk.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import struct
import time
from typing import Any

STARTING = "starting"
RUNNING = "running"
SUSPENDED = "suspended"  #: by `method`; its processes are still there unless it was "checkpoint" or "requeue"
ENDED = "ended"
FAILED = "failed"  #: it never ran
LOST = "lost"
#: after these no process of the run is left, and no supervisor
FINAL = (ENDED, FAILED, LOST)
#: ways of suspending that leave processes behind, so that the run after it goes on with them
KEEPS_PROCESSES = ("driver", "stop")

RESERVE = 8192  #: bytes
#: struct flock: type, whence, start, length, pid
_FLOCK = struct.Struct("hhqqi4x")

Doc = dict[str, Any]


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def dir_name(job: str, run: int) -> str:
    """A file name for any job id: other characters than these as %XX, so that no id can walk out of the directory."""
    plain = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
    name = "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in job.encode())
    if name.startswith("."):
        name = "%2E" + name[1:]
    return f"{name}@{run}"


def write_file(path: str, data: bytes, *, durable: bool) -> None:
    """Replace a file as a whole: a reader sees the old content or the new one."""
    temporary = path + ".new"
    _put(temporary, data, durable=durable)
    os.rename(temporary, path)
    if durable:
        sync_dir(os.path.dirname(path))


def _put(path: str, data: bytes, *, durable: bool = False) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)


def sync_dir(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _read(path: str) -> Doc | None:
    """None where there is none, {} where there is one that can't be read (the machine died while it was written)."""
    try:
        with open(path, "rb") as file:
            doc = json.loads(file.read())
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return doc if isinstance(doc, dict) else {}


class RunDir:
    def __init__(self, path: str) -> None:
        self.path = path
        self._lock: int | None = None

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)

    @classmethod
    def create(cls, parent: str, name: str, order: Doc) -> RunDir:
        """FileExistsError where this run has been ordered before."""
        temporary = os.path.join(parent, f".{name}.{os.getpid()}")
        os.mkdir(temporary, 0o700)
        final = os.path.join(parent, name)
        try:
            _put(os.path.join(temporary, "order.json"), json.dumps(order).encode())
            # the lock holds room for a last word: emptied when the disk is full and the state can't be written otherwise
            _put(os.path.join(temporary, "lock"), b"." * RESERVE)
            try:
                os.rename(temporary, final)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    raise FileExistsError(final) from None
                raise
        except BaseException:
            remove(temporary)
            raise
        return cls(final)

    def order(self) -> Doc:
        return _read(self.file("order.json")) or {}

    def state(self) -> Doc | None:
        return _read(self.file("state.json"))

    def write_state(self, doc: Doc, *, durable: bool = False) -> None:
        data = json.dumps(doc).encode()
        try:
            write_file(self.file("state.json"), data, durable=durable)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            os.truncate(self.file("lock"), 0)
            write_file(self.file("state.json"), data, durable=durable)

    def sync_state(self) -> None:
        """Force the state as written to disk."""
        fd = os.open(self.file("state.json"), os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        sync_dir(self.path)

    def claim(self, wait_s: float = 0.0) -> bool:
        """Become the one that looks after this run, until `release` or death. False: someone else does.

        One that was killed while it began a process may hold it for a moment longer, through that process: `wait_s`.
        """
        until = time.monotonic() + wait_s
        while not self._claim():
            if time.monotonic() >= until:
                return False
            time.sleep(0.02)
        return True

    def _claim(self) -> bool:
        fd = os.open(self.file("lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        self._lock = fd
        return True

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def is_claimed(self) -> bool:
        """Asked without taking the lock, so that asking never keeps a supervisor from claiming."""
        try:
            fd = os.open(self.file("lock"), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            asked = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        finally:
            os.close(fd)
        return bool(_FLOCK.unpack(asked)[0] != fcntl.F_UNLCK)


def remove(path: str) -> None:
    """Take a run's directory away; under another name first, so that nobody finds half of it."""
    grave = os.path.join(os.path.dirname(path), f".gone-{os.path.basename(path)}")
    try:
        os.rename(path, grave)
    except FileNotFoundError:
        return
    except OSError:
        grave = path
    for name in os.listdir(grave):
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(grave, name))
    with contextlib.suppress(OSError):
        os.rmdir(grave)
