"""What must hold of every run, on random small clusters, traces, policies, placers and options.

Hypothesis draws each case and shrinks one that fails; draws are derandomised, so that every machine tries the same cases.
`FAIRLEAD_REFERENCE_CASES` scales how many.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.core.feasible import judge_classes
from fairlead.core.plugs import Plugged, parse_choice
from fairlead.kernels.columns import (
    C_ROOT,
    ENDED,
    G_IDS,
    G_PASSES,
    G_ROWS,
    G_VICTIMS,
    J_KEY,
    K_LEVEL,
    K_SCRATCH,
    K_STATE,
    N_CPU,
    Q_NOW,
    R_PREEMPTS,
    RUNNING,
    Plug,
)
from fairlead.kernels.displace import displace, put_back
from fairlead.kernels.jit import compiled_as, i8, settle_types
from fairlead.kernels.signatures import CLUSTER, JOBS, LOG, PLUGGED, QUEUE, TYPES
from fairlead.kernels.slim import by_ref
from fairlead.model.cluster import ClusterSpec, parse_cluster_shape
from fairlead.model.event import EventKind
from fairlead.policy.base import QueuePolicy
from fairlead.policy.registry import find_policy
from fairlead.record.outcome import fold_outcome
from fairlead.record.runs import STOPS
from fairlead.runtime.driver import Core
from fairlead.sim.jobs import job_input, most_gpus
from fairlead.sim.profiles import Profile, Profiles
from fairlead.sim.run import Run, prepare, simulate
from fairlead.state.check import BrokenState, check
from fairlead.state.rules import Options
from fairlead.state.state import State, new_state
from fairlead.state.transitions import FINAL, IllegalMove, JobState, follow
from fairlead.workload.trace import Names, Trace
from reference import Options as ReferenceOptions
from reference import Result
from reference.invariants import check as check_replay
from reference.workloads import FEATURES, random_cluster, random_options, random_trace
from test_against_reference import PLACERS, POLICIES, rows_of

EXAMPLES = 25 * int(os.environ.get("FAIRLEAD_REFERENCE_CASES", "8"))
#: a run of thirty jobs that writes more rows than this is going round in circles
MOST_ROWS = 20_000
POLICY_TEXTS = sorted(
    {name + text for name, variants in POLICIES.items() for text, _ in variants}
    | {"tiresias:gittins=true,thresholds=8"}
)
PLACER_TEXTS = [name + text for name, text, _ in PLACERS if ":within" not in text] + ["skew"]


#: draws that Hypothesis can shrink, and, richer, those that a seed stands for
RANDOMS = st.one_of(st.integers(0, 1 << 20).map(Random), st.randoms(use_true_random=False))


def some(examples: int = EXAMPLES) -> settings:
    slow = [
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
        HealthCheck.large_base_example,
    ]
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=slow,
        print_blob=False,
    )


@dataclass(frozen=True)
class Case:
    trace: Trace
    cluster: ClusterSpec
    policy: str
    placer: str
    options: Options
    profiles: Profiles = field(default_factory=Profiles)

    def run(self) -> Run:
        return simulate(self.trace, self.cluster, self.policy, self.placer, self.options, self.profiles)


@st.composite
def cases(draw: st.DrawFn, policies: Any = POLICY_TEXTS, without: frozenset[str] = frozenset()) -> Case:
    features = draw(st.sets(st.sampled_from([f for f in FEATURES if f not in without]), max_size=6))
    policy = draw(st.sampled_from(policies))
    placer = draw(st.sampled_from(PLACER_TEXTS))
    random = draw(RANDOMS)
    cluster = random_cluster(random, features)
    trace = random_trace(random, features, cluster)
    wanted = random_options(random, features, cluster, trace, seed=random.randint(0, 99))
    options = Options(
        seed=wanted.seed,
        start_cost_s=wanted.start_cost_s,
        # a job that is suspended at every tick must get something done in between
        resume_cost_s=min(wanted.resume_cost_s, 0.5) if "quantum" in policy else wanted.resume_cost_s,
        job_failures=wanted.job_failures,
        retries=wanted.retries,
        checkpoint_s=wanted.checkpoint_s or 0.0,
        node_events=tuple(wanted.node_events),
    )
    if "node-events" in features and random.random() < 0.3:
        options = replace(options, node_events=(), node_mtbf_s=1000.0, node_mttr_s=20.0)
    return Case(trace, cluster, policy, placer, options)


@st.composite
def rated_cases(draw: st.DrawFn) -> Case:
    """Jobs whose rate depends on GPU type, on how far they are spread, on their neighbours, and on their memory."""
    case = draw(cases(without=frozenset({"failures", "node-events", "rough"})))
    random = draw(RANDOMS)
    jobs = len(case.trace)
    names = ("resnet", "bert")
    profiles = {name: _profile(random) for name in names}
    trace = replace(
        case.trace,
        profile=Names(np.array([random.randint(-1, 1) for _ in range(jobs)], np.int32), names),
        gpu_memory_mib=np.array([1024 * random.randint(0, 4) for _ in range(jobs)], np.int64),
    )
    options = replace(case.options, resume_cost_s_per_gib=random.choice((0.0, 0.125)))
    return replace(case, trace=trace, options=options, profiles=Profiles(profiles))


def _profile(random: Random) -> Profile:
    return Profile(
        speed={"V100": random.choice((0.5, 1.0))},
        locality=random.choice(((1.0,), (1.0, 0.5), (1.0, 1.0, 0.25))),
        sharing=random.choice(((1.0,), (1.0, 0.5), (2.0, 1.0, 0.5))),
        skew=random.choice((0.0, 0.5)),
    )


# -- a run that is stopped again and again ------------------------------------------------------------------------------


def stops(case: Case, every: int) -> Iterator[tuple[State, Plugged]]:
    """The state of a run at the end of an instant, every so many rows, and at its end."""
    plugged = prepare(case.policy, case.placer, case.trace, case.cluster)
    jobs = job_input(case.trace, case.cluster, case.profiles, estimates=plugged.uses_estimates)
    rates = case.profiles.rates(case.cluster, most_gpus(jobs))
    state = new_state(case.cluster, jobs, plugged.traits, case.options, rates)
    judge_classes(state, plugged)
    core = Core(state, plugged)
    while True:
        why = core.advance(np.inf, int(state.counter[G_ROWS]) + every)
        yield state, plugged
        if why == ENDED:
            return
        assert state.counter[G_ROWS] < MOST_ROWS, f"no end in sight at {state.queue.limit[Q_NOW]} s"


def written(state: State) -> tuple[list[Any], ...]:
    """The journal of a state, as lists."""
    rows, ids = int(state.counter[G_ROWS]), int(state.counter[G_IDS])
    log = state.log
    return log.time[:rows].tolist(), *log.what[:, :rows].tolist(), log.gpu_ids[:ids].tolist()


def recorded(run: Run) -> tuple[list[Any], ...]:
    journal = run.journal
    return tuple(
        column.tolist() for column in (journal.time_s, journal.kind, journal.job, journal.arg, journal.gpu_ids)
    )


def follow_rows(case: Case, rows: tuple[list[Any], ...]) -> list[JobState]:
    return follow(case.trace.submit_s.tolist(), *rows[:3])


@some()
@given(cases(), st.integers(1, 9))
def test_what_must_hold_of_a_state_holds_wherever_a_run_is_stopped(case: Case, every: int) -> None:
    for state, _ in stops(case, every):
        check(state)
        assert follow_rows(case, written(state))[: len(case.trace)] == [
            max(JobState.WAITING, JobState(s)) for s in state.jobs.ints[K_STATE].tolist()
        ]


@some()
@given(rated_cases(), st.integers(1, 9))
def test_what_must_hold_of_a_state_holds_where_rates_vary(case: Case, every: int) -> None:
    for state, _ in stops(case, every):
        check(state)


@some()
@given(cases(), st.integers(1, 9))
def test_stopping_a_run_changes_nothing(case: Case, every: int) -> None:
    *_, (last, _) = stops(case, every)
    assert written(last) == recorded(case.run())


# -- the journal ----------------------------------------------------------------------------------------------------------


def result_of(case: Case, run: Run) -> Result:
    """The run as the reference would report it; `ran_s` there counts progress, here it counts costs too."""
    journal, options = run.journal, case.options
    ran_s, since, resumes = [0.0] * len(case.trace), {}, set()
    for time_s, kind, job in zip(*recorded(run)[:3]):
        if kind == EventKind.START:
            since[job] = time_s + (options.resume_cost_s if job in resumes else options.start_cost_s)
        elif kind in STOPS:
            ran_s[job] += max(0.0, time_s - since[job])
            resumes = resumes | {job} if kind == EventKind.SUSPEND else resumes - {job}
    outcome = fold_outcome(journal)
    return Result(
        rows=rows_of(run),
        start_s=outcome.start_s.tolist(),
        finish_s=outcome.finish_s.tolist(),
        preemptions=outcome.preemptions.tolist(),
        refused=outcome.refused.tolist(),
        ran_s=ran_s,
    )


@some(2 * EXAMPLES)
@given(cases())
def test_no_gpu_is_double_booked_gangs_run_whole_work_is_conserved_and_every_job_ends(case: Case) -> None:
    """Replayed on an empty cluster that refuses what is taken already, is down, of the wrong type or over a quota."""
    costs = {"start_cost_s": case.options.start_cost_s, "resume_cost_s": case.options.resume_cost_s}
    check_replay(case.trace, hard_quotas(case), ReferenceOptions(**costs), result_of(case, case.run()))


def hard_quotas(case: Case) -> ClusterSpec:
    """The cluster with the quotas that nobody may go over: none where the policy lends."""
    policy = find_policy(parse_choice(case.policy).name)
    if not (issubclass(policy, QueuePolicy) and policy.borrows):
        return case.cluster
    return replace(case.cluster, tenants={k: replace(v, quota_gpus=None) for k, v in case.cluster.tenants.items()})


@some()
@given(cases())
def test_every_job_ends_or_is_refused_by_legal_moves_in_order_of_time(case: Case) -> None:
    run = case.run()
    states = follow_rows(case, recorded(run))
    assert set(states) <= FINAL
    assert states == [JobState(s) for s in run.state.jobs.ints[K_STATE].tolist()]


@some()
@given(st.one_of(cases(), rated_cases()))
def test_what_became_of_each_job_is_what_the_journal_says(case: Case) -> None:
    run = case.run()
    folded = fold_outcome(run.journal)
    for column in ("start_s", "finish_s", "preemptions", "refused"):
        np.testing.assert_array_equal(getattr(run.outcome, column), getattr(folded, column), err_msg=column)
    np.testing.assert_allclose(run.outcome.ran_s, folded.ran_s, rtol=0, atol=1e-9)


@some()
@given(st.one_of(cases(), rated_cases()))
def test_the_same_run_twice_gives_the_same_journal(case: Case) -> None:
    assert case.run().journal.sha256 == case.run().journal.sha256


@some()
@given(cases(policies=["fifo", "fifo-backfill:strict=true"]))
def test_strict_fifo_never_starts_a_job_before_one_that_was_submitted_earlier(case: Case) -> None:
    waiting: set[int] = set()
    submitted = 0
    for time_s, kind, job in zip(*recorded(case.run())[:3]):
        while submitted < len(case.trace) and case.trace.submit_s[submitted] <= time_s:
            waiting.add(submitted)
            submitted += 1
        if kind == EventKind.START:
            assert job == min(waiting), f"job {job} starts at {time_s} while {sorted(waiting)} wait"
        if kind in (EventKind.START, EventKind.REFUSE):
            waiting.remove(job)
        elif kind in (EventKind.FAIL, EventKind.KILL):
            waiting.add(job)


# -- rates --------------------------------------------------------------------------------------------------------------


class Progress:
    """Work done by each job of a journal, added up piece by piece between any two rows."""

    def __init__(self, case: Case) -> None:
        self.case = case
        nodes = case.cluster.nodes
        self.node_of = [n for n, node in enumerate(nodes) for _ in range(node.gpus)]
        self.work_s = [0.0] * len(case.trace)
        self.held: dict[int, tuple[int, ...]] = {}
        self.from_s: dict[int, float] = {}
        self.now = 0.0

    def profile(self, job: int) -> Profile:
        column = self.case.trace.profile
        assert column is not None
        code = int(column.codes[job])
        return self.case.profiles.by_name[column.values[code]] if code >= 0 else self.case.profiles.default

    def rate(self, job: int) -> float:
        gpus, profile, spec = self.held[job], self.profile(job), self.case.cluster
        if gpus[0] < 0:
            return 1.0
        nodes = [spec.nodes[self.node_of[g]] for g in gpus]
        speed = min(spec.speeds.get(n.gpu_type, 1.0) * profile.speed.get(n.gpu_type, 1.0) for n in nodes)
        span = 0
        if len({n.name for n in nodes}) > 1:
            common = sum(all(n.path[: k + 1] == nodes[0].path[: k + 1] for n in nodes) for k in range(len(spec.levels)))
            span = 1 + len(spec.levels) - common
        rate = speed * profile.locality[min(span, len(profile.locality) - 1)]
        shares = self.case.trace.gpu_share_milli
        if shares is not None and shares[job] < 1000:
            others = sum(other != job and ids == gpus and shares[other] < 1000 for other, ids in self.held.items())
            sharing = profile.sharing or (1.0,)
            rate *= sharing[min(others, len(sharing) - 1)]
        return rate

    def to(self, time_s: float) -> None:
        for job in self.held:
            self.work_s[job] += max(0.0, time_s - max(self.now, self.from_s[job])) * self.rate(job)
        self.now = time_s


@some()
@given(rated_cases())
def test_work_is_conserved_where_rates_vary(case: Case) -> None:
    run = case.run()
    done, options = Progress(case), case.options
    memory, suspended = case.trace.gpu_memory_mib, set()
    assert memory is not None
    for time_s, kind, job, detail in rows_of(run):
        done.to(time_s)
        if kind == EventKind.START:
            resume = options.resume_cost_s + options.resume_cost_s_per_gib * int(memory[job]) / 1024
            done.held[job] = detail
            done.from_s[job] = time_s + (resume if job in suspended else options.start_cost_s)
        elif kind in STOPS:
            del done.held[job]
            suspended.add(job)
    for job, finish_s in enumerate(run.outcome.finish_s.tolist()):
        if not math.isnan(finish_s):
            assert done.work_s[job] == pytest.approx(case.trace.duration_s[job], abs=1e-6), f"job {job}"


# -- trial and undo -------------------------------------------------------------------------------------------------------


def trial(c, j, q, log, p, pp, key, level, drift, wake, resets, group, place, i):  # type: ignore[no-untyped-def]
    """Make room for job i as a new pass would, and undo it: displace() does that itself where it fails."""
    f = by_ref(Plug(p, pp, key, level, drift, wake, resets, group, place))
    q.counter[G_PASSES] += 1
    rows = displace(c, j, q, log, i, f)
    if rows >= 0:
        for x in range(q.counter[G_VICTIMS] - 1, -1, -1):
            put_back(c, j, q, log, np.int64(j.ints[K_SCRATCH, x]))
    return rows


TRIAL = i8(CLUSTER, JOBS, QUEUE, LOG, *PLUGGED, i8)


@cache
def compiled_trial() -> Any:
    settle_types(TYPES, trial)  # what it calls may have been compiled for plain runs alone
    return compiled_as(TRIAL, cached=False)(trial)


def settled_hash(state: State) -> str:
    """The state's hash but for the keys of running jobs, which are only as fresh as the last look at them."""
    running = np.flatnonzero(state.jobs.ints[K_STATE] == RUNNING)
    keys = state.jobs.floats[J_KEY, running]
    state.jobs.floats[J_KEY, running] = 0.0
    digest = state.hash()
    state.jobs.floats[J_KEY, running] = keys
    return digest


PREEMPTING = [
    "srtf", "srsf", "sjf:preempt=true", "smallest-first:preempt=true", "priority:preempt=true",
    "las:quantum=1", "las:quantum=4", "tiresias:thresholds=4/16/64,knob=2", "tiresias:gittins=true,thresholds=8",
]  # fmt: skip


def heads(state: State) -> list[int]:
    """The best waiting job of each class: room is made for no other."""
    roots: list[int] = state.queue.classes[C_ROOT, : state.classes].tolist()
    return [job for job in roots if job >= 0]


def try_to_make_room(state: State, plugged: Plugged, job: int, best: bool) -> bool:
    """Whether room was found for a waiting job at its own rank, or as if it had the best of all."""
    f, floats, ints = plugged.plug, state.jobs.floats, state.jobs.ints
    rank = float(floats[J_KEY, job]), int(ints[K_LEVEL, job])
    if best:
        floats[J_KEY, job], ints[K_LEVEL, job] = -1e9, -100
    rows = compiled_trial()(
        state.cluster, state.jobs, state.queue, state.log, f.p, f.pp,
        f.key, f.level, f.drift, f.wake, f.resets, f.group, f.place, job,
    )  # fmt: skip
    floats[J_KEY, job], ints[K_LEVEL, job] = rank
    return bool(rows >= 0)


@some()
@given(cases(policies=PREEMPTING), st.integers(1, 9))
def test_a_trial_that_is_undone_leaves_the_state_and_the_rest_of_the_run_as_they_were(case: Case, every: int) -> None:
    for state, plugged in stops(case, every):
        assert state.counter[R_PREEMPTS]
        before = settled_hash(state)
        for job in heads(state):
            for best in (False, True):
                try_to_make_room(state, plugged, job, best)
                assert settled_hash(state) == before, f"making room for job {job} was not undone"
        check(state)
    assert written(state) == recorded(case.run())


def test_trials_both_succeed_and_fail() -> None:
    """The property above says something only where room is made, and where it can't be."""
    trace = Trace(np.zeros(3), np.array([4, 2, 3], np.int32), np.array([9.0, 5.0, 7.0]))
    case = Case(trace, parse_cluster_shape("1x4"), "srtf", "consolidate", Options())
    state, plugged = next(iter(stops(case, 1)))
    assert state.gpus_of(1) == (0, 1)
    assert not try_to_make_room(state, plugged, 0, best=False), "job 1 runs and outranks it"
    assert try_to_make_room(state, plugged, 0, best=True)
    assert state.gpus_of(1) == (0, 1)


# -- the checks themselves --------------------------------------------------------------------------------------------------


def test_a_broken_state_is_reported_with_everything_that_is_wrong() -> None:
    trace = Trace(np.zeros(2), np.array([1, 4], np.int32), np.array([5.0, 5.0]))
    state, _ = next(iter(stops(Case(trace, parse_cluster_shape("1x4"), "fifo", "consolidate", Options()), 1)))
    check(state)
    state.cluster.node[N_CPU, 0] = 0  # no job asks for CPU: nobody looks at it
    check(state)
    state.log.gpu_ids[0] = 2
    with pytest.raises(BrokenState, match=r"GPU 0 has 1000 .* its bit says False; GPU 2 has 0 .* its bit says True"):
        check(state)


def test_an_illegal_move_is_reported_with_the_history_of_the_job() -> None:
    start, finish = int(EventKind.START), int(EventKind.FINISH)
    assert follow([0.0], [1.0, 2.0], [start, finish], [0, 0]) == [JobState.DONE]
    with pytest.raises(
        IllegalMove, match=r"START of job 0 at 3 is impossible: it is DONE\. Its history: submitted at 0, "
    ):
        follow([0.0], [1.0, 2.0, 3.0], [start, finish, start], [0, 0, 0])
    with pytest.raises(IllegalMove, match="is not submitted yet"):
        follow([5.0], [1.0], [start], [0])
    with pytest.raises(IllegalMove, match="the clock goes back from 2 to 1"):
        follow([0.0, 0.0], [2.0, 1.0], [start, start], [0, 1])
