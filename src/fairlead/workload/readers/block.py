"""Some consecutive rows of a table, as text: what the two parsers make and the checks read."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fairlead.workload.readers.report import BadRow
from fairlead.workload.readers.source import LineBlock
from fairlead.workload.readers.strings import PackedStrings
from fairlead.workload.readers.values import Reading
from fairlead.workload.trace import Floats, Ints, Longs

Mask = npt.NDArray[np.bool_]


class NameTable:
    """Names to dense codes in order of first appearance; -1 is no name."""

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}

    def code(self, name: str | None) -> int:
        return self.codes.setdefault(name, len(self.codes)) if name else -1

    @property
    def values(self) -> tuple[str, ...]:
        return tuple(self.codes)


class Block(Protocol):
    """`exact` blocks know each row's line; the others only find out whether anything is wrong."""

    exact: bool
    #: rows that are not in the block because they could not be taken apart
    broken: list[BadRow]

    @property
    def rows(self) -> int: ...

    def has(self, column: str) -> bool: ...

    def line(self, row: int) -> int: ...

    def text(self, column: str, row: int) -> str | None: ...

    def floats(self, column: str, reading: Reading) -> tuple[Floats, Mask]:
        """The values, NaN where there is none; and where the cell holds something that is no such number."""
        ...

    def missing(self, column: str) -> Mask: ...

    def names(self, column: str, table: NameTable, keep: Mask | None) -> Ints: ...

    def ids(self, column: str, keep: Mask) -> Longs | PackedStrings: ...


@dataclass(frozen=True, slots=True)
class Layout:
    """What a parser must know of a table."""

    file: str
    header: tuple[str, ...]
    #: wanted columns; True for those that hold plain numbers
    wanted: dict[str, bool]
    #: what means that a cell holds nothing
    nothing: frozenset[str]


@dataclass
class ExactBlock:
    """Rows as lists of str, made by the csv module, each with its line."""

    lines: list[int]
    columns: dict[str, list[str | None]]
    broken: list[BadRow] = field(default_factory=list)
    exact: bool = True

    @property
    def rows(self) -> int:
        return len(self.lines)

    def has(self, column: str) -> bool:
        return column in self.columns

    def line(self, row: int) -> int:
        return self.lines[row]

    def text(self, column: str, row: int) -> str | None:
        return self.columns[column][row]

    def floats(self, column: str, reading: Reading) -> tuple[Floats, Mask]:
        values, failed = np.full(self.rows, np.nan), np.zeros(self.rows, bool)
        for row, text in enumerate(self.columns[column]):
            if text is not None:
                try:
                    values[row] = reading.parse(text)
                except ValueError:
                    failed[row] = True
        return values, failed

    def missing(self, column: str) -> Mask:
        return np.array([not text for text in self.columns[column]], bool)

    def names(self, column: str, table: NameTable, keep: Mask | None) -> Ints:
        texts = self._kept(column, keep)
        return np.array([table.code(text) for text in texts], np.int32)

    def ids(self, column: str, keep: Mask) -> Longs | PackedStrings:
        texts = [text or "" for text in self._kept(column, keep)]
        try:
            numbers = [int(text) for text in texts]
            if all(str(number) == text for number, text in zip(numbers, texts)):
                return np.array(numbers, np.int64)
        except (ValueError, OverflowError):
            pass
        return PackedStrings.of(texts)

    def _kept(self, column: str, keep: Mask | None) -> Iterable[str | None]:
        texts = self.columns[column]
        return texts if keep is None else (text for text, kept in zip(texts, keep.tolist()) if kept)


def parse_exact(block: LineBlock, layout: Layout) -> ExactBlock:
    """The parser that diagnoses: slow, but it knows every line."""
    broken: list[BadRow] = []
    lines: list[int] = []
    rows: list[list[str]] = []
    for line, row in csv_rows(block, layout.file, broken):
        if len(row) == len(layout.header):
            lines.append(line)
            rows.append(row)
        else:
            broken.append(_ragged(layout, line, row))
    columns: dict[str, list[str | None]] = {}
    by_column: Sequence[Sequence[str]] = list(zip(*rows)) if rows else [()] * len(layout.header)
    for name, texts in zip(layout.header, by_column):
        if name in layout.wanted:
            columns[name] = [None if text in layout.nothing else text for text in texts]
    return ExactBlock(lines, columns, broken)


def csv_rows(block: LineBlock, file: str, broken: list[BadRow]) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line they begin on; blank lines and lines that begin with # are none."""
    reader = csv.reader(_text_lines(block, file, broken))
    while True:
        line = block.first_line + reader.line_num
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            broken.append(BadRow(file, line, None, None, f"the row can't be read as CSV: {error}"))
            continue
        if row and not (len(row) == 1 and not row[0].strip()):
            yield line, row


def _text_lines(block: LineBlock, file: str, broken: list[BadRow]) -> Iterator[str]:
    """A comment or undecodable line becomes a blank one, so that the reader's count of lines stays right."""
    quoted = False
    for number, raw in enumerate(block.data.split(b"\n"), block.first_line):
        if raw.startswith(b"#") and not quoted:
            yield "\n"
            continue
        if b'"' in raw and raw.count(b'"') % 2:
            quoted = not quoted
        try:
            yield raw.decode() + "\n"
        except UnicodeDecodeError as error:
            why = f"byte {error.start + 1} of the line is not UTF-8"
            shown = raw.decode(errors="backslashreplace")[:80]
            broken.append(BadRow(file, number, None, shown, why, "text in UTF-8"))
            yield "\n"


def _ragged(layout: Layout, line: int, row: list[str]) -> BadRow:
    have, want = len(row), len(layout.header)
    column = layout.header[have] if have < want else None
    shown = ",".join(row)
    why = f"the row has {have} field{'s' * (have != 1)} where the header has {want}"
    accepts = f"{want} fields: {', '.join(layout.header)}"
    return BadRow(layout.file, line, column, shown if len(shown) <= 80 else shown[:77] + "...", why, accepts)
