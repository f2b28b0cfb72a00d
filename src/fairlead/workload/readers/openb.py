"""Alibaba openb 2023 pod lists (Weng et al., ATC'23): one row per pod, times in seconds."""

from __future__ import annotations

import numpy as np

from fairlead.workload.readers.rows import Rows
from fairlead.workload.readers.table import Table

TABLE = Table(
    required=(
        *("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"),
        *("pod_phase", "creation_time", "deletion_time", "scheduled_time"),
    ),
    numbers=frozenset(
        {
            "cpu_milli",
            "memory_mib",
            "num_gpu",
            "gpu_milli",
            "creation_time",
            "deletion_time",
            "scheduled_time",
        }
    ),
    texts=frozenset({"name", "gpu_spec", "pod_phase"}),
)
UNUSED = frozenset({"qos"})
NOTES = (
    "pods without a GPU are kept (gpus=0): the node list has CPUs and memory",
    "a pod that may run on several GPU types (A|B) is taken to run on any",
)


def convert(rows: Rows) -> None:
    rows.id("name")
    gpus = rows.gpus("num_gpu")
    rows.set("gpus", gpus)
    rows.set("submit_s", rows.number("creation_time"))
    started = rows.number("scheduled_time", fill=np.nan)
    rows.set("duration_s", rows.span(started, rows.number("deletion_time", fill=np.nan), "deletion_time"))
    share_milli = rows.whole("gpu_milli", low=0, high=1000, fill=1000)
    rows.set("gpu_share_milli", np.where(gpus == 1, share_milli, 1000))
    rows.reject((gpus == 1) & (share_milli == 0), "gpu_milli", "the pod asks for a GPU but no part of it", "1 to 1000")
    rows.set("cpu_milli", rows.whole("cpu_milli", low=0, high=1e9, fill=0))
    rows.set("memory_mib", rows.whole("memory_mib", low=0, high=1e12, fill=0))
    rows.set("status", rows.status("pod_phase"))
    rows.name("gpu_type", "gpu_spec", unless="|")  # a trace has one required type per job
