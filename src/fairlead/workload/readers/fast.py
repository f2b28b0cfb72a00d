"""The vectorised parser. It never says what is wrong, only that the exact parser has to look."""

from __future__ import annotations

import numpy as np
import polars as pl

from fairlead.workload.readers.block import Layout, Mask, NameTable
from fairlead.workload.readers.report import BadRow
from fairlead.workload.readers.source import LineBlock
from fairlead.workload.readers.strings import PackedStrings
from fairlead.workload.readers.values import Reading
from fairlead.workload.trace import Floats, Ints, Longs

_TIMES = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S%z", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z")


class FastBlock:
    """Columns of a polars frame: text, or numbers and times where the file is typed."""

    exact = False

    def __init__(self, frame: pl.DataFrame, first_row: int = 0) -> None:
        self.frame = frame
        self.broken: list[BadRow] = []
        self._first_row = first_row

    @property
    def rows(self) -> int:
        return self.frame.height

    def has(self, column: str) -> bool:
        return column in self.frame.columns

    def line(self, row: int) -> int:
        return self._first_row + row + 1

    def text(self, column: str, row: int) -> str | None:
        value = self.frame[column][row]
        return None if value is None else str(value)

    def floats(self, column: str, reading: Reading) -> tuple[Floats, Mask]:
        series = self.frame[column]
        if series.dtype.is_temporal():
            values = series.cast(pl.Datetime("us")).dt.epoch("us").cast(pl.Float64) / 1e6
        elif series.dtype != pl.String:
            values = series.cast(pl.Float64, strict=False)
        else:
            values = _parsed(series, reading)
        failed = (values.is_null() & series.is_not_null()).to_numpy()
        return np.array(values.to_numpy(), np.float64), failed

    def missing(self, column: str) -> Mask:
        series = self.frame[column]
        nothing = series.is_null()
        return (nothing | (series == "").fill_null(False) if series.dtype == pl.String else nothing).to_numpy()

    def names(self, column: str, table: NameTable, keep: Mask | None) -> Ints:
        series = self._kept(column, keep)
        unique = series.unique(maintain_order=True)
        codes = pl.Series([table.code(name) for name in unique.to_list()], dtype=pl.Int32)
        return series.replace_strict(unique, codes, return_dtype=pl.Int32).to_numpy()

    def ids(self, column: str, keep: Mask) -> Longs | PackedStrings:
        series = self._kept(column, keep).fill_null("")
        lengths = series.str.len_bytes().cast(pl.Int64).to_numpy()
        numbers = series.cast(pl.Int64, strict=False)
        # 007 and +7 are not the number 7: only what would be printed the same may become a number
        if numbers.null_count() == 0 and np.array_equal(_printed_length(numbers.to_numpy()), lengths):
            return numbers.to_numpy()
        joined = series.str.join("").item() if series.len() else ""
        return PackedStrings.joined(str(joined).encode(), lengths)

    def _kept(self, column: str, keep: Mask | None) -> pl.Series:
        series = self.frame[column]
        if series.dtype.is_float() and series.drop_nulls().cast(pl.Int64, strict=False).eq(series.drop_nulls()).all():
            series = series.cast(pl.Int64)  # an id column that a tool stored as 17.0
        series = series.cast(pl.String)
        return series if keep is None or keep.all() else series.filter(pl.Series(keep))


def parse_fast(block: LineBlock, layout: Layout) -> FastBlock | None:
    """None: something is not as it should be, or can't be told here."""
    types = {name: pl.Float64 if layout.wanted.get(name) else pl.String for name in layout.header}
    data = block.data
    comments = data.startswith(b"#") or b"\n#" in data
    quotes = b'"' in data
    if comments and quotes:
        return None  # a line that begins with # may stand inside quotes
    try:
        frame = pl.read_csv(
            data,
            has_header=False,
            schema=types,
            columns=[i for i, name in enumerate(layout.header) if name in layout.wanted],
            null_values=sorted(layout.nothing),
            comment_prefix="#" if comments else None,
        )
    except pl.exceptions.PolarsError:
        return None
    return FastBlock(frame) if _same_shape(data, layout, frame, comments, quotes) else None


def _same_shape(data: bytes, layout: Layout, frame: pl.DataFrame, comments: bool, quotes: bool) -> bool:
    """Polars fills short rows with nulls: only the number of commas shows that, less those in comments and quotes."""
    if comments:
        data = b"\n".join(line for line in data.split(b"\n") if not line.startswith(b"#"))
    commas = frame.height * (len(layout.header) - 1)
    if quotes:
        try:
            whole = pl.read_csv(data, has_header=False, schema=dict.fromkeys(layout.header, pl.String))
        except pl.exceptions.PolarsError:
            return False
        inside = whole.select(pl.all().str.count_matches(",", literal=True).sum()).sum_horizontal().item()
        commas += int(inside or 0)
    return data.count(b",") == commas


def _parsed(series: pl.Series, reading: Reading) -> pl.Series:
    """Vectorised first; each different text that is left over goes through the parser that decides."""
    if reading.fast == "number":
        values = series.cast(pl.Float64, strict=False)
    else:
        values = pl.Series([None], dtype=pl.Float64).new_from_index(0, series.len())
        for form in _TIMES:
            found = series.str.to_datetime(form, time_unit="us", strict=False)
            if found.null_count() == series.null_count():
                values = found.dt.epoch("us").cast(pl.Float64) / 1e6
                break
    left = series.filter(values.is_null() & series.is_not_null()).unique()
    if left.is_empty():
        return values
    parsed: dict[str, float] = {}
    for text in left.to_list():
        try:
            parsed[text] = reading.parse(text)
        except ValueError:
            continue
    return values.fill_null(series.replace_strict(parsed, default=None, return_dtype=pl.Float64)) if parsed else values


_POWERS = np.array([10**k for k in range(1, 19)], np.int64)


def _printed_length(numbers: Longs) -> Longs:
    return np.searchsorted(_POWERS, np.abs(numbers), side="right") + 1 + (numbers < 0)
