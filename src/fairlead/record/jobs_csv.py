"""What became of each job, as CSV."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fairlead.record.journal import Journal, Outcome
from fairlead.record.outcome import wait_s

COLUMNS = ("job_id", "submit_s", "start_s", "finish_s", "wait_s", "preemptions")
#: from here on polars: about as many rows are written without it while it is imported
_MANY = 50_000


def jobs_csv(
    journal: Journal,
    outcome: Outcome,
    job_ids: npt.NDArray[np.int64] | Sequence[str] | None,
    path: str | Path,
) -> None:
    """One line per job in order of submission, under `COLUMNS`.

    Times are written as floats, so always with a point or an exponent (`3600.0`), in the fewest digits that
    read back as the same number. A field is empty where it did not happen; wait_s is of finished jobs.
    `job_ids` of None writes the job's position.
    """
    jobs = journal.jobs
    ids = np.arange(len(jobs.submit_s)) if job_ids is None else job_ids
    floats = (jobs.submit_s, outcome.start_s, outcome.finish_s, wait_s(jobs, outcome))
    write = _write_many if len(ids) >= _MANY else _write_few
    write(ids, floats, outcome.preemptions, Path(path))


def _write_few(
    ids: Sequence[Any] | npt.NDArray[Any],
    floats: tuple[npt.NDArray[np.float64], ...],
    preemptions: npt.NDArray[np.int32],
    path: Path,
) -> None:
    columns = [["" if x != x else repr(x) for x in column.tolist()] for column in floats]
    names = ids.tolist() if isinstance(ids, np.ndarray) else ids
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(zip(names, *columns, preemptions.tolist()))


def _write_many(
    ids: Sequence[Any] | npt.NDArray[Any],
    floats: tuple[npt.NDArray[np.float64], ...],
    preemptions: npt.NDArray[np.int32],
    path: Path,
) -> None:
    import polars as pl

    columns: dict[str, Any] = {COLUMNS[0]: ids}
    columns |= {name: pl.Series(column).fill_nan(None) for name, column in zip(COLUMNS[1:-1], floats)}
    columns[COLUMNS[-1]] = preemptions
    pl.DataFrame(columns).write_csv(path)
