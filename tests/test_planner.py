"""Planners: Python that sees a view of the state and returns a whole plan, applied by the same core as everything else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from fairlead.model.cluster import ClusterSpec, NodeSpec, TenantSpec, parse_cluster_shape
from fairlead.model.event import EventKind
from fairlead.model.plan import Action, ActionKind, Plan
from fairlead.model.reason import Reason
from fairlead.policy.base import Planner
from fairlead.policy.registry import policies
from fairlead.runtime.planning import IllegalPlan
from fairlead.sim.run import Run, simulate
from fairlead.state.rules import Options
from fairlead.state.view import JobView, NodeView, View
from fairlead.workload.trace import Names, Trace
from reference.workloads import random_case, random_features
from test_against_reference import rows_of

START, SUSPEND, MIGRATE = ActionKind.START, ActionKind.SUSPEND, ActionKind.MIGRATE
K = EventKind


class Greedy(Planner):
    """In order of submission, whatever fits, where it fits first: `fifo-backfill` with `first-fit`, as a planner."""

    name = "greedy"

    def plan(self, view: View, now: float) -> Plan:
        self.view = view
        self.free = {gpu: view.free_milli(gpu) for node in view.nodes() for gpu in ids_of(view, node) if node.up}
        self.cpu = {node.node: node.free_cpu_milli for node in view.nodes()}
        self.memory = {node.node: node.free_memory_mib for node in view.nodes()}
        self.held = Counter(dict.fromkeys(view.cluster.tenants, 0))
        for job in view.running():
            self.held[job.tenant] += job.gpus * job.share_milli
        actions = []
        for job in view.waiting():
            ids = self.place(job) if self.within_quota(job) else ()
            if ids:
                self.take(job, ids)
                actions.append(Action(START, job.job, ids))
        return Plan(tuple(actions))

    def within_quota(self, job: JobView) -> bool:
        tenant = self.view.cluster.tenants.get(job.tenant)
        if tenant is None or tenant.quota_gpus is None:
            return True
        return self.held[job.tenant] + job.gpus * job.share_milli <= 1000 * tenant.quota_gpus

    def nodes(self, job: JobView) -> Iterator[NodeView]:
        return (n for n in self.view.nodes() if n.up and job.gpu_type in (-1, n.gpu_type))

    def room(self, job: JobView, node: NodeView, gpus: int) -> bool:
        of = job.gpus or 1
        part = gpus or of
        return self.cpu[node.node] * of >= job.cpu_milli * part and self.memory[node.node] * of >= job.memory_mib * part

    def can_take(self, job: JobView, node: NodeView, most: int) -> tuple[int, ...]:
        """The lowest GPUs of a node that the job could hold, at most so many."""
        free = [gpu for gpu in ids_of(self.view, node) if self.free[gpu] >= job.share_milli][:most]
        while free and not self.room(job, node, len(free)):
            free.pop()
        return tuple(free)

    def place(self, job: JobView) -> tuple[int, ...]:
        nodes = list(self.nodes(job))
        if job.gpus == 0:
            return next(((-1 - n.node,) for n in nodes if self.room(job, n, 0)), ())
        for node in nodes:
            ids = self.can_take(job, node, job.gpus)
            if len(ids) == job.gpus:
                return ids
        ids = ()
        for node in nodes:
            ids += self.can_take(job, node, job.gpus - len(ids))
        return ids if len(ids) == job.gpus else ()

    def take(self, job: JobView, ids: tuple[int, ...]) -> None:
        self.held[job.tenant] += job.gpus * job.share_milli
        for node, count in Counter(-1 - gpu if gpu < 0 else node_of(self.view, gpu) for gpu in ids).items():
            self.cpu[node] -= -(-job.cpu_milli * count // (job.gpus or 1))
            self.memory[node] -= -(-job.memory_mib * count // (job.gpus or 1))
        for gpu in ids:
            if gpu >= 0:
                self.free[gpu] -= job.share_milli


def ids_of(view: View, node: NodeView) -> range:
    first = sum(n.gpus for n in view.cluster.nodes[: node.node])
    return range(first, first + node.gpus)


def node_of(view: View, gpu: int) -> int:
    return next(node.node for node in view.nodes() if gpu in ids_of(view, node))


class Scripted(Planner):
    """Does what a test wrote down, and remembers when it was asked."""

    name = "scripted"
    script: ClassVar[Callable[[View, float], Plan]]
    asked: ClassVar[list[float]]

    def plan(self, view: View, now: float) -> Plan:
        self.asked.append(now)
        return type(self).script(view, now)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for planner in (Greedy, Scripted):
        monkeypatch.setitem(policies(), planner.name, planner)
    monkeypatch.setattr(Scripted, "asked", [], raising=False)


def jobs(*rows: tuple[float, int, float], **columns: Any) -> Trace:
    """A trace of (submit, GPUs, duration)."""
    submit_s, gpus, duration_s = (list(column) for column in zip(*rows))
    return Trace(np.array(submit_s, float), np.array(gpus, np.int32), np.array(duration_s, float), **columns)


def scripted(
    script: Callable[[View, float], Plan] | dict[float, Plan], trace: Trace, cluster: ClusterSpec | str, **options: Any
) -> Run:
    """Run a script: a function of view and time, or plans by time (the first time it is asked then)."""
    plans = dict(script) if isinstance(script, dict) else {}
    Scripted.script = staticmethod(script if callable(script) else lambda view, now: plans.pop(now, Plan()))
    spec = parse_cluster_shape(cluster) if isinstance(cluster, str) else cluster
    return simulate(trace, spec, "scripted", options=Options(**options))


def do(*actions: Action, wake_s: float | None = None) -> Plan:
    return Plan(actions, wake_s)


# -- the same decisions, written twice -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_a_greedy_planner_writes_the_same_journal_as_the_compiled_policy(seed: int) -> None:
    # a planner is asked at every event, so ranks that change with time make no difference to this policy
    trace, cluster, wanted = random_case(seed, random_features(seed) - {"bounds", "fixed"})
    options = Options(
        **{**wanted.__dict__, "checkpoint_s": wanted.checkpoint_s or 0.0, "node_events": tuple(wanted.node_events)}
    )
    planned = simulate(trace, cluster, "greedy", "first-fit", options)
    compiled = simulate(trace, cluster, "fifo-backfill", "first-fit", options)
    assert rows_of(planned) == rows_of(compiled)
    assert planned.journal.sha256 == compiled.journal.sha256


# -- what a planner sees ----------------------------------------------------------------------------------------------------


def test_a_planner_sees_what_jobs_ask_for_and_what_is_free() -> None:
    seen: list[Any] = []

    def look(view: View, now: float) -> Plan:
        seen.append((list(view.waiting()), list(view.running()), list(view.nodes()), view.free_gpus()))
        return do(Action(START, 0, (1, 2))) if now == 0 else Plan()

    cluster = ClusterSpec((NodeSpec("a", 3, "V100", 8000, 4096), NodeSpec("b", 1, "T4")))
    trace = jobs(
        (0, 2, 10), (4, 0, 5),
        tenant=Names(np.array([0, -1], np.int32), ("red",)),
        cpu_milli=np.array([4000, 500]), memory_mib=np.array([1024, 0]), priority=np.array([3, 0], np.int32),
        gpu_type=Names(np.array([0, -1], np.int32), ("V100",)),
    )  # fmt: skip
    scripted(look, trace, cluster)
    (first,), _, nodes, free = seen[0]
    assert (first.job, first.gpus, first.gpu_type, first.tenant, first.priority) == (0, 2, 0, "red", 3)
    assert (first.cpu_milli, first.memory_mib, first.gpu_ids, first.remaining_s) == (4000, 1024, (), 10.0)
    assert [(n.gpus, n.gpu_type, n.free_ids) for n in nodes] == [(3, 0, (0, 1, 2)), (1, 1, (3,))]
    assert free == 4
    (second,), (running,), (node, _), free = seen[1]
    assert (second.gpus, second.tenant, second.gpu_type) == (0, "", -1)
    assert (running.gpu_ids, running.ran_s, running.remaining_s) == ((1, 2), 4.0, 6.0)
    assert (node.free_ids, node.free_cpu_milli, node.free_memory_mib, free) == ((0,), 4000, 3072, 2)


# -- what a planner may do --------------------------------------------------------------------------------------------------


def test_a_suspended_job_keeps_its_work_and_goes_on_where_it_is_started_again() -> None:
    run = scripted(
        {0.0: do(Action(START, 0, (0,))), 4.0: do(Action(SUSPEND, 0), Action(START, 1, (0,))), 5.0: do(Action(START, 0, (1,)))},
        jobs((0, 1, 10), (4, 1, 1)),
        "1x2",
    )  # fmt: skip
    assert rows_of(run) == [
        (0.0, K.START, 0, (0,)),
        (4.0, K.SUSPEND, 0, Reason.PLANNED),
        (4.0, K.START, 1, (0,)),
        (5.0, K.FINISH, 1, 0),
        (5.0, K.START, 0, (1,)),
        (11.0, K.FINISH, 0, 0),
    ]
    assert run.preemptions == 1


def test_a_migration_is_a_suspension_and_a_start_at_once_and_costs_a_resumption() -> None:
    run = scripted(
        {0.0: do(Action(START, 0, (0, 1))), 4.0: do(Action(MIGRATE, 0, (1, 2)), Action(START, 1, (0,)))},
        jobs((0, 2, 10), (4, 1, 1)),
        "1x3",
        resume_cost_s=2.0,
    )
    assert rows_of(run) == [
        (0.0, K.START, 0, (0, 1)),
        (4.0, K.SUSPEND, 0, Reason.PLANNED),
        (4.0, K.START, 0, (1, 2)),
        (4.0, K.START, 1, (0,)),
        (5.0, K.FINISH, 1, 0),
        (12.0, K.FINISH, 0, 0),
    ]


def test_what_one_action_frees_the_next_may_use() -> None:
    run = scripted(
        {0.0: do(Action(START, 0, (0,)), Action(SUSPEND, 0), Action(START, 1, (0,))), 1.0: do(Action(START, 0, (0,)))},
        jobs((0, 1, 1), (0, 1, 1)),
        "1x1",
    )
    assert [kind for _, kind, _, _ in rows_of(run)] == [K.START, K.SUSPEND, K.START, K.FINISH, K.START, K.FINISH]


def test_the_reason_of_an_action_is_recorded() -> None:
    outranked = do(Action(START, 0, (0,)), Action(SUSPEND, 0, reason=Reason.OUTRANKED), Action(START, 0, (0,)))
    run = scripted({0.0: outranked}, jobs((0, 1, 1)), "1x1")
    assert rows_of(run)[1] == (0.0, K.SUSPEND, 0, Reason.OUTRANKED)


def test_a_share_may_migrate_to_the_gpu_it_is_on() -> None:
    trace = jobs((0, 1, 4), (0, 1, 4), gpu_share_milli=np.array([500, 500], np.int32))
    plan = do(Action(START, 0, (0,)), Action(START, 1, (0,)), Action(MIGRATE, 1, (0,)))
    assert len(rows_of(scripted({0.0: plan}, trace, "1x1"))) == 6


# -- what it may not ---------------------------------------------------------------------------------------------------------

RUNS = Action(START, 0, (0, 1))
MIXED = ClusterSpec(
    (NodeSpec("a", 3, "V100", 4000, 4096), NodeSpec("b", 2, "T4", 4000, 4096)),
    tenants={"red": TenantSpec("red", quota_gpus=3)},
)
# job 0: 2 V100s; job 1: 1 GPU, any, half of a node's CPU; job 2: 2 GPUs of red's; job 3: only CPU
FOUR = replace(
    jobs((0, 2, 9), (0, 1, 9), (0, 2, 9), (0, 0, 9)),
    gpu_type=Names(np.array([0, -1, -1, -1], np.int32), ("V100",)),
    tenant=Names(np.array([0, -1, 0, -1], np.int32), ("red",)),
    cpu_milli=np.array([2000, 3000, 2000, 2500]),
)
ILLEGAL: dict[str, tuple[tuple[Action, ...], str]] = {
    "a job that is not there": ((Action(START, 7, (0,)),), "start is impossible: there is no job 7"),
    "a start of what runs": ((RUNS, Action(START, 0, (0, 1))), "job 0 does not wait"),
    "a suspension of what waits": ((Action(SUSPEND, 1),), "suspend is impossible: job 1 does not run"),
    "a migration of what waits": ((Action(MIGRATE, 1, (0,)),), "migrate is impossible: job 1 does not run"),
    "too few GPUs": ((Action(START, 0, (0,)),), r"job 0 needs 2 different GPUs, the plan names \(0,\)"),
    "a GPU twice": ((Action(START, 0, (1, 1)),), r"job 0 needs 2 different GPUs, the plan names \(1, 1\)"),
    "a GPU that is not there": ((Action(START, 1, (5,)),), "there is no GPU 5"),
    "a negative GPU": ((Action(START, 1, (-1,)),), "there is no GPU -1"),
    "the wrong type": ((Action(START, 0, (2, 3)),), "GPU 3 is on node 1, which is not of the type job 0 needs"),
    "a GPU that is taken": ((RUNS, Action(START, 1, (1,))), "job 1 needs 1000 milli-GPUs of GPU 1, 0 are free"),
    "a migration to a GPU that is taken": (
        (Action(START, 1, (2,)), Action(START, 2, (3, 4)), Action(MIGRATE, 2, (2, 3))),
        "migrate is impossible: job 2 needs 1000 milli-GPUs of GPU 2, 0 are free",
    ),
    "more CPU than there is": ((RUNS, Action(START, 1, (2,))), "job 1 needs 3000 milli-CPUs of node 0, 2000 are free"),
    "a CPU job on a GPU": ((Action(START, 3, (0,)),), r"job 3 needs no GPU but one node n, named as -1 - n; .* \(0,\)"),
    "a CPU job without room": ((Action(START, 1, (0,)), Action(START, 3, (-1,))), "job 3 needs 2500 milli-CPUs of node 0"),
    "more than the quota": ((RUNS, Action(START, 2, (3, 4))), "job 2 would put its tenant over its quota"),
}  # fmt: skip


@pytest.mark.parametrize("what", ILLEGAL)
def test_an_illegal_plan_is_refused_with_a_sentence(what: str) -> None:
    actions, sentence = ILLEGAL[what]
    with pytest.raises(IllegalPlan, match=rf"^scripted at 0\.0: .*{sentence}"):
        scripted({0.0: do(*actions)}, FOUR, MIXED)


def test_a_start_on_a_node_that_is_down_is_illegal() -> None:
    with pytest.raises(IllegalPlan, match="GPU 0 is on node 0, which is down"):
        scripted({0.0: do(Action(START, 0, (0,)))}, jobs((0, 1, 1)), "2x1", node_events=((0.0, 0, False),))


@pytest.mark.parametrize("wake_s", [0.0, -1.0, float("nan")])
def test_a_wake_that_is_not_after_now_is_illegal(wake_s: float) -> None:
    with pytest.raises(IllegalPlan, match="wants to be woken at"):
        scripted({0.0: do(wake_s=wake_s)}, jobs((0, 1, 1)), "1x1")


# -- when a planner is asked ---------------------------------------------------------------------------------------------------


def test_a_planner_is_asked_at_every_arrival_and_end() -> None:
    scripted({0.0: do(Action(START, 0, (0,))), 3.0: do(Action(START, 1, (1,)))}, jobs((0, 1, 5), (3, 1, 4)), "1x2")
    assert Scripted.asked == [0.0, 3.0, 5.0, 7.0]


def test_a_planner_is_woken_when_it_asked_to_be() -> None:
    run = scripted({0.0: do(wake_s=7.5), 7.5: do(Action(START, 0, (0,)))}, jobs((0, 1, 1)), "1x1")
    assert Scripted.asked == [0.0, 7.5, 8.5]
    assert run.outcome.start_s.tolist() == [7.5]


def test_what_happens_before_a_wake_replaces_it() -> None:
    plans = {
        0.0: do(Action(START, 0, (0,)), wake_s=6.0),
        2.0: do(Action(START, 1, (1,)), wake_s=4.0),
        4.0: do(wake_s=9.0),
    }
    scripted(plans, jobs((0, 1, 10), (2, 1, 3)), "1x2")
    assert Scripted.asked == [0.0, 2.0, 4.0, 5.0, 10.0], "neither the wake at 6 nor the one at 9 is wanted any more"


def test_a_planner_is_asked_every_so_many_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scripted, "every_s", 4.0)
    scripted({0.0: do(Action(START, 0, (0,))), 8.0: do(Action(START, 1, (1,)))}, jobs((0, 1, 9), (3, 1, 2)), "1x2")
    assert Scripted.asked == [0.0, 3.0, 4.0, 8.0, 9.0, 10.0]


def test_many_wakes_need_no_more_room_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scripted, "every_s", 0.1)
    scripted({0.0: do(Action(START, 0, (0,)))}, jobs((0, 1, 100)), "1x1")
    assert 1000 <= len(Scripted.asked) <= 1002
    assert Scripted.asked == sorted(set(Scripted.asked))


def test_jobs_that_a_planner_never_starts_are_refused_once_nothing_can_happen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scripted, "every_s", 4.0)
    run = scripted(lambda view, now: Plan(), jobs((0, 1, 9), (3, 1, 2)), "1x2")
    assert [row[1:] for row in rows_of(run)] == [
        (K.REFUSE, 0, Reason.NOT_ENOUGH_FREE),
        (K.REFUSE, 1, Reason.NOT_ENOUGH_FREE),
    ]
