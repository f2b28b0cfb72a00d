"""fairlead's own trace: job_id, submit_s, gpus, duration_s, and optional columns named as in the job YAML."""

from __future__ import annotations

import numpy as np

from fairlead.workload.readers.rows import MOST_GPUS, Rows
from fairlead.workload.readers.table import Table
from fairlead.workload.readers.values import EMPTY, MEMORY
from fairlead.workload.trace import Ints

_INT32 = 2**31 - 1
_FAR = 2.0**53  #: beyond it a float no longer holds every whole number

#: a column of the trace, and the names it may have in the file; the first is the one that is written
NAMES = {
    "tenant": ("tenant",),
    "user": ("user",),
    "group": ("group", "name"),
    "gpu_type": ("gpu_type",),
    "profile": ("profile",),
    "topology": ("topology",),
}
#: demands: the column of the trace, its name in the file, units of the trace in one of the file's
_SIZES = {"gpu_memory_mib": ("gpu_memory", "gpu_memory_mib"), "memory_mib": ("memory", "memory_mib")}

TABLE = Table(
    required=("job_id", "submit_s", "gpus", "duration_s"),
    numbers=frozenset(
        {
            *("submit_s", "gpus", "duration_s", "gpu_share", "gpu_share_milli", "cpus", "cpu_milli"),
            *("priority", "estimate_s", "time_limit", "attempts", "min_gpus", "max_gpus", "num_nodes"),
        }
    ),
    texts=frozenset(
        [
            "job_id",
            "status",
            "preemptible",
            *(n for names in NAMES.values() for n in names),
            *(n for s in _SIZES.values() for n in s),
        ]
    ),
    nothing=EMPTY,
)


def convert(rows: Rows) -> None:
    rows.id("job_id")
    rows.set("submit_s", rows.number("submit_s", low=-_FAR, high=_FAR, accepts="seconds as a number"))
    gpus = rows.gpus("gpus")
    rows.set("gpus", gpus)
    duration_s = rows.number("duration_s", low=0, high=_FAR, accepts="seconds as a number, 0 or more")
    rows.set("duration_s", duration_s)
    for column, names in NAMES.items():
        for name in reversed(names):
            rows.name(column, name)
    _share(rows, gpus)
    _demands(rows)
    for name in ("time_limit", "estimate_s"):
        if rows.has(name):
            estimate_s = rows.number(name, low=0, high=_FAR, fill=np.nan)
            # without an estimate the job's own duration is the only guess that is no invention
            rows.set("estimate_s", np.where(np.isnan(estimate_s), duration_s, estimate_s))
    if rows.has("status"):
        rows.set("status", rows.status("status", strict=True))
    if rows.has("priority"):
        rows.set("priority", rows.whole("priority", low=-_INT32, high=_INT32, fill=0))
    if rows.has("attempts"):
        rows.set("attempts", rows.whole("attempts", low=0, high=_INT32, fill=1))
    _range(rows, gpus)
    if rows.has("preemptible"):
        rows.set("preemptible", rows.flag("preemptible", fill=True))
    if rows.has("num_nodes"):
        nodes = rows.whole("num_nodes", low=0, high=MOST_GPUS, fill=0)
        accepts = "a number of nodes that divides the job's gpus"
        rows.reject(gpus % np.maximum(nodes, 1) > 0, "num_nodes", "gpus can't be divided evenly over them", accepts)
        rows.reject((gpus == 0) & (nodes > 1), "num_nodes", "a job without GPUs runs on one node", "1, or nothing")
        rows.set("num_nodes", nodes)


def _share(rows: Rows, gpus: Ints) -> None:
    for name, milli in (("gpu_share", 1000.0), ("gpu_share_milli", 1.0)):
        if not rows.has(name):
            continue
        accepts = f"a part of one GPU from {1 / milli:g} to {1000 / milli:g}"
        share = rows.number(name, low=1 / milli, high=1000 / milli, fill=1000 / milli, accepts=accepts)
        with np.errstate(invalid="ignore"):
            share_milli = np.rint(np.nan_to_num(share) * milli).astype(np.int32)
        partial = (share_milli < 1000) & (gpus != 1)
        rows.reject(partial, name, "part of one GPU, but the job's gpus is not 1", "1 under gpus, or no share")
        rows.set("gpu_share_milli", share_milli)


def _demands(rows: Rows) -> None:
    for column, names in _SIZES.items():
        for name in names:
            if rows.has(name):
                rows.set(
                    column,
                    np.ceil(np.nan_to_num(rows.number(name, reading=MEMORY, low=0, high=_FAR, fill=0))),
                )
    for name, milli in (("cpus", 1000.0), ("cpu_milli", 1.0)):
        if rows.has(name):
            cpus = np.nan_to_num(rows.number(name, low=0, high=_INT32, fill=0))
            rows.set("cpu_milli", np.rint(cpus * milli))


def _range(rows: Rows, gpus: Ints) -> None:
    """An elastic job may run on min_gpus..max_gpus, and asks for gpus within it."""
    if rows.has("min_gpus"):
        least = rows.whole("min_gpus", low=0, high=MOST_GPUS, fill=0)
        least = np.where(rows.block.missing("min_gpus"), gpus, least)
        rows.reject(least > gpus, "min_gpus", "this is more than the job's gpus", "at most gpus")
        rows.set("min_gpus", least)
    if rows.has("max_gpus"):
        most = rows.whole("max_gpus", low=0, high=MOST_GPUS, fill=0)
        most = np.where(rows.block.missing("max_gpus"), gpus, most)
        rows.reject(most < gpus, "max_gpus", "this is less than the job's gpus", "at least gpus")
        rows.set("max_gpus", most)
