"""One simulated run: a trace, a cluster, a policy and a placer in; the journal and what became of each job out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairlead.core.feasible import judge_classes
from fairlead.core.plugs import Plugged, parse_choice, plug_in
from fairlead.kernels.columns import (
    DONE,
    F8,
    G_COST_MS,
    G_DONE,
    G_IDS,
    G_LOST_MS,
    G_MOVES,
    G_PREEMPTIONS,
    G_ROWS,
    G_SEEN,
    J_BEGUN,
    J_DUE,
    J_ESTIMATE,
    J_FIRST,
    J_HELD,
    K_ALLOC,
    K_PREEMPTS,
    K_STARTS,
    K_STATE,
    R_RESHAPES,
    REFUSED,
)
from fairlead.kernels.loop import is_compiled
from fairlead.kernels.plain import is_plain
from fairlead.model.cluster import ClusterSpec
from fairlead.policy.base import History
from fairlead.record.digest import RowDigest
from fairlead.record.journal import JobTable, Journal, Outcome
from fairlead.record.metrics import count_returns
from fairlead.record.outcome import fold_outcome
from fairlead.record.runs import fold_runs
from fairlead.runtime.driver import compile_all, drive
from fairlead.sim.jobs import job_input, labels_of, most_gpus
from fairlead.sim.profiles import Profiles
from fairlead.state.pages import MANY, ask_for_pages
from fairlead.state.rules import Options
from fairlead.state.state import State, new_state
from fairlead.workload.trace import Trace

#: called with (jobs ended, jobs in all)
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Run:
    """What a run produced. `compile_s` is outside `run_s`; reading the trace is outside both."""

    journal: Journal
    outcome: Outcome
    events: int
    preemptions: int
    migrations: int  #: resumptions on another set of nodes than before
    charged_gpu_s: float  #: start and resume costs, GPU-seconds
    lost_gpu_s: float  #: work lost to failures, GPU-seconds
    compile_s: float
    run_s: float
    state: State = field(repr=False)
    estimate_s: F8 | None = (
        None  #: what each job was predicted to take when it was submitted, where the policy predicts
    )


def prepare(policy: str, placer: str, trace: Trace, spec: ClusterSpec) -> Plugged:
    """A policy and a placer for a trace. Nothing is compiled yet."""
    history = History(gpus=trace.gpus.astype(np.float64), duration_s=trace.duration_s, labels=labels_of(trace))
    return plug_in(parse_choice(policy), parse_choice(placer), history, spec)


def simulate(
    trace: Trace,
    spec: ClusterSpec,
    policy: str,
    placer: str = "consolidate",
    options: Options | None = None,
    profiles: Profiles | None = None,
    progress: Progress | None = None,
) -> Run:
    options, profiles = options or Options(), profiles or Profiles()
    started = time.perf_counter()
    plugged = prepare(policy, placer, trace, spec)
    jobs = job_input(trace, spec, profiles, estimates=plugged.uses_estimates, utilization=plugged.uses_utilization)
    state = new_state(spec, jobs, plugged.traits, options, profiles.rates(spec, most_gpus(jobs)))
    ask_for_pages(state)
    waits = time.perf_counter()
    plain = choose_loop(is_plain(state.queue), len(state.input) >= MANY)
    compile_all(plugged, plain, options.nodes_fail)
    compile_s = time.perf_counter() - waits
    started += compile_s
    judge_classes(state, plugged)
    table = JobTable(jobs.submit_s, jobs.gpus, jobs.duration_s, jobs.share_milli, jobs.tenant, jobs.tenant_names)
    digest = RowDigest(table)

    def watch(ended: int, total: int, at: State) -> None:
        digest.feed(at.log, int(at.counter[G_ROWS]), int(at.counter[G_IDS]))
        if progress is not None:
            progress(ended, total)

    drive(state, plugged, watch, plain)
    rows, ids = int(state.counter[G_ROWS]), int(state.counter[G_IDS])
    journal = Journal(
        cluster=spec,
        jobs=table,
        time_s=state.log.time[:rows],
        kind=state.log.what[0, :rows],
        job=state.log.what[1, :rows],
        arg=state.log.what[2, :rows],
        gpu_ids=state.log.gpu_ids[:ids],
        sha256=digest.finish(state.log, rows, ids),
        run=_about(plugged, options, trace),
    )
    return Run(
        journal=journal,
        outcome=fold_outcome(journal) if state.counter[R_RESHAPES] else _outcome(state),
        events=int(state.counter[G_SEEN]),
        preemptions=int(state.counter[G_PREEMPTIONS]),
        migrations=_migrations(state, journal),
        charged_gpu_s=int(state.counter[G_COST_MS]) / 1000.0,
        lost_gpu_s=int(state.counter[G_LOST_MS]) / 1000.0,
        compile_s=compile_s,
        run_s=time.perf_counter() - started,
        state=state,
        estimate_s=None if plugged.forecaster is None else state.jobs.floats[J_ESTIMATE],
    )


def choose_loop(plain: bool, many: bool) -> bool:
    """Whether a run is to be made with the loop for plain runs.

    Every run can be made with the loop for all runs. Nobody waits for the other one where it is at hand, unless there are so
    many jobs that it will pay.
    """
    return plain and (many or is_compiled(plain=True) or not is_compiled())


def _about(plugged: Plugged, options: Options, trace: Trace) -> dict[str, Any]:
    usual = Options()
    chosen = {k: v for k, v in options.__dict__.items() if k != "node_events" and v != getattr(usual, k)}
    return {"policy": plugged.policy, "placer": plugged.placer, "source": trace.source, **chosen}


def _migrations(state: State, journal: Journal) -> int:
    """The core counts moves, but for jobs that run as something else than they asked for."""
    if not state.counter[R_RESHAPES]:
        return int(state.counter[G_MOVES])
    return count_returns(journal, fold_runs(journal))[1]


def _outcome(state: State) -> Outcome:
    """The same as folding the journal (a test holds them together), read off the columns that the core kept anyway."""
    status, floats, ints = state.jobs.ints[K_STATE], state.jobs.floats, state.jobs.ints
    done = status == DONE
    if state.counter[G_DONE] == len(status) and state.counter[G_ROWS] == 2 * len(status):
        # every job ran once, start to end: the columns are the answer as they are
        return Outcome(
            start_s=floats[J_FIRST],
            finish_s=floats[J_DUE],
            ran_s=floats[J_DUE] - floats[J_FIRST],
            preemptions=ints[K_PREEMPTS],
            refused=np.zeros(len(status), np.int8),
        )
    begun = np.where(ints[K_STARTS] == 1, floats[J_FIRST], floats[J_BEGUN])
    refused = status == REFUSED
    return Outcome(
        start_s=np.where(ints[K_STARTS] > 0, floats[J_FIRST], np.nan),
        finish_s=np.where(done, floats[J_DUE], np.nan),
        ran_s=np.where(done, floats[J_HELD] + (floats[J_DUE] - begun), floats[J_HELD]),
        preemptions=ints[K_PREEMPTS],
        refused=np.where(refused, ints[K_ALLOC], 0).astype(np.int8),
    )
