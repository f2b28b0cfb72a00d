"""The numbers of a lived stretch: use, waits, ends, suspensions, and what a fair division would have given."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead.record.lived import Lived, Stretch
from fairlead.record.runs import Floats
from fairlead.record.spread import Spread, number, spread
from fairlead.record.steps import Bins, bins_for, cell_averages

MOST_POINTS = 400


@dataclass(frozen=True)
class TenantRow:
    name: str
    jobs: int  #: that were there at any time
    held_gpu_s: float
    fair_gpu_s: float  #: what a division by weights would have given it, moment by moment, of what was asked for
    wait_s: Spread  #: in the queue in all, of jobs that ran and ended
    start_wait_s: Spread  #: until the first start
    suspensions: int
    ended: int
    failed: int

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "jobs": self.jobs,
            "held_gpu_s": self.held_gpu_s,
            "fair_gpu_s": self.fair_gpu_s,
            "wait_s": self.wait_s.to_json(),
            "start_wait_s": self.start_wait_s.to_json(),
            "suspensions": self.suspensions,
            "ended": self.ended,
            "failed": self.failed,
        }


@dataclass(frozen=True)
class LivedNumbers:
    lived: Lived
    bins: Bins
    #: by tenant (in the order of `Lived.tenants`) and bin, averages
    held_gpus: Floats
    queued_jobs: Floats
    queued_gpus: Floats
    fair_gpus: Floats
    wait_s: Spread
    start_wait_s: Spread
    states: dict[str, int]  #: jobs that ended, by how
    reasons: dict[str, int]  #: of those that did not end well by themselves, by why
    reason_gpu_s: dict[str, float]  #: GPU-time that these had held
    users_gpu_s: dict[str, float]
    tenants: tuple[TenantRow, ...]  #: the largest holder first
    jain_index: float  #: over held / fair of the tenants that asked for anything

    @property
    def capacity_gpu_s(self) -> float:
        return self.lived.cluster.gpus * self.lived.window_s

    @property
    def held_gpu_s(self) -> float:
        return sum(row.held_gpu_s for row in self.tenants)

    @property
    def utilization(self) -> float:
        return self.held_gpu_s / self.capacity_gpu_s if self.capacity_gpu_s > 0 else math.nan

    @property
    def ended(self) -> int:
        return sum(self.states.values())

    @property
    def failed(self) -> int:
        """Ended, and not as anybody wanted."""
        return sum(self.states.get(state, 0) for state in FAILED)

    def to_json(self) -> dict[str, Any]:
        lived = self.lived
        return {
            "begin_s": lived.begin_s,
            "end_s": lived.end_s,
            "gpus": lived.cluster.gpus,
            "nodes": len(lived.cluster.nodes),
            "jobs": len(lived.jobs),
            "submitted": sum(job.submit_s >= lived.begin_s for job in lived.jobs),
            "ended": dict(self.states),
            "reasons": dict(self.reasons),
            "gpu_utilization": number(self.utilization),
            "held_gpu_s": self.held_gpu_s,
            "failed_gpu_s": sum(self.reason_gpu_s.values()),
            "down_gpu_s": lived.down_gpu_s(),
            "wait_s": self.wait_s.to_json(),
            "start_wait_s": self.start_wait_s.to_json(),
            "suspensions": len(lived.suspensions),
            "requeues": lived.requeues,
            "jain_index": number(self.jain_index),
            "tenants": [row.to_json() for row in self.tenants],
            "users_gpu_s": dict(self.users_gpu_s),
        }


#: ends that nobody asked for
FAILED = ("failed", "lost")


def fold_lived(lived: Lived, most: int = MOST_POINTS) -> LivedNumbers:
    bins = bins_for(lived.begin_s, lived.end_s, most)
    names = lived.tenants
    code = {name: i for i, name in enumerate(names)}
    of_job = [code[job.tenant] for job in lived.jobs]

    def by_tenant(stretches: Sequence[Stretch], weight: Callable[[Stretch], float]) -> Floats:
        row = np.array([of_job[one.job] for one in stretches], dtype=np.int64)
        times = np.array([one.begin_s for one in stretches] + [one.end_s for one in stretches], dtype=np.float64)
        sizes = np.array([weight(one) for one in stretches], dtype=np.float64)
        changes = np.concatenate([sizes, -sizes])
        averages = cell_averages(np.concatenate([row, row]), len(names), times, changes, bins)
        return np.maximum(averages, 0.0)  # rounding may leave a hair below nothing

    held = by_tenant(lived.runs, lambda run: run.gpus)
    queued_gpus = by_tenant(lived.queued, lambda one: float(lived.jobs[one.job].gpus))
    fair = fair_division(held + queued_gpus, [lived.weights.get(name, 1.0) for name in names], lived.cluster.gpus)
    held_gpu_s = held.sum(axis=1) * bins.width_s
    fair_gpu_s = fair.sum(axis=1) * bins.width_s
    job_gpu_s = np.zeros(len(lived.jobs))
    for run in lived.runs:
        job_gpu_s[run.job] += run.gpus * (run.end_s - run.begin_s)
    reasons, reason_gpu_s = _reasons(lived, job_gpu_s)
    users: dict[str, float] = {}
    for job, gpu_s in zip(lived.jobs, job_gpu_s.tolist(), strict=True):
        users[job.user] = users.get(job.user, 0.0) + gpu_s
    rows = [
        _row(lived, name, of_job, tenant, float(held_gpu_s[tenant]), float(fair_gpu_s[tenant]))
        for tenant, name in enumerate(names)
    ]
    return LivedNumbers(
        lived=lived,
        bins=bins,
        held_gpus=held,
        queued_jobs=by_tenant(lived.queued, lambda one: 1.0),
        queued_gpus=queued_gpus,
        fair_gpus=fair,
        wait_s=spread(np.array(list(lived.waits_s.values()))),
        start_wait_s=spread(np.array(list(lived.starts_s.values()))),
        states=dict(sorted(Counter(lived.jobs[i].state for i in lived.ended()).items())),
        reasons=reasons,
        reason_gpu_s=reason_gpu_s,
        users_gpu_s=dict(sorted(users.items(), key=lambda one: (-one[1], one[0]))),
        tenants=tuple(sorted(rows, key=lambda row: (-row.held_gpu_s, row.name))),
        jain_index=_jain(held_gpu_s, fair_gpu_s),
    )


def _row(lived: Lived, name: str, of_job: list[int], tenant: int, held_gpu_s: float, fair_gpu_s: float) -> TenantRow:
    mine = {i for i, code in enumerate(of_job) if code == tenant}
    ended = [i for i in lived.ended() if i in mine]
    return TenantRow(
        name=name,
        jobs=len(mine),
        held_gpu_s=held_gpu_s,
        fair_gpu_s=fair_gpu_s,
        wait_s=spread(np.array([wait for job, wait in lived.waits_s.items() if job in mine])),
        start_wait_s=spread(np.array([wait for job, wait in lived.starts_s.items() if job in mine])),
        suspensions=sum(one.job in mine for one in lived.suspensions),
        ended=len(ended),
        failed=sum(lived.jobs[i].state in FAILED for i in ended),
    )


def _reasons(lived: Lived, job_gpu_s: Floats) -> tuple[dict[str, int], dict[str, float]]:
    counts: Counter[str] = Counter()
    gpu_s: dict[str, float] = {}
    for i in lived.ended():
        job = lived.jobs[i]
        if job.state in (*FAILED, "refused"):
            why = f"refused: {job.reason}" if job.state == "refused" else job.reason or job.state
            counts[why] += 1
            gpu_s[why] = gpu_s.get(why, 0.0) + float(job_gpu_s[i])
    return dict(sorted(counts.items(), key=lambda one: (-one[1], one[0]))), gpu_s


def fair_division(demand: Floats, weights: Sequence[float], capacity: float) -> Floats:
    """What each row would get in each column of so many GPUs, were they divided by weight among those that ask for any: nobody gets
    more than it asks for, and what one does not need goes to the others (weighted max-min)."""
    weight = np.array(weights, dtype=np.float64).reshape(-1, 1)
    given = np.zeros_like(demand)
    left = np.full(demand.shape[1], float(capacity))
    open_ = demand > 0
    for _ in range(demand.shape[0]):
        total = (weight * open_).sum(axis=0)
        level = np.divide(left, total, out=np.zeros_like(left), where=total > 0)
        content = open_ & (demand <= weight * level)
        if not content.any():
            break
        given[content] = demand[content]
        left = left - (demand * content).sum(axis=0)
        open_ = open_ & ~content
    total = (weight * open_).sum(axis=0)
    level = np.divide(np.maximum(left, 0.0), total, out=np.zeros_like(left), where=total > 0)
    return np.where(open_, weight * level, given)


def _jain(held: Floats, fair: Floats) -> float:
    part = held[fair > 0] / fair[fair > 0]
    squares = float((part * part).sum())
    return float(part.sum()) ** 2 / (len(part) * squares) if squares > 0 else math.nan
