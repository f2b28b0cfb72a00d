"""Gandiva, HiveD and planners in Python on a wall clock: they decide as in the simulator, in one core or in many that are
built on one another, and take over whatever runs."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.model.cluster import ClusterSpec, TenantSpec, parse_cluster_shape
from fairlead.model.errors import InputError
from fairlead.model.event import EventKind
from fairlead.model.plan import Action, ActionKind, Plan
from fairlead.model.reason import Reason
from fairlead.policy.base import Planner
from fairlead.policy.registry import policies
from fairlead.runtime.live import LiveCore
from fairlead.runtime.live_jobs import LiveJob, Standing, Status
from fairlead.sim.profiles import Profile, Profiles
from fairlead.sim.run import simulate
from fairlead.state.rules import Options
from fairlead.state.view import View
from fairlead.workload.trace import Trace
from gandiva_cases import random_gandiva, random_profile
from hived.random_cells import random_run
from hived.test_compiled import ORDERS
from live_runs import Machine, Row, in_order, simulated, submissions
from reference.workloads import FEATURES

K = EventKind
CASES = 2 * int(os.environ.get("FAIRLEAD_REFERENCE_CASES", "8"))
#: live, nobody draws when a job or a node fails
LIVE_FEATURES = [feature for feature in FEATURES if feature not in ("failures", "node-events")]


@dataclass(frozen=True)
class Case:
    trace: Trace
    spec: ClusterSpec
    policy: str
    options: Options
    profiles: Profiles
    jobs: list[LiveJob]

    def core(self, **kwargs: Any) -> LiveCore:
        return LiveCore(self.spec, self.policy, "first-fit", options=self.options, profiles=self.profiles, **kwargs)

    def simulated(self) -> list[Row]:
        run = simulate(self.trace, self.spec, self.policy, "first-fit", self.options, self.profiles)
        return in_order(simulated(run))


def gandiva_case(seed: int) -> Case:
    case = random_gandiva(seed, LIVE_FEATURES)
    # noise is drawn by a job's number in its core, which changes when that is built anew
    options = replace(case.options, job_failures=0.0, node_events=(), profiler_noise=0.0)
    jobs = submissions(case.trace, case.cluster, case.profiles)
    return Case(case.trace, case.cluster, case.policy, options, case.profiles, jobs)


def hived_case(seed: int) -> Case:
    trace, cluster, options = random_run(seed)
    options = replace(options, job_failures=0.0, node_events=())
    policy = f"hived:order={ORDERS[seed % len(ORDERS)]}"
    return Case(trace, cluster, policy, options, Profiles(), submissions(trace, cluster))


BOTH = pytest.mark.parametrize("case_of", [gandiva_case, hived_case], ids=["gandiva", "hived"])


@BOTH
def test_told_of_ends_a_planner_decides_as_in_the_simulator(case_of: Any) -> None:
    for seed in range(CASES):
        case = case_of(seed)
        machine = Machine(case.core(jobs=[(job, Standing()) for job in case.jobs]))
        first = machine.core.core
        machine.run(case.jobs)
        assert machine.core.core is first, "it was built anew"
        assert in_order(machine.rows) == case.simulated(), f"seed {seed}"


@BOTH
def test_a_planner_in_a_core_that_is_built_anew_goes_on_as_if_nothing_had_been(case_of: Any) -> None:
    """At random moments, and whenever a job of a new kind comes."""
    rebuilt = 0
    for seed in range(CASES, 2 * CASES):
        case, rng = case_of(seed), Random(seed)
        machine = Machine(case.core())

        def rebuild(now: float, machine: Machine = machine, rng: Random = rng) -> None:
            nonlocal rebuilt
            if rng.random() < 0.3:
                rebuilt += 1
                assert machine.rebuild(now) == [], "something is decided because of that alone"

        machine.run(case.jobs, rebuild)
        assert in_order(machine.rows) == case.simulated(), f"seed {seed}"
    assert rebuilt > CASES


@BOTH
def test_with_nothing_but_where_the_jobs_stand_a_planner_loses_nobody(case_of: Any) -> None:
    """As after a restart: what can't be told from that is forgotten, and all jobs end all the same."""
    rebuilt, stopped = 0, 0
    for seed in range(2 * CASES, 3 * CASES):
        case, rng = case_of(seed), Random(seed)
        machine = Machine(case.core())

        def restart(now: float, machine: Machine = machine, rng: Random = rng) -> None:
            nonlocal rebuilt, stopped
            if rng.random() < 0.3:
                rebuilt += 1
                stopped += any(one.kind == K.SUSPEND for one in machine.rebuild(now, forget=True))

        machine.run(case.jobs, restart)
        assert machine.ended == machine.known, f"seed {seed}"
    assert stopped <= rebuilt // 20, "a restart stops jobs only where others find room that they did not have before"


@pytest.mark.parametrize("policy", ["gandiva", "hived", "las:quantum=6", "tiresias:thresholds=8/20", "srtf"])
def test_whoever_looks_late_loses_nothing(policy: str) -> None:
    """Jobs end, and ticks are due, between two looks; what was due before is decided before what is told now."""
    for seed in range(CASES):
        rng = Random(seed)
        case = gandiva_case(seed) if policy == "gandiva" else hived_case(seed)
        if policy not in ("gandiva", "hived"):
            case = replace(case, policy=policy)
        machine = Machine(case.core())
        machine.run_late(case.jobs, lambda rng=rng: rng.choice((0.0, 0.0, 0.3, 2.5, 9.0)))
        assert machine.known == machine.ended, f"seed {seed}: {sorted(machine.known - machine.ended)} never end"


class Told(Machine):
    """A machine whose jobs end when they ended in another run."""

    def __init__(self, core: LiveCore, ends: dict[str, float]) -> None:
        super().__init__(core)
        self.ends = ends

    def due(self) -> dict[str, float]:
        return {job: self.ends[job] for job in self.running}


def test_gandiva_decides_the_same_if_nobody_knows_how_long_jobs_take() -> None:
    for seed in range(CASES):
        case = gandiva_case(seed)
        want = case.simulated()
        machine = Told(case.core(), {row[2]: row[0] for row in want if row[1] == K.FINISH})
        machine.run([replace(job, duration_s=None) for job in case.jobs])
        assert in_order(machine.rows) == want, f"seed {seed}"


# -- whatever people do ----------------------------------------------------------------------------------------------------------

ACTS = ("withdraw", "admit", "requeue", "close", "open", "rebuild", "restart", "change")
SWITCHED = (
    "fifo",
    "srtf",
    "tiresias:thresholds=8/20",
    "gandiva:quantum=4",
    "hived:order=fifo-backfill",
    "las:quantum=6",
)
Acts = list[tuple[str, int, bool]]  #: what, to whom, and whether the core gets to decide before the next


def disturbed(machine: Machine, jobs: list[LiveJob], acts: Acts, switch: bool = False) -> None:
    """A run in which these things are done one after another, one or more after each instant; then all is set right."""
    left, out, nodes = list(acts), set(), len(machine.core.spec.nodes)

    def act(what: str, whom: int, now: float) -> None:
        alive = sorted(machine.known - machine.ended)
        if what == "withdraw" and alive:
            out.add(alive[whom % len(alive)])
            machine.withdraw(alive[whom % len(alive)], now)
        elif what == "admit" and out - machine.ended:
            job = sorted(out - machine.ended)[whom % len(out - machine.ended)]
            out.discard(job)
            machine.core.admit(job, now)
        elif what == "requeue" and machine.running:
            machine.requeue(sorted(machine.running)[whom % len(machine.running)], now)
        elif what == "close":
            machine.close(whom % nodes, now)
        elif what == "open" and machine.closed:
            machine.open(sorted(machine.closed)[whom % len(machine.closed)], now)
        elif what in ("rebuild", "restart"):
            machine.rebuild(now, forget=what == "restart")
        elif what == "change" and switch:
            machine.step(now)
            machine.core.change(now, policy=SWITCHED[whom % len(SWITCHED)])
            machine.check_jobs()

    def disturb(now: float) -> None:
        more = True
        while left and more:
            what, whom, decides = left.pop(0)
            act(what, whom, now)
            more = whom % 2 == 0
            if decides:
                machine.step(now)
        machine.step(now)

    machine.run(jobs, disturb)
    now = machine.now()
    for node in sorted(machine.closed):
        machine.open(node, now)
    for job in sorted(out - machine.ended):
        machine.core.admit(job, now)
    machine.step(now)
    machine.run([])
    stuck = {job for job in machine.known - machine.ended if not machine.core.refused(job)}
    assert not stuck, f"{sorted(stuck)} never end"


acts = st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 63), st.booleans()), max_size=60)
seldom = settings(
    max_examples=3 * CASES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@seldom
@given(seed=st.integers(0, 9999), acts=acts)
def test_gandiva_bears_whatever_people_do_to_a_live_run(seed: int, acts: Acts) -> None:
    case = gandiva_case(seed)
    disturbed(Machine(case.core()), case.jobs, acts)


@seldom
@given(seed=st.integers(0, 9999), acts=acts)
def test_hived_bears_whatever_people_do_to_a_live_run(seed: int, acts: Acts) -> None:
    case = hived_case(seed)
    disturbed(Machine(case.core()), case.jobs, acts)


@seldom
@given(seed=st.integers(0, 9999), acts=acts, first=st.sampled_from(SWITCHED))
def test_policies_take_over_from_each_other_under_way(seed: int, acts: Acts, first: str) -> None:
    """With jobs that grow and share GPUs under gandiva, and go on with what they have under the others."""
    case, rng = hived_case(seed), Random(seed)
    names = ("vae", "lstm")
    profiles = Profiles({name: random_profile(rng) for name in names}, random_profile(rng))
    jobs = []
    for job in case.jobs:
        least, most = (rng.randint(1, job.gpus), job.gpus + rng.randint(0, 3)) if rng.random() < 0.5 else (0, 0)
        job = replace(job, profile=rng.choice(("", *names)), min_gpus=least, max_gpus=most)
        nodes = rng.choice([0, 0, *(n for n in (1, 2, 3) if job.gpus % n == 0)])
        jobs.append(
            replace(job, preemptible=rng.random() < 0.8, num_nodes=nodes, topology=rng.choice(("", "", "node")))
        )
    case = replace(case, policy=first, profiles=profiles, jobs=jobs)
    machine = Machine(case.core())
    disturbed(machine, case.jobs, acts, switch=True)


# -- one by one ------------------------------------------------------------------------------------------------------------------


def told(machine: Machine, now: float) -> list[tuple[str, str]]:
    return [(one.kind.name, one.job) for one in machine.step(now)]


def two_owners() -> ClusterSpec:
    """Each of two tenants owns a node of four GPUs."""
    return ClusterSpec(parse_cluster_shape("2x4").nodes, tenants={name: TenantSpec(name, 4) for name in ("a", "b")})


def test_hived_lets_a_job_run_on_that_stands_where_its_tenant_owns_nothing_until_the_owner_comes() -> None:
    spec = ClusterSpec(two_owners().nodes, tenants={"a": TenantSpec("a"), "b": TenantSpec("b")})
    spec = replace(spec, cells=_node_each(spec))
    machine = Machine(LiveCore(spec, "fifo"))
    for name in ("a0", "a1"):
        machine.core.submit(LiveJob(name, 0.0, 4, 100.0, tenant="a"), 0.0)
    assert told(machine, 0.0) == [("START", "a0"), ("START", "a1")]
    machine.core.change(5.0, policy="hived")
    assert told(machine, 5.0) == []
    machine.core.submit(LiveJob("b0", 6.0, 4, 100.0, tenant="b"), 6.0)
    assert told(machine, 6.0) == [("SUSPEND", "a1"), ("START", "b0")]
    machine.finish("b0", 9.0)
    assert told(machine, 9.0) == [], "a owns one node, and has it"
    machine.finish("a0", 10.0)
    assert told(machine, 10.0) == [("START", "a1")]


def test_hived_leaves_alone_who_is_not_preemptible_and_the_owner_waits() -> None:
    spec = ClusterSpec(two_owners().nodes, tenants={"a": TenantSpec("a"), "b": TenantSpec("b")})
    machine = Machine(LiveCore(replace(spec, cells=_node_each(spec)), "fifo"))
    for name in ("a0", "a1"):
        machine.submit(LiveJob(name, 0.0, 4, 100.0, tenant="a", preemptible=False), 0.0)
    assert told(machine, 0.0) == [("START", "a0"), ("START", "a1")]
    machine.core.change(5.0, policy="hived")
    machine.submit(LiveJob("b0", 6.0, 4, 100.0, tenant="b"), 6.0)
    machine.submit(LiveJob("a2", 6.0, 4, 100.0, tenant="a", priority=5), 6.0)
    assert told(machine, 6.0) == []
    machine.finish("a1", 9.0)
    assert told(machine, 9.0) == [("START", "b0")]
    machine.finish("a0", 10.0)
    assert told(machine, 10.0) == [("START", "a2")]


def _node_each(spec: ClusterSpec) -> Any:
    from fairlead.model.cell_shares import owned_cells

    return owned_cells(ClusterSpec(spec.nodes, tenants={name: TenantSpec(name, 4) for name in spec.tenants}), {})


def test_hived_knows_the_halves_of_a_gpu_that_others_have_given_out() -> None:
    """Neither of a pair is anybody's cell; the GPU is free when both have gone, and both go when its owner comes."""
    jobs = [LiveJob(name, 0.0, 1, 100.0, tenant="a") for name in ("x", "y")]
    halves = [(job, Standing(Status.RUNNING, (0,), 0.0, 0.0, starts=1, milli=500)) for job in jobs]
    spec = ClusterSpec(parse_cluster_shape("1x1").nodes, tenants={"a": TenantSpec("a", 1)})
    first, second = (
        Machine(
            LiveCore(spec, "hived", jobs=[*halves, (LiveJob("z", 1.0, 1, 5.0, tenant="a", priority=p), Standing())])
        )
        for p in (-1, 1)
    )
    for machine in (first, second):
        machine.running = {"x": ((0,), 500), "y": ((0,), 500)}
    assert told(first, 1.0) == []
    first.finish("x", 2.0)
    assert told(first, 2.0) == [], "y still has half of it"
    first.finish("y", 3.0)
    assert told(first, 3.0) == [("START", "z")]
    assert told(second, 1.0) == [("SUSPEND", "x"), ("SUSPEND", "y"), ("START", "z")]


def test_a_job_that_a_new_policy_can_never_run_waits_for_another_one_and_blocks_nobody() -> None:
    spec = parse_cluster_shape("2x4")
    spec = replace(
        spec, cells=_node_each(ClusterSpec(spec.nodes, tenants={"a": TenantSpec("a"), "b": TenantSpec("b")}))
    )
    machine = Machine(LiveCore(spec, "fifo"))
    for name, gpus in (("wide", 8), ("next", 8), ("small", 4)):
        machine.core.submit(LiveJob(name, 0.0, gpus, 10.0, tenant="a"), 0.0)
    assert told(machine, 0.0) == [("START", "wide")]
    machine.core.change(1.0, policy="hived:order=fifo")
    assert told(machine, 1.0) == [("SUSPEND", "wide"), ("START", "small")], "a node is a's own, two are not"
    for job in ("wide", "next"):
        assert (machine.core.status(job), machine.core.refused(job)) == (Status.WAITING, Reason.OVER_CELLS)
    machine.core.withdraw("next", 3.0)
    assert machine.core.status("next") == Status.HELD
    machine.core.admit("next", 3.0)
    assert machine.core.status("next") == Status.WAITING
    machine.core.submit(LiveJob("last", 3.0, 1, 10.0, tenant="a"), 3.0)
    machine.finish("small", 4.0)
    assert told(machine, 4.0) == [("START", "last")], "a strict order does not wait for what can't be"
    machine.core.change(5.0, policy="fifo")
    machine.finish("last", 6.0)
    assert told(machine, 6.0) == [("START", "wide")]


def test_a_job_that_the_policy_can_not_do_with_is_an_error_and_nothing_changes() -> None:
    core = LiveCore(two_owners(), "hived")
    core.submit(LiveJob("fine", 0.0, 1, 10.0, tenant="a"), 0.0)
    with pytest.raises(InputError, match="part of one"):
        core.submit(LiveJob("share", 0.0, 1, 10.0, share_milli=500, tenant="a"), 0.0)
    with pytest.raises(InputError, match="no virtual cluster"):
        core.submit(LiveJob("whose", 0.0, 1, 10.0, tenant="nobody"), 0.0)
    assert not core.knows("share")
    assert [(one.kind.name, one.job) for one in core.step(0.0)] == [("START", "fine")]
    core.change(1.0, policy="fifo")
    core.submit(LiveJob("share", 1.0, 1, 10.0, share_milli=500, tenant="a"), 1.0)
    with pytest.raises(InputError, match="part of one"):
        core.change(2.0, policy="hived")
    assert core.policy == "fifo"


PAIRED = Profiles({"vae": Profile(sharing=(1.0, 0.9), utilization=0.1)})


def paired() -> Machine:
    """Three jobs of one GPU each on one GPU under gandiva, two of which share it since it pays."""
    machine = Machine(LiveCore(parse_cluster_shape("1x1"), "gandiva:quantum=10", profiles=PAIRED))
    machine.run([LiveJob(f"j{i}", 0.0, 1, 500.0, profile="vae") for i in range(3)], until=90.0)
    kept = [row for row in machine.rows if row[1] == K.START_AS]
    assert {row[2] for row in kept} == {"j0", "j1"}
    return machine


def test_gandiva_keeps_a_pair_that_it_knows_to_pay_and_parts_one_that_it_knows_nothing_of() -> None:
    known, forgotten = paired(), paired()
    for machine in (known, forgotten):
        if not any(milli == 500 for _, milli in machine.running.values()):
            machine.run([], until=machine.now() + 10.0)
        assert {job: milli for job, (_, milli) in machine.running.items()} == {"j0": 500, "j1": 500}
        assert machine.rebuild(machine.now(), forget=machine is forgotten) == []
        machine.run([], until=machine.now() + 45.0)
    tail = [[row[1:] for row in machine.rows if row[0] > 90.0] for machine in (known, forgotten)]
    assert not any(row[0] == K.START and row[1] in ("j0", "j1") for row in tail[0]), "they run together or not at all"
    assert any(row[0] == K.START and row[1] in ("j0", "j1") for row in tail[1]), (
        "each runs alone, to see how fast it is"
    )


def test_turns_go_on_where_they_were_however_often_the_core_is_built_anew() -> None:
    """Three jobs on one GPU: with nothing noted, the third would never get a turn."""
    machine = Machine(LiveCore(parse_cluster_shape("1x1"), "gandiva:quantum=10"))
    jobs = [LiveJob(f"j{i}", 0.0, 1, 1000.0) for i in range(3)]
    machine.run(jobs, machine.rebuild, until=95.0)
    starts = [(row[0], row[2]) for row in machine.rows if row[1] == K.START]
    assert starts == [(10.0 * turn, f"j{turn % 3}") for turn in range(10)]


def test_gandiva_sends_who_waits_at_a_closed_node_elsewhere_and_lets_who_runs_there_run() -> None:
    machine = Machine(LiveCore(parse_cluster_shape("2x1"), "gandiva:quantum=10"))
    machine.run([LiveJob(f"j{i}", 0.0, 1, 1000.0) for i in range(4)], until=0.0)
    assert sorted(machine.running) == ["j0", "j1"]
    machine.close(0, 5.0)
    assert told(machine, 5.0) == []
    machine.run([], until=35.0)
    there = {job for job, (gpus, _) in machine.running.items() if gpus == (0,)}
    assert there == {"j0"}, "it has run on, and nobody waits for its GPU"
    assert {row[2] for row in machine.rows if row[1] == K.START and row[0] > 5.0} == {"j1", "j2", "j3"}
    machine.withdraw("j2", 36.0)
    machine.step(36.0)
    machine.run([], until=75.0)
    assert {row[2] for row in machine.rows if row[1] == K.START and row[0] > 40.0} == {"j1", "j3"}


def test_a_job_that_gandiva_has_grown_goes_on_with_what_it_has_under_another_policy() -> None:
    machine = Machine(LiveCore(parse_cluster_shape("1x4"), "gandiva:quantum=10,idle=10"))
    machine.run([LiveJob("elastic", 0.0, 2, 500.0, min_gpus=1, max_gpus=4)], until=60.0)
    assert machine.running == {"elastic": ((0, 1, 2, 3), 1000)}
    for policy in ("srtf", "fifo", "hived", "gandiva:quantum=10", "fifo-backfill"):
        machine.core.change(61.0, policy=policy)
        assert told(machine, 61.0) == []
        assert [(job.id, at.gpu_ids, at.milli) for job, at in machine.core.snapshot(61.0)] == [
            ("elastic", (0, 1, 2, 3), 1000)
        ]
    machine.core.submit(LiveJob("next", 62.0, 1, 5.0), 62.0)
    assert told(machine, 62.0) == [], "all four GPUs are taken"
    machine.requeue("elastic", 63.0)
    assert [(one.kind, one.job, one.gpu_ids) for one in machine.step(63.0)] == [
        (K.START, "elastic", (0, 1)),
        (K.START, "next", (2,)),
    ]


def test_what_was_counted_of_a_job_is_counted_once_whoever_shared_its_gpu() -> None:
    machine = paired()
    before = {job: machine.core.core.state.jobs.floats[2, machine.core._index[job]] for job in machine.running}
    for _ in range(3):
        machine.rebuild(machine.now())
    after = {job: machine.core.core.state.jobs.floats[2, machine.core._index[job]] for job in machine.running}
    assert before == after, "when each is due"


# -- planners in Python ----------------------------------------------------------------------------------------------------------


class Widest(Planner):
    """One job at a time, the widest first; every ten seconds the next one gets a turn."""

    name = "widest"
    every_s: ClassVar[float] = 10.0

    def plan(self, view: View, now: float) -> Plan:
        running, waiting = list(view.running()), sorted(view.waiting(), key=lambda job: (-job.gpus, job.job))
        if not waiting or (running and now % 10.0):
            return Plan()
        stops = [Action(ActionKind.SUSPEND, job.job) for job in running]
        return Plan((*stops, Action(ActionKind.START, waiting[0].job, tuple(range(waiting[0].gpus)))))


def test_a_planner_in_python_runs_live_as_it_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(policies(), Widest.name, Widest)
    rng = np.random.Generator(np.random.PCG64(5))
    trace = Trace(
        np.sort(rng.integers(0, 200, 40)).astype(float),
        rng.choice([1, 2, 4], 40).astype(np.int32),
        rng.integers(1, 30, 40).astype(float),
    )
    spec = parse_cluster_shape("1x4")
    want = in_order(simulated(simulate(trace, spec, Widest.name)))
    for chance in (0.0, 1.0):
        machine = Machine(LiveCore(spec, Widest.name))

        def rebuild(now: float, machine: Machine = machine, chance: float = chance) -> None:
            if (
                chance > 0.0 and now % 10.0
            ):  # a core that is built anew asks at once: at a turn, this one would take another
                machine.rebuild(now)

        machine.run(submissions(trace, spec), rebuild)
        assert in_order(machine.rows) == want


def test_a_planner_that_can_not_take_over_running_jobs_says_so_and_what_would_do() -> None:
    with pytest.raises(InputError, match=r"has not started itself.*takes_over = True"):
        LiveCore(two_owners(), "hived-exact")
    core = LiveCore(two_owners(), "fifo")
    with pytest.raises(InputError, match="has not started itself"):
        core.change(0.0, policy="hived-exact")
    assert core.next_wake(0.0) <= 0.0 < math.inf
