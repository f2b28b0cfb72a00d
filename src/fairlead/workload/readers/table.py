"""Reads the tables of a format block by block: fast where all is well, exactly where something is not."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairlead.model.errors import InputError
from fairlead.workload.readers.block import Block, Layout, parse_exact
from fairlead.workload.readers.build import Builder
from fairlead.workload.readers.report import BadRow, Report
from fairlead.workload.readers.rows import Rows
from fairlead.workload.readers.source import LineBlock, halved, line_blocks
from fairlead.workload.readers.values import NOTHING, zone_of

#: below this the csv module is done before polars is imported
FAST_BYTES = 1 << 20
#: a faulty block is halved down to this before it is read line by line
EXACT_BYTES = 1 << 20


@dataclass(frozen=True)
class Table:
    """The columns of one table. `numbers` are plain ones; `texts` are names, ids, times, sizes."""

    required: tuple[str, ...]
    numbers: frozenset[str]
    texts: frozenset[str]
    #: the columns in order, for a table without a header line
    fixed_header: tuple[str, ...] | None = None
    nothing: frozenset[str] = NOTHING
    #: a column whose first value tells the trace's time zone
    time_column: str | None = None

    @property
    def wanted(self) -> dict[str, bool]:
        return {**dict.fromkeys(self.texts, False), **dict.fromkeys(self.numbers, True)}


@dataclass
class Pass:
    """What is shared by all files of one load."""

    report: Report
    builder: Builder
    limit: int | None
    notes: list[str]
    origin: str | None = None

    @property
    def room(self) -> int | None:
        return None if self.limit is None else self.limit - self.builder.rows

    @property
    def full(self) -> bool:
        return self.limit is not None and self.builder.rows >= self.limit


def read_jobs(path: Path, table: Table, convert: Callable[[Rows], None], load: Pass) -> None:
    """A table with one job a row."""
    for rows in read_rows(path, table, convert, load):
        load.builder.add(rows.chunk())
        if load.full:
            return


def read_rows(path: Path, table: Table, convert: Callable[[Rows], None], load: Pass) -> Iterator[Rows]:
    """Each block with `convert` done on it, its bad rows reported and its dropped rows counted."""
    if is_parquet(path):
        blocks = _parquet_blocks(path, table, convert, load)
    else:
        blocks = _csv_blocks(path, table, convert, load)
    for rows in blocks:
        rows.upto(load.room)
        load.report.add_bad([*rows.block.broken, *(bad for _, bad in rows.problems)])
        for reason, count in rows.dropped().items():
            load.report.add_dropped(reason, count)
        yield rows


def is_parquet(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError:
        return False  # opening it for reading says what is wrong


def _csv_blocks(path: Path, table: Table, convert: Callable[[Rows], None], load: Pass) -> Iterator[Rows]:
    layout: Layout | None = None
    try:
        for block in line_blocks(path):
            if layout is None:
                layout, block = _layout(path, table, block, load)
                _note_zone(block, layout, table, load)
            yield from _checked(block, layout, convert)
    except InputError as error:
        # a damaged file ends where it is damaged; anything else is not for skipping
        if layout is None or error.line is None or not load.report.skip_bad:
            raise
        load.report.add_bad([BadRow(str(path), error.line, None, None, error.what, error.accepts or "")])


def _checked(block: LineBlock, layout: Layout, convert: Callable[[Rows], None]) -> Iterator[Rows]:
    """Halve a block that is not all right until the part with the fault is small enough for the exact parser."""
    if len(block.data) < FAST_BYTES:
        yield _converted(parse_exact(block, layout), layout.file, convert)
        return
    from fairlead.workload.readers.fast import parse_fast

    quick = parse_fast(block, layout)
    if quick is not None:
        rows = _converted(quick, layout.file, convert)
        if not rows.bad.any():
            yield rows
            return
    halves = halved(block) if len(block.data) > EXACT_BYTES else None
    if halves is None:
        yield _converted(parse_exact(block, layout), layout.file, convert)
        return
    for half in halves:
        yield from _checked(half, layout, convert)


def _converted(block: Block, file: str, convert: Callable[[Rows], None]) -> Rows:
    rows = Rows(block, file)
    convert(rows)
    return rows


def _parquet_blocks(path: Path, table: Table, convert: Callable[[Rows], None], load: Pass) -> Iterator[Rows]:
    from fairlead.workload.readers import parquet

    header = parquet.column_names(path)
    check_header(str(path), None, header, table, load.notes)
    load.origin = load.origin or parquet.origin(path)
    for block in parquet.blocks(path, [name for name in header if name in table.wanted], table.nothing):
        yield _converted(block, str(path), convert)


def _layout(path: Path, table: Table, block: LineBlock, load: Pass) -> tuple[Layout, LineBlock]:
    """Take comments and the header off the first block."""
    line, start = block.first_line, 0
    while True:
        end = block.data.find(b"\n", start)
        raw = block.data[start : len(block.data) if end < 0 else end]
        if raw.strip() and not raw.startswith(b"#"):
            break
        if raw.startswith(b"# origin:"):
            load.origin = load.origin or raw.removeprefix(b"# origin:").decode(errors="replace").strip()
        if end < 0:
            raise InputError("the file has no header and no rows", file=str(path), line=line)
        start, line = end + 1, line + 1
    after = len(block.data) if end < 0 else end + 1
    names = header_names(raw)
    if table.fixed_header is not None:
        header = table.fixed_header
        if names != header:  # headerless, as published; some copies carry the names as a first line
            after = start
            line -= 1
    else:
        header = names
        check_header(str(path), line, header, table, load.notes)
    layout = Layout(str(path), header, table.wanted, table.nothing)
    return layout, LineBlock(block.data[after:], line + 1)


def header_names(raw: bytes) -> tuple[str, ...]:
    text = raw.decode(errors="backslashreplace").rstrip("\r\n")
    return tuple(name.strip() for name in next(csv.reader([text]), []))


def check_header(file: str, line: int | None, header: Sequence[str], table: Table, notes: list[str]) -> None:
    """All required columns, none twice; what is not used is noted, with the name that may be meant."""
    for name in header:
        if header.count(name) > 1 and name in table.wanted:
            raise InputError("the column is there twice", file=file, line=line, column=name, accepts="each name once")
    free = [name for name in header if name not in table.wanted]
    for name in table.required:
        if name not in header:
            near = difflib.get_close_matches(name, free, n=1)
            hint = f"; is {near[0]!r} meant?" if near else ""
            raise InputError(
                f"the column is missing{hint}",
                file=file,
                line=line,
                column=name,
                value=", ".join(header),
                accepts="the columns " + ", ".join(table.required),
            )
    absent = [name for name in table.wanted if name not in header]
    for name in free:
        near = difflib.get_close_matches(name, absent, n=1, cutoff=0.8)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        note = f"column {name!r} is not used{hint}"
        if name and note not in notes:
            notes.append(note)


def _note_zone(block: LineBlock, layout: Layout, table: Table, load: Pass) -> None:
    if table.time_column is None or load.builder.zone is not None:
        return
    first = LineBlock(block.data[: block.data.find(b"\n", 1 << 16) + 1] or block.data, block.first_line)
    for text in parse_exact(first, layout).columns.get(table.time_column, []):
        if text:
            try:
                load.builder.zone = zone_of(text)
            except ValueError:
                continue
            return
