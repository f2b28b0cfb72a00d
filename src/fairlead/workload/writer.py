"""Traces out, in the canonical form: what is written reads back as the same trace."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Literal, cast

import numpy as np

from fairlead.model.errors import InputError
from fairlead.workload.trace import Names, Status, Trace

#: from here on importing polars is soon made up for
FAST_ROWS = 200_000
_BATCH_ROWS = 1 << 16
_FAST_BATCH_ROWS = 1 << 19
_SUFFIXES = "a name that ends in .csv, .csv.gz or .parquet"
#: columns whose unit in the file is a thousand times that of the trace
_MILLI = {"gpu_share_milli": "gpu_share", "cpu_milli": "cpus"}
_FILE_NAMES = {"job_ids": "job_id", "gpu_memory_mib": "gpu_memory", "memory_mib": "memory", **_MILLI}


def write_trace(trace: Trace, path: str | Path, *, origin_comment: bool = False) -> None:
    """Write CSV or Parquet, as the suffix says.

    Parquet keeps the trace's origin in its metadata. A CSV file has room for it only in a comment, which other tools
    may not expect: it is written with `origin_comment`.
    """
    path = Path(path)
    comment = f"# origin: {trace.origin}\n" if origin_comment and trace.origin else ""
    try:
        if path.name.endswith(".parquet"):
            _write_parquet(trace, path)
        elif path.name.endswith(".csv"):
            with path.open("w", encoding="utf-8", newline="") as file:
                write_csv(trace, file, comment)
        elif path.name.endswith(".csv.gz"):
            with (
                path.open("wb") as raw,
                gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed,  # the same bytes each time
                io.TextIOWrapper(cast(IO[bytes], packed), encoding="utf-8", newline="") as text,
            ):
                write_csv(trace, text, comment)
        else:
            raise InputError("a trace can't be written as this", file=str(path), accepts=_SUFFIXES)
    except OSError as error:
        raise InputError(f"this can't be written: {error.strerror}", file=str(path)) from None


def write_csv(trace: Trace, file: IO[str], comment: str = "") -> None:
    columns = file_columns(trace)
    file.write(comment)
    csv.writer(file, lineterminator="\n").writerow(columns)
    quoted = _needs_quotes(columns)
    if len(trace) >= FAST_ROWS:
        _write_rows_fast(columns, len(trace), file, quoted=quoted)
        return
    quoting: Literal[0, 2] = csv.QUOTE_NONNUMERIC if quoted else csv.QUOTE_MINIMAL
    writer = csv.writer(file, lineterminator="\n", quoting=quoting)
    for batch in _batches(columns, len(trace)):
        writer.writerows(zip(*batch.values()))


def _write_rows_fast(columns: dict[str, Any], rows: int, file: IO[str], *, quoted: bool) -> None:
    """The same values by polars, whose floats read back exactly too."""
    import polars as pl

    style: Literal["non_numeric", "necessary"] = "non_numeric" if quoted else "necessary"
    tables = {
        name: pl.Series([*v.values, None], dtype=pl.String) for name, v in columns.items() if isinstance(v, Names)
    }
    whole = _whole_columns(columns)
    for first in range(0, rows, _FAST_BATCH_ROWS):
        part = slice(first, first + _FAST_BATCH_ROWS)
        batch = []
        for name, values in columns.items():
            if isinstance(values, Names):
                codes = values.codes[part]
                series = tables[name].gather(np.where(codes < 0, len(values.values), codes))
            elif isinstance(values, np.ndarray):
                series = pl.Series(values[part].astype(np.int64) if name in whole else values[part])
            else:
                series = pl.Series(list(values[part]), dtype=pl.String)
            batch.append(series.alias(name))
        file.write(pl.DataFrame(batch).write_csv(include_header=False, quote_style=style))


def _needs_quotes(columns: dict[str, Any]) -> bool:
    """Unquoted, an id that begins with # would read as a comment; and a carriage return goes unquoted by itself."""
    ids = columns["job_id"]
    if not isinstance(ids, np.ndarray) and any(text.startswith("#") or "\r" in text for text in ids):
        return True
    return any("\r" in text for names in columns.values() if isinstance(names, Names) for text in names.values)


def _write_parquet(trace: Trace, path: Path) -> None:
    import polars as pl

    from fairlead.workload.readers.parquet import ORIGIN_KEY

    columns = {
        name: pl.Series(name, values if isinstance(values, np.ndarray) else list(values))
        for name, values in file_columns(trace, codes=False).items()
    }
    metadata = {ORIGIN_KEY: trace.origin} if trace.origin else None
    pl.DataFrame(columns).write_parquet(path, metadata=metadata, row_group_size=1 << 18)


def file_columns(trace: Trace, *, codes: bool = True) -> dict[str, Any]:
    """The trace's columns under their names in a file; names stay coded for `_batches` unless `codes` is off."""
    columns: dict[str, Any] = {"job_id": np.arange(len(trace)) if trace.job_ids is None else trace.job_ids}
    for name, values in trace.columns().items():
        if name == "job_ids":
            continue
        if name == "status":
            words = tuple(status.name.lower() for status in Status)
            values = Names(values.astype(np.int32), words)
        if name == "preemptible":
            values = Names(values.astype(np.int32), ("false", "true"))
        if isinstance(values, Names) and not codes:
            values = [values.values[code] if code >= 0 else None for code in values.codes.tolist()]
        columns[_FILE_NAMES.get(name, name)] = values / 1000 if name in _MILLI else values
    return columns


def _batches(columns: dict[str, Any], rows: int) -> Iterator[dict[str, Sequence[Any]]]:
    """Plain Python values, some rows at a time. Floats go out as repr, which reads back exactly."""
    whole = _whole_columns(columns)
    for first in range(0, rows, _BATCH_ROWS):
        part = slice(first, first + _BATCH_ROWS)
        batch: dict[str, Sequence[Any]] = {}
        for name, values in columns.items():
            if isinstance(values, Names):
                texts = (*values.values, "")  # code -1 is the last
                batch[name] = [texts[code] for code in values.codes[part].tolist()]
            elif isinstance(values, np.ndarray):
                batch[name] = (values[part].astype(np.int64) if name in whole else values[part]).tolist()
            else:
                batch[name] = list(values[part])
        yield batch


def _whole_columns(columns: dict[str, Any]) -> set[str]:
    """Floats that can go out without a point: shorter, and read back the same."""
    return {
        name
        for name, values in columns.items()
        if isinstance(values, np.ndarray) and values.dtype.kind == "f" and _all_whole(values)
    }


def _all_whole(values: Any) -> bool:
    return bool((np.abs(values) < 2**53).all() and (values == np.floor(values)).all())
