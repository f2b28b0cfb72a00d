"""SenseTime Helios `cluster_log.csv` (Hu et al., SC'21): one row per Slurm job."""

from __future__ import annotations

import numpy as np

from fairlead.workload.readers.rows import Rows
from fairlead.workload.readers.table import Table

TABLE = Table(
    required=("job_id", "user", "vc", "gpu_num", "state", "submit_time", "start_time", "end_time"),
    numbers=frozenset({"gpu_num", "cpu_num"}),
    texts=frozenset({"job_id", "user", "vc", "jobname", "state", "submit_time", "start_time", "end_time"}),
    time_column="submit_time",
)
#: published, and either the same as the difference of two times or of no use to a simulation
UNUSED = frozenset({"node_num", "duration", "queue"})
NOTES = ("CPU jobs are left out: the trace has no CPU inventory",)


def convert(rows: Rows) -> None:
    rows.id("job_id")
    rows.name("tenant", "vc")
    rows.name("user", "user")
    rows.name("group", "jobname")
    gpus = rows.gpus("gpu_num")
    rows.drop(gpus == 0, "asks for no GPU")
    rows.set("gpus", gpus)
    rows.set("submit_s", rows.times("submit_time", required=True))
    rows.set("duration_s", rows.span(rows.times("start_time"), rows.times("end_time"), "end_time"))
    rows.set("status", rows.status("state"))
    if rows.has("cpu_num"):
        rows.set("cpu_milli", np.rint(rows.number("cpu_num", low=0, high=1e6, fill=0) * 1000))
