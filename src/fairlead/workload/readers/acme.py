"""Shanghai AI Lab Acme `trace_seren.csv` and `trace_kalos.csv` (Hu et al., NSDI'24): one row per job."""

from __future__ import annotations

import numpy as np

from fairlead.workload.readers.rows import Rows
from fairlead.workload.readers.table import Table

TABLE = Table(
    required=(
        "job_id",
        "user",
        "node_num",
        "gpu_num",
        "type",
        "state",
        "submit_time",
        "start_time",
        "end_time",
    ),
    numbers=frozenset({"gpu_num", "cpu_num", "node_num", "mem_per_pod_GB"}),
    texts=frozenset({"job_id", "user", "state", "submit_time", "start_time", "end_time"}),
    time_column="submit_time",
)
#: Kalos's `duration` counts from submission, Seren's from the start: end less start means one thing in both
UNUSED = frozenset({"type", "duration", "queue", "gpu_time", "fail_time", "stop_time", "shared_mem_per_pod"})
NOTES = (
    "CPU jobs are left out: the trace has no CPU inventory",
    "durations are end_time less start_time: the duration column of Kalos includes the wait",
)


def convert(rows: Rows) -> None:
    rows.id("job_id")
    rows.name("user", "user")
    gpus = rows.gpus("gpu_num")
    rows.drop(gpus == 0, "asks for no GPU")
    rows.set("gpus", gpus)
    rows.set("submit_s", rows.times("submit_time", required=True))
    rows.set("duration_s", rows.span(rows.times("start_time"), rows.times("end_time"), "end_time"))
    rows.set("status", rows.status("state"))
    if rows.has("cpu_num"):
        rows.set("cpu_milli", np.rint(rows.number("cpu_num", low=0, high=1e6, fill=0) * 1000))
    if rows.has("mem_per_pod_GB"):
        pods = rows.number("node_num", low=0, high=1e6, fill=1)
        memory_gib = rows.number("mem_per_pod_GB", low=0, high=1e9, fill=0) * pods
        rows.set("memory_mib", np.ceil(np.nan_to_num(memory_gib) * 1024))
