"""A job's output: from pipes to a file that is rotated by size. No trouble with the file ever reaches the job."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

#: the longest line that is kept together when several processes write to one log
LONGEST_LINE = 1 << 16


class Log:
    """`keep` older files stay beside it as PATH.1 (the newest) to PATH.keep."""

    def __init__(self, path: str, limit_bytes: int, keep: int, owner: tuple[int, int] | None = None) -> None:
        self.path = path
        self.limit_bytes = limit_bytes
        self.keep = keep
        self.owner = owner
        self.lost_bytes = 0
        self.error = ""
        self._fd = -1
        self._size = 0

    def open(self) -> None:
        """Raises OSError. What was in the file stays: runs of one job follow each other in it."""
        with self._as_who_may():
            with contextlib.suppress(FileExistsError):  # then opening says what is wrong
                os.makedirs(os.path.dirname(self.path), 0o700)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            fd = os.open(self.path, flags, 0o600)
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "it is no plain file", self.path)
        self._fd = fd
        self._size = found.st_size
        if self.owner and found.st_uid != self.owner[0] and os.geteuid() == 0:
            os.fchown(self._fd, *self.owner)

    @contextlib.contextmanager
    def _as_who_may(self) -> Iterator[None]:
        """In a directory that is not ours, act as the user whose job it is: a link planted there leads nowhere that the
        user could not have gone."""
        parent = os.path.dirname(self.path)
        while not os.path.isdir(parent) and parent != "/":
            parent = os.path.dirname(parent)
        found = os.stat(parent)
        if not self.owner or os.geteuid() != 0 or (found.st_uid == 0 and not found.st_mode & 0o022):
            yield
            return
        uid, gid = self.owner
        groups = os.getgroups()
        os.setgroups([gid])
        os.setegid(gid)
        os.seteuid(uid)
        try:
            yield
        finally:
            os.seteuid(0)
            os.setegid(0)
            os.setgroups(groups)

    def write(self, data: bytes) -> None:
        while self._size + len(data) > self.limit_bytes:
            room = self.limit_bytes - self._size
            cut = data.rfind(b"\n", 0, max(room, 0)) + 1 or (0 if self._size else room)
            if cut:
                self._write(data[:cut])
                data = data[cut:]
            self._rotate()
        self._write(data)

    def _write(self, data: bytes) -> None:
        if self.lost_bytes:
            notice = f"\n[fairlead: {self.lost_bytes} bytes of output are missing here: {self.error}]\n".encode()
            if self._put(notice) == len(notice):
                self.lost_bytes = 0
        self.lost_bytes += len(data) - (0 if self.lost_bytes else self._put(data))

    def _put(self, data: bytes) -> int:
        done = 0
        try:
            while done < len(data):
                done += os.write(self._fd, data[done:])
        except OSError as error:
            self.error = error.strerror or str(error)
        self._size += done
        return done

    def _rotate(self) -> None:
        """Where that fails, the old file just goes on growing."""
        old = self._fd
        try:
            with self._as_who_may():
                for number in range(self.keep, 0, -1):
                    older = f"{self.path}.{number - 1}" if number > 1 else self.path
                    with contextlib.suppress(FileNotFoundError):
                        os.rename(older, f"{self.path}.{number}")
                if self.keep == 0:
                    os.unlink(self.path)
            self.open()
        except OSError:
            self._fd, self._size = old, 0
        else:
            os.close(old)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Pump:
    """One process's pipe into the log. With a prefix (several processes share the log) whole lines only are passed on."""

    def __init__(self, fd: int, log: Log, prefix: str = "") -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self.log = log
        self.prefix = prefix.encode()
        self._rest = b""

    def turn(self) -> bool:
        """Pass on what is there. False at its end."""
        try:
            data = os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return True
        self._pass_on(data)
        return bool(data)

    def drain(self) -> None:
        """What is still in the pipe, without waiting for more; then it is closed."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.fd, 1 << 16):
                self._pass_on(data)
        self._pass_on(b"")
        os.close(self.fd)

    def _pass_on(self, data: bytes) -> None:
        """Nothing means that no more will come."""
        if not self.prefix:
            if data:
                self.log.write(data)
            return
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if self._rest and (not data or len(self._rest) > LONGEST_LINE):
            lines.append(self._rest)
            self._rest = b""
        if lines:
            self.log.write(b"".join(self.prefix + line + b"\n" for line in lines))
