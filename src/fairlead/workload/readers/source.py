"""Bytes of a file, plain or gzipped, in blocks of whole lines whose numbers are known."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from fairlead.model.errors import InputError

BLOCK_BYTES = 8 << 20
_PIECE_BYTES = 8 << 10
_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class LineBlock:
    data: bytes
    first_line: int  #: 1-based number of the block's first line in the file


def open_bytes(path: Path) -> IO[bytes]:
    """The file's content, unpacked if it is gzipped (its first bytes say so, not its name)."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise InputError("there is no such file", file=str(path)) from None
    except OSError as error:
        raise InputError(f"this can't be read: {error.strerror}", file=str(path)) from None
    if file.read(len(_GZIP)) == _GZIP:
        file.close()
        return cast(IO[bytes], gzip.open(path, "rb"))
    file.seek(0)
    return file


def read_chunk(file: IO[bytes], path: Path, size: int, line: int) -> bytes:
    """Up to `size` bytes; `line` is where reading stands, for the error about a damaged gzip file."""
    parts: list[bytes] = []
    try:
        # small pieces, so that all before the damage is handed out; the next call meets the damage again
        piece = _PIECE_BYTES if isinstance(file, gzip.GzipFile) else size
        while size > 0 and (part := file.read(min(size, piece))):
            parts.append(part)
            size -= len(part)
        return b"".join(parts) if len(parts) != 1 else parts[0]
    except (EOFError, OSError, zlib.error) as error:
        if parts:
            return b"".join(parts)
        if isinstance(error, EOFError):
            what = "the gzip data end before their end marker"
        else:
            what = f"the data are damaged ({error})"
        raise InputError(what, file=str(path), line=line, accepts="a whole file") from None


def head(path: Path, size: int = 1 << 16) -> bytes:
    """The first bytes, for finding out what the file is. Damage further on is left to the reader."""
    with open_bytes(path) as file:
        data = read_chunk(file, path, size, 1).removeprefix(_BOM)
    if data[257:262] == b"ustar":
        raise InputError("this is a tar archive", file=str(path), accepts="the files in it, unpacked")
    if not data.strip():
        raise InputError("the file is empty", file=str(path), accepts="a trace with a header and at least one job")
    return data


def line_blocks(path: Path, size: int = BLOCK_BYTES) -> Iterator[LineBlock]:
    """Whole records only: a line break inside quotes ends no block.

    When the file turns out to be damaged, the lines before the damage are handed out, then it raises.
    """
    line, kept, damage = 1, b"", None
    with open_bytes(path) as file:
        while True:
            try:
                chunk = read_chunk(file, path, size, line)
            except InputError as error:
                chunk, damage = b"", error
            if line == 1 and not kept:
                chunk = chunk.removeprefix(_BOM)
            data = kept + chunk if kept else chunk
            end = len(data) if not chunk and damage is None else _last_record_end(data)
            if end == 0 and len(data) >= 4 * size:  # a quote that never closes must not swallow the file
                end = data.find(b"\n") + 1
            if end:
                yield LineBlock(data[:end], line)
                line += data.count(b"\n", 0, end)
            kept = data[end:]
            if damage is not None:
                raise InputError(damage.what, file=damage.file, line=line, accepts=damage.accepts)
            if not chunk:
                return


def halved(block: LineBlock) -> tuple[LineBlock, LineBlock] | None:
    """Two blocks of whole records; None where that can't be done."""
    end = _last_record_end(block.data[: len(block.data) // 2])
    if not end:
        return None
    second = LineBlock(block.data[end:], block.first_line + block.data.count(b"\n", 0, end))
    return LineBlock(block.data[:end], block.first_line), second


def _last_record_end(data: bytes) -> int:
    """Just after the last line break outside quotes; 0 when there is none."""
    end = data.rfind(b"\n") + 1
    quotes = data.count(b'"', 0, end) if b'"' in data else 0
    while end and quotes % 2:
        before = data.rfind(b"\n", 0, end - 1) + 1
        quotes -= data.count(b'"', before, end)
        end = before
    return end
