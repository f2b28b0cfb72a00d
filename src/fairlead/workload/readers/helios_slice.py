"""A slice of Helios whose submit_time is in microseconds and whose GPUs are called chips."""

from __future__ import annotations

from fairlead.workload.readers.rows import Rows
from fairlead.workload.readers.table import Table

TABLE = Table(
    required=("job_id", "submit_time", "num_chips", "duration_s", "final_status"),
    numbers=frozenset({"submit_time", "num_chips", "duration_s"}),
    texts=frozenset({"job_id", "user", "tenant", "chip_type", "final_status"}),
)
UNUSED = frozenset({"class", "num_nodes", "walltime_limit_s"})
NOTES = ("walltime_limit_s repeats the duration, so it is not taken for an estimate",)


def convert(rows: Rows) -> None:
    rows.id("job_id")
    rows.name("tenant", "tenant")
    rows.name("user", "user")
    rows.name("gpu_type", "chip_type")
    rows.set("submit_s", rows.number("submit_time") / 1e6)
    gpus = rows.gpus("num_chips")
    rows.drop(gpus == 0, "asks for no GPU")
    rows.set("gpus", gpus)
    duration_s = rows.number("duration_s", low=0)
    rows.drop(duration_s == 0, "ran for 0 s")
    rows.set("duration_s", duration_s)
    rows.set("status", rows.status("final_status"))
