"""Generators: deterministic, at the asked load, and of the same mix at any scale."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.model.errors import InputError
from fairlead.workload.generate import generate, generators, sample
from fairlead.workload.trace import Names, Trace

LIKE = ["philly-like", "helios-like", "pai-like"]
ALL = [it.name for it in generators()]


def work(trace: Trace) -> float:
    share = 1000 if trace.gpu_share_milli is None else trace.gpu_share_milli
    return float((trace.gpus * share / 1000 * trace.duration_s).sum())


def raw(trace: Trace) -> dict[str, bytes | tuple[str, ...]]:
    out: dict[str, bytes | tuple[str, ...]] = {}
    for name, column in trace.columns().items():
        if isinstance(column, Names):
            out[name] = column.codes.tobytes()
            out[name + " names"] = column.values
        else:
            out[name] = column.tobytes()
    return out


def test_all_are_found_by_name() -> None:
    assert ALL == ["gandiva-1000", "helios-like", "pai-like", "philly-like", "poisson", "tiresias-480"]
    assert all(it.summary for it in generators())


@pytest.mark.parametrize("name", ALL)
def test_the_same_seed_gives_the_same_bytes(name: str) -> None:
    one, two = generate(name, seed=7, jobs=500), generate(name, seed=7, jobs=500)
    assert raw(one) == raw(two)
    assert raw(generate(name, seed=8, jobs=500)) != raw(one)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("jobs", [1, 2, 37, 3000])
def test_a_trace_keeps_its_contract(name: str, jobs: int) -> None:
    trace = generate(name, seed=3, jobs=jobs)
    assert len(trace) == jobs
    assert trace.submit_s[0] == 0
    assert (np.diff(trace.submit_s) >= 0).all()
    assert (trace.duration_s >= 1).all()
    assert (trace.gpus >= 1).all()
    assert trace.gpus.dtype == np.int32
    assert trace.source == name
    for name_, column in trace.columns().items():
        values = column.codes if isinstance(column, Names) else column
        assert len(values) == jobs, name_
        if isinstance(column, Names):
            assert values.dtype == np.int32
            assert values.min() >= -1
            assert values.max() < len(column.values)
            assert len(set(column.values)) == len(column.values)


@pytest.mark.parametrize("name", LIKE)
def test_times_are_whole_seconds(name: str) -> None:
    trace = generate(name, seed=1, jobs=2000)
    assert (trace.submit_s % 1 == 0).all()
    assert (trace.duration_s % 1 == 0).all()


@pytest.mark.parametrize("name", [*LIKE, "poisson"])
@pytest.mark.parametrize(("gpus", "load"), [(64, 0.5), (6400, 0.92), (512, 1.7)])
def test_the_load_is_the_one_asked_for(name: str, gpus: int, load: float) -> None:
    trace = generate(name, seed=5, jobs=20_000, gpus=gpus, load=load)
    span = trace.submit_s[-1]
    # the span is rounded to a second
    assert work(trace) / (gpus * span) == pytest.approx(load, rel=1 / span)


@pytest.mark.parametrize("name", LIKE)
def test_ten_times_the_jobs_take_ten_times_as_long_with_the_same_mix(name: str) -> None:
    few = generate(name, seed=1, jobs=50_000, gpus=6400, load=0.92)
    many = generate(name, seed=1, jobs=500_000, gpus=6400, load=0.92)
    assert many.submit_s[-1] / few.submit_s[-1] == pytest.approx(10, rel=0.25)
    assert many.gpus.mean() == pytest.approx(few.gpus.mean(), rel=0.02)
    assert np.median(many.duration_s) == pytest.approx(np.median(few.duration_s), rel=0.05)


@pytest.mark.parametrize("name", LIKE)
def test_ten_times_the_gpus_make_the_same_jobs_come_ten_times_as_fast(name: str) -> None:
    small = generate(name, seed=1, jobs=20_000, gpus=640, load=0.92, max_gpus=64)
    large = generate(name, seed=1, jobs=20_000, gpus=6400, load=0.92, max_gpus=64)
    assert small.submit_s[-1] / large.submit_s[-1] == pytest.approx(10, rel=1e-3)
    assert sorted(small.duration_s) == sorted(large.duration_s)


@pytest.mark.parametrize("name", [*LIKE, "poisson"])
def test_days_and_load_give_the_number_of_jobs(name: str) -> None:
    trace = generate(name, seed=2, days=14, gpus=2000, load=0.8)
    assert trace.submit_s[-1] / 86400 == pytest.approx(14, rel=0.05)
    assert work(trace) / (2000 * trace.submit_s[-1]) == pytest.approx(0.8, rel=1e-5)
    assert len(trace) > 1000


@pytest.mark.parametrize("name", [*LIKE, "poisson"])
def test_jobs_and_days_leave_the_load_to_follow(name: str) -> None:
    trace = generate(name, seed=2, jobs=5000, days=7)
    assert len(trace) == 5000
    assert trace.submit_s[-1] == pytest.approx(7 * 86400)


@pytest.mark.parametrize("name", [*LIKE, "poisson"])
def test_jobs_days_and_load_together_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="any two give the third"):
        generate(name, seed=1, jobs=10, days=1, load=0.5)


@pytest.mark.parametrize("name", LIKE)
def test_gangs_fit_the_cluster_and_the_cap(name: str) -> None:
    assert generate(name, seed=1, jobs=5000, gpus=8).gpus.max() == 8
    assert generate(name, seed=1, jobs=5000, gpus=800, max_gpus=4).gpus.max() == 4


def test_many_jobs_are_drawn_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "CHUNK", 1000)
    trace = generate("philly-like", seed=1, jobs=3500, gpus=800, load=0.9)
    assert len(trace) == 3500
    assert trace.group is not None
    assert set(trace.group.codes.tolist()) == set(range(len(trace.group.values)))
    assert work(trace) / (800 * trace.submit_s[-1]) == pytest.approx(0.9, rel=1e-4)


def test_a_group_is_one_user_and_one_size_and_lasts_alike() -> None:
    trace = generate("philly-like", seed=1, jobs=50_000)
    assert trace.group is not None
    assert trace.user is not None
    for column in (trace.user.codes, trace.gpus):
        low = np.full(len(trace.group.values), 10**6)
        high = np.zeros(len(trace.group.values), dtype=np.int64)
        np.minimum.at(low, trace.group.codes, column)
        np.maximum.at(high, trace.group.codes, column)
        assert (low == high).all()


def test_a_user_belongs_to_one_tenant() -> None:
    trace = generate("helios-like", seed=1, jobs=50_000)
    assert trace.user is not None
    assert trace.tenant is not None
    pairs = set(zip(trace.user.codes.tolist(), trace.tenant.codes.tolist()))
    assert len(pairs) == len(set(trace.user.codes.tolist()))


def test_pai_like_has_shares_types_and_demands() -> None:
    trace = generate("pai-like", seed=1, jobs=20_000)
    assert trace.gpu_share_milli is not None
    assert trace.cpu_milli is not None
    assert trace.memory_mib is not None
    assert trace.gpu_type is not None
    assert set(trace.gpu_share_milli.tolist()) == {100, 250, 500, 1000}
    assert (trace.gpus[trace.gpu_share_milli < 1000] == 1).all()
    assert (trace.cpu_milli > 0).all()
    assert (trace.memory_mib > 0).all()
    assert float((trace.gpu_type.codes >= 0).mean()) == pytest.approx(0.3, abs=0.02)
    assert generate("pai-like", seed=1, jobs=100, typed_share=0.0).gpu_type is None


def test_tiresias_480_has_the_papers_counts_and_bins() -> None:
    trace = generate("tiresias-480", seed=1)
    sizes, counts = np.unique(trace.gpus, return_counts=True)
    assert dict(zip(sizes.tolist(), counts.tolist())) == {1: 240, 2: 40, 4: 80, 8: 90, 16: 25, 32: 5}
    assert trace.duration_s.min() >= 120
    assert trace.duration_s.max() <= 7200
    small, short = trace.gpus <= 4, trace.duration_s < 800
    bins = [(small & short), (small & ~short), (~small & short), (~small & ~short)]
    assert [float(it.mean()) for it in bins] == pytest.approx([0.635, 0.125, 0.165, 0.075], abs=0.01)
    assert np.diff(trace.submit_s).mean() == pytest.approx(30, rel=0.15)


def test_gandiva_1000_has_the_papers_mix() -> None:
    trace = generate("gandiva-1000", seed=1)
    assert trace.profile is not None
    models = np.array(trace.profile.values)[trace.profile.codes]
    assert np.isin(models, ["VAE", "SuperRes"]).mean() == 0.30
    assert np.isin(models, ["RHN", "SCRNN", "MI-LSTM"]).mean() == 0.25
    gangs = np.isin(models, ["ResNet-50", "ResNeXt"])
    assert set(trace.gpus[gangs].tolist()) == {2, 4}
    assert set(trace.gpus[~gangs].tolist()) == {1}
    assert trace.duration_s.min() >= 1800
    assert trace.duration_s.max() <= 2700
    assert trace.submit_s[-1] <= 7200


def test_poisson_takes_sizes_and_a_duration_law() -> None:
    trace = generate("poisson", seed=1, jobs=4000, sizes="1,1,1,8", durations="fixed", mean_s=60.0)
    assert float((trace.gpus == 1).mean()) == pytest.approx(0.75, abs=0.03)
    assert set(trace.duration_s.tolist()) == {60.0}
    gaps = np.diff(trace.submit_s)
    assert gaps.std() / gaps.mean() == pytest.approx(1, abs=0.1)
    heavy = generate("poisson", seed=1, jobs=50_000, durations="lognormal", mean_s=600.0, sigma=1.0)
    assert heavy.duration_s.mean() == pytest.approx(600, rel=0.05)


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("phily-like", {}, "did you mean 'philly-like'"),
        ("philly-like", {"maxgpus": 4}, "did you mean 'max_gpus'"),
        ("tiresias-480", {"load": 0.5}, "no parameter of tiresias-480 is called 'load'"),
        ("philly-like", {"jobs": 0}, "jobs must be a whole number"),
        ("philly-like", {"load": 0.0}, "load must be a number above 0"),
        ("pai-like", {"typed_share": 1.5}, "typed_share must be between 0 and 1"),
        ("poisson", {"durations": "normal"}, "no duration law is called 'normal'"),
        ("poisson", {"sizes": "1,x"}, "sizes are whole numbers"),
    ],
)
def test_what_can_not_be_used_is_an_error_that_says_so(name: str, params: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        generate(name, seed=1, **params)  # type: ignore[arg-type]
