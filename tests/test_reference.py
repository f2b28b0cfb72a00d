"""The reference simulator against cases worked out by hand, each run also checked for what must always hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from fairlead.kernels.rng import uniform
from fairlead.model.cluster import ClusterSpec, NodeSpec, TenantSpec, parse_cluster_shape
from fairlead.model.event import EventKind
from fairlead.model.reason import Reason
from fairlead.workload.trace import Names, Trace
from reference import Options, Result, simulate
from reference.invariants import check
from reference.policies import Usage
from reference.workloads import FEATURES, random_case, random_features

K = EventKind
never = pytest.approx(math.nan, nan_ok=True)


def jobs(*rows: tuple[float, int, float], **columns: Any) -> Trace:
    """A trace of (submit, GPUs, duration), with columns as lists; names as strings, None for none."""
    made: dict[str, Any] = {}
    for column, values in columns.items():
        if column in ("tenant", "gpu_type"):
            names = tuple(sorted({value for value in values if value is not None}))
            codes = [-1 if value is None else names.index(value) for value in values]
            made[column] = Names(np.array(codes, np.int32), names)
        else:
            made[column] = np.array(values)
    return Trace(
        submit_s=np.array([row[0] for row in rows], np.float64),
        gpus=np.array([row[1] for row in rows], np.int32),
        duration_s=np.array([row[2] for row in rows], np.float64),
        **made,
    )


def nodes(*capacities: int, tenants: Sequence[TenantSpec] = (), **columns: Sequence[Any]) -> ClusterSpec:
    specs = [
        NodeSpec(f"node-{i}", gpus, **{column: values[i] for column, values in columns.items()})
        for i, gpus in enumerate(capacities)
    ]
    levels = ("region", "rack") if "path" in columns else ()
    return ClusterSpec(tuple(specs), levels, tenants={tenant.name: tenant for tenant in tenants})


def run(
    trace: Trace,
    cluster: ClusterSpec | str,
    policy: str = "fifo-backfill",
    placer: str = "consolidate",
    *,
    policy_params: dict[str, Any] | None = None,
    placer_params: dict[str, Any] | None = None,
    **options: Any,
) -> Result:
    spec = parse_cluster_shape(cluster) if isinstance(cluster, str) else cluster
    made = Options(**options)
    result = simulate(trace, spec, policy, policy_params or {}, placer, placer_params or {}, made)
    check(trace, spec, made, result)
    return result


def places(result: Result) -> list[tuple[int, ...]]:
    """The GPUs of each job's first start, () where it never started."""
    first: dict[int, tuple[int, ...]] = {}
    for _, kind, job, detail in result.rows:
        if kind == K.START:
            first.setdefault(job, detail)
    return [first.get(job, ()) for job in range(len(result.start_s))]


# Queues


TOY = jobs((0, 2, 2), (0, 1, 8), (0, 2, 6))


def test_srsf_on_the_toy_of_the_tiresias_paper() -> None:
    assert run(TOY, "1x2", "srsf").finish_s == [2, 10, 16]


def test_las_on_the_toy_of_the_tiresias_paper() -> None:
    assert run(TOY, "1x2", "las", policy_params={"quantum": 1}).finish_s == [5, 14, 16]


BLOCKED = jobs((0, 3, 10), (0, 4, 5), (0, 1, 1))


def test_strict_fifo_blocks_behind_its_head() -> None:
    assert run(BLOCKED, "1x4", "fifo").start_s == [0, 10, 15]


def test_fifo_backfill_passes_over_the_head() -> None:
    assert run(BLOCKED, "1x4", "fifo-backfill").start_s == [0, 10, 0]


def test_any_policy_can_be_made_strict() -> None:
    trace = jobs((0, 3, 5), (0, 4, 10), (0, 1, 20))
    assert run(trace, "1x4", "sjf").start_s == [0, 20, 0]
    assert run(trace, "1x4", "sjf", policy_params={"strict": True}).start_s == [0, 5, 15]


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ("fifo", [1, 2, 3, 4]),
        ("sjf", [3, 1, 4, 2]),
        ("smallest-first", [4, 2, 3, 1]),
        ("priority", [2, 1, 3, 4]),
    ],
)
def test_order_in_which_waiting_jobs_start(policy: str, order: list[int]) -> None:
    trace = jobs((0, 4, 20), (1, 4, 5), (2, 3, 9), (3, 3, 4), (4, 2, 6), priority=[0, 0, 1, 0, 0])
    start_s = run(trace, "1x4", policy).start_s
    assert sorted([1, 2, 3, 4], key=lambda job: start_s[job]) == order


def test_srtf_displaces_a_job_with_more_work_left_and_it_resumes() -> None:
    result = run(jobs((0, 1, 10), (4, 1, 3), (5, 1, 3)), "1x1", "srtf")
    assert result.finish_s == [16, 7, 10]
    assert result.preemptions == [1, 0, 0]
    assert [(time_s, kind, job) for time_s, kind, job, _ in result.rows][:3] == [
        (0, K.START, 0),
        (4, K.SUSPEND, 0),
        (4, K.START, 1),
    ]


def test_las_takes_turns_at_multiples_of_the_quantum() -> None:
    """They swap at 3600 and 10800; at 7200 and 14400 both have run as long, and the lower index goes first."""
    result = run(jobs((0, 1, 10000), (0, 1, 10000)), "1x1", "las")
    assert result.finish_s == [17200, 20000]
    assert result.preemptions == [2, 2]


def test_equal_keys_do_not_displace_and_the_earlier_job_goes_first() -> None:
    result = run(jobs((0, 1, 10), (4, 1, 6)), "1x1", "srtf")
    assert result.finish_s == [10, 16]
    assert result.preemptions == [0, 0]


def test_a_job_of_no_length_ends_at_the_instant_it_starts_and_another_pass_follows() -> None:
    result = run(jobs((3, 1, 0), (3, 1, 2)), "1x1", "fifo")
    assert result.start_s == [3, 3]
    assert result.finish_s == [3, 5]


# Preemption


def test_released_jobs_get_their_own_gpus_back() -> None:
    """Job 0 ranks lowest and is released first, but only job 1 is in the way of job 2."""
    cluster = nodes(1, 1, gpu_type=["V100", "T4"])
    trace = jobs((0, 1, 100), (0, 1, 50), (5, 1, 10), gpu_type=["V100", "T4", "T4"])
    result = run(trace, cluster, "srtf")
    assert result.finish_s == [100, 60, 15]
    assert result.preemptions == [0, 1, 0]


def test_if_it_never_fits_everything_is_put_back() -> None:
    """Job 2 could only run beside job 0, which ranks above it."""
    trace = jobs((0, 1, 10), (0, 1, 60), (5, 2, 30))
    result = run(trace, "1x2", "srtf")
    assert result.start_s == [0, 0, 10]
    assert result.preemptions == [0, 1, 0]
    assert [row[:3] for row in result.rows if row[0] == 5] == []


def test_a_suspended_job_is_walked_in_the_same_pass() -> None:
    """Job 0 (any type) makes way on the T4 and moves to the V100, which frees at that instant."""
    cluster = nodes(1, 1, gpu_type=["T4", "V100"])
    trace = jobs((0, 1, 50), (0, 1, 5), (5, 1, 10), gpu_type=[None, "V100", "T4"])
    result = run(trace, cluster, "srtf", resume_cost_s=2.0)
    at_five = [row for row in result.rows if row[0] == 5]
    assert at_five == [
        (5, K.FINISH, 1, 0),
        (5, K.SUSPEND, 0, Reason.OUTRANKED),
        (5, K.START, 2, (0,)),
        (5, K.START, 0, (1,)),
    ]
    assert result.finish_s == [5 + 2 + 45, 5, 15]


def test_victims_are_recorded_best_rank_first_before_the_start_that_displaced_them() -> None:
    result = run(jobs((0, 1, 30), (0, 1, 20), (5, 2, 10)), "1x2", "srtf")
    assert [row[1:3] for row in result.rows if row[0] == 5] == [(K.SUSPEND, 1), (K.SUSPEND, 0), (K.START, 2)]
    assert result.finish_s == [40, 30, 15]


def test_costs_of_starting_and_resuming() -> None:
    """Job 0 works 2..5, is displaced, and starts again at 10 + 3 with 7 left."""
    result = run(jobs((0, 1, 10), (5, 1, 3)), "1x1", "srtf", start_cost_s=2.0, resume_cost_s=3.0)
    assert result.finish_s == [10 + 3 + 7, 5 + 2 + 3]
    assert result.ran_s == [10, 3]


def test_no_work_is_done_while_a_start_costs() -> None:
    """Job 0 is displaced after 1 of its 2 seconds of start cost."""
    result = run(jobs((0, 1, 10), (1, 1, 3)), "1x1", "srtf", start_cost_s=2.0, resume_cost_s=3.0)
    assert result.finish_s == [6 + 3 + 10, 6]


# Tiresias


def test_tiresias_demotes_at_the_exact_moment_of_the_threshold() -> None:
    trace = jobs((0, 1, 10), (2, 1, 4))
    result = run(trace, "1x1", "tiresias", policy_params={"thresholds": [5.0]})
    assert result.finish_s == [14, 9]
    assert result.preemptions == [1, 0]


def test_tiresias_counts_service_in_gpu_seconds() -> None:
    trace = jobs((0, 2, 10), (0, 2, 10))
    result = run(trace, "1x2", "tiresias", policy_params={"thresholds": [8.0]})
    assert result.start_s == [0, 4]


def test_tiresias_orders_a_queue_by_first_start() -> None:
    """Both are in the last queue from 8 on; job 0 started first and takes over."""
    trace = jobs((0, 1, 20), (0, 1, 20))
    result = run(trace, "1x1", "tiresias", policy_params={"thresholds": [4.0]})
    assert result.finish_s == [24, 40]


def test_tiresias_promotes_who_waits_as_long_as_it_ran() -> None:
    """The two take turns of 4 s: a demotion and a promotion fall on each multiple of 4."""
    trace = jobs((0, 1, 20), (0, 1, 20))
    result = run(trace, "1x1", "tiresias", policy_params={"thresholds": [4.0], "knob": 1.0})
    assert result.finish_s == [36, 40]
    assert result.preemptions == [4, 4]


# EASY backfilling


@pytest.mark.parametrize(
    ("backfiller", "start_s"),
    [
        pytest.param((0, 2, 10), 0, id="expected to end just by the shadow time"),
        pytest.param((0, 2, 11), 15, id="would delay the head"),
        pytest.param((0, 3, 1), 15, id="does not fit now"),
    ],
)
def test_easy_backfills_what_ends_by_the_shadow_time(backfiller: tuple[float, int, float], start_s: float) -> None:
    trace = jobs((0, 2, 10), (0, 4, 5), backfiller)
    assert run(trace, "1x4", "easy-backfill").start_s == [0, 10, start_s]


def test_easy_backfills_beside_the_reservation_only_what_is_left_there() -> None:
    """At 10 there are 5 free for a head of 4: one long job may take the fifth, a second may not."""
    trace = jobs((0, 3, 10), (0, 4, 5), (0, 1, 100), (0, 1, 100))
    assert run(trace, "1x5", "easy-backfill").start_s == [0, 10, 0, 15]


def test_easy_goes_by_the_estimates_it_is_given() -> None:
    """The backfiller says 10 and runs 20: the head starts late."""
    trace = jobs((0, 2, 10), (0, 4, 5), (0, 2, 20), estimate_s=[10.0, 5.0, 10.0])
    assert run(trace, "1x4", "easy-backfill").start_s == [0, 20, 0]
    exact = run(trace, "1x4", "easy-backfill", policy_params={"estimate": "exact"})
    assert exact.start_s == [0, 10, 15]


def test_easy_takes_an_overdue_job_to_end_now() -> None:
    """At 6 job 0 is overdue, so the shadow time is now and nothing is backfilled."""
    trace = jobs((0, 2, 10), (6, 4, 5), (6, 2, 1), estimate_s=[5.0, 5.0, 1.0])
    assert run(trace, "1x4", "easy-backfill").start_s == [0, 10, 15]


def test_easy_counts_the_cost_of_the_start() -> None:
    trace = jobs((0, 2, 10), (0, 4, 5), (0, 2, 10), (0, 2, 9))
    result = run(trace, "1x4", "easy-backfill", start_cost_s=1.0)
    assert result.start_s == [0, 11, 0, 17]


# Tenants


def tenant(name: str, quota: int | None = None, weight: float = 1.0) -> TenantSpec:
    return TenantSpec(name, quota, weight)


def test_a_tenant_at_its_quota_waits_and_others_pass() -> None:
    cluster = nodes(4, tenants=[tenant("red", 2)])
    trace = jobs((0, 1, 5), (0, 1, 7), (0, 1, 1), (0, 2, 1), tenant=["red", "red", "red", "green"])
    assert run(trace, cluster).start_s == [0, 0, 5, 0]


def test_a_share_counts_in_the_quota_as_its_fraction() -> None:
    cluster = nodes(4, tenants=[tenant("red", 1)])
    trace = jobs((0, 1, 5), (0, 1, 5), (0, 1, 5), tenant=["red"] * 3, gpu_share_milli=[500, 250, 500])
    assert run(trace, cluster).start_s == [0, 0, 5]


def test_a_released_job_is_suspended_when_the_quota_is_gone() -> None:
    cluster = nodes(4, tenants=[tenant("red", 2)])
    result = run(jobs((0, 1, 50), (5, 2, 10), tenant=["red", "red"]), cluster, "srtf")
    assert result.finish_s == [60, 15]


def test_drf_starts_the_tenant_with_the_smaller_dominant_share() -> None:
    trace = jobs(*[(0, 1, 10)] * 4, tenant=["red", "red", "green", "green"])
    assert run(trace, "1x2", "drf").start_s == [0, 10, 0, 10]


def test_drf_divides_by_the_weight() -> None:
    cluster = nodes(3, tenants=[tenant("red", weight=2.0)])
    trace = jobs(*[(0, 1, 10)] * 6, tenant=["green"] * 3 + ["red"] * 3)
    assert run(trace, cluster, "drf").start_s == [0, 10, 10, 0, 0, 10]


def test_drf_looks_at_cpu_where_every_node_states_it() -> None:
    """Red's first job holds 1/4 of the GPUs but 3/5 of the CPU, more than green with two jobs."""
    trace = jobs(
        *[(0, 1, 10)] * 5,
        tenant=["red", "red", "green", "green", "green"],
        cpu_milli=[2400, 500, 500, 500, 500],
    )
    assert run(trace, nodes(4, cpu_milli=[4000]), "drf").start_s == [0, 10, 0, 0, 0]
    assert run(trace, nodes(4), "drf").start_s == [0, 0, 0, 0, 10]


def test_fair_share_starts_the_tenant_that_used_less() -> None:
    trace = jobs((0, 1, 4), (1, 1, 1), (2, 1, 1), tenant=["red", "red", "green"])
    assert run(trace, "1x1", "fair-share").start_s == [0, 5, 4]


def test_old_usage_counts_less() -> None:
    """Red used 4 GPU-seconds long ago, green 3 just now: only with a long memory is red the one that used more."""
    trace = jobs((0, 1, 4), (100, 1, 3), (101, 1, 1), (101, 1, 1), tenant=["red", "green", "green", "red"])
    assert run(trace, "1x1", "fair-share", policy_params={"half_life_s": 1e6}).start_s == [0, 100, 103, 104]
    assert run(trace, "1x1", "fair-share", policy_params={"half_life_s": 10.0}).start_s == [0, 100, 104, 103]


def test_usage_halves_in_a_half_life_and_is_the_integral_of_what_is_held() -> None:
    usage = Usage(half_life_s=10.0)
    usage.change(0.0, 3.0)
    usage.change(5.0, 0.0)
    steps = [3.0 * 2 ** (-(5.0 - (i + 0.5) / 1000) / 10.0) / 1000 for i in range(5000)]
    assert usage.at(5.0) == pytest.approx(sum(steps))
    assert usage.at(15.0) == pytest.approx(usage.at(5.0) / 2)


# Failures


def test_a_node_failure_kills_every_job_with_a_part_on_it() -> None:
    trace = jobs((0, 4, 10), (0, 1, 10))
    result = run(trace, nodes(2, 2, 1), node_events=[(5.0, 1, False), (7.0, 1, True)])
    assert [row for row in result.rows if 5 <= row[0] <= 7] == [
        (5, K.NODE_DOWN, 1, 0),
        (5, K.KILL, 0, 1),
        (7, K.NODE_UP, 1, 0),
        (7, K.START, 0, (0, 1, 2, 3)),
    ]
    assert result.finish_s == [17, 10]
    assert result.ran_s == [15, 10]
    assert result.preemptions == [0, 0]


def test_work_is_lost_back_to_the_last_checkpoint() -> None:
    events = [(5.0, 0, False), (7.0, 0, True)]
    result = run(jobs((0, 1, 10)), "1x1", node_events=events, checkpoint_s=2.0, start_cost_s=0.5)
    assert result.finish_s == [7 + 0.5 + 6]


def test_a_job_that_ends_as_its_node_fails_has_finished() -> None:
    assert run(jobs((0, 1, 5)), "1x1", node_events=[(5.0, 0, False)]).finish_s == [5]


def test_what_waits_for_nodes_that_are_lost_for_good_is_refused_at_the_end() -> None:
    result = run(jobs((0, 2, 10), (1, 1, 20)), nodes(2, 1), node_events=[(4.0, 0, False)])
    assert result.finish_s == [never, 21]
    assert result.rows[-1] == (21, K.REFUSE, 0, Reason.NOT_ENOUGH_FREE)


def test_attempts_fail_by_the_counter_and_are_tried_again_up_to_the_limit() -> None:
    result = run(jobs((0, 1, 10)), "1x1", job_failures=1.0, retries=1, seed=7)
    first, second = (10 * uniform(7, 0, attempt, 1) for attempt in (0, 1))
    assert result.rows == [
        (0, K.START, 0, (0,)),
        (first, K.FAIL, 0, 1),
        (first, K.START, 0, (0,)),
        (pytest.approx(first + second), K.GIVE_UP, 0, 2),
    ]
    assert result.finish_s == [never]


def test_a_suspension_does_not_begin_a_new_attempt() -> None:
    """The one attempt fails after the same share of the work, however often it is suspended."""
    trace = jobs((0, 1, 10), (1, 1, 2))
    seed = next(s for s in range(1000) if uniform(s, 0, 0, 0) < 0.5 < uniform(s, 1, 0, 0) and uniform(s, 0, 0, 1) > 0.3)
    result = run(trace, "1x1", "srtf", job_failures=0.5, seed=seed)
    assert result.preemptions == [1, 0]
    assert result.rows[-1][:3] == (pytest.approx(2 + 10 * uniform(seed, 0, 0, 1)), K.GIVE_UP, 0)


# Refusals


def test_every_refusal_has_its_reason() -> None:
    cluster = nodes(
        4,
        4,
        gpu_type=["V100", "T4"],
        cpu_milli=[4000, 4000],
        tenants=[tenant("red", 2)],
    )
    trace = jobs(
        *[(0, 1, 1), (0, 9, 1), (0, 5, 1), (0, 1, 1), (0, 3, 1), (0, 0, 1), (0, 2, 1)],
        gpu_type=["A100", None, "T4", None, None, None, None],
        cpu_milli=[0, 0, 0, 5000, 0, 4001, 0],
        tenant=[None, None, None, None, "red", None, "red"],
    )
    assert run(trace, cluster).refused == [
        Reason.NO_SUCH_GPU_TYPE,
        Reason.TOO_MANY_GPUS,
        Reason.TOO_MANY_GPUS,
        Reason.NODE_TOO_SMALL,
        Reason.OVER_QUOTA,
        Reason.NODE_TOO_SMALL,
        Reason.NONE,
    ]


def test_a_job_is_not_refused_because_nodes_are_down() -> None:
    result = run(jobs((0, 1, 1), (2, 2, 1)), "1x2", node_events=[(1.0, 0, False), (5.0, 0, True)])
    assert result.start_s == [0, 5]


# Placers


def test_consolidate_takes_whole_nodes_first_and_the_tightest_node_for_the_rest() -> None:
    """12 GPUs on nodes of 8: one whole node, and of the others the one with the least free >= 4."""
    result = run(jobs((0, 3, 9), (0, 12, 9)), "3x8")
    assert places(result) == [(0, 1, 2), (3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15)]


def test_consolidate_waits_for_the_fewest_nodes() -> None:
    trace = jobs((0, 5, 10), (0, 5, 20), (0, 6, 1))
    assert run(trace, "2x8").start_s == [0, 0, 10]
    relaxed = run(trace, "2x8", placer_params={"relaxed": True})
    assert relaxed.start_s == [0, 0, 0]
    assert places(relaxed)[2] == (5, 6, 7, 13, 14, 15)


def test_consolidate_needs_whole_nodes_to_be_wholly_free() -> None:
    """3 are free on each of three nodes, but two nodes could hold 9 GPUs: a whole one and one GPU more."""
    result = run(jobs((0, 5, 5), (0, 5, 9), (0, 5, 9), (1, 9, 1)), "3x8")
    assert result.start_s == [0, 0, 0, 5]
    assert places(result)[3] == (0, 1, 2, 3, 4, 5, 6, 7, 13)


def test_consolidate_on_mixed_capacities() -> None:
    """10 GPUs fit two nodes: the largest, and of the rest the tightest that is enough."""
    result = run(jobs((0, 10, 1)), nodes(3, 8, 6, 2))
    assert places(result) == [(3, 4, 5, 6, 7, 8, 9, 10, 17, 18)]


def test_nodes_that_are_down_still_say_how_few_nodes_could_do() -> None:
    trace = jobs((0, 1, 1), (2, 8, 1))
    events = [(1.0, 2, False), (9.0, 2, True)]
    assert run(trace, nodes(4, 4, 8), node_events=events).start_s == [0, 9]
    assert run(trace, nodes(4, 4, 8), placer_params={"relaxed": True}, node_events=events).start_s == [0, 2]


def test_relaxed_takes_the_node_that_can_take_most_and_the_tightest_for_the_rest() -> None:
    """Free are 1, 4, 3, 2: of a job of 6 the second node takes 4, and the fourth the rest."""
    trace = jobs((0, 7, 9), (0, 4, 9), (0, 5, 9), (0, 6, 9), (0, 6, 9))
    result = run(trace, "4x8", placer_params={"relaxed": True})
    assert places(result)[4] == (12, 13, 14, 15, 30, 31)


def test_spread_takes_one_gpu_after_another_where_most_are_free() -> None:
    result = run(jobs((0, 3, 9), (0, 4, 9)), nodes(2, 4, 3), placer="spread")
    assert places(result) == [(2, 3, 6), (0, 1, 4, 7)]


def test_first_fit_prefers_one_node_and_then_fills_by_index() -> None:
    result = run(jobs((0, 3, 9), (0, 4, 9)), nodes(2, 4, 3), placer="first-fit")
    assert places(result) == [(2, 3, 4), (0, 1, 5, 6)]


def test_random_draws_nodes_by_the_counter() -> None:
    for seed in range(20):
        result = run(jobs((0, 1, 1), (0, 3, 1)), "4x2", placer="random", seed=seed)
        node = math.floor(uniform(seed, 0, 0, 2) * 4)
        assert places(result)[0] == (2 * node,)
        left = [0, 1, 2, 3]
        first = left.pop(math.floor(uniform(seed, 1, 0, 2) * 4))
        taken = {first}
        while sum(1 if n == node else 2 for n in taken) < 3:
            taken.add(left.pop(math.floor(uniform(seed, 1, 0, 2 + len(taken)) * len(left))))
        assert {gpu // 2 for gpu in places(result)[1]} == taken


RACKS = [("region", "a"), ("region", "a"), ("region", "b"), ("region", "b")]


def test_rack_takes_the_smallest_domain_and_there_the_tightest() -> None:
    trace = jobs((0, 1, 9), (0, 2, 9), (0, 3, 9))
    result = run(trace, nodes(2, 2, 2, 2, path=RACKS), placer="rack")
    assert places(result) == [(0,), (2, 3), (4, 5, 6)]
    trace = jobs((0, 1, 9), (0, 4, 9), (0, 3, 9))
    result = run(trace, nodes(2, 2, 2, 2, path=RACKS), placer="rack")
    assert places(result) == [(0,), (4, 5, 6, 7), (1, 2, 3)]


def test_rack_goes_outwards_unless_told_to_stay_within() -> None:
    cluster = nodes(2, 2, 2, 2, path=RACKS)
    trace = jobs((0, 1, 9), (0, 1, 5), (0, 2, 9), (0, 3, 9), (0, 5, 9))
    assert run(trace, cluster, placer="rack").start_s == [0, 0, 0, 0, 9]
    within = run(trace, cluster, placer="rack", placer_params={"within": "rack"})
    assert within.refused[4] == Reason.TOO_MANY_GPUS
    one_node = run(trace, cluster, placer="rack", placer_params={"within": "node"})
    assert one_node.refused == [0, 0, 0, Reason.TOO_MANY_GPUS, Reason.TOO_MANY_GPUS]


def test_racks_of_the_same_name_in_two_regions_are_two_racks() -> None:
    cluster = nodes(2, 2, path=[("east", "a"), ("west", "a")])
    result = run(jobs((0, 4, 1)), cluster, placer="rack", placer_params={"within": "rack"})
    assert result.refused == [Reason.TOO_MANY_GPUS]


def test_a_share_goes_to_the_tightest_gpu() -> None:
    trace = jobs(*[(0, 1, 9)] * 4, gpu_share_milli=[500, 250, 500, 250])
    assert places(run(trace, "1x2")) == [(0,), (0,), (1,), (0,)]
    assert places(run(trace, "1x2", placer="spread")) == [(0,), (1,), (1,), (0,)]
    assert places(run(trace, "1x2", placer="first-fit")) == [(0,), (0,), (1,), (0,)]


def test_a_gpu_with_a_share_on_it_is_not_free_for_a_gang() -> None:
    trace = jobs((0, 1, 5), (0, 2, 1), gpu_share_milli=[125, 1000])
    assert run(trace, "1x2").start_s == [0, 5]


def test_fragmentation_leaves_what_the_other_jobs_can_use() -> None:
    """A quarter on the half-used GPU would leave a quarter that no half fits on; on the other it harms nobody."""
    trace = jobs(*[(0, 1, 9)] * 5, gpu_share_milli=[500, 250, 500, 500, 500])
    assert places(run(trace, "1x2", placer="fragmentation"))[:2] == [(0,), (1,)]
    assert places(run(trace, "1x2", placer="consolidate"))[:2] == [(0,), (0,)]


def test_fragmentation_keeps_a_gpu_type_for_those_who_need_it() -> None:
    """Most jobs want the T4, so a job that takes any goes to the V100, whose GPUs they can't use anyway."""
    cluster = nodes(2, 2, gpu_type=["T4", "V100"])
    trace = jobs((0, 1, 9), (1, 1, 9), (1, 1, 9), gpu_type=[None, "T4", "T4"])
    assert places(run(trace, cluster, placer="fragmentation"))[0] == (2,)


# CPU and memory


def test_a_cpu_job_goes_to_the_first_node_with_room() -> None:
    cluster = nodes(1, 1, cpu_milli=[2000, 4000])
    trace = jobs((0, 0, 5), (0, 0, 5), (0, 0, 5), (0, 1, 5), cpu_milli=[1500, 1500, 3000, 500])
    result = run(trace, cluster, placer="spread")
    assert result.start_s == [0, 0, 5, 0]
    assert places(result) == [(-1,), (-2,), (-2,), (0,)]


def test_a_node_provides_its_part_of_the_cpu_rounded_up() -> None:
    trace = jobs((0, 4, 1), cpu_milli=[1001])
    assert run(trace, nodes(2, 2, cpu_milli=[501, 501])).start_s == [0]
    assert run(trace, nodes(2, 2, cpu_milli=[501, 500])).refused == [Reason.NODE_TOO_SMALL]


def test_memory_limits_what_a_node_can_take() -> None:
    trace = jobs((0, 4, 1), memory_mib=[4000])
    result = run(trace, nodes(4, 4, memory_mib=[1000, 3000]), placer="first-fit")
    assert places(result) == [(0, 4, 5, 6)]


def test_a_gang_goes_at_the_speed_of_its_slowest_gpu() -> None:
    base = parse_cluster_shape("1x1@old+1x1@new")
    cluster = ClusterSpec(base.nodes, speeds={"old": 0.5})
    trace = jobs((0, 1, 4), (0, 1, 4), (10, 2, 4), gpu_type=["old", "new", None])
    assert run(trace, cluster).finish_s == [8, 4, 18]


# What must always hold


POLICIES: list[tuple[str, dict[str, Any]]] = [
    ("fifo", {}),
    ("fifo-backfill", {"preempt": True}),
    ("easy-backfill", {}),
    ("sjf", {"strict": True}),
    ("srtf", {}),
    ("srsf", {"quantum": 7.0}),
    ("smallest-first", {}),
    ("las", {"quantum": 3.0}),
    ("priority", {"preempt": True}),
    ("fair-share", {"half_life_s": 50.0, "preempt": True}),
    ("drf", {"preempt": True}),
    ("tiresias", {"thresholds": [8.0, 32.0], "knob": 2.0}),
]
PLACERS: list[tuple[str, dict[str, Any]]] = [
    ("consolidate", {}),
    ("consolidate", {"relaxed": True}),
    ("spread", {}),
    ("first-fit", {}),
    ("random", {}),
    ("rack", {}),
    ("fragmentation", {}),
]


@pytest.mark.parametrize(("policy", "policy_params"), POLICIES)
def test_random_runs_are_possible_and_lose_no_work(policy: str, policy_params: dict[str, Any]) -> None:
    for number, (placer, placer_params) in enumerate(PLACERS):
        for seed in range(3 * number, 3 * number + 3):
            trace, cluster, options = random_case(seed, random_features(seed))
            result = simulate(trace, cluster, policy, policy_params, placer, placer_params, options)
            check(trace, cluster, options, result)


def test_random_cases_depend_on_nothing_but_the_seed_and_hold_what_was_asked_for() -> None:
    for seed in range(50):
        trace, cluster, options = random_case(seed, FEATURES)
        again, same_cluster, same_options = random_case(seed, FEATURES)
        assert (cluster, options) == (same_cluster, same_options)
        assert all(np.array_equal(trace.columns()[name], again.columns()[name]) for name in ("submit_s", "gpus"))
        assert 3 <= len(trace) <= 30
        assert trace.submit_s[0] == 0
        assert (np.diff(trace.submit_s) >= 0).all()
        bare, _, bare_options = random_case(seed)
        assert set(bare.columns()) == {"submit_s", "gpus", "duration_s"}
        assert bare_options == Options(seed=seed)


def test_the_checks_find_a_gpu_that_is_booked_twice() -> None:
    trace, cluster = jobs((0, 1, 5), (0, 1, 5)), parse_cluster_shape("1x2")
    result = simulate(trace, cluster, "fifo", {}, "consolidate", {})
    time_s, kind, job, _ = result.rows[1]
    result.rows[1] = (time_s, kind, job, (0,))
    with pytest.raises(AssertionError, match="does not fit"):
        check(trace, cluster, Options(), result)
