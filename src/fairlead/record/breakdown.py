"""The same numbers by tenant and by size of job."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead.record.journal import JobTable, Outcome
from fairlead.record.outcome import held_gpu_s, wait_s
from fairlead.record.runs import Floats, Ints, sum_by
from fairlead.record.spread import Spread, by_group, groups, number

#: sizes by GPU count: the largest that belongs, and the name
SIZES = (
    (0, "CPU"),
    (1, "1"),
    (2, "2"),
    (4, "3-4"),
    (8, "5-8"),
    (16, "9-16"),
    (32, "17-32"),
    (64, "33-64"),
    (None, "65+"),
)
SHARE = "share"


@dataclass(frozen=True)
class GroupRow:
    """One line: a tenant, or the jobs of one size."""

    name: str
    jobs: int
    finished: int
    held_gpu_s: float
    jct_s: Spread
    wait_s: Spread
    rho_mean: float

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "jobs": self.jobs,
            "finished": self.finished,
            "held_gpu_s": self.held_gpu_s,
            "jct_s": self.jct_s.to_json(),
            "wait_s": self.wait_s.to_json(),
            "rho_mean": number(self.rho_mean),
        }


def by_tenant(jobs: JobTable, outcome: Outcome, rho: Floats) -> tuple[GroupRow, ...]:
    """In the order of the tenants' codes; none where the trace names no tenants."""
    codes, names = tenant_groups(jobs)
    return _rows(codes, names, jobs, outcome, rho) if names else ()


def tenant_groups(jobs: JobTable) -> tuple[Ints, list[str]]:
    """Tenant codes with jobs that have none as a group of their own at the end, and the names by code."""
    if jobs.tenant is None:
        return np.zeros(len(jobs.submit_s), dtype=np.int32), []
    count = max(len(jobs.tenant_names), int(jobs.tenant.max(initial=-1)) + 1)
    names = [*jobs.tenant_names, *(f"tenant {i}" for i in range(len(jobs.tenant_names), count)), "no tenant"]
    return np.where(jobs.tenant < 0, np.int32(count), jobs.tenant), names


def by_size(jobs: JobTable, outcome: Outcome, rho: Floats) -> tuple[GroupRow, ...]:
    """From the smallest to the largest; sizes that no job has are left out."""
    codes, names = size_groups(jobs)
    return _rows(codes, names, jobs, outcome, rho)


def size_groups(jobs: JobTable) -> tuple[Ints, list[str]]:
    """The position of each job's size in the names, which begin with CPU jobs and shares."""
    bounds = [most for most, _ in SIZES if most is not None]
    codes = np.searchsorted(bounds, jobs.gpus, side="left").astype(np.int32)
    names = [name for _, name in SIZES]
    codes[codes > 0] += 1
    if jobs.share_milli is not None:
        codes[(jobs.gpus == 1) & (jobs.share_milli < 1000)] = 1
    return codes, [names[0], SHARE, *names[1:]]


def _rows(codes: Ints, names: list[str], jobs: JobTable, outcome: Outcome, rho: Floats) -> tuple[GroupRow, ...]:
    count = len(names)
    order, bounds = groups(codes, count)
    jct = by_group(outcome.finish_s - jobs.submit_s, order, bounds)
    wait = by_group(wait_s(jobs, outcome), order, bounds)
    finished = sum_by(codes, np.isfinite(outcome.finish_s), count)
    held = sum_by(codes, held_gpu_s(jobs, outcome), count)
    known = np.isfinite(rho)
    rho_sum = sum_by(codes[known], rho[known], count)
    rho_count = np.bincount(codes[known], minlength=count)
    return tuple(
        GroupRow(
            name=names[g],
            jobs=int(bounds[g + 1] - bounds[g]),
            finished=int(finished[g]),
            held_gpu_s=float(held[g]),
            jct_s=jct[g],
            wait_s=wait[g],
            rho_mean=float(rho_sum[g] / rho_count[g]) if rho_count[g] else math.nan,
        )
        for g in range(count)
        if bounds[g + 1] > bounds[g]
    )
