"""The core on a wall clock: told of ends as they happen it decides as the simulator does, also when it is built anew."""

from __future__ import annotations

import heapq
import math
import random
from typing import Any

import numpy as np
import pytest

from fairlead.model.cluster import ClusterSpec, TenantSpec, parse_cluster_shape
from fairlead.model.errors import InputError
from fairlead.model.event import EventKind
from fairlead.model.reason import Reason
from fairlead.runtime.live import LiveCore
from fairlead.runtime.live_jobs import LiveJob, Standing, Status
from fairlead.sim.run import simulate
from fairlead.state.check import check
from fairlead.workload.trace import Names, Trace

K = EventKind


class Machine:
    """Executes what a live core decides, in no time: jobs run for as long as they say."""

    def __init__(self, core: LiveCore, work: dict[str, float]) -> None:
        self.core, self.left = core, dict(work)
        self.begun: dict[str, tuple[int, float]] = {}  #: run number and when it began
        self.ends: list[tuple[float, int, str]] = []
        self.rows: list[tuple[float, int, str, tuple[int, ...]]] = []
        self.runs = 0

    def step(self, now: float) -> None:
        for one in self.core.step(now):
            self.rows.append((one.time_s, int(one.kind), one.job, one.gpu_ids))
            if one.kind == K.START:
                self.runs += 1
                self.begun[one.job] = self.runs, one.time_s
                heapq.heappush(self.ends, (one.time_s + self.left[one.job], self.runs, one.job))
            elif one.kind == K.SUSPEND:
                self.left[one.job] -= one.time_s - self.begun.pop(one.job)[1]

    def next_end(self) -> float:
        while self.ends and self.begun.get(self.ends[0][2], (0, 0.0))[0] != self.ends[0][1]:
            heapq.heappop(self.ends)  # that run was cut short
        return self.ends[0][0] if self.ends else math.inf

    def run(self, jobs: list[LiveJob], disturb: Any = None) -> None:
        coming = list(jobs)
        while coming or self.begun or self.next_end() < math.inf:
            now = min(self.next_end(), self.core.next_wake(float(self.core.core.state.queue.limit[6])))
            if coming:
                now = min(now, coming[0].submit_s)
            if now == math.inf:
                return
            while self.next_end() == now:
                job = heapq.heappop(self.ends)[2]
                del self.begun[job]
                self.rows.append((now, int(K.FINISH), job, ()))
                self.core.end(job, now)
            while coming and coming[0].submit_s == now:
                self.core.submit(coming.pop(0), now)
            self.step(now)
            if disturb is not None:
                disturb(now)


def workload(seed: int, count: int = 120, sizes: tuple[int, ...] = (1, 2, 4, 8)) -> tuple[Trace, list[LiveJob]]:
    rng = random.Random(seed)
    at, rows = 0, []
    for _ in range(count):
        at += rng.choice((0, 1, 5, 30))
        rows.append((float(at), rng.choice(sizes), float(rng.randint(1, 400)), rng.choice(("a", "b"))))
    trace = Trace(
        submit_s=np.array([row[0] for row in rows]),
        gpus=np.array([row[1] for row in rows], np.int32),
        duration_s=np.array([row[2] for row in rows]),
        tenant=Names(np.array(["ab".index(row[3]) for row in rows], np.int32), ("a", "b")),
    )
    jobs = [LiveJob(f"j{i}", at, gpus, length, tenant=tenant) for i, (at, gpus, length, tenant) in enumerate(rows)]
    return trace, jobs


def simulated(
    trace: Trace, spec: ClusterSpec, policy: str, placer: str
) -> list[tuple[float, int, str, tuple[int, ...]]]:
    journal = simulate(trace, spec, policy, placer).journal
    rows = []
    for time_s, kind, job, arg in zip(journal.time_s, journal.kind, journal.job, journal.arg):
        ids = journal.gpu_ids[arg : arg + trace.gpus[job]].tolist() if kind == K.START else []
        rows.append((float(time_s), int(kind), f"j{job}", tuple(ids)))
    return rows


def ordered(rows: list[Any]) -> list[Any]:
    """Ends stand before decisions here as there, but in the machine's order."""
    return sorted(rows, key=lambda row: (row[0], row[1] != K.FINISH, row[2] if row[1] == K.FINISH else ""))


POLICIES = [
    "fifo",
    "fifo-backfill",
    "sjf",
    "srtf",
    "las:quantum=60",
    "tiresias:thresholds=200",
    "fair-share",
    "yarn-cs",
]


@pytest.mark.parametrize("policy", POLICIES)
def test_it_decides_as_the_simulator_does(policy: str) -> None:
    spec = ClusterSpec(parse_cluster_shape("3x8").nodes, tenants={"a": TenantSpec("a"), "b": TenantSpec("b")})
    trace, jobs = workload(1)
    machine = Machine(LiveCore(spec, policy), {job.id: job.duration_s or 0.0 for job in jobs})
    machine.run(jobs)
    assert ordered(machine.rows) == ordered(simulated(trace, spec, policy, "consolidate"))


@pytest.mark.parametrize("policy", ["fifo-backfill", "srtf", "tiresias:thresholds=200", "las:quantum=60"])
def test_a_core_that_is_built_anew_goes_on_as_if_nothing_had_been(policy: str) -> None:
    spec = parse_cluster_shape("3x8")
    trace, jobs = workload(2)
    rng = random.Random(3)
    machine = Machine(LiveCore(spec, policy), {job.id: job.duration_s or 0.0 for job in jobs})

    def rebuild(now: float) -> None:
        if rng.random() < 0.3:
            core = machine.core
            machine.core = LiveCore(spec, policy, jobs=core.snapshot(now), used=core.used(), now=now)
            machine.step(now)
            check(machine.core.core.state)

    machine.run(jobs, rebuild)
    assert ordered(machine.rows) == ordered(simulated(trace, spec, policy, "consolidate"))


def test_the_twin_foresees_what_then_happens() -> None:
    spec = parse_cluster_shape("2x8")
    _, jobs = workload(4, 60)
    machine = Machine(LiveCore(spec, "srtf"), {job.id: job.duration_s or 0.0 for job in jobs})
    for job in jobs:
        machine.core.submit(job, 0.0)
    machine.step(0.0)
    twin = LiveCore(spec, "srtf", jobs=machine.core.snapshot(0.0), now=0.0, live=False)
    foreseen = {(one.job, one.time_s) for one in twin.step(math.inf) if one.kind == K.START}
    machine.run([])
    started = {(job, at) for at, kind, job, _ in machine.rows if kind == K.START}
    assert foreseen == started


def one_node(policy: str = "fifo-backfill", **kwargs: Any) -> LiveCore:
    return LiveCore(parse_cluster_shape("1x4"), policy, **kwargs)


def kinds(core: LiveCore, now: float) -> list[tuple[str, str]]:
    return [(one.kind.name, one.job) for one in core.step(now)]


def test_a_job_that_is_withdrawn_leaves_its_gpus_and_comes_back_when_it_is_let_in() -> None:
    core = one_node()
    core.submit(LiveJob("a", 0, 4), 0.0)
    core.submit(LiveJob("b", 0, 4), 0.0)
    assert kinds(core, 0.0) == [("START", "a")]
    core.withdraw("a", 5.0)
    assert core.status("a") == Status.HELD
    assert kinds(core, 5.0) == [("START", "b")]
    core.admit("a", 6.0)
    assert kinds(core, 6.0) == []
    core.end("b", 9.0)
    assert kinds(core, 9.0) == [("START", "a")]
    assert core.snapshot(9.0)[0][1].ran_s == 5.0
    check(core.core.state)


def test_a_job_that_waits_can_be_withdrawn_before_it_ever_ran() -> None:
    core = one_node()
    core.submit(LiveJob("a", 0, 4), 0.0)
    core.submit(LiveJob("b", 0, 2), 0.0)
    core.withdraw("b", 0.0)
    assert kinds(core, 0.0) == [("START", "a")]  # decided before b was withdrawn, and not forgotten
    core.end("a", 3.0)
    assert kinds(core, 3.0) == []
    assert core.status("a") is None


def test_a_lost_run_waits_again_and_a_closed_node_gets_no_more_jobs() -> None:
    core = LiveCore(parse_cluster_shape("2x4"), "fifo-backfill")
    core.submit(LiveJob("a", 0, 4), 0.0)
    core.submit(LiveJob("b", 0, 4), 0.0)
    assert kinds(core, 0.0) == [("START", "a"), ("START", "b")]
    node = core.held_by("a")[0] // 4
    core.close_node(node, 1.0)
    core.requeue("a", 1.0, node)
    assert kinds(core, 1.0) == []
    core.end("b", 2.0)
    assert kinds(core, 2.0) == [("START", "a")]
    assert core.held_by("a")[0] // 4 != node
    core.submit(LiveJob("c", 0, 4), 3.0)
    assert kinds(core, 3.0) == []
    core.open_node(node, 4.0)
    assert kinds(core, 4.0) == [("START", "c")]
    check(core.core.state)


def test_what_can_never_run_is_refused_with_the_reason() -> None:
    spec = ClusterSpec(parse_cluster_shape("1x4").nodes, tenants={"small": TenantSpec("small", quota_gpus=1)})
    core = LiveCore(spec, "fifo")
    core.submit(LiveJob("huge", 0, 8), 0.0)
    core.submit(LiveJob("rich", 0, 2, tenant="small"), 0.0)
    assert [(one.kind, one.job, one.reason) for one in core.step(0.0)] == [
        (K.REFUSE, "huge", Reason.TOO_MANY_GPUS),
        (K.REFUSE, "rich", Reason.OVER_QUOTA),
    ]


def test_the_policy_changes_under_way_and_nobody_is_lost() -> None:
    core = one_node("fifo")
    for i, length in enumerate((100.0, 50.0, 10.0)):
        core.submit(LiveJob(f"j{i}", 0, 4, length), 0.0)
    assert kinds(core, 0.0) == [("START", "j0")]
    with pytest.raises(InputError):
        core.change(1.0, policy="fifoo")
    core.change(1.0, policy="srtf")
    assert kinds(core, 1.0) == [("SUSPEND", "j0"), ("START", "j2")]
    core.end("j2", 11.0)
    assert kinds(core, 11.0) == [("START", "j1")]


def test_time_does_not_go_back_with_the_wall_clock() -> None:
    core = one_node()
    core.submit(LiveJob("a", 0, 1), 100.0)
    core.step(100.0)
    core.submit(LiveJob("b", 0, 1), 40.0)
    assert [(one.job, one.time_s) for one in core.step(40.0)] == [("b", 100.0)]


def test_a_run_of_many_small_jobs_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    import fairlead.runtime.live as live

    monkeypatch.setattr(live, "MOST_ROWS", 200)
    core = one_node()
    for i in range(600):
        core.submit(LiveJob(f"j{i}", 0, 1 + i % 2, tenant="t"), float(i))
        core.step(float(i))
        core.end(f"j{i}", i + 0.5)
        core.step(i + 0.5)
    assert len(core.core.state.input) <= 512
    assert not core.snapshot(600.0)


def test_gpus_that_a_running_job_holds_are_taken_in_a_core_that_is_built_on_them() -> None:
    job, other = LiveJob("a", 0.0, 2, 100.0), LiveJob("b", 0.0, 4, 5.0)
    core = one_node(
        jobs=[(job, Standing(Status.RUNNING, (1, 2), 0.0, 0.0, starts=1)), (other, Standing(Status.WAITING))], now=50.0
    )
    assert kinds(core, 50.0) == []
    core.end("a", 60.0)
    assert [(one.job, one.gpu_ids) for one in core.step(60.0)] == [("b", (0, 1, 2, 3))]


def with_closed_nodes(policy: str, seed: int, quota: int | None) -> list[tuple[float, int, str, tuple[int, ...]]]:
    """What happens on four nodes of which two at most are closed at any time."""
    tenants = {name: TenantSpec(name, quota_gpus=quota) for name in "ab"}
    core = LiveCore(ClusterSpec(parse_cluster_shape("4x8").nodes, tenants=tenants), policy)
    _, jobs = workload(seed, 200, (1, 2, 4, 8, 8, 16))
    machine, rng = Machine(core, {job.id: job.duration_s or 0.0 for job in jobs}), random.Random(seed)
    closed: list[int] = []

    def disturb(now: float) -> None:
        check(core.core.state)
        if closed and rng.random() < 0.1:
            core.open_node(closed.pop(), now)
        elif len(closed) < 2 and rng.random() < 0.1:
            closed.append(rng.choice([node for node in range(4) if node not in closed]))
            core.close_node(closed[-1], now)
        before = len(machine.rows)
        machine.step(now)
        for _, kind, _, gpu_ids in machine.rows[before:]:
            assert kind != K.START or not {gpu // 8 for gpu in gpu_ids} & set(closed)

    machine.run(jobs, disturb)
    assert sum(row[1] == K.FINISH for row in machine.rows) == len(jobs)
    return machine.rows


@pytest.mark.parametrize("policy", ["srtf", "las:quantum=60", "tiresias:thresholds=200"])
@pytest.mark.parametrize("seed", range(6))
def test_who_runs_on_a_closed_node_is_not_displaced_in_vain(policy: str, seed: int) -> None:
    """With quotas, though nobody reaches them, room is made by releasing one job after another: it must come out the same."""
    rows = with_closed_nodes(policy, seed, None)
    assert sum(row[1] == K.SUSPEND for row in rows) > 10
    assert rows == with_closed_nodes(policy, seed, 64)
