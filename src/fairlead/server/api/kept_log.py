"""What is kept of a job's output: a file, and older ones beside it that it was rotated into (PATH.1 the newest of them).

Opened folder by folder from the log folder down, no link followed: whoever may write in there leads nobody out of it.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path

BLOCK = 1 << 18
_MOST_FILES = 1000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Astray(Exception):
    """There is something, but it is no log of ours."""


class KeptLog:
    """All that is kept, as if it were one file; `next` goes on into what is written later."""

    def __init__(self, root: Path, path: Path) -> None:
        self._root, self._path = root, path
        self._files: list[int] = []
        self._at = 0  #: in the first of them
        self._last: tuple[int, int] | None = None  #: the file that was read last
        #: whoever stops waiting for a block that a thread still reads may not close the file under it
        self._turn = threading.Lock()
        self._closed = False
        self._files += _open_all(root, path)

    @property
    def left(self) -> int:
        """Bytes that can be read now."""
        return sum(os.fstat(file).st_size for file in self._files) - self._at

    def skip(self, size: int) -> None:
        for file in self._files[:-1]:
            length = os.fstat(file).st_size
            if self._at + size < length:
                break
            size -= length - self._at
            self._done()
        if self._files:
            self._at = min(self._at + size, os.fstat(self._files[0]).st_size)

    def tail(self, lines: int) -> None:
        """Only the last so many lines are left. A last line without its end is one."""
        if lines == 0:
            self.skip(self.left)
            return
        left, is_end = lines, True
        for number in range(len(self._files) - 1, -1, -1):
            file = self._files[number]
            at = os.fstat(file).st_size
            while at > 0:
                block = os.pread(file, min(BLOCK, at), max(at - BLOCK, 0))
                at = max(at - BLOCK, 0)
                if is_end:  # the very end: the last line's own end begins none
                    left += block.endswith(b"\n")
                    is_end = False
                end = len(block)
                while (end := block.rfind(b"\n", 0, end)) >= 0:
                    left -= 1
                    if left == 0:
                        for _ in range(number):
                            self._done()
                        self._at = at + end + 1
                        return

    def next(self) -> bytes:
        """Some more of it; nothing where there is no more yet."""
        with self._turn:
            return b"" if self._closed else self._next()

    def _next(self) -> bytes:
        while True:
            if not self._files:
                self._files += self._newer()
                if not self._files:
                    return b""
            block = os.pread(self._files[0], BLOCK, self._at)
            if block:
                self._at += len(block)
                return block
            if len(self._files) == 1:
                newer = self._newer()
                if not newer:
                    return b""
                # it was rotated: what was written to it before that comes first
                self._files += newer
                block = os.pread(self._files[0], BLOCK, self._at)
                if block:
                    self._at += len(block)
                    return block
            self._done()

    def _newer(self) -> list[int]:
        """Files that came after the last one that we have."""
        files = _open_all(self._root, self._path)
        known = _identity(self._files[-1]) if self._files else self._last
        ours = [number for number, file in enumerate(files) if _identity(file) == known]
        old = ours[-1] + 1 if ours else 0
        for file in files[:old]:
            os.close(file)
        return files[old:]

    def _done(self) -> None:
        file = self._files.pop(0)
        self._last, self._at = _identity(file), 0
        os.close(file)

    def close(self) -> None:
        with self._turn:
            self._closed = True
            while self._files:
                os.close(self._files.pop())


def _identity(file: int) -> tuple[int, int]:
    found = os.fstat(file)
    return found.st_dev, found.st_ino


def _open_all(root: Path, path: Path) -> list[int]:
    """Oldest first. A job that has not written anything has none."""
    folder = _open_folder(root, path)
    if folder is None:
        return []
    found: list[int] = []
    try:
        for number in range(_MOST_FILES):
            file = _open_file(path.name if number == 0 else f"{path.name}.{number}", folder)
            if file is not None:
                found.append(file)
            elif number:
                break
    except BaseException:
        for file in found:
            os.close(file)
        raise
    finally:
        os.close(folder)
    return found[::-1]


def _open_folder(root: Path, path: Path) -> int | None:
    if not path.is_relative_to(root) or ".." in path.parts:
        raise Astray
    try:
        folder = os.open(root, _FOLDER & ~os.O_NOFOLLOW)  # where the log folder itself is, its owner said
    except FileNotFoundError:
        return None
    for part in path.relative_to(root).parts[:-1]:
        try:
            inner = os.open(part, _FOLDER, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError:
            raise Astray from None
        finally:
            os.close(folder)
        folder = inner
    return folder


def _open_file(name: str, folder: int) -> int | None:
    try:
        file = os.open(name, _FILE, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENXIO):
            raise Astray from None
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise Astray
    return file
