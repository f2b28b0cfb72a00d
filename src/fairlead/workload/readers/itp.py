"""Microsoft ITP clusters 2021 (Gu et al., ASPLOS'23): job_id, submission_time, duration, num_gpu."""

from __future__ import annotations

from fairlead.workload.readers.rows import Rows
from fairlead.workload.readers.table import Table

TABLE = Table(
    required=("job_id", "submission_time", "duration", "num_gpu"),
    numbers=frozenset({"submission_time", "duration", "num_gpu"}),
    texts=frozenset({"job_id"}),
)
UNUSED: frozenset[str] = frozenset()
NOTES: tuple[str, ...] = ()


def convert(rows: Rows) -> None:
    rows.id("job_id")
    rows.set("submit_s", rows.number("submission_time"))
    gpus = rows.gpus("num_gpu")
    rows.drop(gpus == 0, "asks for no GPU")
    rows.set("gpus", gpus)
    duration_s = rows.number("duration", low=0)
    rows.drop(duration_s == 0, "ran for 0 s")
    rows.set("duration_s", duration_s)
