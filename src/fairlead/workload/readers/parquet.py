"""A Parquet file as blocks of rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from fairlead.model.errors import InputError
from fairlead.workload.readers.fast import FastBlock

BATCH_ROWS = 1 << 19
ORIGIN_KEY = "fairlead.origin"


class ParquetBlock(FastBlock):
    """Rows of a Parquet file have no lines: the row's number stands for it."""

    exact = True


def column_names(path: Path) -> tuple[str, ...]:
    try:
        return tuple(pl.read_parquet_schema(path))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _unreadable(path, error) from None


def origin(path: Path) -> str | None:
    try:
        return pl.read_parquet_metadata(path).get(ORIGIN_KEY)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _unreadable(path, error) from None


def blocks(path: Path, columns: list[str], nothing: frozenset[str]) -> Iterator[ParquetBlock]:
    """Slices of the file, so that memory holds one of them beside the columns made so far."""
    first = 0
    while True:
        try:
            frame = pl.scan_parquet(path).select(columns).slice(first, BATCH_ROWS).collect()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise _unreadable(path, error) from None
        yield ParquetBlock(_plain(frame, path, nothing), first)
        first += frame.height
        if frame.height < BATCH_ROWS:
            return


def _plain(frame: pl.DataFrame, path: Path, nothing: frozenset[str]) -> pl.DataFrame:
    """Text, numbers and times only, with nulls for the words that mean nothing."""
    for name, kind in frame.schema.items():
        if kind.is_nested() or kind in (pl.Binary, pl.Object):
            raise InputError(f"the column holds {kind}", file=str(path), column=name, accepts="numbers, text or times")
    texts = [name for name, kind in frame.schema.items() if kind in (pl.String, pl.Categorical, pl.Enum)]
    words = sorted(nothing)
    return frame.with_columns(
        pl.when(~pl.col(name).cast(pl.String).is_in(words)).then(pl.col(name).cast(pl.String)).alias(name)
        for name in texts
    )


def _unreadable(path: Path, error: Exception) -> InputError:
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    return InputError(f"this Parquet file can't be read: {first}", file=str(path), accepts="a whole file")
