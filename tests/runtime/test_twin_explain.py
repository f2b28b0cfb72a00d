"""Every reason that a job can have to wait, each by a case small enough to be worked out by hand, with its sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fairlead.model.cluster import ClusterSpec, NodeSpec, TenantSpec, parse_cluster_shape
from fairlead.model.errors import InputError
from fairlead.model.plan import Plan
from fairlead.model.reason import Reason
from fairlead.policy.base import Planner
from fairlead.policy.registry import policies
from fairlead.runtime.live_jobs import LiveJob, Standing, Status
from fairlead.runtime.twin import Explanation, Moment, explain
from fairlead.runtime.twin.words import Clock, asks_text, gpus_text, named
from fairlead.state.view import View

#: 2026-09-21 14:13:20 UTC
NOW = 1_790_000_000.0
MIN, HOUR = 60.0, 3600.0


def running(name: str, gpus: tuple[int, ...], left: float | None = None, **asks: Any) -> tuple[LiveJob, Standing]:
    """It has run for an hour, and has `left` seconds to go."""
    duration = None if left is None else HOUR + left
    job = LiveJob(name, NOW - HOUR, sum(gpu >= 0 for gpu in gpus), duration, **asks)
    return job, Standing(Status.RUNNING, gpus, NOW - HOUR, NOW - HOUR, starts=1)


def waiting(name: str, gpus: int, length: float = HOUR, **asks: Any) -> tuple[LiveJob, Standing]:
    return LiveJob(name, NOW - MIN, gpus, length, **asks), Standing(Status.WAITING, since_s=NOW - MIN)


def at(spec: str | ClusterSpec, *jobs: tuple[LiveJob, Standing], policy: str = "fifo-backfill", **more: Any) -> Moment:
    spec = parse_cluster_shape(spec) if isinstance(spec, str) else spec
    return Moment(spec, policy, more.pop("placer", "consolidate"), NOW, jobs, **more)


def why(moment: Moment, job: str = "w") -> tuple[Reason, str]:
    found = explain(moment, job)
    return found.reason, found.sentence


# -- waiting ------------------------------------------------------------------------------------------------------------------


def test_not_enough_free_says_how_many_are_and_who_frees_them_where_and_when() -> None:
    moment = at("2x4", running("812", (0, 1, 2, 3), 100 * MIN), running("813", (4,), 2 * HOUR), waiting("w", 4))
    assert why(moment) == (
        Reason.NOT_ENOUGH_FREE,
        (
            "needs 4 GPUs on one node; 3 of 8 are free, at most 3 on one node; "
            "node-0 frees 4 at about 15:53 when job 812 ends; number 1 of 1 in the queue"
        ),
    )
    found = explain(moment, "w")
    assert found.waits_for == ("812",)
    assert (found.rank, found.waiting, found.ahead, found.free_gpus) == (1, 1, (), 3)
    assert (found.expected.start_s, found.expected.finish_s) == (NOW + 100 * MIN, NOW + 160 * MIN)


def test_several_nodes_and_several_jobs_are_named() -> None:
    jobs = [running("a", (0, 1, 2, 3), HOUR), running("b", (4, 5, 6, 7), HOUR)]
    assert why(at("2x4", *jobs, waiting("w", 8))) == (
        Reason.NOT_ENOUGH_FREE,
        (
            "needs 8 GPUs on 2 nodes; 0 of 8 are free; "
            "node-0 and node-1 free 8 at about 15:13 when jobs a and b end; number 1 of 1 in the queue"
        ),
    )


def test_fragmented_says_how_many_are_free_together() -> None:
    moment = at("2x4", running("a", (0, 1), HOUR), running("b", (4, 5), 2 * HOUR), waiting("w", 4))
    assert why(moment) == (
        Reason.FRAGMENTED,
        (
            "needs 4 GPUs on one node; 4 of 8 are free, but at most 2 on one node; "
            "node-0 frees 2 at about 15:13 when job a ends; number 1 of 1 in the queue"
        ),
    )


def test_fragmented_by_what_the_placer_wants() -> None:
    racks = ClusterSpec(tuple(NodeSpec(f"n{i}", 2, path=(f"r{i // 2}",)) for i in range(4)), levels=("rack",))
    jobs = [running("a", (0, 1), HOUR), running("b", (4, 5), 2 * HOUR), waiting("w", 4)]
    reason, sentence = why(at(racks, *jobs, placer="rack:within=rack"))
    assert reason == Reason.FRAGMENTED
    assert sentence.startswith(
        "needs 4 GPUs; 4 of 8 are free, but not as placer rack:within=rack wants them; n0 frees 2"
    )


def test_gpus_without_the_cpu_and_memory_beside_them_are_no_use() -> None:
    spec = ClusterSpec((NodeSpec("n", 4, cpu_milli=16_000, memory_mib=65_536),))
    jobs = [running("a", (0,), HOUR, cpu_milli=12_000), waiting("w", 2, cpu_milli=8_000, memory_mib=16_384)]
    assert why(at(spec, *jobs)) == (
        Reason.FRAGMENTED,
        (
            "needs 2 GPUs on one node; 3 of 4 are free, but not with the 8 CPUs and 16 GiB that it asks for; "
            "n frees 1 at about 15:13 when job a ends; number 1 of 1 in the queue"
        ),
    )


def test_quota_used_says_what_the_tenant_holds_and_may_hold() -> None:
    spec = ClusterSpec(parse_cluster_shape("1x8").nodes, tenants={"vision": TenantSpec("vision", 4)})
    jobs = [running("a", (0, 1, 2), HOUR, tenant="vision"), waiting("w", 2, tenant="vision")]
    found = explain(at(spec, *jobs), "w")
    assert (found.reason, found.sentence) == (
        Reason.QUOTA_USED,
        (
            "needs 2 GPUs; tenant vision holds 3 GPUs of the 4 that it may hold; "
            "node-0 frees 3 at about 15:13 when job a ends; number 1 of 1 in the queue"
        ),
    )
    assert (found.tenant, found.tenant_gpus, found.quota_gpus) == ("vision", 3.0, 4)


def test_a_quota_is_freed_by_a_job_on_another_node() -> None:
    spec = ClusterSpec(parse_cluster_shape("2x4").nodes, tenants={"t": TenantSpec("t", 4)})
    jobs = [running("a", (0, 1, 2, 3), HOUR, tenant="t"), running("b", (4, 5), 2 * HOUR), waiting("w", 2, tenant="t")]
    assert why(at(spec, *jobs))[1] == (
        "needs 2 GPUs; tenant t holds 4 GPUs of the 4 that it may hold; "
        "expected to start at about 15:13 when job a ends; number 1 of 1 in the queue"
    )


def test_behind_the_head_of_a_strict_queue() -> None:
    moment = at("1x4", running("a", (0,), HOUR), waiting("head", 4), waiting("x", 2), waiting("w", 1), policy="fifo")
    found = explain(moment, "w")
    assert (found.reason, found.sentence) == (
        Reason.BEHIND_HEAD,
        (
            "waits behind job head, the head of the queue, which needs 4 GPUs and is expected to start at about 15:13; "
            "3 of 4 are free; node-0 frees 4 at about 16:13 when job head ends; number 3 of 3 in the queue"
        ),
    )
    assert found.ahead == ("head", "x")
    assert explain(moment, "head").reason == Reason.NOT_ENOUGH_FREE


def test_behind_the_head_of_its_tenants_queue() -> None:
    spec = ClusterSpec(parse_cluster_shape("1x4").nodes, tenants={"t": TenantSpec("t", 2), "u": TenantSpec("u", 2)})
    jobs = [
        running("a", (0,), HOUR, tenant="t"),
        waiting("other", 2, tenant="u"),
        waiting("head", 2, tenant="t"),
        waiting("w", 1, tenant="t"),
    ]
    moment = at(spec, *jobs, policy="quota")
    assert explain(moment, "head").reason == Reason.QUOTA_USED
    assert explain(moment, "other").sentence.startswith("starts now; expected to end at about 15:13")
    reason, sentence = why(moment)
    assert reason == Reason.BEHIND_HEAD
    assert sentence.endswith("number 2 of 2 in the queue of tenant t")


def test_reserved_says_whose_start_it_would_delay() -> None:
    moment = at(
        "1x4", running("a", (0, 1), HOUR), waiting("head", 4), waiting("w", 2, 2 * HOUR), policy="easy-backfill"
    )
    assert why(moment) == (
        Reason.RESERVED,
        (
            "needs 2 GPUs, and 2 of 4 are free; starting now it would delay job head, whose start at about 15:13 is reserved; "
            "node-0 frees 4 at about 16:13 when job head ends; number 2 of 2 in the queue"
        ),
    )


class Idle(Planner):
    """Starts nobody."""

    name = "idle"

    def plan(self, view: View, now: float) -> Plan:
        return Plan(())


def test_a_planner_that_leaves_gpus_free_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(policies(), "idle", Idle)
    reason, sentence = why(at("1x4", waiting("w", 2), policy="idle"))
    assert reason == Reason.PLANNED
    assert sentence == (
        "needs 2 GPUs on one node, and 4 of 4 are free; policy idle gives it none of them now; "
        "not even the end of all that runs makes room for it; number 1 of 1 in the queue"
    )


def test_a_share_and_a_cpu_job_say_what_is_left() -> None:
    spec = ClusterSpec((NodeSpec("n", 1, cpu_milli=4_000, memory_mib=4_096),))
    half = running("half", (0,), HOUR, share_milli=600, cpu_milli=4_000)
    assert why(at(spec, half, waiting("w", 1, share_milli=500))) == (
        Reason.NOT_ENOUGH_FREE,
        (
            "needs 0.5 of a GPU; at most 0.4 of one is free; "
            "n has room at about 15:13 when job half ends; number 1 of 1 in the queue"
        ),
    )
    assert why(at(spec, half, waiting("w", 0, cpu_milli=2_000, memory_mib=1_024))) == (
        Reason.NOT_ENOUGH_FREE,
        (
            "needs 2 CPUs and 1 GiB on one node; no node has that left; "
            "n has room at about 15:13 when job half ends; number 1 of 1 in the queue"
        ),
    )


def test_only_gpus_of_the_type_that_it_needs_are_counted() -> None:
    reason, sentence = why(at("1x4@T4+1x2@H200", running("a", (4,), HOUR), waiting("w", 2, gpu_type="H200")))
    assert reason == Reason.NOT_ENOUGH_FREE
    assert sentence.startswith("needs 2 H200 GPUs on one node; 1 of 2 is free, at most 1 on one node; node-1 frees 1")


def test_gpus_on_closed_nodes_are_not_free_and_are_said_where_nothing_else_helps() -> None:
    moment = at("2x4", running("a", (0, 1, 2, 3), HOUR), waiting("w", 8), down=frozenset({1}))
    assert why(moment) == (
        Reason.NOT_ENOUGH_FREE,
        (
            "needs 8 GPUs on 2 nodes; 0 of 8 are free; "
            "not even the end of all that runs makes room for it; 4 GPUs are on nodes that take no jobs; "
            "number 1 of 1 in the queue"
        ),
    )


def test_the_job_that_it_waits_for_may_have_a_length_that_is_assumed() -> None:
    sentence = why(at("1x1", running("a", (0,)), waiting("w", 1)))[1]
    assert (
        "node-0 frees 1 at about 2026-09-22 13:13 when job a ends (assumed 24 h, since the job gave no estimate)"
        in sentence
    )


def test_a_job_that_was_suspended_waits_again_and_may_have_another_suspended_for_it() -> None:
    """las with a tick at 14:20: by then `a`, which has run for 30 s so far, has run longer than `w`, which ran for a minute."""
    job = LiveJob("w", NOW - HOUR, 1, 3 * HOUR)
    stands = Standing(Status.WAITING, (), NOW - 30, NOW - 90, starts=1, preemptions=1, ran_s=60.0, done_s=60.0)
    a = LiveJob("a", NOW - 30, 1, HOUR), Standing(Status.RUNNING, (0,), NOW - 30, NOW - 30, starts=1)
    assert why(at("1x1", (job, stands), a, policy="las:quantum=600")) == (
        Reason.NOT_ENOUGH_FREE,
        (
            "waits again since 14:12:50; needs 1 GPU; 0 of 1 are free; "
            "node-0 frees 1 at about 14:20:00 when job a is suspended for it; number 1 of 1 in the queue"
        ),
    )


def test_the_order_of_the_queue_is_the_policys() -> None:
    jobs = [running("a", (0,), HOUR), *(waiting(f"w{i}", 1, 1000.0 - i) for i in range(15)), waiting("w", 1, 990.5)]
    found = explain(at("1x1", *jobs, policy="sjf"), "w")
    assert (found.rank, found.waiting) == (6, 16)
    assert found.ahead == ("w14", "w13", "w12", "w11", "w10")
    longest = explain(at("1x1", *jobs, policy="sjf"), "w0")
    assert (longest.rank, len(longest.ahead)) == (16, 10)


def test_the_order_of_tenants_goes_before_that_of_their_jobs() -> None:
    jobs = [running("a", (0,), HOUR), waiting("x", 1, tenant="rich"), waiting("w", 1, tenant="poor")]
    moment = at("1x1", *jobs, policy="fair-share", used={"rich": (9e9, NOW), "poor": (1.0, NOW)})
    assert explain(moment, "w").rank == 1
    assert explain(moment, "x").ahead == ("w",)


# -- not waiting --------------------------------------------------------------------------------------------------------------


def test_a_running_job_says_where_since_when_and_until_when() -> None:
    found = explain(at("2x4", running("r", (1, 2, 3, 4), 25 * HOUR)), "r")
    assert found.sentence == (
        "runs on node-0 (GPUs 1-3) and node-1 (GPU 0) since 13:13; expected to end at about 2026-09-22 15:13"
    )
    assert (found.reason, found.nodes, found.since_s) == (Reason.NONE, ("node-0", "node-1"), NOW - HOUR)
    assert (found.rank, found.waits_for) == (0, ())


def test_a_held_job_and_one_that_starts_now() -> None:
    held = LiveJob("h", NOW, 1, 60.0), Standing(Status.HELD)
    assert why(at("1x1", held), "h") == (Reason.NONE, "is held until someone resumes it")
    assert why(at("1x1").with_job(LiveJob("w", 0.0, 1, 60.0))) == (
        Reason.NONE,
        "starts now; expected to end at about 14:14:20",
    )


TYPED = ClusterSpec(
    (NodeSpec("n0", 4, "H200", cpu_milli=32_000, memory_mib=131_072), NodeSpec("n1", 2, "T4", cpu_milli=8_000)),
    tenants={"t": TenantSpec("t", 2)},
)
REFUSED: Mapping[Reason, tuple[dict[str, Any], str]] = {
    Reason.NO_SUCH_GPU_TYPE: ({"gpus": 1, "gpu_type": "V100"}, "needs 1 V100 GPU; the cluster's GPUs are H200, T4"),
    Reason.TOO_MANY_GPUS: ({"gpus": 5, "gpu_type": "H200"}, "needs 5 H200 GPUs; the cluster has 4"),
    Reason.NODE_TOO_SMALL: (
        {"gpus": 1, "cpu_milli": 64_000, "memory_mib": 1_024},
        "needs 1 GPU with 64 CPUs and 1 GiB; the largest node has 32 CPUs and 128 GiB",
    ),
    Reason.OVER_QUOTA: ({"gpus": 3, "tenant": "t"}, "needs 3 GPUs; tenant t may hold 2"),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_job_that_can_never_run_says_why_in_numbers(reason: Reason) -> None:
    asks, sentence = REFUSED[reason]
    found = explain(at(TYPED).with_job(LiveJob("w", 0.0, **asks)), "w")
    assert (found.reason, found.sentence) == (reason, f"can never run here: {sentence}")
    assert found.expected.finish_s is None


def test_a_gang_that_the_placer_can_never_place_says_what_the_largest_node_has() -> None:
    racks = ClusterSpec(tuple(NodeSpec(f"n{i}", 2, path=(f"r{i}",)) for i in range(4)), levels=("rack",))
    assert why(at(racks, placer="rack:within=rack").with_job(LiveJob("w", 0.0, 4))) == (
        Reason.TOO_MANY_GPUS,
        (
            "can never run here: needs 4 GPUs; placer rack:within=rack could not place them on an empty cluster of 8, "
            "2 on its largest node"
        ),
    )


def test_a_job_that_waits_over_a_quota_that_was_lowered_is_told_so() -> None:
    spec = ClusterSpec(parse_cluster_shape("1x4").nodes, tenants={"t": TenantSpec("t", 1)})
    assert why(at(spec, waiting("w", 2, tenant="t"))) == (
        Reason.OVER_QUOTA,
        "can never run here: needs 2 GPUs; tenant t may hold 1",
    )


def test_a_job_that_is_not_there_is_an_error() -> None:
    with pytest.raises(InputError, match="no such job waits or runs; got 'x'"):
        explain(at("1x1"), "x")


# -- for whom -----------------------------------------------------------------------------------------------------------------


def test_jobs_that_the_reader_may_not_see_are_neither_named_nor_measured() -> None:
    jobs = [running("812", (0, 1, 2, 3), 100 * MIN), running("813", (4,), 2 * HOUR), waiting("w", 4)]
    found = explain(at("2x4", *jobs), "w")
    assert found.told(lambda job: False) == (
        "needs 4 GPUs on one node; 3 of 8 are free, at most 3 on one node; "
        "node-0 has room at about 15:53 when another job ends; number 1 of 1 in the queue"
    )
    assert found.told(lambda job: job == "812") == found.sentence
    told = found.to_json(lambda job: False)
    assert (told["ahead"], told["waits_for"], "812" in told["message"]) == ([], [], False)


def test_several_jobs_of_others_are_counted_and_what_they_said_of_their_length_is_not_told() -> None:
    found = explain(at("2x4", running("a", (0, 1, 2, 3)), running("b", (4, 5, 6, 7)), waiting("w", 8)), "w")
    for reader in (lambda job: False, lambda job: job == "a"):
        assert (
            "node-0 and node-1 have room at about 2026-09-22 13:13 when 2 other jobs end (2 lengths are assumed)"
            in (found.told(reader))
        )
        assert found.to_json(reader)["waits_for"] == [job for job in "ab" if reader(job)]


def test_the_head_of_the_queue_is_another_job_to_whom_it_is_not_to_be_known() -> None:
    moment = at("1x4", running("a", (0,), HOUR), waiting("head", 4), waiting("w", 1), policy="fifo")
    assert explain(moment, "w").told(lambda job: False) == (
        "waits behind another job, the head of the queue, which is expected to start at about 15:13; 3 of 4 are free; "
        "node-0 has room at about 16:13 when another job ends; number 2 of 2 in the queue"
    )
    jobs = [running("a", (0, 1), HOUR), waiting("head", 4), waiting("w", 2, 2 * HOUR)]
    assert explain(at("1x4", *jobs, policy="easy-backfill"), "w").told(lambda job: job == "a") == (
        "needs 2 GPUs, and 2 of 4 are free; starting now it would delay another job, whose start at about 15:13 is reserved; "
        "node-0 has room at about 16:13 when another job ends; number 2 of 2 in the queue"
    )


# -- words --------------------------------------------------------------------------------------------------------------------


def test_times_are_local_with_the_date_of_another_day_and_seconds_when_near() -> None:
    clock = Clock(NOW, lambda at_s: 7200.0 if at_s < NOW + HOUR else 3600.0)  # summer time ends in an hour
    assert clock.text(NOW) == "16:13:20"
    assert clock.text(NOW + 599) == "16:23:19"
    assert clock.text(NOW + 601) == "16:23"
    assert clock.text(NOW + HOUR) == "16:13"
    assert clock.text(NOW + 24 * HOUR) == "2026-09-22 15:13"
    assert clock.text(NOW - 24 * HOUR) == "2026-09-20 16:13"


def test_explanations_speak_in_local_time() -> None:
    found = explain(at("1x1", running("r", (0,), HOUR)), "r", ahead_of_utc=lambda at_s: 3600.0)
    assert found.sentence.endswith("since 14:13; expected to end at about 16:13")


def test_sizes_and_lists() -> None:
    assert [gpus_text(n) for n in (0.5, 1, 2.5, 16, 0)] == ["0.5 of a GPU", "1 GPU", "2.5 GPUs", "16 GPUs", "0 GPUs"]
    assert asks_text(LiveJob("", 0.0, 1, gpu_type="H200", share_milli=250)) == "0.25 of a H200 GPU"
    assert named(("1", "2", "3", "4", "5")) == "jobs 1, 2, 3 and 2 others"


def test_the_answer_goes_out_as_json() -> None:
    found: Explanation = explain(at("1x1", running("a", (0,), HOUR), waiting("w", 1)), "w")
    told = found.to_json()
    assert (told["job"], told["status"], told["reason"]) == ("w", "waiting", "not_enough_free")
    assert told["expected_start_s"] == NOW + HOUR
    assert told["message"] == found.sentence
