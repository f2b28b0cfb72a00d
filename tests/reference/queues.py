"""The pass where each tenant has a queue of its own: first what is guaranteed, taken back where it must be, then what is lent."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fairlead.model.reason import Reason
from fairlead.workload.trace import Trace

from .cluster import WHOLE, ClusterState
from .job import Job, State

if TYPE_CHECKING:
    from .simulator import Run


def guarantees(trace: Trace, state: ClusterState, borrows: bool) -> dict[str, float]:
    """In milli-GPUs: the quota; where tenants may borrow and none has a quota, the cluster divided by weight."""
    names = [""] if trace.tenant is None else list(trace.tenant.values)
    if trace.tenant is not None and (trace.tenant.codes < 0).any():
        names.append("")
    quotas = {name: state.quota_milli(name) for name in names}
    if not borrows:
        return quotas
    if any(quota < math.inf for quota in quotas.values()):
        return {name: 0.0 if quota == math.inf else quota for name, quota in quotas.items()}
    weights = {name: state.weight(name) for name in names}
    total = state.spec.gpus * WHOLE
    return {name: math.floor(total * weight / sum(weights.values())) for name, weight in weights.items()}


def decide_by_queues(run: Run) -> None:
    give(run, lending=False, passed=set())
    if run.policy.borrows:
        give(run, lending=True, passed=set())


def give(run: Run, *, lending: bool, passed: set[int]) -> None:
    """Start the heads of queues, the tenant with the smallest group key first, until none fits."""
    stuck: set[str] = set()
    while True:
        heads = heads_of_queues(run, passed, stuck)
        if not heads:
            return
        job = min(heads, key=lambda head: run.rank(head))
        if (lending or within_guarantee(run, job)) and start(run, job, taking_back=not lending):
            continue
        passed.add(job.index)
        if run.policy.strict:
            stuck.add(job.ask.tenant)


def heads_of_queues(run: Run, passed: set[int], stuck: set[str]) -> list[Job]:
    heads: dict[str, Job] = {}
    for job in run.in_state(State.WAITING):
        tenant = job.ask.tenant
        if job.index in passed or tenant in stuck:
            continue
        if tenant not in heads or run.rank(job) < run.rank(heads[tenant]):
            heads[tenant] = job
    return list(heads.values())


def held(run: Run, tenant: str) -> int:
    return run.state.held_by(tenant).gpu_milli


def within_guarantee(run: Run, job: Job) -> bool:
    return held(run, job.ask.tenant) + job.ask.gpu_milli <= run.guarantees[job.ask.tenant]


def start(run: Run, job: Job, *, taking_back: bool) -> bool:
    placement = run.find_place(run.state, job, job.ask)
    if placement is not None:
        run.start(job, placement)
        return True
    return taking_back and run.policy.preempt and take_back(run, job)


def take_back(run: Run, job: Job) -> bool:
    """Release running jobs of tenants above their guarantee, worst rank first, until the job fits; did it start?"""
    trial = run.state.copy()
    released: list[Job] = []
    for victim in sorted(run.in_state(State.RUNNING), key=lambda one: (*run.ranks[one.index], one.index), reverse=True):
        tenant = victim.ask.tenant
        if not victim.preemptible or trial.held_by(tenant).gpu_milli <= run.guarantees[tenant]:
            continue
        assert victim.placement is not None
        trial.give_back(victim.ask, victim.placement)
        released.append(victim)
        placement = run.find_place(trial, job, job.ask)
        if placement is not None:
            trial.take(job.ask, placement)
            for one in reversed(released):
                assert one.placement is not None
                if trial.is_free(one.ask, one.placement):
                    trial.take(one.ask, one.placement)
                else:
                    run.suspend(one, Reason.RECLAIMED)
            run.start(job, placement)
            return True
    return False
