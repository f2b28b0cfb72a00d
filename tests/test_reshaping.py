"""Jobs on something else than they asked for: halves of GPUs and other numbers of them, by plan, and what the journal tells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from fairlead.model.cluster import ClusterSpec, NodeSpec, TenantSpec, parse_cluster_shape
from fairlead.model.event import EventKind
from fairlead.model.plan import Action, ActionKind, Plan
from fairlead.policy.base import Planner
from fairlead.policy.registry import policies
from fairlead.record.journal_io import read_journal, write_journal
from fairlead.record.metrics import fold_metrics
from fairlead.record.story import story
from fairlead.runtime.planning import IllegalPlan
from fairlead.sim.profiles import Profile, Profiles
from fairlead.sim.run import Run, simulate
from fairlead.state.check import check
from fairlead.state.rules import Options
from fairlead.state.view import View
from fairlead.workload.trace import Names, Trace

START, SUSPEND, MIGRATE, SHARE, RESIZE = ActionKind
K = EventKind
#: gets 0.75 of its speed beside another
HALVES = Profiles(default=Profile(sharing=(1.0, 0.75), utilization=0.5))


class Scripted(Planner):
    """Does what a test wrote down, and packs and resizes."""

    name = "scripted-shapes"
    packs = True
    resizes = True
    script: ClassVar[Callable[[View, float], Plan]]

    def plan(self, view: View, now: float) -> Plan:
        return type(self).script(view, now)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(policies(), Scripted.name, Scripted)


def jobs(*rows: tuple[float, int, float], **columns: Any) -> Trace:
    submit_s, gpus, duration_s = (list(column) for column in zip(*rows))
    return Trace(np.array(submit_s, float), np.array(gpus, np.int32), np.array(duration_s, float), **columns)


def elastic(trace: Trace, least: list[int], most: list[int]) -> Trace:
    return replace(trace, min_gpus=np.array(least, np.int32), max_gpus=np.array(most, np.int32))


def scripted(
    plans: dict[float, tuple[Action, ...]],
    trace: Trace,
    cluster: str | ClusterSpec,
    profiles: Profiles = HALVES,
    **options: Any,
) -> Run:
    left = dict(plans)
    times = sorted(plans)

    def script(view: View, now: float) -> Plan:
        later = [time_s for time_s in times if time_s > now]
        return Plan(left.pop(now, ()), later[0] if later else None)

    Scripted.script = staticmethod(script)
    spec = parse_cluster_shape(cluster) if isinstance(cluster, str) else cluster
    run = simulate(trace, spec, Scripted.name, "consolidate", Options(**options), profiles)
    check(run.state)
    return run


def test_two_jobs_share_a_gpu_at_the_rates_of_their_profile() -> None:
    """30 s of work each. Together until 40, when both are done: 0.75 of 40 s."""
    run = scripted({0.0: (Action(SHARE, 0, (1,)), Action(SHARE, 1, (1,)))}, jobs((0, 1, 30), (0, 1, 30)), "1x2")
    assert run.outcome.finish_s.tolist() == [40.0, 40.0]
    assert run.outcome.held_gpu_s is not None
    assert run.outcome.held_gpu_s.tolist() == [20.0, 20.0]


def test_who_is_left_alone_on_half_a_gpu_runs_at_full_speed() -> None:
    """Job 0 does 9 s of work in 12 s; job 1 has then done 9, and does the rest alone."""
    run = scripted({0.0: (Action(SHARE, 0, (0,)), Action(SHARE, 1, (0,)))}, jobs((0, 1, 9), (0, 1, 30)), "1x1")
    assert run.outcome.finish_s.tolist() == [12.0, 12.0 + 21.0]


def test_without_a_sharing_factor_two_who_asked_for_a_gpu_each_get_half_of_its_time() -> None:
    profiles = Profiles(default=Profile(utilization=0.5))
    run = scripted({0.0: (Action(SHARE, 0, (0,)), Action(SHARE, 1, (0,)))}, jobs((0, 1, 9), (0, 1, 9)), "1x1", profiles)
    assert run.outcome.finish_s.tolist() == [18.0, 18.0]


def test_a_running_job_goes_on_on_half_of_its_gpu_and_back() -> None:
    """It moves at once, as in a migration, and each move costs a resumption."""
    plans = {0.0: (Action(START, 0, (0,)),), 4.0: (Action(SHARE, 0, (0,)),), 8.0: (Action(MIGRATE, 0, (1,)),)}
    run = scripted(plans, jobs((0, 1, 10)), "1x2", resume_cost_s=1.0)
    assert run.journal.kind.tolist() == [K.START, K.SUSPEND, K.START_AS, K.SUSPEND, K.START, K.FINISH]
    assert run.outcome.finish_s.tolist() == [12.0]


@pytest.mark.parametrize(
    ("scale", "finish_s"),
    [
        ((), 4 + 6 / 2.0),  # by the number of GPUs
        ((1.0, 2.0, 2.5, 3.0), 4 + 6 / 1.5),
        ((1.0, 2.0), 4 + 6.0),  # the last holds for more
    ],
)
def test_an_elastic_job_goes_by_its_scale(scale: tuple[float, ...], finish_s: float) -> None:
    profiles = Profiles(default=Profile(scale=scale, utilization=0.5))
    trace = elastic(jobs((0, 2, 10)), [1], [4])
    run = scripted({0.0: (Action(START, 0, (0, 1)),), 4.0: (Action(RESIZE, 0, (0, 1, 2, 3)),)}, trace, "1x4", profiles)
    assert run.outcome.finish_s.tolist() == [finish_s]


def test_fewer_gpus_need_less_cpu_and_half_a_gpu_does_not() -> None:
    cluster = ClusterSpec((NodeSpec("n", 4, cpu_milli=4000),))
    trace = elastic(jobs((0, 2, 8), (0, 1, 8), cpu_milli=np.array([4000, 2000])), [1, 1], [4, 1])
    run = scripted({0.0: (Action(RESIZE, 0, (2,)), Action(SHARE, 1, (0,)))}, trace, cluster)
    assert run.outcome.finish_s.tolist() == [16.0, 8.0]
    with pytest.raises(IllegalPlan, match="milli-CPUs of node 0"):
        scripted({0.0: (Action(START, 0, (2, 3)), Action(SHARE, 1, (0,)))}, trace, cluster)


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (Action(SHARE, 0, (0,)), "job 0 did not ask for one whole GPU"),
        (Action(SHARE, 2, (0,)), "job 2 did not ask for one whole GPU"),
        (Action(RESIZE, 1, (0, 1)), "not elastic"),
        (Action(RESIZE, 0, (0, 1, 2, 3)), "may have 1 to 3 GPUs"),
        (Action(RESIZE, 0, (0, 0)), "2 different GPUs"),
        (Action(SHARE, 1, (9,)), "no GPU 9"),
    ],
)
def test_what_a_job_can_not_run_as_is_refused(action: Action, words: str) -> None:
    trace = elastic(jobs((0, 2, 5), (0, 1, 5), (0, 1, 5)), [1, 1, 1], [3, 1, 1])
    trace = replace(trace, gpu_share_milli=np.array([1000, 1000, 500], np.int32))
    with pytest.raises(IllegalPlan, match=words):
        scripted({0.0: (action,)}, trace, "1x8")


def test_a_third_job_does_not_fit_a_shared_gpu_and_a_quota_counts_halves() -> None:
    three = (Action(SHARE, 0, (0,)), Action(SHARE, 1, (0,)), Action(SHARE, 2, (0,)))
    with pytest.raises(IllegalPlan, match="0 are free"):
        scripted({0.0: three}, jobs(*[(0, 1, 5)] * 3), "1x2")
    cluster = ClusterSpec((NodeSpec("n", 4),), tenants={"red": TenantSpec("red", quota_gpus=1)})
    trace = jobs(*[(0, 1, 5)] * 3, tenant=Names(np.zeros(3, np.int32), ("red",)))
    with pytest.raises(IllegalPlan, match="over its quota"):
        scripted({0.0: (*three[:2], Action(SHARE, 2, (1,)))}, trace, cluster)


def test_a_planner_sees_what_a_job_may_get_and_what_it_has() -> None:
    seen: list[Any] = []

    def look(view: View, now: float) -> Plan:
        seen.append([(job.gpus, job.min_gpus, job.max_gpus, job.gpu_ids, job.held_milli) for job in view.running()])
        if now == 0:
            return Plan((Action(RESIZE, 0, (0, 1, 2)), Action(SHARE, 1, (3,))), wake_s=1.0)
        return Plan()

    Scripted.script = staticmethod(look)
    trace = elastic(jobs((0, 2, 5), (0, 1, 5)), [1, 1], [4, 1])
    simulate(trace, parse_cluster_shape("1x4"), Scripted.name, profiles=HALVES)
    assert seen[1] == [(2, 1, 4, (0, 1, 2), 1000), (1, 1, 1, (3,), 500)]


def test_failures_leave_a_job_what_it_asked_for() -> None:
    """A node that goes down takes a packed job and a grown one with it; started again as themselves, all is counted right."""
    trace = elastic(jobs((0, 2, 9), (0, 1, 9)), [1, 1], [3, 1])
    plans = {
        0.0: (Action(RESIZE, 0, (0, 1, 2)), Action(SHARE, 1, (3,))),
        5.0: (Action(START, 0, (0, 1)), Action(START, 1, (2,))),
    }
    run = scripted(plans, trace, "1x4", node_events=((4.0, 0, False), (5.0, 0, True)))
    assert run.outcome.finish_s.tolist() == [14.0, 14.0]
    assert run.outcome.held_gpu_s is not None
    assert run.outcome.held_gpu_s.tolist() == [3 * 4 + 2 * 9, 0.5 * 4 + 9]
    assert run.lost_gpu_s == pytest.approx(4 * 1.5 * 3 + 4 * 0.5)


def test_the_journal_tells_what_jobs_got_and_survives_being_written(tmp_path: Path) -> None:
    trace = elastic(jobs((0, 2, 8), (0, 1, 8)), [1, 1], [4, 1])
    run = scripted({0.0: (Action(RESIZE, 0, (0, 1, 2)), Action(SHARE, 1, (3,)))}, trace, "1x4")
    assert "1 of" not in story(run.journal, 0)[1]
    assert story(run.journal, 0)[1] == "It started at 0 s, at once, on node-0 (GPUs 0-2), 3 GPUs in all."
    assert story(run.journal, 1)[1] == "It started at 0 s, at once, on node-0 (GPU 3), 0.5 of it."
    metrics = fold_metrics(run.journal, run.outcome)
    assert metrics.held_gpu_s == pytest.approx(3 * 8 * 2 / 3 + 0.5 * 8)
    for ending in ("jsonl", "parquet"):
        path = tmp_path / f"journal.{ending}"
        write_journal(run.journal, path)
        back = read_journal(path)
        assert back.gpu_ids.tolist() == run.journal.gpu_ids.tolist()
        assert fold_metrics(back).held_gpu_s == pytest.approx(metrics.held_gpu_s)
        assert back.sha256 == run.journal.sha256
