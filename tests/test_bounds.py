"""Jobs that say how many nodes they run on, inside which domain, and that nobody takes their GPUs: whoever decides keeps to it.

tests/test_against_reference.py and test_properties.py have them in random workloads for every queue policy and placer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairlead.cli.refusals import refusals
from fairlead.model.cluster import ClusterSpec, NodeSpec, TenantSpec, parse_cluster_shape
from fairlead.model.event import EventKind
from fairlead.model.plan import Action, ActionKind, Plan
from fairlead.model.reason import Reason
from fairlead.placement.registry import placers
from fairlead.policy.base import Planner
from fairlead.policy.registry import policies
from fairlead.record.story import story
from fairlead.runtime.live import LiveCore
from fairlead.runtime.live_jobs import LiveJob
from fairlead.runtime.planning import IllegalPlan
from fairlead.sim.run import Run, simulate
from fairlead.state.check import check
from fairlead.state.view import View
from fairlead.workload.trace import Names, Trace
from gandiva_cases import random_gandiva
from hived.random_cells import random_run
from reference.ledger import Ledger
from test_against_reference import rows_of

LEVELS = ("node", "rack", "region", "pod")


def jobs(text: str, **columns: Any) -> Trace:
    """A line per job: submit, GPUs, duration, num_nodes, topology, preemptible; - where it does not say."""
    rows = [line.split() for line in text.strip().splitlines()]
    submit, gpus, duration, nodes, level, fixed = zip(*rows, strict=True)
    return Trace(
        np.array(submit, float),
        np.array(gpus, np.int32),
        np.array(duration, float),
        num_nodes=np.array([0 if one == "-" else int(one) for one in nodes], np.int32),
        topology=Names(np.array([-1 if one == "-" else LEVELS.index(one) for one in level], np.int32), LEVELS),
        preemptible=np.array([one != "no" for one in fixed], np.int8),
        **columns,
    )


def racks(*sizes: int, gpus: int = 8) -> ClusterSpec:
    """Racks of so many nodes each."""
    nodes = [NodeSpec(f"r{r}n{n}", gpus, path=(f"r{r}",)) for r, size in enumerate(sizes) for n in range(size)]
    return ClusterSpec(tuple(nodes), levels=("rack",))


def nodes_of(run: Run) -> dict[int, dict[int, int]]:
    """For each job that started, how many GPUs on which node at its first start."""
    found: dict[int, dict[int, int]] = {}
    node_of = [n for n, node in enumerate(run.journal.cluster.nodes) for _ in range(node.gpus)]
    for _, kind, job, ids in rows_of(run):
        if kind == EventKind.START and job not in found:
            held = [node_of[gpu] for gpu in ids]
            found[job] = {node: held.count(node) for node in sorted(set(held))}
    return found


@pytest.mark.parametrize("placer", sorted(placers()))
def test_under_every_placer_an_equal_part_is_on_each_of_the_tightest_nodes(placer: str) -> None:
    trace = jobs("0 5 9 1 - -\n0 6 9 1 - -\n1 4 9 2 - -\n1 6 9 3 - -")
    run = simulate(trace, parse_cluster_shape("4x8"), "fifo", placer)
    # the first two leave 3 and 2: enough for the third, and then too little for the last, which waits for them
    assert nodes_of(run) == {0: {0: 5}, 1: {1: 6}, 2: {0: 2, 1: 2}, 3: {0: 2, 1: 2, 2: 2}}
    assert run.outcome.start_s.tolist() == [0.0, 0.0, 1.0, 9.0]


def test_a_job_waits_for_its_nodes_although_enough_gpus_are_free() -> None:
    trace = jobs("0 4 10 1 - -\n0 5 10 1 - -\n1 8 5 2 - -\n2 3 1 - - -")
    run = simulate(trace, parse_cluster_shape("2x8"), "fifo-backfill", "first-fit")
    assert run.outcome.start_s.tolist() == [0.0, 0.0, 10.0, 2.0]


def test_a_topology_is_kept_to_and_the_lowest_level_that_will_do_is_taken() -> None:
    trace = jobs("0 12 9 - rack -\n0 16 9 2 - -\n0 20 9 - rack -\n0 4 9 - node -")
    run = simulate(trace, racks(2, 4), "fifo", "spread")
    assert nodes_of(run) == {0: {0: 8, 1: 4}, 1: {2: 8, 3: 8}, 2: {2: 8, 3: 8, 4: 4}, 3: {4: 4}}
    # the second rack has 16 left: the third waits for the second, and in a strict queue the last for it
    assert run.outcome.start_s.tolist() == [0.0, 0.0, 9.0, 9.0]


def test_a_placer_that_stays_within_a_level_does_so_with_numbers_of_nodes() -> None:
    trace = jobs("0 24 9 3 - -\n0 8 9 1 - -\n0 16 9 2 - -")
    assert nodes_of(simulate(trace, racks(2, 2), "fifo-backfill", "rack")) == {
        0: {0: 8, 1: 8, 2: 8},
        1: {3: 8},
        2: {0: 8, 1: 8},
    }
    run = simulate(trace, racks(2, 2), "fifo-backfill", "rack:within=rack")
    assert run.outcome.refused.tolist() == [Reason.TOO_FEW_NODES, 0, 0]


def test_what_can_never_be_is_refused_with_a_reason_and_a_sentence() -> None:
    trace = jobs(
        "0 15 9 5 - -\n0 40 9 - rack -\n0 16 9 - node -\n0 8 9 2 node -\n0 4 9 - pod -\n0 64 9 8 - -\n0 0 9 2 - -\n0 24 9 2 - -"
    )
    run = simulate(trace, racks(2, 2), "fifo")
    few, small = Reason.TOO_FEW_NODES, Reason.DOMAIN_TOO_SMALL
    many, none = Reason.TOO_MANY_GPUS, Reason.NO_SUCH_LEVEL
    assert run.outcome.refused.tolist() == [few, many, small, small, none, many, few, few]
    told = {one.reason: one.sentence for one in refusals(run.journal, run.outcome)}
    assert "a level that the cluster does not have (it has node, rack)" in told["no_such_level"]
    assert "3 jobs refused: asking for more nodes than could hold an equal part" in told["too_few_nodes"]
    assert "inside one domain of their topology" in told["domain_too_small"]
    for job in range(len(trace)):
        assert "None" not in story(run.journal, job)[-1]
    assert "has no such level" in story(run.journal, 4)[-1]


def test_a_part_needs_its_cpu_and_memory_too() -> None:
    nodes = tuple(NodeSpec(f"n{n}", 8, cpu_milli=cpus * 1000) for n, cpus in enumerate((4, 8, 16)))
    trace = replace(jobs("0 8 9 2 - -\n0 8 9 2 - -\n0 8 9 2 - -"), cpu_milli=np.array([8000, 16000, 24000], np.int64))
    run = simulate(trace, ClusterSpec(nodes), "fifo-backfill")
    assert nodes_of(run) == {0: {0: 4, 1: 4}, 1: {1: 4, 2: 4}}
    assert run.outcome.start_s.tolist()[:2] == [0.0, 9.0]
    assert run.outcome.refused.tolist() == [0, 0, Reason.NODE_TOO_SMALL]


@pytest.mark.parametrize("policy", ["srtf", "las:quantum=2", "tiresias:thresholds=4", "srsf", "sjf:preempt=true"])
def test_nobody_takes_the_gpus_of_who_is_not_preemptible(policy: str) -> None:
    text = "0 4 50 - - {}\n0 4 50 - - yes\n3 8 1 - - yes\n5 4 1 - - yes"
    runs = [simulate(jobs(text.format(word)), parse_cluster_shape("1x8"), policy) for word in ("yes", "no")]
    assert runs[0].outcome.preemptions.tolist()[0] > 0
    assert runs[1].outcome.preemptions.tolist()[0] == 0
    assert runs[1].outcome.finish_s.tolist()[0] == 50.0
    assert runs[1].outcome.preemptions.tolist()[1] > 0, "the other one makes way"
    assert runs[1].outcome.start_s.tolist()[2] >= 50.0, "who needs both waits"


def test_what_is_lent_to_who_is_not_preemptible_comes_back_when_it_ends() -> None:
    tenants = {name: TenantSpec(name, 4) for name in ("a", "b")}
    cluster = replace(parse_cluster_shape("1x8"), tenants=tenants)
    owner = Names(np.array([0, 0, 1], np.int32), ("a", "b"))
    runs = [
        simulate(jobs(f"0 4 20 - - {one}\n1 4 20 - - {other}\n2 4 5 - - -", tenant=owner), cluster, "yarn-cs")
        for one, other in (("yes", "yes"), ("yes", "no"), ("no", "no"))
    ]
    assert [run.outcome.preemptions.tolist() for run in runs] == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert [run.outcome.start_s.tolist()[2] for run in runs] == [2.0, 2.0, 20.0]


def test_room_is_made_for_as_many_nodes_as_are_needed_and_no_more() -> None:
    text = "0 8 90 - - -\n0 8 80 - - -\n0 8 70 - - no\n0 8 60 - - -\n1 8 1 2 - -"
    run = simulate(jobs(text), parse_cluster_shape("4x8"), "srtf")
    assert run.outcome.preemptions.tolist() == [1, 1, 0, 0, 0]
    assert nodes_of(run)[4] == {2: 4, 3: 4}
    rack = simulate(jobs(text.replace("1 8 1 2 -", "1 16 1 - rack")), racks(1, 2, 1), "srtf")
    # the only rack with room for it holds the job that stays, until 70
    assert rack.outcome.start_s.tolist()[4] == 70.0
    assert rack.outcome.preemptions.tolist() == [0, 1, 0, 0, 0]


def test_the_reserved_start_of_easy_backfilling_knows_where_the_head_must_be() -> None:
    # two GPUs of each node are free; the head needs four on each of two nodes, and gets them when both have ended
    text = "0 6 10 1 - -\n0 6 20 1 - -\n1 8 5 2 - -\n2 2 15 - - -\n2 2 30 - - -"
    run = simulate(jobs(text), parse_cluster_shape("2x8"), "easy-backfill:estimate=actual")
    assert run.outcome.start_s.tolist() == [0.0, 0.0, 20.0, 2.0, 2.0]
    run = simulate(jobs(text + "\n3 2 40 - - -"), parse_cluster_shape("2x8"), "easy-backfill:estimate=actual")
    assert run.outcome.start_s.tolist()[2] == 20.0


# -- planners ----------------------------------------------------------------------------------------------------------------


class Stubborn(Planner):
    """Starts job 0 as it is told, and then suspends it."""

    name = "stubborn"
    ids: tuple[int, ...] = ()
    seen: tuple[bool, int, str] = (True, 0, "")

    def plan(self, view: View, now: float) -> Plan:
        for job in view.waiting():
            Stubborn.seen = job.preemptible, job.num_nodes, job.topology
            return Plan((Action(ActionKind.START, job.job, self.ids),), wake_s=now + 1)
        return Plan((Action(ActionKind.SUSPEND, 0),))


@pytest.mark.parametrize(
    ("asks", "ids", "why"),
    [
        ("4 9 2 - yes", (0, 1, 2, 8), "needs 2 nodes and the same number of GPUs on each"),
        ("4 9 2 - yes", (0, 1, 2, 3), "needs 2 nodes"),
        ("4 9 - rack yes", (0, 1, 16, 17), "must be inside one rack"),
        ("4 9 - node yes", (0, 1, 8, 9), "must be inside one node"),
        ("4 9 2 rack no", (0, 1, 8, 9), "may not be preempted"),
    ],
)
def test_a_plan_that_breaks_a_bound_is_illegal(
    monkeypatch: pytest.MonkeyPatch, asks: str, ids: tuple[int, ...], why: str
) -> None:
    monkeypatch.setitem(policies(), "stubborn", Stubborn)
    Stubborn.ids = ids
    with pytest.raises(IllegalPlan, match=why):
        simulate(jobs(f"0 {asks}"), racks(2, 2), "stubborn")
    _, _, nodes, level, fixed = asks.split()
    assert Stubborn.seen == (fixed == "yes", int(nodes.replace("-", "0")), level.replace("-", ""))


def test_gandiva_keeps_to_it_in_random_workloads() -> None:
    several, stayed = 0, 0
    among = ("types", "cpu", "tenants", "priorities", "costs", "levels", "node-events", "bounds", "fixed", "shares")
    for seed in range(200):
        case = random_gandiva(seed, among)
        ledger = Ledger(case.trace, case.cluster, case.options, case.profiles)
        run = case.run()
        try:
            ledger.replay(run.journal)  # it looks at bounds and at who is suspended
        except AssertionError as wrong:
            raise AssertionError(f"seed {seed}: {wrong}") from wrong
        check(run.state)
        ran = run.outcome.refused == 0
        several += 0 if case.trace.num_nodes is None else int((ran & (case.trace.num_nodes > 1)).sum())
        stayed += 0 if case.trace.preemptible is None else int((ran & (case.trace.preemptible == 0)).sum())
    assert several > 20
    assert stayed > 100


def test_gandiva_does_not_take_turns_with_who_is_not_preemptible() -> None:
    run = simulate(
        jobs("0 4 600 - - no\n0 4 600 - - -\n1 4 600 - - -"), parse_cluster_shape("1x8"), "gandiva:quantum=60"
    )
    assert run.outcome.preemptions.tolist()[0] == 0
    assert run.outcome.finish_s.tolist()[0] == 600.0
    assert run.outcome.preemptions.tolist()[1] > 3, "the others take turns on what is left"


def bounded(seed: int) -> Any:
    """A random run of hived's with jobs that say where they must be and that they stay."""
    trace, cluster, options = random_run(seed)
    rng = np.random.Generator(np.random.PCG64(seed + 99))
    nodes = np.where(rng.random(len(trace)) < 0.2, rng.choice([1, 2, 3], len(trace)), 0)
    nodes[trace.gpus % np.maximum(nodes, 1) > 0] = 0
    level = np.where(rng.random(len(trace)) < 0.2, 0, -1).astype(np.int32)
    fixed = (rng.random(len(trace)) < 0.7).astype(np.int8)
    trace = replace(trace, num_nodes=nodes.astype(np.int32), topology=Names(level, ("node",)), preemptible=fixed)
    return trace, cluster, options


def test_both_versions_of_hived_keep_to_it_and_agree() -> None:
    orders = ("fifo", "fifo-backfill", "sjf", "tiresias,thresholds=8/20")
    preempted, stayed, refused = 0, 0, 0
    for seed in range(120):
        trace, cluster, options = bounded(seed)
        order = orders[seed % len(orders)]
        fast, exact = (
            simulate(trace, cluster, f"{policy}:order={order}", options=options) for policy in ("hived", "hived-exact")
        )
        assert rows_of(fast) == rows_of(exact), f"seed {seed}"
        ledger = Ledger(trace, replace(cluster, tenants={}), options)
        ledger.replay(fast.journal)
        preempted += fast.preemptions
        stayed += int(((trace.preemptible == 0) & (fast.outcome.refused == 0)).sum())
        refused += int((fast.outcome.refused == Reason.NOT_BY_POLICY).sum())
    assert min(preempted, stayed) > 100
    assert refused > 20


# -- live --------------------------------------------------------------------------------------------------------------------


def test_a_live_core_keeps_to_it_also_when_it_is_built_anew() -> None:
    core = LiveCore(racks(2, 2), "srtf")
    core.submit(LiveJob("stays", 0, 16, 100.0, preemptible=False, num_nodes=2), 0.0)
    core.submit(LiveJob("goes", 0, 16, 90.0), 0.0)
    started = core.step(0.0)
    assert sorted(one.gpu_ids[0] // 8 for one in started) == [0, 2]
    held = {one.job: one.gpu_ids for one in started}
    core.submit(LiveJob("short", 0, 16, 1.0, topology="rack"), 5.0)
    assert [(one.kind, one.job, one.gpu_ids) for one in core.step(5.0)] == [
        (EventKind.SUSPEND, "goes", ()),
        (EventKind.START, "short", held["goes"]),
    ]
    core = LiveCore(racks(2, 2), "srtf", jobs=core.snapshot(6.0), now=6.0)
    core.submit(LiveJob("more", 0, 32, 1.0), 6.0)
    assert core.step(6.0) == []
    assert core.held_by("stays") == held["stays"]
    check(core.core.state)


def test_a_live_job_that_can_never_be_is_refused() -> None:
    core = LiveCore(racks(2, 2), "fifo")
    core.submit(LiveJob("wide", 0, 24, topology="rack"), 0.0)
    core.submit(LiveJob("pod", 0, 4, topology="pod"), 0.0)
    core.submit(LiveJob("five", 0, 5, num_nodes=5), 0.0)
    core.submit(LiveJob("uneven", 0, 5, num_nodes=2), 0.0)
    assert [(one.job, one.reason) for one in core.step(0.0)] == [
        ("wide", Reason.DOMAIN_TOO_SMALL),
        ("pod", Reason.NO_SUCH_LEVEL),
        ("five", Reason.TOO_FEW_NODES),
        ("uneven", Reason.TOO_FEW_NODES),
    ]
