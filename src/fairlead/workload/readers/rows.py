"""One block while it becomes jobs: every check goes through here, whichever parser made the block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairlead.workload.readers.block import Block, Mask, NameTable
from fairlead.workload.readers.report import BadRow
from fairlead.workload.readers.strings import PackedStrings
from fairlead.workload.readers.values import FLAG_WORDS, NUMBER, STATUS_WORDS, TIME, Reading
from fairlead.workload.trace import Floats, Ints, Longs

MOST_GPUS = 1_000_000  #: no cluster has more; a larger count is a unit or a column gone wrong
Column = Floats | Longs | Ints | npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Chunk:
    """The jobs of one block, under the names of the Trace's columns.

    `names` are not coded yet: the file's column, and a mark that makes a name count as none.
    """

    rows: int
    columns: dict[str, Column]
    names: dict[str, tuple[str, str]]
    id_column: str | None
    keep: Mask
    block: Block

    def ids(self) -> Longs | PackedStrings | None:
        return None if self.id_column is None else self.block.ids(self.id_column, self.keep)


class Rows:
    """Reads columns as numbers, rejects rows that are wrong, drops rows that are right but no use."""

    def __init__(self, block: Block, file: str) -> None:
        self.block, self.file = block, file
        self.count = block.rows
        self.bad: Mask = np.zeros(block.rows, bool)
        self.problems: list[tuple[int, BadRow]] = []
        self._dropped: dict[str, Mask] = {}
        self._out: Mask = np.zeros(block.rows, bool)
        self._columns: dict[str, Column] = {}
        self._names: dict[str, tuple[str, str]] = {}
        self._id: str | None = None

    def has(self, column: str) -> bool:
        return self.block.has(column)

    def reject(self, where: Mask, column: str, why: str, accepts: str) -> None:
        """A row is rejected once, for the first thing found wrong with it."""
        new = where & ~self.bad
        if not new.any():
            return
        self.bad |= new
        if self.block.exact:
            for row in np.flatnonzero(new).tolist():
                value = self.block.text(column, row)
                self.problems.append((row, BadRow(self.file, self.block.line(row), column, value or "", why, accepts)))

    def drop(self, where: Mask, reason: str) -> None:
        new = where & ~self._out
        self._out |= new
        self._dropped[reason] = self._dropped.get(reason, np.zeros(self.count, bool)) | new

    def number(
        self,
        column: str,
        *,
        reading: Reading = NUMBER,
        low: float | None = None,
        high: float | None = None,
        fill: float | None = None,
        accepts: str = "",
    ) -> Floats:
        """Finite values within bounds; an empty cell becomes `fill`, or is rejected when there is none.

        With fill=NaN the caller looks after the empty cells.
        """
        accepts = accepts or _range(reading.accepts, low, high)
        values, failed = self.block.floats(column, reading)
        self.reject(failed, column, "this is not " + _article(reading), accepts)
        nothing = np.isnan(values)
        if nothing.any():
            missing = self.block.missing(column)
            self.reject(nothing & ~missing & ~failed, column, "this is no finite number", accepts)
            if fill is None:
                self.reject(missing, column, "the cell is empty", accepts)
            elif not np.isnan(fill):
                values[missing] = fill
        self.reject(np.isinf(values), column, "this is no finite number", accepts)
        if low is not None:
            self.reject(values < low, column, f"this is below {low:g}", accepts)
        if high is not None:
            self.reject(values > high, column, f"this is above {high:g}", accepts)
        return values

    def whole(self, column: str, *, low: float, high: float, fill: float | None = None, accepts: str = "") -> Longs:
        accepts = accepts or _range("a whole number", low, high)
        values = self.number(column, low=low, high=high, fill=fill, accepts=accepts)
        with np.errstate(invalid="ignore"):
            result = np.where(np.isfinite(values), values, 0).astype(np.int64)
        self.reject(result != values, column, "this is not a whole number", accepts)
        return result

    def gpus(self, column: str) -> Ints:
        accepts = f"a whole number of GPUs from 0 to {MOST_GPUS}"
        if column == "gpus":
            accepts += " (for part of one GPU write 1, and the part under gpu_share)"
        return self.whole(column, low=0, high=MOST_GPUS, accepts=accepts).astype(np.int32)

    def times(self, column: str, *, required: bool = False) -> Floats:
        """Seconds since 1970; NaN where the cell is empty and that is allowed."""
        return self.number(column, reading=TIME, fill=None if required else np.nan)

    def status(self, column: str, *, strict: bool = False) -> npt.NDArray[np.int8]:
        """By the words that traces use for how a job ended; `strict` rejects any other word."""
        table = NameTable()
        codes = self.block.names(column, table, None)
        known = [STATUS_WORDS.get(word.strip().lower()) for word in table.values]
        if strict and None in known:
            wrong = np.array([status is None for status in known] + [False])[codes]
            self.reject(wrong, column, "this is no status", "one of passed, failed, killed, unknown")
        by_code = np.array([int(status or 0) for status in known] + [0], np.int8)
        return by_code[codes]

    def flag(self, column: str, *, fill: bool) -> npt.NDArray[np.int8]:
        """1 for yes, 0 for no, `fill` where the cell is empty."""
        table = NameTable()
        codes = self.block.names(column, table, None)
        known = [FLAG_WORDS.get(word.strip().lower()) for word in table.values]
        if None in known:
            wrong = np.array([flag is None for flag in known] + [False])[codes]
            self.reject(wrong, column, "this is neither yes nor no", "true or false")
        return np.array([int(flag or 0) for flag in known] + [int(fill)], np.int8)[codes]

    def codes(self, column: str, table: NameTable) -> Ints:
        """Codes of all rows, for formats that join tables; `name` is for columns of the trace."""
        return self.block.names(column, table, None)

    def id(self, column: str) -> None:
        self.reject(self.block.missing(column), column, "the cell is empty", "an id")
        self._id = column

    def set(self, column: str, values: Column) -> None:
        self._columns[column] = values

    def name(self, trace_column: str, column: str, *, unless: str = "") -> None:
        """A column of names, where the file has it; a name that contains `unless` counts as none."""
        if self.has(column):
            self._names[trace_column] = (column, unless)

    def span(self, start: Floats, end: Floats, end_column: str) -> Floats:
        """Seconds from start to end. No start: it never ran; no end: it ran on when the trace was taken."""
        self.drop(np.isnan(start), "never started")
        self.drop(np.isnan(end), "still running when the trace ends")
        duration = end - start
        self.reject(duration < 0, end_column, "this is before the job's start", "a time after it")
        self.drop(duration == 0, "ran for 0 s")
        return np.where(np.isnan(duration), 0.0, duration)

    def upto(self, limit: int | None) -> None:
        """Forget all rows after the `limit`-th that is kept, right or wrong."""
        if limit is None:
            return
        kept = np.flatnonzero(self.keep)
        if len(kept) < limit:
            return
        last = int(kept[limit - 1])
        self._out[last + 1 :] = True
        self.problems = [(row, bad) for row, bad in self.problems if row <= last]
        self.bad[last + 1 :] = False
        for mask in self._dropped.values():
            mask[last + 1 :] = False
        if self.block.exact:
            self.block.broken = [bad for bad in self.block.broken if bad.line <= self.block.line(last)]

    @property
    def keep(self) -> Mask:
        return ~(self.bad | self._out)

    def dropped(self) -> dict[str, int]:
        return {reason: int((mask & ~self.bad).sum()) for reason, mask in self._dropped.items()}

    def chunk(self) -> Chunk:
        keep = self.keep
        columns = self._columns if keep.all() else {name: values[keep] for name, values in self._columns.items()}
        return Chunk(int(keep.sum()), columns, self._names, self._id, keep, self.block)


def _article(reading: Reading) -> str:
    return "a time" if reading is TIME else "a number" if reading is NUMBER else "a size"


def _range(what: str, low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f"{what} from {low:g} to {high:g}"
    if low is not None:
        return f"{what}, {low:g} or more"
    return what if high is None else f"{what} up to {high:g}"
