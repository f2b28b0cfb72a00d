"""When every job is expected to start and to finish, and what the coming hours look like in numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead.kernels.columns import C_REASON, F8
from fairlead.model.cluster import NodeSpec
from fairlead.model.event import EventKind
from fairlead.model.reason import Reason
from fairlead.record.breakdown import by_tenant
from fairlead.record.metrics import core_metrics
from fairlead.record.outcome import fold_outcome
from fairlead.record.runs import fold_runs
from fairlead.record.spread import Spread, number, spread
from fairlead.runtime.live_jobs import Status
from fairlead.runtime.twin.ahead import MOST_DECISIONS, Ahead
from fairlead.runtime.twin.moment import Moment

HELD = "held until someone resumes it"
LATER = "not within a year"
CUT = f"not within the next {MOST_DECISIONS:,} decisions"


@dataclass(frozen=True, slots=True)
class Expected:
    """What is to be expected of one job. None: never as things are, or later than can be said; the note says which."""

    job: str
    start_s: float | None  #: when it starts next; of a running job, when its present run began
    finish_s: float | None
    note: str = ""  #: what was assumed of its length; why there is no time
    reason: Reason = Reason.NONE  #: why it can't run as things are


@dataclass(frozen=True)
class Outlook:
    """The coming hours in numbers, of the jobs at hand: nobody knows of those to come."""

    jobs: int  #: that wait or run; without what a person holds back
    finished: int  #: of them, expected to end as far as can be foreseen
    never: int  #: can't run as things are
    assumed: int  #: their length was assumed, or they have outlived it
    wait_s: Spread  #: from now on: until they end, not on GPUs
    jct_s: Spread  #: from submission to end
    last_end_s: float  #: when the last of them ends, NaN where none does
    gpu_utilization: float  #: GPU-time held of all GPU-time from now until then
    preemptions: int  #: from now on
    tenant_wait_s: Mapping[str, float]  #: mean wait from now on, by tenant

    def to_json(self) -> dict[str, Any]:
        return {
            "jobs": self.jobs,
            "finished": self.finished,
            "never": self.never,
            "assumed": self.assumed,
            "wait_s": self.wait_s.to_json(),
            "jct_s": self.jct_s.to_json(),
            "last_end_s": number(self.last_end_s),
            "gpu_utilization": number(self.gpu_utilization),
            "preemptions": self.preemptions,
            "tenant_wait_s": {name: number(wait) for name, wait in self.tenant_wait_s.items()},
        }


@dataclass(frozen=True)
class Forecast:
    now: float
    policy: str
    placer: str
    expected: dict[str, Expected]  #: by job
    metrics: Outlook


def forecast(
    moment: Moment,
    *,
    policy: str | None = None,
    placer: str | None = None,
    add_nodes: Sequence[NodeSpec] = (),
    known: Mapping[str, float] | None = None,
) -> Forecast:
    """Run on from the moment, nothing more being submitted, and say when each job starts next and when it finishes.

    `known`: seconds that a job is likely to take in all, by id, for jobs that gave no estimate (say, the mean of the finished
    runs of the same user and name). Others of them are assumed to take `UNKNOWN_S`, and a job that has outlived what it said
    to take as long again as it has run. Raises InputError for a policy or placer that does not exist or does not take over.
    """
    ahead = Ahead(moment, policy=policy, placer=placer, add_nodes=add_nodes, known=known)
    ahead.run()
    expected = {one.job: one for one in expectations(ahead)}
    return Forecast(moment.now, ahead.policy, ahead.placer, expected, outlook(ahead))


def expectations(ahead: Ahead) -> list[Expected]:
    """One per job, in the moment's order."""
    starts, ends, why = ahead.starts().tolist(), ahead.ends().tolist(), refusals(ahead)
    found = []
    for i, (job, at) in enumerate(ahead.moment.jobs):
        start: float | None = at.since_s if at.status == Status.RUNNING else starts[i]
        finish: float | None = ends[i]
        note, reason = ahead.notes.get(i, ""), Reason.NONE
        if finish != finish:
            finish = None
            note, reason = _why_not(at.status, why.get(i, Reason.NONE), note, CUT if ahead.cut else LATER)
        if start != start:
            start = None
        found.append(Expected(job.id, start, finish, note, reason))
    return found


def _why_not(status: Status, reason: Reason, note: str, later: str) -> tuple[str, Reason]:
    if status == Status.HELD:
        return HELD, Reason.NONE
    if reason != Reason.NONE:
        return "", reason
    return f"{later}; {note}" if note else later, Reason.NONE


def refusals(ahead: Ahead) -> dict[int, Reason]:
    """Who can't run as things are, and why: jobs that no cluster like this could hold under this policy, and those that are left
    when all others have ended."""
    _, kind, job, arg = ahead.rows()
    state, jobs = ahead.state, ahead.moment.jobs
    at = np.flatnonzero(kind == EventKind.REFUSE)
    found = {i: Reason(why) for i, why in zip(job[at].tolist(), arg[at].tolist(), strict=True)}
    ever = state.queue.classes[C_REASON]
    for i in range(len(jobs)) if ever.any() else ():
        if jobs[i][1].status in (Status.NEW, Status.WAITING) and ever[state.own_class(i)]:
            found[i] = Reason(int(ever[state.own_class(i)]))
    return found


def outlook(ahead: Ahead) -> Outlook:
    journal, moment = ahead.journal(), ahead.moment
    runs = fold_runs(journal)
    outcome = fold_outcome(journal, runs)
    capacity, last = journal.cluster.gpus, float(runs.end_s.max(initial=-math.inf))
    core = core_metrics(journal.jobs, outcome, capacity_gpus=capacity, end_s=last if len(runs) else None)
    submit_s: F8 = np.array([job.submit_s for job, _ in moment.jobs])
    counted = [at.status != Status.HELD for _, at in moment.jobs]
    tenants = by_tenant(journal.jobs, outcome, np.full(len(submit_s), math.nan))
    return Outlook(
        jobs=sum(counted),
        finished=core.finished,
        never=len(refusals(ahead)),
        assumed=sum(counted[i] for i in ahead.notes),
        wait_s=core.wait_s,
        jct_s=spread(outcome.finish_s - submit_s, overwrite=True),
        last_end_s=float(np.nanmax(outcome.finish_s)) if core.finished else math.nan,
        gpu_utilization=core.gpu_utilization,
        preemptions=core.preemptions,
        tenant_wait_s={row.name: row.wait_s.mean for row in tenants},
    )
