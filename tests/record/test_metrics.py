from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from fairlead.model.event import EventKind
from fairlead.model.reason import Reason
from fairlead.record.fairness import finish_time_fairness
from fairlead.record.journal import Journal
from fairlead.record.metrics import core_metrics, fold_metrics
from fairlead.record.outcome import fold_outcome
from fairlead.record.spread import spread

from .brute import walk
from .build import Builder, random_journal


def two_nodes_three_jobs() -> Journal:
    """2 nodes of 4 GPUs. a: GPUs 0-3 from 0 to 10; b: 4, 5 from 0 to 20; c waits for a, then 0-3 from 10 to
    40."""
    build = Builder("2x4", ["x", "y"])
    a = build.job(0, 4, 10, "x")
    b = build.job(0, 2, 20, "y")
    c = build.job(0, 4, 30, "x")
    build.start(0, a, [0, 1, 2, 3]).start(0, b, [4, 5]).finish(10, a).start(10, c, [0, 1, 2, 3])
    return build.finish(20, b).finish(40, c).build()


def test_core_numbers_of_three_jobs() -> None:
    journal = two_nodes_three_jobs()
    core = core_metrics(journal.jobs, fold_outcome(journal), capacity_gpus=8)
    assert (core.jobs, core.finished, core.preemptions, core.makespan_s) == (3, 3, 0, 40)
    assert core.jct_s.mean == pytest.approx((10 + 20 + 40) / 3)
    assert core.jct_s.p50 == 20
    assert core.wait_s.mean == pytest.approx(10 / 3)
    assert core.wait_s.p99 == pytest.approx(9.8)
    assert core.gpu_utilization == pytest.approx((40 + 40 + 120) / (8 * 40))


def test_fragmentation_counts_idle_gpus_beside_busy_ones() -> None:
    # node 0 is full for all of 40 s; node 1 has 2 of 4 idle for 20 s, then stands empty for 20 s
    metrics = fold_metrics(two_nodes_three_jobs())
    assert metrics.fragmentation == pytest.approx(2 * 20 / (2 * 20 + 4 * 20))


def test_rho_compares_with_an_equal_part_of_the_cluster() -> None:
    journal = two_nodes_three_jobs()
    rho = finish_time_fairness(journal, fold_outcome(journal))
    # two tenants until 20 s, one after: a and b had a half (4 GPUs) each, c had 8 / 1.5
    assert rho.tolist() == pytest.approx([1.0, 1.0, 40 / 30])
    metrics = fold_metrics(journal)
    assert metrics.rho_mean == pytest.approx((1 + 1 + 4 / 3) / 3)
    assert metrics.rho_above_1_share == pytest.approx(1 / 3)


def test_rho_of_a_job_larger_than_its_part_allows_for_taking_turns() -> None:
    build = Builder("1x4")
    big, small = build.job(0, 4, 10), build.job(0, 2, 20)
    build.start(0, big, [0, 1, 2, 3]).finish(10, big).start(10, small, [0, 1]).finish(30, small)
    journal = build.build()
    # big: 2 jobs throughout, 2 GPUs each, so 20 s; small: 4/3 jobs on average, its 2 GPUs fit
    assert finish_time_fairness(journal, fold_outcome(journal)).tolist() == pytest.approx([0.5, 1.5])


def test_jain_is_one_when_every_tenant_is_stretched_alike() -> None:
    build = Builder("1x2", ["x", "y"])
    a, b = build.job(0, 1, 10, "x"), build.job(0, 1, 20, "y")
    build.start(10, a, [0]).start(20, b, [1]).finish(20, a).finish(40, b)
    assert fold_metrics(build.build()).jain_index == pytest.approx(1.0)


def test_jain_falls_when_one_tenant_waits() -> None:
    # x: (40 + 120) asked / (40 + 160) lived = 0.8; y: 1
    assert fold_metrics(two_nodes_three_jobs()).jain_index == pytest.approx(1.8**2 / (2 * (0.64 + 1)))


def test_waste_is_what_was_held_beyond_the_work_asked_for() -> None:
    build = Builder("1x4")
    slow, lost, hopeless = build.job(0, 2, 10), build.job(0, 1, 10), build.job(0, 1, 10)
    build.start(0, slow, [0, 1]).start(0, lost, [2]).start(0, hopeless, [3])
    build.row(4, EventKind.FAIL, lost, 1).start(5, lost, [2])
    build.row(6, EventKind.GIVE_UP, hopeless, 1).finish(13, slow).finish(15, lost)
    metrics = fold_metrics(build.build())
    assert metrics.wasted_gpu_s == pytest.approx(2 * 3 + 4 + 6)
    assert metrics.computing_gpu_s == pytest.approx(2 * 10 + 10)
    assert metrics.gpu_computing == pytest.approx(30 / (4 * 15))
    assert metrics.core.gpu_utilization == pytest.approx((26 + 14 + 6) / (4 * 15))
    assert (metrics.failed, metrics.restarts, metrics.core.finished) == (1, 1, 2)


def test_a_share_holds_its_fraction_and_a_cpu_job_nothing() -> None:
    build = Builder("1x2")
    share, cpu = build.job(0, 1, 10, share=250), build.job(0, 0, 10)
    build.start(0, share, [0]).start(0, cpu, [-1]).finish(10, share).finish(10, cpu)
    metrics = fold_metrics(build.build())
    assert metrics.held_gpu_s == pytest.approx(2.5)
    assert metrics.core.gpu_utilization == pytest.approx(0.125)
    assert [row.name for row in metrics.sizes] == ["CPU", "share"]
    assert metrics.fragmentation == pytest.approx(1.0)


def test_a_resumption_elsewhere_is_a_migration_and_on_the_same_node_is_not() -> None:
    build = Builder("2x4")
    job = build.job(0, 2, 30)
    build.start(0, job, [0, 1]).suspend(10, job).start(10, job, [3, 2]).suspend(20, job)
    metrics = fold_metrics(build.start(20, job, [3, 4]).finish(30, job).build())
    assert (metrics.core.preemptions, metrics.migrations, metrics.restarts) == (2, 1, 0)


def test_refusals_are_counted_by_reason() -> None:
    build = Builder()
    for _ in range(3):
        build.job(0, 99, 1)
    for job, reason in enumerate([Reason.TOO_MANY_GPUS, Reason.OVER_QUOTA, Reason.TOO_MANY_GPUS]):
        build.row(0, EventKind.REFUSE, job, reason)
    metrics = fold_metrics(build.build())
    assert metrics.refused == {"too_many_gpus": 2, "over_quota": 1}
    assert metrics.core.finished == 0
    assert math.isnan(metrics.core.jct_s.mean)


def test_the_groups_are_the_tenants_and_the_sizes() -> None:
    metrics = fold_metrics(two_nodes_three_jobs())
    assert [(row.name, row.jobs, row.held_gpu_s) for row in metrics.tenants] == [("x", 2, 160), ("y", 1, 40)]
    assert [(row.name, row.jobs) for row in metrics.sizes] == [("2", 1), ("3-4", 2)]
    assert metrics.tenants[0].wait_s.mean == 5
    assert metrics.sizes[1].jct_s.p50 == 25


def test_json_has_the_fixed_names_and_no_nan() -> None:
    build = Builder()
    build.job(0, 99, 1)
    text = json.dumps(fold_metrics(build.build()).to_json(), allow_nan=False)
    names = list(json.loads(text))
    assert names[:5] == ["jobs", "finished", "makespan_s", "jct_s", "wait_s"]
    assert names[5:7] == ["gpu_utilization", "preemptions"]
    assert json.loads(text)["jct_s"] == {"mean": None, "p50": None, "p90": None, "p95": None, "p99": None}


def test_an_empty_journal_has_metrics() -> None:
    metrics = fold_metrics(Builder().build())
    assert metrics.core.jobs == 0
    json.dumps(metrics.to_json(), allow_nan=False)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 100, 1001])
@pytest.mark.parametrize("gaps", [0, 1, 50])
def test_percentiles_are_numpys(count: int, gaps: int) -> None:
    rng = np.random.default_rng(count)
    numbers = rng.lognormal(3, 2, count)
    column = rng.permutation(np.concatenate([numbers, np.full(gaps, np.nan)]))
    got = spread(column)
    assert [got.p50, got.p90, got.p95, got.p99] == np.percentile(numbers, [50, 90, 95, 99]).tolist()
    assert got.mean == pytest.approx(numbers.mean())


@pytest.mark.parametrize(
    "shape", ["smooth", "zeros", "all equal", "few values", "sorted", "periodic", "hidden from the sample", "gaps"]
)
@pytest.mark.parametrize("count", [50_000, 123_457])
def test_percentiles_of_many_are_numpys_whatever_their_shape(shape: str, count: int) -> None:
    rng = np.random.default_rng(count)
    column = rng.lognormal(3, 2, count)
    if shape == "zeros":
        column[rng.random(count) < 0.93] = 0.0
    elif shape == "all equal":
        column[:] = 7.0
    elif shape == "few values":
        column = rng.integers(0, 5, count).astype(np.float64)
    elif shape == "sorted":
        column.sort()
    elif shape == "periodic":
        column = np.resize(np.arange(12.0), count)
    elif shape == "hidden from the sample":
        column[:: count // 4000] = -1e9
    elif shape == "gaps":
        column[rng.random(count) < 0.4] = np.nan
    got = spread(column)
    numbers = column[np.isfinite(column)]
    assert [got.p50, got.p90, got.p95, got.p99] == np.percentile(numbers, [50, 90, 95, 99]).tolist()


@pytest.mark.parametrize("seed", range(80))
def test_metrics_equal_the_walk_second_by_second(seed: int) -> None:
    journal = random_journal(seed, tenants=seed % 3, complete=seed % 4 != 3)
    want, got = walk(journal), fold_metrics(journal)
    capacity = journal.cluster.gpus
    done = [job for job in want.jobs if job.finish is not None]
    assert got.core.finished == len(done)
    assert got.core.makespan_s == want.end - want.begin
    assert got.core.preemptions == sum(job.preemptions for job in want.jobs)
    assert got.restarts == sum(job.restarts for job in want.jobs)
    assert got.migrations == sum(job.moves for job in want.jobs)
    assert got.failed == sum(job.gave_up for job in want.jobs)
    assert got.unfinished == sum(not job.ended for job in want.jobs)
    assert got.held_gpu_s == pytest.approx(sum(want.allocated))
    assert got.core.gpu_utilization == pytest.approx(sum(want.allocated) / capacity / len(want.allocated))
    assert got.down_gpu_s == pytest.approx(want.down_gpu_s)
    assert got.fragmentation == pytest.approx(want.idle_on_partly / want.idle)
    if done:
        assert got.core.wait_s.mean == pytest.approx(np.mean([job.waited for job in done]))
        assert got.core.jct_s.p90 == pytest.approx(np.percentile([(job.finish or 0) - job.submit for job in done], 90))


@pytest.mark.parametrize("seed", range(40))
def test_rho_equals_the_walk_second_by_second(seed: int) -> None:
    journal = random_journal(seed, tenants=3 * (seed % 2))
    want = walk(journal).jobs
    got = finish_time_fairness(journal, fold_outcome(journal))
    for i, job in enumerate(want):
        duration = float(journal.jobs.duration_s[i])
        if job.finish is None or duration == 0:
            assert math.isnan(got[i])
            continue
        part = journal.cluster.gpus / (np.mean(job.active) if job.active else 1)
        ideal = duration * max(1.0, job.weight / part)
        assert got[i] == pytest.approx((job.finish - job.submit) / ideal)


def test_an_outcome_that_says_nan_where_nothing_ran_gives_the_same_metrics() -> None:
    journal = random_journal(5)
    outcome = fold_outcome(journal)
    gaps = replace(outcome, ran_s=np.where(outcome.ran_s == 0, np.nan, outcome.ran_s))
    assert np.isnan(gaps.ran_s).any()
    assert json.dumps(fold_metrics(journal, gaps).to_json()) == json.dumps(fold_metrics(journal).to_json())
