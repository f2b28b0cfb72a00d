"""Laying jobs out as columns: what was asked for, sorted into shapes (what placement sees) and classes (who waits together)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairlead.kernels.columns import (
    F8,
    I4,
    I8,
    S_COUNT,
    S_CPU,
    S_EFFICIENCY,
    S_GPUS,
    S_MEM,
    S_MILLI,
    S_SKEW,
    S_SPLIT,
    S_TYPE,
    S_WITHIN,
    SHAPE_COLUMNS,
    WHOLE,
)

#: a GPU type that the cluster does not have: no node's type equals it
NO_SUCH_TYPE = 1 << 20
#: a topology level that it does not have
NO_SUCH_LEVEL = 1 << 20


@dataclass(frozen=True)
class JobInput:
    """What the core needs to know of each job, in order of submission. None: no job asks for it."""

    submit_s: F8
    duration_s: F8
    gpus: I4
    share_milli: I4 | None = None
    cpu_milli: I8 | None = None
    memory_mib: I8 | None = None
    gpu_type: I4 | None = None  #: the cluster's number of it, -1 for any, NO_SUCH_TYPE
    tenant: I4 | None = None
    tenant_names: tuple[str, ...] = ()
    priority: I4 | None = None
    estimate_s: F8 | None = None
    profile: I4 | None = None
    skew_milli: I4 | None = None
    efficiency_milli: I4 | None = None
    gpu_memory_gib: F8 | None = None
    min_gpus: I4 | None = None
    max_gpus: I4 | None = None
    preemptible: npt.NDArray[np.int8] | None = None  #: 0: once it runs, nobody takes its GPUs
    num_nodes: I4 | None = None  #: exactly so many, an equal part of its GPUs on each; 0 for any
    topology: I4 | None = None  #: inside one domain, by how many levels out from the node; -1 for any, NO_SUCH_LEVEL

    def __len__(self) -> int:
        return len(self.submit_s)


#: a column is gone through in parts of so many: numpy's temporaries then stay in the cache, and need no memory of their own
_PART = 1 << 15


def dense(columns: Sequence[npt.NDArray[np.integer]]) -> tuple[I4, I8, I8]:
    """Number the distinct rows of integer columns: the number of each row, the distinct rows [column, number], and how often
    there is each."""
    code, values, counts = _dense_one(columns[0])
    table = values[np.newaxis, :]
    for column in columns[1:]:
        other, other_values, _ = _dense_one(column)
        code, pairs, counts = _dense_one(code.astype(np.int64) * len(other_values) + other)
        table = np.vstack([table[:, pairs // len(other_values)], other_values[pairs % len(other_values)]])
    return code, table, counts


def _dense_one(column: npt.NDArray[np.integer]) -> tuple[I4, I8, I8]:
    if len(column) == 0:
        return np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64)
    low, high = int(column.min()), int(column.max())
    if high - low < 1 << 16:
        # a table of the range is much faster than sorting a million rows
        parts = [slice(x, x + _PART) for x in range(0, len(column), _PART)]
        counts = np.zeros(high - low + 1, np.int64)
        for part in parts:
            counts += np.bincount(column[part] - low, minlength=high - low + 1)
        present = np.flatnonzero(counts)
        number = np.zeros(high - low + 1, np.int32)
        number[present] = np.arange(len(present))
        code = np.empty(len(column), np.int32)
        for part in parts:
            np.take(number, column[part] - low, out=code[part], mode="clip")
        return code, present.astype(np.int64) + low, counts[present]
    values, inverse, counts = np.unique(column, return_inverse=True, return_counts=True)
    return inverse.astype(np.int32), values.astype(np.int64), counts.astype(np.int64)


@dataclass(frozen=True)
class Layout:
    shape: I8
    class_of: I4
    class_shape: I8
    class_tenant: I8
    class_fixed: I8  #: 1: not preemptible


def sort_into_classes(jobs: JobInput, by_tenant: bool, by_priority: bool = False) -> Layout:
    """Shapes and classes in a fixed order, whatever order the jobs come in."""
    rows = [
        (S_GPUS, jobs.gpus, 0),
        (S_MILLI, jobs.share_milli, WHOLE),
        (S_CPU, jobs.cpu_milli, 0),
        (S_MEM, jobs.memory_mib, 0),
        (S_TYPE, jobs.gpu_type, -1),
        (S_SKEW, jobs.skew_milli, 0),
        (S_EFFICIENCY, jobs.efficiency_milli, 0),
        (S_SPLIT, jobs.num_nodes, 0),
        (S_WITHIN, jobs.topology, -1),
    ]
    present = [(row, column) for row, column, _ in rows if column is not None]
    shape_of, values, counts = dense([column for _, column in present])
    shape = np.zeros((SHAPE_COLUMNS, values.shape[1]), np.int64)
    for row, _, default in rows:
        shape[row] = default
    for (row, _), value in zip(present, values):
        shape[row] = value
    shape[S_COUNT] = counts
    tenant = jobs.tenant if by_tenant else None
    priority = jobs.priority if by_priority else None
    if tenant is None and priority is None and jobs.preemptible is None:
        nothing = np.zeros(shape.shape[1], np.int64)
        return Layout(shape, shape_of, np.arange(shape.shape[1]), nothing, nothing)
    columns: list[npt.NDArray[np.integer]] = [shape_of, np.zeros(len(jobs), np.int32) if tenant is None else tenant]
    if jobs.preemptible is not None:
        columns.append(1 - jobs.preemptible)
    if priority is not None:
        columns.append(priority)
    class_of, kinds, _ = dense(columns)
    fixed = kinds[2] if jobs.preemptible is not None else np.zeros(kinds.shape[1], np.int64)
    return Layout(shape, class_of, kinds[0], kinds[1], fixed)
