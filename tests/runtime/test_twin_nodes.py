"""What if nodes were gone; and the hours to come, point by point."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairlead.model.cluster import ClusterSpec, NodeSpec, parse_cluster_shape
from fairlead.runtime.live_jobs import LiveJob, Standing, Status
from fairlead.runtime.twin import Choice, Moment, forecast, whatif
from fairlead.runtime.twin.coming import POINTS
from fairlead.runtime.twin.moment import without
from fairlead.sim.run import simulate

from .past import moment_at, workload

HOUR = 3600.0
THREE = ClusterSpec((NodeSpec("a", 2), NodeSpec("b", 2), NodeSpec("c", 2)))


def running(
    name: str, gpu_ids: tuple[int, ...], since_s: float, length_s: float = 2 * HOUR
) -> tuple[LiveJob, Standing]:
    job = LiveJob(name, since_s, max(len(gpu_ids), 0), length_s)
    return job, Standing(Status.RUNNING, gpu_ids, since_s, first_start_s=since_s, starts=1)


def test_what_runs_on_a_node_that_is_gone_waits_again_with_what_it_has_done() -> None:
    jobs = (running("on-a", (0, 1), 0.0), running("on-b", (2, 3), HOUR / 2), running("on-c", (4, 5), 0.0))
    moment = Moment(THREE, "fifo", "consolidate", HOUR, jobs, down=frozenset({2}))
    left = without(moment, ["b"])
    assert [node.name for node in left.spec.nodes] == ["a", "c"]
    assert left.down == {1}
    assert [at.gpu_ids for _, at in left.jobs] == [(0, 1), (), (2, 3)]
    assert (left.jobs[1][1].status, left.jobs[1][1].done_s) == (Status.WAITING, HOUR / 2)
    found = forecast(replace(left, down=frozenset())).expected
    # it has an hour and a half to go, and room when one of the others ends
    assert found["on-b"].start_s == 2 * HOUR
    assert found["on-b"].finish_s == 3.5 * HOUR


def test_jobs_without_gpus_go_with_their_node_too() -> None:
    spec = ClusterSpec((NodeSpec("a", 1, cpu_milli=1000), NodeSpec("b", 1, cpu_milli=1000)))
    jobs = tuple(
        (LiveJob(name, 0.0, 0, 60.0, cpu_milli=1000), Standing(Status.RUNNING, (-1 - node,), 0.0, 0.0, 1))
        for node, name in enumerate("ab")
    )
    left = without(Moment(spec, "fifo", "consolidate", 10.0, jobs), ["a"])
    assert [(at.status, at.gpu_ids) for _, at in left.jobs] == [(Status.WAITING, ()), (Status.RUNNING, (-1,))]


def test_fewer_nodes_are_a_row_and_what_can_not_be_taken_away_says_why() -> None:
    jobs = tuple((LiveJob(str(i), 0.0, 2, 60.0), Standing()) for i in range(3))
    moment = Moment(THREE, "fifo", "consolidate", HOUR, jobs)
    rows = whatif(
        moment,
        [
            Choice(remove_nodes=("a", "c")),
            Choice(remove_nodes=("bb",)),
            Choice(remove_nodes=("a", "b", "c")),
            Choice(remove_nodes=("a",), add_nodes="2x2", policy="srtf"),
            Choice(remove_nodes=("a", "b", "c"), add_nodes="1x4"),
        ],
    )
    ends = [HOUR + 60, HOUR + 180, None, None, HOUR + 60, HOUR + 120]
    assert [row.outlook and row.outlook.last_end_s for row in rows] == ends
    assert "did you mean 'b'?" in rows[2].error
    assert "at least one node" in rows[3].error
    told = rows[1].to_json()
    assert (told["remove_nodes"], told["coming"]["gpus"]) == (["a", "c"], 2)


def test_a_job_too_large_for_what_is_left_never_runs() -> None:
    moment = Moment(THREE, "fifo", "consolidate", HOUR, ((LiveJob("big", 0.0, 6, 60.0), Standing()),))
    rows = whatif(moment, [Choice(remove_nodes=("a",))])
    assert [row.outlook and (row.outlook.finished, row.outlook.never) for row in rows] == [(1, 0), (0, 1)]


@pytest.mark.parametrize("policy", ["fifo-backfill", "srtf", "las:quantum=60", "gandiva", "fair-share"])
def test_the_hours_to_come_add_up_to_what_the_forecast_says(policy: str) -> None:
    cluster = parse_cluster_shape("4x8")
    trace, jobs = workload(2)
    journal = simulate(trace, cluster, "fifo-backfill").journal
    moment = replace(moment_at(journal, jobs, jobs[-1].submit_s, cluster, "fifo-backfill"), policy=policy)
    (now, fewer) = whatif(moment, [Choice(remove_nodes=(cluster.nodes[1].name,))])
    assert now.coming is not None
    assert fewer.coming is not None
    assert fewer.coming.length_s == now.coming.length_s
    for row in (now, fewer):
        coming, outlook = row.coming, row.outlook
        assert coming is not None
        assert outlook is not None
        assert len(coming.held_gpus) == POINTS
        assert (coming.held_gpus <= coming.gpus + 1e-6).all()
        assert (coming.waiting_jobs >= -1e-6).all()
        assert (np.diff(coming.ended_jobs) >= -1e-6).all()
    if now.coming.length_s > now.outlook.last_end_s - moment.now:  # type: ignore[union-attr]
        assert now.coming.ended_jobs[-1] == pytest.approx(now.outlook.finished, abs=1.0)  # type: ignore[union-attr]
        held = float(now.coming.held_gpus.sum()) * now.coming.length_s / POINTS
        whole = now.outlook.gpu_utilization * now.coming.gpus * (now.outlook.last_end_s - moment.now)  # type: ignore[union-attr]
        assert held == pytest.approx(whole, rel=1e-6)
