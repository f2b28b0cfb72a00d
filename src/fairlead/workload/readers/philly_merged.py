"""The Philly trace as one list: job_id, submit_time, num_gpus, duration_s, vc."""

from __future__ import annotations

from fairlead.workload.readers.rows import Rows
from fairlead.workload.readers.table import Table

TABLE = Table(
    required=("job_id", "submit_time", "num_gpus", "duration_s", "vc"),
    numbers=frozenset({"num_gpus", "duration_s"}),
    texts=frozenset({"job_id", "submit_time", "vc"}),
    time_column="submit_time",
)
UNUSED = frozenset({"in_pollux_subset"})
NOTES: tuple[str, ...] = ()


def convert(rows: Rows) -> None:
    rows.id("job_id")
    rows.name("tenant", "vc")
    rows.set("submit_s", rows.times("submit_time", required=True))
    gpus = rows.gpus("num_gpus")
    rows.drop(gpus == 0, "asks for no GPU")
    rows.set("gpus", gpus)
    duration_s = rows.number("duration_s", low=0)
    rows.drop(duration_s == 0, "ran for 0 s")
    rows.set("duration_s", duration_s)
