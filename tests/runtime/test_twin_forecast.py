"""What the twin expects is what happens, wherever lengths are known; and where they are not, it says what it assumed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairlead.model.cluster import ClusterSpec, NodeSpec, TenantSpec, parse_cluster_shape
from fairlead.model.errors import InputError
from fairlead.model.reason import Reason
from fairlead.record.metrics import core_metrics
from fairlead.runtime.live import LiveCore
from fairlead.runtime.live_jobs import LiveJob, Standing, Status
from fairlead.runtime.twin import Choice, Moment, ahead, forecast, moment_of, whatif
from fairlead.runtime.twin.ahead import FORESIGHT_S, UNKNOWN
from fairlead.runtime.twin.compare import MOST_NODES
from fairlead.sim.run import simulate

from .past import expected_by, moment_at, workload

POLICIES = [
    "fifo",
    "fifo-backfill",
    "easy-backfill",
    "sjf",
    "srtf",
    "las:quantum=60",
    "tiresias:thresholds=900",
    "quota",
    "yarn-cs",
]
TENANTS = {"a": TenantSpec("a", 16), "b": TenantSpec("b", 24)}
CLUSTER = ClusterSpec(parse_cluster_shape("4x8").nodes, tenants=TENANTS)
HOUR = 3600.0


# -- against the simulator ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_expected_at_the_start_is_what_the_simulator_does(policy: str) -> None:
    trace, jobs = workload(1, spread=(0,))
    journal = simulate(trace, CLUSTER, policy).journal
    moment = Moment(CLUSTER, policy, "consolidate", 0.0, tuple((job, Standing()) for job in jobs))
    found = {one.job: (one.start_s, one.finish_s) for one in forecast(moment).expected.values()}
    assert found == expected_by(journal, jobs, -1.0)


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_expected_in_the_middle_is_what_the_simulator_goes_on_to_do(policy: str) -> None:
    trace, jobs = workload(2)
    journal = simulate(trace, CLUSTER, policy).journal
    for later in (0.0, 333.0, 2_000.0):
        now = jobs[-1].submit_s + later
        moment = moment_at(journal, jobs, now, CLUSTER, policy)
        assert len(moment.jobs) > 10
        found = {one.job: (one.start_s, one.finish_s) for one in forecast(moment).expected.values()}
        assert found == expected_by(journal, jobs, now)


@pytest.mark.parametrize("policy", ["srtf", "fifo-backfill", "las:quantum=60"])
def test_a_row_of_what_if_has_the_simulators_numbers(policy: str) -> None:
    trace, jobs = workload(3, spread=(0,))
    bigger = ClusterSpec((*CLUSTER.nodes, *parse_cluster_shape("2x8").nodes), tenants=TENANTS)
    moment = Moment(CLUSTER, "fifo", "consolidate", 0.0, tuple((job, Standing()) for job in jobs))
    rows = whatif(moment, [Choice(policy=policy), Choice(policy=policy, placer="spread", add_nodes="2x8")])
    assert [(row.policy, row.placer) for row in rows] == [
        ("fifo", "consolidate"),
        (policy, "consolidate"),
        (policy, "spread"),
    ]
    wanted = [(CLUSTER, "fifo", "consolidate"), (CLUSTER, policy, "consolidate"), (bigger, policy, "spread")]
    for row, (spec, name, placer) in zip(rows, wanted, strict=True):
        run = simulate(trace, spec, name, placer)
        want, got = core_metrics(run.journal.jobs, run.outcome, capacity_gpus=spec.gpus), row.outlook
        assert got is not None
        assert (got.jobs, got.finished, got.never) == (150, 150, 0)
        assert got.wait_s == want.wait_s
        assert got.jct_s == want.jct_s
        assert got.last_end_s == want.makespan_s
        assert got.gpu_utilization == pytest.approx(want.gpu_utilization, rel=1e-12)
        assert got.preemptions == want.preemptions
        waits = run.outcome.finish_s - run.outcome.ran_s
        for code, tenant in enumerate("ab"):
            mine = run.journal.jobs.tenant == code
            assert got.tenant_wait_s[tenant] == pytest.approx(float(waits[mine].mean()), rel=1e-12)


def test_the_numbers_of_a_middle_moment_are_from_now_on() -> None:
    """One GPU: `a` has run 30 of its 100 s; `b`, submitted 20 s ago, takes 50 s. Now is 1000."""
    spec = parse_cluster_shape("1x1")
    jobs = (
        (LiveJob("a", 950.0, 1, 100.0, tenant="x"), Standing(Status.RUNNING, (0,), 970.0, 970.0, starts=1)),
        (LiveJob("b", 980.0, 1, 50.0, tenant="y"), Standing(Status.WAITING, since_s=980.0)),
    )
    found = forecast(Moment(spec, "fifo", "consolidate", 1000.0, jobs))
    assert {one.job: (one.start_s, one.finish_s) for one in found.expected.values()} == {
        "a": (970.0, 1070.0),
        "b": (1070.0, 1120.0),
    }
    assert found.metrics.wait_s.mean == 35.0
    assert found.metrics.jct_s.mean == (120 + 140) / 2
    assert found.metrics.tenant_wait_s == {"x": 0.0, "y": 70.0}
    assert found.metrics.last_end_s == 1120.0
    assert found.metrics.gpu_utilization == 1.0


# -- lengths that nobody knows ------------------------------------------------------------------------------------------------


def running(job: LiveJob, gpus: tuple[int, ...], since: float, **past: Any) -> tuple[LiveJob, Standing]:
    return job, Standing(Status.RUNNING, gpus, since, since, **{"starts": 1, **past})


def waiting(job: LiveJob, **past: Any) -> tuple[LiveJob, Standing]:
    return job, Standing(Status.WAITING, since_s=job.submit_s, **past)


def one_gpu(*jobs: tuple[LiveJob, Standing], policy: str = "fifo", now: float = HOUR) -> Moment:
    return Moment(parse_cluster_shape("1x1"), policy, "consolidate", now, jobs)


def test_a_job_without_an_estimate_is_assumed_to_take_a_day_and_the_answer_says_so() -> None:
    moment = one_gpu(running(LiveJob("a", 0.0, 1), (0,), 0.0), waiting(LiveJob("b", 0.0, 1, 60.0)))
    found = forecast(moment)
    assert found.expected["a"].finish_s == 24 * HOUR
    assert found.expected["a"].note == UNKNOWN == "assumed 24 h, since the job gave no estimate"
    assert (found.expected["b"].start_s, found.expected["b"].note) == (24 * HOUR, "")
    assert found.metrics.assumed == 1


def test_what_the_caller_knows_of_a_job_goes_before_the_day_and_not_before_its_own_estimate() -> None:
    moment = one_gpu(running(LiveJob("a", 0.0, 1), (0,), 0.0), waiting(LiveJob("b", 0.0, 1, 60.0)))
    found = forecast(moment, known={"a": 2 * HOUR, "b": 5.0, "nobody": 1.0}).expected
    assert (found["a"].finish_s, found["a"].note) == (2 * HOUR, "assumed 2 h, as jobs like it took")
    assert (found["b"].finish_s, found["b"].note) == (2 * HOUR + 60, "")


@pytest.mark.parametrize(
    ("policy", "b_starts", "a_ends"),
    [("fifo", 2 * HOUR, 2 * HOUR), ("easy-backfill", 2 * HOUR, 2 * HOUR), ("las:quantum=60", HOUR, 2 * HOUR + 60)],
)
def test_a_job_that_has_outlived_its_estimate_is_taken_to_run_as_long_again(
    policy: str, b_starts: float, a_ends: float
) -> None:
    """It said 10 minutes and has run for an hour, in two runs. las suspends it for a minute, and it comes back."""
    late = running(LiveJob("a", 0.0, 1, 600.0), (0,), 1800.0, ran_s=1800.0, done_s=1800.0, starts=2, preemptions=1)
    found = forecast(one_gpu(late, waiting(LiveJob("b", 0.0, 1, 60.0)), policy=policy)).expected
    assert (found["b"].start_s, found["a"].finish_s) == (b_starts, a_ends)
    assert "as long again as it has, 60 min, which is over its estimate of 10 min" in found["a"].note


def test_a_job_that_has_outlived_what_was_assumed_of_it_says_so() -> None:
    late = running(LiveJob("a", 0.0, 1), (0,), 0.0)
    found = forecast(one_gpu(late), known={"a": 600.0}).expected["a"]
    assert found.finish_s == 2 * HOUR
    assert found.note.endswith("which is over the assumed 10 min")
    days = forecast(one_gpu(late, now=30 * HOUR)).expected["a"]
    assert days.finish_s == 60 * HOUR
    assert days.note.endswith("30 h, which is over the assumed 24 h")


def test_a_job_that_is_late_keeps_the_rank_that_the_scheduler_gives_it() -> None:
    """By what it said, 60 s are missing from it less than nothing: srtf will not suspend it for a job of 30 s."""
    moment = one_gpu(
        running(LiveJob("a", 0.0, 1, HOUR - 60), (0,), 0.0), waiting(LiveJob("b", 0.0, 1, 30.0)), policy="srtf"
    )
    found = forecast(moment)
    assert found.metrics.preemptions == 0
    assert (found.expected["a"].finish_s, found.expected["b"].start_s) == (2 * HOUR, 2 * HOUR)


def test_a_late_job_that_was_suspended_runs_as_long_again_when_its_turn_comes() -> None:
    late = waiting(LiveJob("a", 0.0, 1, 600.0), ran_s=900.0, done_s=900.0, starts=1, first_start_s=0.0, preemptions=1)
    found = forecast(one_gpu(late, policy="las:quantum=600")).expected["a"]
    assert (found.start_s, found.finish_s) == (HOUR, HOUR + 900.0)


def test_nothing_is_expected_to_end_in_the_past() -> None:
    for policy in ("fifo", "srtf", "las:quantum=60", "tiresias", "easy-backfill", "fair-share"):
        jobs = [running(LiveJob(f"r{i}", 0.0, 1, 10.0 + i), (i,), 5.0) for i in range(4)]
        jobs += [waiting(LiveJob(f"w{i}", 0.0, 1 + i, 20.0 * (i + 1))) for i in range(4)]
        moment = Moment(parse_cluster_shape("1x4"), policy, "consolidate", HOUR, tuple(jobs))
        for one in forecast(moment).expected.values():
            assert one.start_s is not None
            assert one.finish_s is not None
            assert max(HOUR, one.start_s) < one.finish_s, (policy, one)


# -- jobs of which nothing can be expected ------------------------------------------------------------------------------------


def test_a_held_job_has_no_times_and_holds_up_nobody() -> None:
    held = LiveJob("h", 0.0, 1, 5.0), Standing(Status.HELD)
    found = forecast(one_gpu(held, waiting(LiveJob("b", 0.0, 1, 60.0))))
    h = found.expected["h"]
    assert (h.start_s, h.finish_s, h.note, h.reason) == (None, None, "held until someone resumes it", Reason.NONE)
    assert found.expected["b"].start_s == HOUR
    assert found.metrics.jobs == 1


def test_a_job_that_can_never_run_has_the_reason_in_place_of_times() -> None:
    found = forecast(one_gpu().with_job(LiveJob("huge", 0.0, 9))).expected["huge"]
    assert (found.start_s, found.finish_s, found.reason) == (None, None, Reason.TOO_MANY_GPUS)


def test_a_job_that_needs_a_closed_node_is_expected_never_and_whoever_runs_there_runs_on() -> None:
    moment = Moment(
        parse_cluster_shape("2x4"),
        "fifo-backfill",
        "consolidate",
        HOUR,
        (running(LiveJob("a", 0.0, 4, 2 * HOUR), (4, 5, 6, 7), 0.0), waiting(LiveJob("b", 0.0, 8, 60.0))),
        down=frozenset({1}),
    )
    found = forecast(moment)
    assert found.expected["a"].finish_s == 2 * HOUR
    assert (found.expected["b"].start_s, found.expected["b"].reason) == (None, Reason.NOT_ENOUGH_FREE)
    assert found.metrics.never == 1
    assert forecast(replace(moment, down=frozenset())).expected["b"].start_s == 2 * HOUR


def test_nobody_says_what_will_be_in_more_than_a_year() -> None:
    months = 200 * 24 * HOUR
    found = forecast(one_gpu(*(waiting(LiveJob(str(i), 0.0, 1, months)) for i in range(3)), now=0.0))
    assert [(one.start_s, one.finish_s) for one in found.expected.values()] == [
        (0.0, months),
        (months, None),
        (None, None),
    ]
    assert found.expected["2"].note == "not within a year"
    assert found.expected["2"].reason == Reason.NONE
    assert found.metrics.finished == 1
    assert months < FORESIGHT_S < 2 * months


def test_nobody_waits_for_endless_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "MOST_DECISIONS", 1000)
    turns = one_gpu(*(waiting(LiveJob(str(i), 0.0, 1, HOUR)) for i in range(3)), policy="las:quantum=0.5", now=0.0)
    found = forecast(turns)
    assert found.expected["0"].start_s == 0.0
    assert (found.expected["0"].finish_s, found.expected["0"].note) == (None, "not within the next 2,000,000 decisions")
    assert (found.metrics.finished, found.metrics.jobs) == (0, 3)
    rows = whatif(replace(turns, policy="fifo"), [Choice(policy="las:quantum=0.5"), Choice(policy="las:quantum=60")])
    assert [row.error for row in rows] == [
        "",
        "column 'quantum': turns as short as this are not looked ahead; got 0.5; expected 1 s or more",
        "",
    ]


def test_an_empty_cluster_has_an_empty_forecast() -> None:
    found = forecast(one_gpu())
    assert found.expected == {}
    assert found.metrics.jobs == 0
    assert found.metrics.to_json()["last_end_s"] is None


# -- from a live core -----------------------------------------------------------------------------------------------------------


def test_a_moment_of_a_live_core_is_where_it_stands_also_between_two_steps() -> None:
    core = LiveCore(parse_cluster_shape("1x4"), "fifo-backfill", now=100.0)
    core.submit(LiveJob("a", 0.0, 4, 50.0), 100.0)
    core.submit(LiveJob("b", 0.0, 2, 10.0), 100.0)
    core.step(100.0)
    assert forecast(moment_of(core, 120.0)).expected["b"].start_s == 150.0
    core.end("a", 130.0)  # told, and not handled yet
    core.submit(LiveJob("c", 0.0, 4, 10.0), 130.0)
    moment = moment_of(core, 135.0)
    assert {job.id: at.status for job, at in moment.jobs} == {"b": Status.WAITING, "c": Status.NEW}
    found = forecast(moment).expected
    assert [(one.job, one.start_s, one.finish_s) for one in found.values()] == [
        ("b", 135.0, 145.0),
        ("c", 145.0, 155.0),
    ]
    before = moment_of(core, 135.0)
    forecast(moment)
    assert moment_of(core, 135.0) == before, "looking ahead changes nothing"
    assert moment_of(core, 0.0).now == 100.0, "time does not go back behind the last step"


def test_what_a_tenant_has_used_counts_in_the_twin() -> None:
    """Under fair-share the tenant that has used less goes first."""
    jobs = tuple(waiting(LiveJob(name, 0.0, 1, 60.0, tenant=name)) for name in "ab")
    moment = replace(one_gpu(*jobs, policy="fair-share"), used={"a": (5000.0, HOUR), "b": (10.0, HOUR)})
    assert forecast(moment).expected["a"].start_s == HOUR + 60
    assert forecast(replace(moment, used={})).expected["a"].start_s == HOUR


# -- other choices --------------------------------------------------------------------------------------------------------------


def test_nodes_are_added_beside_those_that_are_there() -> None:
    spec = ClusterSpec((NodeSpec("node-0", 2, "A100", path=("r1",)),), levels=("rack",))
    jobs = tuple(waiting(LiveJob(str(i), 0.0, 2, 60.0)) for i in range(3))
    moment = Moment(spec, "fifo", "rack", HOUR, jobs)
    rows = whatif(moment, [Choice(add_nodes="2x2@H200"), Choice(policy="srtf", add_nodes="1x2")])
    assert [row.outlook and row.outlook.last_end_s for row in rows] == [HOUR + 180, HOUR + 60, HOUR + 120]
    found = forecast(moment, add_nodes=(NodeSpec("node-0", 2), NodeSpec("b", 2)))
    assert {one.start_s for one in found.expected.values()} == {HOUR}


def test_a_choice_that_can_not_be_tried_is_a_row_that_says_why_and_the_others_are_there() -> None:
    moment = one_gpu(waiting(LiveJob("a", 0.0, 1, 60.0)))
    rows = whatif(
        moment,
        [
            Choice(policy="srft"),
            Choice(placer="nowhere"),
            Choice(add_nodes="lots"),
            Choice(add_nodes=f"{MOST_NODES + 1}x8"),
            Choice(add_nodes="1x99999999999"),
            Choice(policy="sjf:estimate=predicted"),
            Choice(policy="/etc/evil.py:Evil"),
            Choice(policy="srtf"),
        ],
    )
    assert [row.outlook is None for row in rows] == [False, *[True] * 7, False]
    assert "did you mean 'srtf'?" in rows[1].error
    assert "no placer is called 'nowhere'" in rows[2].error
    assert "this is no cluster shape" in rows[3].error
    assert "up to 20000 nodes of up to 1024 GPUs" in rows[4].error
    assert "up to 20000 nodes of up to 1024 GPUs" in rows[5].error
    assert "no record of jobs that have ended" in rows[6].error
    assert "a policy from a file can't be tried here" in rows[7].error
    assert rows[1].to_json()["error"] == rows[1].error
    assert rows[8].to_json()["wait_s"]["mean"] == 0.0
    with pytest.raises(InputError):
        forecast(moment, policy="srft")


@pytest.mark.parametrize(
    "shape", ["1x0000000000002000", "0000000000000020001x1", "2x8+1x00000000000000009999", "9" * 90 + "x1"]
)
def test_nodes_that_are_too_many_are_refused_however_they_are_written(shape: str) -> None:
    row = whatif(one_gpu(waiting(LiveJob("a", 0.0, 1, 60.0))), [Choice(add_nodes=shape)])[1]
    assert (row.outlook, "up to 20000 nodes of up to 1024 GPUs" in row.error) == (None, True)


def test_a_job_that_does_not_fit_the_cluster_fits_the_one_with_more_nodes() -> None:
    moment = one_gpu().with_job(LiveJob("a", 0.0, 4, 60.0, gpu_type="H200"))
    rows = whatif(moment, [Choice(add_nodes="1x4@H200"), Choice(add_nodes="1x4@A100")])
    assert [row.outlook and (row.outlook.never, row.outlook.finished) for row in rows] == [(1, 0), (0, 1), (1, 0)]
    assert rows[0].outlook is not None
    assert math.isnan(rows[0].outlook.last_end_s)


def test_shares_and_cpu_jobs_are_forecast_too() -> None:
    spec = ClusterSpec((NodeSpec("n", 1, cpu_milli=4000, memory_mib=4096),))
    jobs = (
        running(LiveJob("half", 0.0, 1, 2 * HOUR, share_milli=500), (0,), 0.0),
        waiting(LiveJob("more", 0.0, 1, 60.0, share_milli=600)),
        waiting(LiveJob("cpu", 0.0, 0, 60.0, cpu_milli=4000, memory_mib=1024)),
        waiting(LiveJob("next", 0.0, 0, 60.0, cpu_milli=1000)),
    )
    found = forecast(Moment(spec, "fifo-backfill", "consolidate", HOUR, jobs))
    assert {one.job: one.start_s for one in found.expected.values()} == {
        "half": 0.0,
        "more": 2 * HOUR,
        "cpu": HOUR,
        "next": HOUR + 60,
    }
    busy = 0.5 * HOUR + 0.6 * 60
    assert found.metrics.gpu_utilization == pytest.approx(busy / (HOUR + 60))
    assert np.isfinite(found.metrics.wait_s.mean)
