"""Distributions and skew of columns."""

from __future__ import annotations

import math

import numpy as np

from fairlead.workload.describe.description import CURVE_RANKS, Holder, Skew, Spread
from fairlead.workload.trace import Floats, Names

_NAMED = (0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
_SHOWN = 10


def spread(ascending: Floats) -> Spread:
    """Of values that are sorted already; zeros when there are none."""
    if len(ascending) == 0:
        return Spread(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, ())
    p25, p50, p75, p90, p95, p99 = (at_rank(ascending, rank) for rank in _NAMED)
    curve = tuple(at_rank(ascending, rank) for rank in CURVE_RANKS)
    low, high = float(ascending[0]), float(ascending[-1])
    return Spread(float(ascending.mean()), low, p25, p50, p75, p90, p95, p99, high, curve)


def at_rank(ascending: Floats, rank: float) -> float:
    """The quantile as numpy computes it, without its partitioning of what is in order."""
    place = rank * (len(ascending) - 1)
    low = math.floor(place)
    value = float(ascending[low])
    if place > low:
        value += (place - low) * (float(ascending[low + 1]) - value)
    return value


def skew(names: Names, gpu_seconds: Floats) -> Skew | None:
    """None when no job has a name. Names without jobs do not count."""
    named = names.codes >= 0
    codes = names.codes if named.all() else names.codes[named]
    work_of = gpu_seconds if named.all() else gpu_seconds[named]
    if len(codes) == 0:
        return None
    all_jobs = np.bincount(codes, minlength=len(names.values))
    all_work = np.bincount(codes, weights=work_of, minlength=len(names.values))
    present = np.flatnonzero(all_jobs)
    jobs = all_jobs[present] / all_jobs.sum()
    work = all_work[present] / max(float(all_work.sum()), 1e-300)
    order = np.lexsort((present, -jobs))
    largest = tuple(Holder(names.values[int(present[i])], float(jobs[i]), float(work[i])) for i in order[:_SHOWN])
    jobs_down, work_down = -np.sort(-jobs), -np.sort(-work)
    return Skew(
        count=len(present),
        top1_jobs=_top(jobs_down, 0.01),
        top5_jobs=_top(jobs_down, 0.05),
        top10_jobs=_top(jobs_down, 0.1),
        top1_gpu_time=_top(work_down, 0.01),
        top5_gpu_time=_top(work_down, 0.05),
        top10_gpu_time=_top(work_down, 0.1),
        gini_jobs=_gini(jobs_down),
        gini_gpu_time=_gini(work_down),
        largest=largest,
        lorenz_jobs=tuple(_top(jobs_down, rank) if rank > 0 else 0.0 for rank in CURVE_RANKS),
    )


def _top(descending: Floats, part: float) -> float:
    """What the largest `part` of them have together, at least the largest one."""
    return float(descending[: max(1, math.ceil(part * len(descending) - 1e-9))].sum())


def _gini(descending: Floats) -> float:
    total = float(descending.sum())
    count = len(descending)
    if total <= 0:
        return 0.0
    ranks = np.arange(count, 0, -1)
    return float(2 * (ranks * descending).sum() / (count * total) - (count + 1) / count)
