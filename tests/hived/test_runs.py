"""What hived does with jobs: who owns what, who makes way for whom, what happens when nodes fail. Both versions do it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairlead.model.cell_shares import default_cells
from fairlead.model.cells import CellQuota, VirtualClusterSpec
from fairlead.model.cluster import ClusterSpec, TenantSpec, parse_cluster_shape
from fairlead.model.errors import InputError
from fairlead.model.event import EventKind
from fairlead.model.reason import Reason
from fairlead.sim.run import Run, simulate
from fairlead.state.rules import Options
from fairlead.workload.trace import Names, Trace
from hived.random_cells import random_run
from test_against_reference import rows_of

START, SUSPEND, FINISH, KILL = EventKind.START, EventKind.SUSPEND, EventKind.FINISH, EventKind.KILL

pytestmark = pytest.mark.parametrize("hived", ["hived", "hived-exact"])


def jobs(text: str) -> Trace:
    """A line per job: submit, GPUs, duration, tenant, priority."""
    rows = [line.split() for line in text.strip().splitlines()]
    submit, gpus, duration, tenant, priority = zip(*rows)
    names = tuple(dict.fromkeys(tenant))
    return Trace(
        np.array(submit, float),
        np.array(gpus, np.int32),
        np.array(duration, float),
        tenant=Names(np.array([names.index(one) for one in tenant], np.int32), names),
        priority=np.array(priority, np.int32),
    )


def shared(shape: str, **quotas: int) -> ClusterSpec:
    return replace(parse_cluster_shape(shape), tenants={name: TenantSpec(name, gpus) for name, gpus in quotas.items()})


def events(run: Run) -> list[tuple[float, EventKind, int]]:
    rows = rows_of(run)
    return [(row[0], EventKind(row[1]), row[2]) for row in rows]


def starts(run: Run) -> list[float]:
    return run.outcome.start_s.tolist()


def places(run: Run) -> dict[int, tuple[int, ...]]:
    """The GPUs of each job's last start."""
    return {row[2]: row[3] for row in rows_of(run) if row[1] == START}


def test_a_tenant_has_its_share_whatever_others_do(hived: str) -> None:
    trace = jobs("0 1 100 red 0\n" * 8 + "1 8 10 blue 0\n1 1 10 red 0")
    run = simulate(trace, shared("2x8", red=8, blue=8), hived)
    assert starts(run) == [0.0] * 8 + [1.0, 100.0], "red's ninth waits for red's own cells, blue's node is whole"


def test_who_owns_no_cells_may_still_say_so(hived: str) -> None:
    cluster = parse_cluster_shape("2x8")
    spec = default_cells(cluster)
    (chain,) = spec.chains
    owners = {
        "red": VirtualClusterSpec("red", (CellQuota(chain, chain, 2),)),
        "blue": VirtualClusterSpec("blue", (CellQuota(chain, chain, 0),)),
    }
    trace = jobs("0 8 10 red 0\n0 8 10 blue -1\n0 8 10 blue 0")
    run = simulate(trace, replace(cluster, cells=replace(spec, virtual=owners)), hived)
    assert starts(run)[:2] == [0, 0]
    assert np.isnan(starts(run)[2])


def test_a_job_becomes_whole_nodes_and_the_rest(hived: str) -> None:
    run = simulate(jobs("0 20 10 red 0"), shared("4x8", red=32), hived)
    nodes = [gpu // 8 for gpu in places(run)[0]]
    assert sorted(nodes.count(node) for node in set(nodes)) == [4, 8, 8]


def test_who_is_opportunistic_goes_beyond_the_share_and_makes_way(hived: str) -> None:
    trace = jobs("0 4 10 red 0\n0 8 10 red -1\n5 8 10 blue 0")
    run = simulate(trace, shared("2x8", red=4, blue=8), hived)
    assert events(run)[:4] == [(0, START, 0), (0, START, 1), (5, SUSPEND, 1), (5, START, 2)]
    assert run.preemptions == 1
    assert run.journal.arg[run.journal.kind == SUSPEND].tolist() == [Reason.OUTRANKED]
    assert run.outcome.finish_s.tolist() == [10.0, 15.0, 15.0]


def test_who_is_opportunistic_keeps_away_from_the_others(hived: str) -> None:
    run = simulate(jobs("0 1 10 red 0\n1 1 10 red -1\n2 1 10 red -1"), shared("2x8", red=8, blue=8), hived)
    nodes = {job: gpus[0] // 8 for job, gpus in places(run).items()}
    assert nodes[1] == nodes[2] != nodes[0], "together, on the other node"


def test_free_cells_with_fewer_opportunistic_gpus_are_taken_first(hived: str) -> None:
    trace = jobs("0 3 10 red -1\n1 1 10 blue 0")
    run = simulate(trace, shared("2x4", red=4, blue=4), hived)
    assert places(run)[1][0] // 4 != places(run)[0][0] // 4
    assert run.preemptions == 0


def test_a_higher_priority_preempts_a_lower_one_of_its_own_tenant_only(hived: str) -> None:
    trace = jobs("0 8 10 red 0\n0 8 10 blue 0\n1 8 10 red 3\n2 8 10 blue 0")
    run = simulate(trace, shared("2x8", red=8, blue=8), hived)
    assert starts(run) == [0.0, 0.0, 1.0, 10.0]
    assert run.outcome.preemptions.tolist() == [1, 0, 0, 0]
    assert run.outcome.finish_s.tolist() == [20.0, 10.0, 11.0, 20.0]


def test_a_victim_stops_as_a_whole_and_what_it_leaves_is_free_at_once(hived: str) -> None:
    trace = jobs("0 16 10 red 0\n1 8 5 red 1\n1 8 5 red 0")
    run = simulate(trace, shared("2x8", red=16), f"{hived}:order=fifo-backfill")
    assert starts(run) == [0.0, 1.0, 1.0], "the third gets the other node of the first"
    assert run.outcome.finish_s.tolist() == [15.0, 6.0, 6.0]


def test_a_strict_order_holds_up_its_own_tenant_only(hived: str) -> None:
    trace = jobs("0 4 10 red 0\n1 8 10 red 0\n2 1 1 red 0\n2 1 1 blue 0\n2 1 1 red -1")
    cluster = shared("2x8", red=8, blue=8)
    assert starts(simulate(trace, cluster, f"{hived}:order=fifo")) == [0.0, 10.0, 20.0, 2.0, 2.0]
    assert starts(simulate(trace, cluster, f"{hived}:order=fifo-backfill")) == [0.0, 10.0, 2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("order", "want"),
    [
        ("fifo", [0.0, 10.0, 19.0, 21.0]),
        ("sjf", [0.0, 14.0, 10.0, 12.0]),
        ("smallest-first", [0.0, 12.0, 21.0, 10.0]),
    ],
)
def test_any_queue_policy_orders_what_waits(order: str, want: list[float], hived: str) -> None:
    trace = jobs("0 8 10 red 0\n1 6 9 red 0\n1 8 2 red 0\n1 4 2 red 0")
    assert starts(simulate(trace, shared("1x8", red=8), f"{hived}:order={order}")) == want


def test_an_order_with_queues_preempts_by_queue(hived: str) -> None:
    trace = jobs("0 8 10 red 0\n5 8 2 red 0\n5 8 2 blue 0")
    run = simulate(trace, shared("2x8", red=8, blue=8), f"{hived}:order=tiresias,thresholds=24")
    assert starts(run) == [0.0, 5.0, 5.0], "the first has had 24 GPU-seconds at 3 and is in the second queue"
    assert run.outcome.preemptions.tolist() == [1, 0, 0]
    late = simulate(trace, shared("2x8", red=8, blue=8), f"{hived}:order=tiresias,thresholds=48")
    assert starts(late) == [0.0, 6.0, 5.0], "it is demoted at 6, and makes way then"


def test_a_job_that_lost_its_node_starts_again_on_a_healthy_one(hived: str) -> None:
    cluster = shared("3x8", red=16, blue=8)
    options = Options(node_events=((4.0, 0, False), (20.0, 0, True)))
    run = simulate(jobs("0 8 10 red 0\n6 8 10 red 0\n6 8 10 blue 0"), cluster, hived, options=options)
    lost = places(run)[0][0] // 8
    assert run.outcome.finish_s[0] == 14.0
    assert lost != 0
    assert sorted(starts(run)[1:]) == [6.0, 14.0], "two healthy nodes are left for three cells"


def test_bad_nodes_are_nobodys_until_they_are_repaired(hived: str) -> None:
    options = Options(node_events=((0.0, 0, False), (0.0, 1, False), (30.0, 1, True)))
    run = simulate(jobs("1 8 10 red 0\n2 8 10 blue -1"), shared("2x8", red=8, blue=8), hived, options=options)
    assert starts(run) == [30.0, 40.0]


def test_without_owners_the_cluster_is_divided_evenly_or_by_demand(hived: str) -> None:
    trace = jobs("0 8 10 red 0\n0 16 10 blue 0\n0 8 10 blue 0")
    cluster = parse_cluster_shape("4x8")
    assert starts(simulate(trace, cluster, hived)) == [0.0, 0.0, 10.0]
    assert starts(simulate(trace, cluster, f"{hived}:vcs=even")) == [0.0, 0.0, 10.0]
    assert starts(simulate(trace, cluster, f"{hived}:vcs=demand")) == [0.0, 0.0, 0.0]
    named = replace(cluster, tenants={name: TenantSpec(name) for name in ("blue", "red")})
    assert starts(simulate(trace, named, f"{hived}:vcs=even")) == [0.0, 0.0, 10.0], "they own nothing yet"
    alone = replace(trace, tenant=None, priority=None)
    assert starts(simulate(alone, parse_cluster_shape("2x8"), hived)) == [0.0, 10.0, 20.0], "one virtual cluster"


def test_a_job_too_large_for_its_tenant_is_refused(hived: str) -> None:
    run = simulate(jobs("0 9 10 red 0\n0 9 10 red -1\n0 17 10 red -1"), shared("2x8", red=8, blue=8), hived)
    assert run.outcome.refused.tolist() == [Reason.OVER_CELLS, 0, Reason.TOO_MANY_GPUS]


BAD: dict[str, tuple[ClusterSpec, str, dict[str, Any], str]] = {
    "a tenant without a virtual cluster": (shared("2x8", blue=8), "", {}, "1 of the trace's tenants have no virtual cluster: red"),
    "a way to divide that is not there": (shared("2x8", red=8), "vcs=fair", {}, "no such way to divide"),
    "dividing what has owners": (shared("2x8", red=8), "vcs=even", {}, "the cluster says itself"),
    "an order that ranks tenants": (shared("2x8", red=8), "order=drf", {}, "can't order jobs"),
    "an order that is not there": (shared("2x8", red=8), "order=fifoo", {}, "did you mean 'fifo'"),
    "a parameter that the order does not have": (shared("2x8", red=8), "order=sjf,thresholds=3", {}, "no parameter of"),
    "parts of GPUs": (shared("2x8", red=8), "", {"gpu_share_milli": np.array([500], np.int32)}, "a part of one"),
    "CPUs": (shared("2x8", red=8), "", {"cpu_milli": np.array([500])}, "CPU or memory"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_what_can_not_be_says_why(what: str, hived: str) -> None:
    cluster, values, columns, sentence = BAD[what]
    with pytest.raises(InputError) as error:
        simulate(replace(jobs("0 1 10 red 0"), **columns), cluster, f"{hived}:{values}" if values else hived)
    assert sentence in str(error.value)


def test_a_tenants_jobs_start_when_they_would_in_a_cluster_of_its_own(hived: str) -> None:
    """The theorem: without bad nodes, and whatever the others do, opportunistic jobs included."""
    compared = 0
    for seed in range(25 if hived == "hived" else 8):
        trace, cluster, _ = random_run(seed)
        together = simulate(trace, cluster, f"{hived}:order=fifo-backfill").outcome
        assert trace.tenant is not None
        for number in range(len(trace.tenant.values)):
            mine = trace.tenant.codes == number
            if trace.priority is not None:
                mine &= trace.priority >= 0
            if not mine.any():
                continue
            alone = Trace(
                trace.submit_s[mine], trace.gpus[mine], trace.duration_s[mine],
                tenant=Names(trace.tenant.codes[mine], trace.tenant.values),
                priority=None if trace.priority is None else trace.priority[mine],
                gpu_type=None if trace.gpu_type is None else Names(trace.gpu_type.codes[mine], trace.gpu_type.values),
            )  # fmt: skip
            private = simulate(alone, cluster, f"{hived}:order=fifo-backfill").outcome
            np.testing.assert_array_equal(together.start_s[mine], private.start_s)
            np.testing.assert_array_equal(together.finish_s[mine], private.finish_s)
            compared += int(mine.sum())
    assert compared > 150
