"""Laying out twins: for each class, the shapes that its jobs may run in although they asked for another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.kernels.columns import (
    I4,
    I8,
    S_COUNT,
    S_CPU,
    S_GPUS,
    S_MEM,
    S_MILLI,
    WHOLE,
)
from fairlead.kernels.nodes import part_from_python
from fairlead.state.jobs import JobInput, Layout

#: what one of two jobs on a GPU holds of it
HALF = WHOLE // 2


@dataclass(frozen=True)
class Twins:
    """Per class of the layout, as in the columns C_HALF to C_MOST; per job, the GPUs that it may run on."""

    layout: Layout
    half: I8
    other: I8
    least: I8
    most: I8
    job_least: I4 | None
    job_most: I4 | None

    @property
    def any(self) -> bool:
        return bool((self.half >= 0).any() or (self.most > 0).any())


class _Builder:
    """Adds shapes and classes behind those of the workload; one twin serves all classes of a shape and tenant."""

    def __init__(self, layout: Layout) -> None:
        self.shape = [column.copy() for column in layout.shape.T]
        self.class_shape: list[int] = layout.class_shape.tolist()
        self.class_tenant: list[int] = layout.class_tenant.tolist()
        self.class_fixed: list[int] = layout.class_fixed.tolist()
        self._made: dict[tuple[int, int, int], int] = {}

    def add(self, k: int, gpus: int, milli: int) -> int:
        s = self.class_shape[k]
        if (s, gpus, milli) not in self._made:
            column = self.shape[s].copy()
            asked = int(column[S_GPUS])
            # a part of a GPU is slower, but the process on it is as large; fewer GPUs are fewer processes
            column[S_CPU], column[S_MEM] = (
                part_from_python(column[S_CPU], gpus, asked),
                part_from_python(column[S_MEM], gpus, asked),
            )
            column[S_GPUS], column[S_MILLI], column[S_COUNT] = gpus, milli, 0
            self._made[s, gpus, milli] = len(self.shape)
            self.shape.append(column)
        self.class_shape.append(self._made[s, gpus, milli])
        self.class_tenant.append(self.class_tenant[k])
        self.class_fixed.append(self.class_fixed[k])
        return len(self.class_shape) - 1


def lay_out_twins(layout: Layout, jobs: JobInput, *, packs: bool, resizes: bool, gpus: int) -> Twins:
    """The layout with its twins: halves of a GPU where the planner packs, other numbers (up to the cluster's `gpus`) where it
    resizes."""
    count = len(layout.class_shape)
    half, other = np.full(count, -1), np.zeros(count, np.int64)
    least, most = np.zeros(count, np.int64), np.zeros(count, np.int64)
    build = _Builder(layout)
    asked, milli = (layout.shape[row, layout.class_shape] for row in (S_GPUS, S_MILLI))
    if packs:
        for k in np.flatnonzero((asked == 1) & (milli == WHOLE)).tolist():
            half[k] = build.add(k, 1, HALF)
    job_least, job_most = _ranges(jobs, gpus) if resizes else (None, None)
    if job_least is not None and job_most is not None:
        elastic = np.flatnonzero(job_most > 0)
        least[:] = gpus + 1
        np.minimum.at(least, layout.class_of[elastic], job_least[elastic])
        np.maximum.at(most, layout.class_of[elastic], job_most[elastic])
        for k in np.flatnonzero(most).tolist():
            other[k] = len(build.class_shape) - least[k]
            for number in range(int(least[k]), int(most[k]) + 1):
                build.add(k, number, WHOLE)
    made = Layout(
        np.array(build.shape).T.copy(),
        layout.class_of,
        np.array(build.class_shape),
        np.array(build.class_tenant),
        np.array(build.class_fixed),
    )
    return Twins(made, half, other, least, most, job_least, job_most)


def _ranges(jobs: JobInput, gpus: int) -> tuple[I4 | None, I4 | None]:
    """Each job's least and most GPUs, 0 and 0 for those that must have what they asked for."""
    if jobs.min_gpus is None and jobs.max_gpus is None:
        return None, None
    least = np.maximum(jobs.gpus if jobs.min_gpus is None else jobs.min_gpus, 1)
    most = np.minimum(jobs.gpus if jobs.max_gpus is None else jobs.max_gpus, gpus)
    whole = jobs.gpus > 0 if jobs.share_milli is None else (jobs.gpus > 0) & (jobs.share_milli == WHOLE)
    if jobs.num_nodes is not None:
        whole &= jobs.num_nodes <= 1
    elastic = whole & (least < most) & (least <= jobs.gpus) & (jobs.gpus <= most)
    if not elastic.any():
        return None, None
    return np.where(elastic, least, 0).astype(np.int32), np.where(elastic, most, 0).astype(np.int32)
