"""Ten million job ids as two arrays and one buffer, where a list of str would take ten times the memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np

from fairlead.workload.trace import Longs


class PackedStrings(Sequence[str]):
    """Text i is the UTF-8 between starts[i] and ends[i] of `data`; reordering moves no text."""

    __slots__ = ("_data", "_ends", "_starts")

    def __init__(self, data: bytes | bytearray, starts: Longs, ends: Longs) -> None:
        self._data, self._starts, self._ends = data, starts, ends

    @classmethod
    def joined(cls, data: bytes, lengths: Longs) -> PackedStrings:
        """From texts that follow each other without a gap."""
        ends = np.cumsum(lengths, dtype=np.int64)
        return cls(data, ends - lengths, ends)

    @classmethod
    def of(cls, texts: Sequence[str]) -> PackedStrings:
        encoded = [text.encode() for text in texts]
        return cls.joined(b"".join(encoded), np.array([len(text) for text in encoded], np.int64))

    @classmethod
    def concat(cls, parts: list[PackedStrings]) -> PackedStrings:
        """Takes the parts out of the list as it goes, so that memory holds the texts little more than once."""
        data = bytearray(sum(len(part._data) for part in parts))
        starts = np.empty(sum(len(part) for part in parts), np.int64)
        ends = np.empty_like(starts)
        end, row = len(data), len(starts)
        while parts:
            part = parts.pop()
            end, row = end - len(part._data), row - len(part)
            data[end : end + len(part._data)] = part._data
            starts[row : row + len(part)] = part._starts + end
            ends[row : row + len(part)] = part._ends + end
        return cls(data, starts, ends)

    def take(self, index: Longs) -> PackedStrings:
        return PackedStrings(self._data, self._starts[index], self._ends[index])

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> PackedStrings: ...
    def __getitem__(self, index: int | slice) -> str | PackedStrings:
        if isinstance(index, slice):
            return PackedStrings(self._data, self._starts[index], self._ends[index])
        return self._data[self._starts[index] : self._ends[index]].decode()

    def __iter__(self) -> Iterator[str]:
        for start, end in zip(self._starts.tolist(), self._ends.tolist()):
            yield self._data[start:end].decode()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(repr(text) for text in self[:3])
        return f"PackedStrings([{shown}{', …' if len(self) > 3 else ''}], {len(self)} texts)"
