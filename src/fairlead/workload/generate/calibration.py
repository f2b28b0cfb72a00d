"""How close the cluster-like generators come to what they imitate: one row per statistic, with numbers."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from fairlead.workload.describe import Description, describe
from fairlead.workload.generate.registry import generate
from fairlead.workload.readers import load_trace
from fairlead.workload.trace import Names, Trace

#: the weeks that philly-like is fitted to
_PHILLY_FROM, _PHILLY_DAYS = datetime(2017, 10, 2), 28  # noqa: DTZ001 (the trace names no time zone)
#: Pollux's subset starts on 9 October
_POLLUX_SKIP_DAYS = 23
#: published, of PAI's instances
_PAI_TOP5_USERS = 0.77
_COPIES = 4


@dataclass(frozen=True)
class Comparison:
    """One statistic of a generator beside its reference.

    `bound` is how far apart they may be: a factor where `relative` (1.1 allows 10 % either way), else a
    difference. None marks a reference that the generator is not fitted to, shown so that nobody is misled.
    """

    generator: str
    statistic: str
    source: str
    reference: float
    generated: float
    bound: float | None
    relative: bool

    @property
    def close(self) -> bool:
        if self.bound is None:
            return True
        if not self.relative:
            return abs(self.generated - self.reference) <= self.bound
        return self.reference / self.bound <= self.generated <= self.reference * self.bound


def calibration_report(data: Path, *, seed: int = 1) -> tuple[Comparison, ...]:
    """All comparisons, from a folder with the public traces (`train`, `cluster` and `pods` in it)."""
    return (*_philly(data, seed), *_helios(data, seed), *_pai(data, seed))


def calibration_table(rows: Sequence[Comparison]) -> str:
    """The comparisons in Markdown."""
    lines = ["| generator | statistic | reference | generated | within | source |", "|---|---|--:|--:|--:|---|"]
    for row in rows:
        allowed = "not fitted"
        if row.bound is not None:
            allowed = f"factor {row.bound:g}" if row.relative else f"±{row.bound:g}"
        numbers = f"{_short(row.reference)} | {_short(row.generated)}"
        lines.append(f"| {row.generator} | {row.statistic} | {numbers} | {allowed} | {row.source} |")
    return "\n".join(lines)


def _short(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{float(f'{value:.3g}'):,.0f}" if abs(value) >= 100 else f"{value:.3g}"


@dataclass(frozen=True)
class _Rows:
    """Makes the rows of one generator and one source."""

    generator: str
    source: str

    def factor(self, what: str, reference: float, generated: float, bound: float | None) -> Comparison:
        return Comparison(self.generator, what, self.source, reference, generated, bound, True)

    def apart(self, what: str, reference: float, generated: float, bound: float | None) -> Comparison:
        return Comparison(self.generator, what, self.source, reference, generated, bound, False)


def _philly(data: Path, seed: int) -> Iterator[Comparison]:
    real = describe(_window(load_trace(data / "train" / "philly_to_2017-10.csv.gz").trace))
    # as dense in time as the original, and longer, so that the generator's own noise is small
    made = describe(generate("philly-like", seed=seed, jobs=_COPIES * real.jobs, days=float(_COPIES * _PHILLY_DAYS)))
    rows = _Rows("philly-like", "merged trace, 2-29 Oct 2017")
    for what in ("p50", "mean", "p90", "p99"):
        reference, generated = getattr(real.duration_s, what), getattr(made.duration_s, what)
        yield rows.factor(f"duration {what}, s", reference, generated, 1.15)
    yield rows.factor("GPUs per job", real.demands.gpus_mean, made.demands.gpus_mean, 1.05)
    yield rows.factor("GPU seconds per job", _work(real), _work(made), 1.15)
    there = {row.label: row for row in made.sizes}
    for row in real.sizes:
        if row.jobs >= 100:
            mine = there[row.label]
            yield rows.apart(f"{row.label} GPUs: of jobs", row.jobs_share, mine.jobs_share, 0.01)
            yield rows.apart(f"{row.label} GPUs: of GPU time", row.gpu_time_share, mine.gpu_time_share, 0.05)
            yield rows.factor(f"{row.label} GPUs: p50, s", row.duration_s.p50, mine.duration_s.p50, 1.3)
            yield rows.factor(f"{row.label} GPUs: p90, s", row.duration_s.p90, mine.duration_s.p90, 1.5)
    yield from _arrivals(rows, real, made)
    assert real.tenant_skew is not None
    assert made.tenant_skew is not None
    one, two = real.tenant_skew, made.tenant_skew
    yield rows.apart("largest tenant: of jobs", one.top1_jobs, two.top1_jobs, 0.03)
    yield rows.apart("tenants' Gini, jobs", one.gini_jobs, two.gini_jobs, 0.05)
    yield rows.apart("tenants' Gini, GPU time", one.gini_gpu_time, two.gini_gpu_time, 0.10)

    whole = _summary(data, "Philly")
    rows = _Rows("philly-like", "whole trace, as published")
    yield from _outcomes(rows, whole, made)
    yield rows.factor("duration p50, s", whole["med_run_time_gpu"], made.duration_s.p50, None)
    yield rows.factor("duration mean, s", whole["avg_run_time_gpu"], made.duration_s.mean, None)
    yield rows.factor("GPUs per job", whole["avg_gpu_num"], made.demands.gpus_mean, None)

    # weeks that the fit has not seen, of the jobs that Pollux's authors kept
    later = load_trace(data / "train" / "philly_pollux_60000.csv.gz").trace
    keep = later.submit_s >= timedelta(days=_POLLUX_SKIP_DAYS).total_seconds()
    unseen = describe(Trace(later.submit_s[keep], later.gpus[keep], later.duration_s[keep]))
    rows = _Rows("philly-like", "Pollux's subset, Nov and Dec 2017")
    yield rows.factor("duration p50, s", unseen.duration_s.p50, made.duration_s.p50, None)
    yield rows.factor("duration mean, s", unseen.duration_s.mean, made.duration_s.mean, None)
    yield rows.factor("duration p90, s", unseen.duration_s.p90, made.duration_s.p90, None)
    yield rows.factor("GPUs per job", unseen.demands.gpus_mean, made.demands.gpus_mean, None)


def _window(trace: Trace) -> Trace:
    """The fitted weeks, from midnight to midnight."""
    assert trace.origin is not None
    first = (_PHILLY_FROM - datetime.fromisoformat(trace.origin)).total_seconds()
    last = first + timedelta(days=_PHILLY_DAYS).total_seconds()
    keep = (trace.submit_s >= first) & (trace.submit_s < last)
    tenant = trace.tenant
    assert tenant is not None
    # jobs without a virtual cluster are one tenant to philly-like
    codes = np.where(tenant.codes < 0, len(tenant.values), tenant.codes).astype(np.int32)
    return replace(
        Trace(trace.submit_s[keep] - first, trace.gpus[keep], trace.duration_s[keep]),
        tenant=Names(codes[keep], (*tenant.values, "none")),
        origin=_PHILLY_FROM.isoformat(),
    )


def _helios(data: Path, seed: int) -> Iterator[Comparison]:
    whole = _summary(data, "Helios")
    made = describe(generate("helios-like", seed=seed, jobs=400_000))
    rows = _Rows("helios-like", "four clusters, as published")
    yield rows.factor("duration p50, s", whole["med_run_time_gpu"], made.duration_s.p50, 1.10)
    yield rows.factor("duration mean, s", whole["avg_run_time_gpu"], made.duration_s.mean, 1.15)
    yield rows.factor("GPUs per job", whole["avg_gpu_num"], made.demands.gpus_mean, 1.05)
    work = sum(whole[f"{how}_gpu_time"] for how in ("complete", "cancel", "fail")) / whole["gpu_job_num"]
    yield rows.factor("GPU seconds per job", work, _work(made), 1.20)
    yield from _outcomes(rows, whole, made)

    rows = _Rows("helios-like", "Venus's virtual clusters")
    quotas = _quotas(data)
    assert made.tenant_skew is not None
    largest = made.tenant_skew.top1_gpu_time
    yield rows.apart("largest tenant: of GPU time", max(quotas) / sum(quotas), largest, 0.05)

    slice_ = load_trace(data / "train" / "helios_venus_2vc_sept2020.csv").trace
    part = describe(replace(slice_, origin="2020-09-01T00:00:00"))
    rows = _Rows("helios-like", "two Venus clusters, Sep 2020")
    yield rows.factor("duration p50, s", part.duration_s.p50, made.duration_s.p50, None)
    yield rows.factor("GPUs per job", part.demands.gpus_mean, made.demands.gpus_mean, None)
    yield rows.apart("hours of the day, correlation", 1.0, _alike(part, made), None)


def _pai(data: Path, seed: int) -> Iterator[Comparison]:
    whole = _summary(data, "PAI")
    trace = generate("pai-like", seed=seed, jobs=400_000)
    made = describe(trace)
    rows = _Rows("pai-like", "whole trace, as published")
    yield rows.factor("duration p50, s", whole["med_run_time_gpu"], made.duration_s.p50, 1.10)
    yield rows.factor("duration mean, s", whole["avg_run_time_gpu"], made.duration_s.mean, 1.10)
    yield rows.factor("GPUs per job", whole["avg_gpu_num"], made.demands.gpus_mean, 1.05)
    yield rows.factor("GPUs per job, p50", whole["med_gpu_num"], made.demands.gpus_p50, 1.0)
    assert made.user_skew is not None
    yield rows.apart("top 5 % of users: of jobs", _PAI_TOP5_USERS, made.user_skew.top5_jobs, 0.05)

    pods = load_trace(data / "pods" / "openb_pod_list_default.csv").trace
    rows = _Rows("pai-like", "openb pods, 2023")
    for label, real_part, made_part in (("<1 GPU", _shared(pods), _shared(trace)), ("1 GPU", _one(pods), _one(trace))):
        real_cpu, real_memory = real_part
        made_cpu, made_memory = made_part
        yield rows.factor(f"{label}: milli-CPUs, mean", real_cpu, made_cpu, 1.15)
        yield rows.factor(f"{label}: memory, mean MiB", real_memory, made_memory, 1.15)
    real = describe(pods)
    assert real.demands.shared_jobs is not None
    assert made.demands.shared_jobs is not None
    yield rows.apart("less than a GPU: of GPU jobs", real.demands.shared_jobs, made.demands.shared_jobs, None)

    rows = _Rows("pai-like", "machine list")
    gpus = _inventory(data)
    types = {row.name: row.jobs_share for row in made.demands.gpu_types or ()}
    for kind, count in gpus.items():
        share = types[kind] / sum(types.values())
        yield rows.apart(f"{kind}: of jobs that insist", count / sum(gpus.values()), share, 0.03)


def _arrivals(rows: _Rows, real: Description, made: Description) -> Iterator[Comparison]:
    yield rows.apart("hours of the day, correlation", 1.0, _alike(real, made), 0.25)
    days = np.corrcoef(real.arrivals.by_weekday, made.arrivals.by_weekday)[0, 1]
    yield rows.apart("weekdays, correlation", 1.0, float(days), 0.25)
    yield rows.factor("gap between jobs, CV", real.arrivals.gap_cv, made.arrivals.gap_cv, 1.3)
    yield rows.factor("gap between jobs, p50 s", real.arrivals.gap_p50_s, made.arrivals.gap_p50_s, 2.0)
    assert real.arrivals.day_cv is not None
    assert made.arrivals.day_cv is not None
    yield rows.factor("jobs per day, CV", real.arrivals.day_cv, made.arrivals.day_cv, 1.35)


def _outcomes(rows: _Rows, whole: dict[str, float], made: Description) -> Iterator[Comparison]:
    statuses = {row.status: row for row in made.statuses or ()}
    for ours, theirs in (("passed", "complete"), ("failed", "fail"), ("killed", "cancel")):
        row = statuses[ours]
        yield rows.apart(f"{ours}: of jobs", whole[f"{theirs}_rate_gpu"], row.jobs_share, 0.02)
        yield rows.apart(f"{ours}: of GPU time", whole[f"{theirs}_rate_gpu_time"], row.gpu_time_share, 0.06)


def _alike(one: Description, two: Description) -> float:
    return float(np.corrcoef(one.arrivals.by_hour, two.arrivals.by_hour)[0, 1])


def _work(it: Description) -> float:
    return it.gpu_hours * 3600.0 / it.jobs


def _shared(trace: Trace) -> tuple[float, float]:
    assert trace.gpu_share_milli is not None
    return _mean_demands(trace, (trace.gpus == 1) & (trace.gpu_share_milli < 1000))


def _one(trace: Trace) -> tuple[float, float]:
    assert trace.gpu_share_milli is not None
    return _mean_demands(trace, (trace.gpus == 1) & (trace.gpu_share_milli == 1000))


def _mean_demands(trace: Trace, which: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[float, float]:
    assert trace.cpu_milli is not None
    assert trace.memory_mib is not None
    return float(trace.cpu_milli[which].mean()), float(trace.memory_mib[which].mean())


def _summary(data: Path, name: str) -> dict[str, float]:
    """A row of the published summary; what it leaves empty is left out."""
    for row in _table(data / "train" / "summary_acme_philly_helios_pai.csv"):
        if row["id"] == name:
            return {key: float(value) for key, value in row.items() if key != "id" and value}
    raise LookupError(f"the summary has no row {name}")


def _quotas(data: Path) -> list[float]:
    rows = _table(data / "cluster" / "helios_venus_vc_gpus_daily.csv")
    tenants = [key for key in rows[0] if key.startswith("vc")]
    return [sum(float(row[tenant]) for row in rows) / len(rows) for tenant in tenants]


def _inventory(data: Path) -> dict[str, float]:
    gpus: dict[str, float] = {}
    for row in _table(data / "cluster" / "pai2020_machines.csv.gz"):
        if float(row["cap_gpu"]) > 0:
            gpus[row["gpu_type"]] = gpus.get(row["gpu_type"], 0.0) + float(row["cap_gpu"])
    return gpus


def _table(path: Path) -> Sequence[dict[str, str]]:
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    return list(csv.DictReader(text.splitlines()))
