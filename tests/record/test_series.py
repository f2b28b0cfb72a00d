from __future__ import annotations

import numpy as np
import pytest

from fairlead.record.metrics import fold_metrics
from fairlead.record.outcome import fold_outcome
from fairlead.record.series import Raster, fold_cdf, fold_lines, fold_raster, tenant_waits

from .brute import Walk, walk
from .build import Builder, random_journal


@pytest.mark.parametrize("seed", range(40))
def test_lines_of_one_second_equal_the_walk(seed: int) -> None:
    journal = random_journal(seed, complete=seed % 4 != 0)
    want, got = walk(journal), fold_lines(journal)
    assert got.bins.count == len(want.allocated)
    assert got.allocated_gpus == pytest.approx(np.array(want.allocated), abs=1e-9)
    assert got.queued_jobs == pytest.approx(np.array(want.queued), abs=1e-9)
    assert got.queued_gpus == pytest.approx(np.array(want.queued_gpus), abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("most", [1, 7, 64])
def test_fewer_points_lose_nothing_of_the_totals(seed: int, most: int) -> None:
    journal = random_journal(seed)
    want, got, metrics = walk(journal), fold_lines(journal, most=most), fold_metrics(journal)
    assert got.bins.count <= most
    width = got.bins.width_s
    assert got.allocated_gpus.sum() * width == pytest.approx(metrics.held_gpu_s)
    assert got.computing_gpus.sum() * width == pytest.approx(metrics.computing_gpu_s)
    assert got.queued_jobs.sum() * width == pytest.approx(sum(want.queued))
    assert got.queued_gpus.sum() * width == pytest.approx(sum(want.queued_gpus))


@pytest.mark.parametrize("seed", range(30))
def test_a_raster_of_seconds_and_gpus_equals_the_walk(seed: int) -> None:
    journal = random_journal(seed, tenants=3)
    want, got = walk(journal), fold_raster(journal)
    assert len(got.row_names) == journal.cluster.gpus
    for second, owner in enumerate(want.owner):
        for gpu, who in enumerate(owner):
            _check_cell(want, got, second, gpu, who)


def _check_cell(want: Walk, got: Raster, second: int, gpu: int, who: int) -> None:
    code = int(got.codes[gpu, second])
    if who < 0:
        assert code == (Raster.FREE if who == -1 else Raster.DOWN)
    elif want.jobs[who].weight == want.jobs[who].gpus:  # whole GPUs: the cell has one owner
        tenant = want.jobs[who].tenant
        assert got.names[code - 2] == ("no tenant" if tenant == -1 else f"t{tenant}")


def test_a_large_cluster_is_drawn_by_node_and_a_larger_one_by_stretches_of_nodes() -> None:
    build = Builder("10x8", ["x"])
    job = build.job(0, 8, 10, "x")
    journal = build.start(0, job, list(range(8, 16))).finish(10, job).build()
    by_node = fold_raster(journal, most_rows=10)
    assert by_node.row_names[:2] == ("node-0", "node-1")
    assert by_node.codes[:, 0].tolist() == [0, 2] + [0] * 8
    by_four = fold_raster(journal, most_rows=3)
    assert by_four.row_names == ("node-0 to node-3", "node-4 to node-7", "node-8 to node-9")
    assert by_four.codes[0, 0] == Raster.FREE  # a quarter of its GPUs are held


def test_more_tenants_than_colours_share_the_last_one() -> None:
    names = [f"t{i}" for i in range(30)]
    build = Builder("30x1", names)
    for i, name in enumerate(names):
        build.job(0, 1, 100 - i, name)
    for i in range(30):
        build.start(0, i, [i])
    for i in reversed(range(30)):
        build.finish(100 - i, i)
    raster = fold_raster(build.build())
    assert raster.names == (*names[:11], "19 others")
    assert raster.codes[:, 0].tolist() == [2 + min(i, 11) for i in range(30)]


def test_without_tenants_neighbouring_jobs_differ_in_colour() -> None:
    build = Builder("1x2")
    for gpu in range(2):
        build.job(0, 1, 5)
        build.start(0, gpu, [gpu])
    journal = build.finish(5, 0).finish(5, 1).build()
    raster = fold_raster(journal)
    assert raster.names == ()
    assert raster.codes[0, 0] != raster.codes[1, 0]


@pytest.mark.parametrize("count", [1, 5, 399, 400, 401, 50_000])
def test_a_cdf_is_exact_at_every_point_it_keeps(count: int) -> None:
    values = np.random.default_rng(count).lognormal(5, 2, count).round(1)
    cdf = fold_cdf(np.concatenate([values, [np.nan]]))
    assert len(cdf.value) <= 400
    assert cdf.share[-1] == 1.0
    assert cdf.value[-1] == values.max()
    for value, share in zip(cdf.value[::37], cdf.share[::37]):
        assert share == np.count_nonzero(values <= value) / count


def test_waits_are_boxed_by_tenant() -> None:
    build = Builder("1x1", ["x", "y"])
    a, b = build.job(0, 1, 5, "x"), build.job(0, 1, 5, "y")
    journal = build.start(0, a, [0]).finish(5, a).start(5, b, [0]).finish(10, b).build()
    boxes = tenant_waits(journal.jobs, fold_outcome(journal))
    assert [(box.name, box.finished, box.p50_s, box.p95_s) for box in boxes] == [
        ("x", 1, 0, 0),
        ("y", 1, 5, 5),
    ]


def test_an_empty_journal_can_be_drawn() -> None:
    journal = Builder().build()
    assert fold_lines(journal).allocated_gpus.tolist() == [0.0]
    assert not fold_raster(journal).codes.any()
