"""The numbers of a run. Units are in the names; NaN (null in JSON) where there was nothing to measure."""

from __future__ import annotations

import math
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairlead.model.event import EventKind
from fairlead.model.reason import Reason
from fairlead.record.breakdown import GroupRow, by_size, by_tenant
from fairlead.record.fairness import finish_time_fairness, jain_index
from fairlead.record.journal import JobTable, Journal, Outcome
from fairlead.record.outcome import fold_outcome, held_gpu_s, total_held_gpu_s, wait_s
from fairlead.record.places import count_moves, down_spans, held_nodes, node_gpus
from fairlead.record.runs import Floats, Runs, fold_runs, gpu_weight, order_by, window_s
from fairlead.record.spread import Spread, number, spread
from fairlead.record.steps import union


@dataclass(frozen=True)
class CoreMetrics:
    """What every run prints. JCT is finish − submit; wait is `outcome.wait_s`; both of finished jobs."""

    jobs: int
    finished: int
    makespan_s: float  #: from the first submission to the end of the last run
    jct_s: Spread
    wait_s: Spread
    gpu_utilization: float  #: GPU-seconds held / (the cluster's GPUs × makespan); shares count as fractions
    preemptions: int

    def to_json(self) -> dict[str, Any]:
        return {
            "jobs": self.jobs,
            "finished": self.finished,
            "makespan_s": number(self.makespan_s),
            "jct_s": self.jct_s.to_json(),
            "wait_s": self.wait_s.to_json(),
            "gpu_utilization": number(self.gpu_utilization),
            "preemptions": self.preemptions,
        }


@dataclass(frozen=True)
class Metrics:
    """Everything that is folded from one journal."""

    core: CoreMetrics
    refused: dict[str, int]  #: jobs by the name of their Reason, in lower case
    failed: int  #: jobs given up after their last attempt
    unfinished: int  #: jobs that neither ended nor were refused when the journal ended
    restarts: int  #: starts after a failure or the loss of a node
    migrations: int  #: resumptions on another set of nodes than before
    gpu_computing: float  #: `computing_gpu_s` over the denominator of gpu_utilization
    held_gpu_s: float
    #: of finished jobs, the work they asked for: the smaller of duration × GPUs and what they held
    computing_gpu_s: float
    #: held by jobs that ended, without being the work they asked for: overheads, lost progress, slow-down,
    #: give-ups
    wasted_gpu_s: float
    down_gpu_s: float  #: GPUs of nodes that were down × time
    rho_mean: float  #: finish-time fairness, see fairness.finish_time_fairness
    rho_p95: float
    rho_above_1_share: float  #: above by more than the rounding of times explains, a millionth
    jain_index: float  #: over tenants, see fairness.jain_index
    #: of the idle GPU-seconds on nodes that were up, the part on nodes which also had something running on
    #: their GPUs
    fragmentation: float
    tenants: tuple[GroupRow, ...]
    sizes: tuple[GroupRow, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            **self.core.to_json(),
            "refused": dict(self.refused),
            "failed": self.failed,
            "unfinished": self.unfinished,
            "restarts": self.restarts,
            "migrations": self.migrations,
            "gpu_computing": number(self.gpu_computing),
            "held_gpu_s": self.held_gpu_s,
            "computing_gpu_s": self.computing_gpu_s,
            "wasted_gpu_s": self.wasted_gpu_s,
            "down_gpu_s": self.down_gpu_s,
            "rho": {
                "mean": number(self.rho_mean),
                "p95": number(self.rho_p95),
                "above_1_share": number(self.rho_above_1_share),
            },
            "jain_index": number(self.jain_index),
            "fragmentation": number(self.fragmentation),
            "tenants": [row.to_json() for row in self.tenants],
            "sizes": [row.to_json() for row in self.sizes],
        }


def core_metrics(jobs: JobTable, outcome: Outcome, *, capacity_gpus: int, end_s: float | None = None) -> CoreMetrics:
    """The cheap part. `end_s` is when the last run ended: pass it where jobs can fail for good or are left
    running, since without it the last finish is taken, and a job that is given up later would count as work
    outside the makespan."""
    with ThreadPoolExecutor(1) as second:
        # numpy computes without the interpreter's lock: the two spreads are the most of it
        wait = second.submit(lambda: spread(wait_s(jobs, outcome), overwrite=True))
        return _core_metrics(jobs, outcome, capacity_gpus, end_s, wait)


def _core_metrics(
    jobs: JobTable, outcome: Outcome, capacity_gpus: int, end_s: float | None, wait: Future[Spread]
) -> CoreMetrics:
    jct_s = outcome.finish_s - jobs.submit_s
    finished = len(jct_s) - int(np.count_nonzero(np.isnan(jct_s)))
    if end_s is None and finished:
        end_s = float(np.nanmax(outcome.finish_s))
    makespan_s = math.nan if end_s is None else end_s - float(jobs.submit_s.min())
    held = total_held_gpu_s(jobs, outcome)
    return CoreMetrics(
        jobs=len(jct_s),
        finished=finished,
        makespan_s=makespan_s,
        jct_s=spread(jct_s, overwrite=True),
        wait_s=wait.result(),
        gpu_utilization=_part(held, capacity_gpus * makespan_s),
        preemptions=int(outcome.preemptions.sum()),
    )


def fold_metrics(journal: Journal, outcome: Outcome | None = None, runs: Runs | None = None) -> Metrics:
    """Pass what is folded already; the rest is folded here."""
    runs = fold_runs(journal) if runs is None else runs
    outcome = fold_outcome(journal, runs) if outcome is None else outcome
    outcome = replace(outcome, ran_s=np.nan_to_num(outcome.ran_s))  # an outcome may say NaN where a job never ran
    jobs, capacity = journal.jobs, journal.cluster.gpus
    begin_s, end_s = window_s(journal, runs)
    core = core_metrics(jobs, outcome, capacity_gpus=capacity, end_s=end_s if len(runs) else None)
    weight = gpu_weight(jobs)
    done = np.isfinite(outcome.finish_s)
    gave_up = np.zeros(len(done), dtype=np.bool_)
    gave_up[runs.job[runs.end_kind == EventKind.GIVE_UP]] = True
    held = held_gpu_s(jobs, outcome)
    computing = np.where(done, np.minimum(held, jobs.duration_s * weight), 0.0)
    computing_gpu_s = float(computing.sum())
    down = down_spans(journal, begin_s, end_s).total_s(len(journal.cluster.nodes))
    rho = finish_time_fairness(journal, outcome)
    known_rho = rho[np.isfinite(rho)]
    restarts, migrations = count_returns(journal, runs)
    return Metrics(
        core=core,
        refused=_refusals(outcome),
        failed=int(np.count_nonzero(gave_up)),
        unfinished=int(np.count_nonzero(~done & ~gave_up & (outcome.refused == 0))),
        restarts=restarts,
        migrations=migrations,
        gpu_computing=_part(computing_gpu_s, capacity * core.makespan_s),
        held_gpu_s=float(held.sum()),
        computing_gpu_s=computing_gpu_s,
        wasted_gpu_s=float((held - computing)[done | gave_up | (outcome.refused != 0)].sum()),
        down_gpu_s=float((down * node_gpus(journal.cluster)).sum()),
        rho_mean=float(known_rho.mean()) if len(known_rho) else math.nan,
        rho_p95=spread(known_rho).p95,
        rho_above_1_share=_part(float(np.count_nonzero(known_rho > 1.0 + 1e-6)), len(known_rho)),
        jain_index=jain_index(journal, outcome),
        fragmentation=_fragmentation(journal, runs, float(held.sum()), down, end_s - begin_s),
        tenants=by_tenant(jobs, outcome, rho),
        sizes=by_size(jobs, outcome, rho),
    )


def _part(some: float, whole: float) -> float:
    return some / whole if whole > 0 else math.nan


def _refusals(outcome: Outcome) -> dict[str, int]:
    counts = np.bincount(outcome.refused)
    return {Reason(code).name.lower(): int(n) for code, n in enumerate(counts) if code and n}


def count_returns(journal: Journal, runs: Runs) -> tuple[int, int]:
    """Runs that were not a job's first: restarts after a failure, and moves after a suspension."""
    order = order_by(runs.job)
    job, kind = runs.job[order], runs.end_kind[order]
    again = np.flatnonzero(job[1:] == job[:-1])
    if len(again) == 0:
        return 0, 0
    resumed = again[kind[again] == EventKind.SUSPEND]
    moved = count_moves(journal, runs, order[resumed], order[resumed + 1])
    return len(again) - len(resumed), moved


def _fragmentation(journal: Journal, runs: Runs, held_gpu_s: float, down_s: Floats, window: float) -> float:
    """Idle GPUs are either on nodes with nothing on their GPUs or on partly occupied ones. The first are
    the easier to count: a node's GPUs × the time it had nothing."""
    gpus = node_gpus(journal.cluster)
    held = held_nodes(journal, runs)
    busy = union(held.what, runs.start_s[held.run], runs.end_s[held.run], len(gpus)).total_s(len(gpus))
    idle_gpu_s = float(gpus.sum()) * window - held_gpu_s - float((gpus * down_s).sum())
    empty_gpu_s = float((gpus * (window - busy - down_s)).sum())
    # rounding may leave a hair of idle time on a cluster that is full throughout
    if idle_gpu_s <= 1e-9 * float(gpus.sum()) * window:
        return math.nan
    return min(max(1.0 - empty_gpu_s / idle_gpu_s, 0.0), 1.0)
