"""A workload's description as plain data. Shares are fractions of 1; a part that the trace can't tell is None."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

#: ranks of the stored distribution curves
CURVE_RANKS = tuple(round(0.02 * i, 2) for i in range(51))


@dataclass(frozen=True)
class Spread:
    """A distribution in a few numbers, and as a curve: the values at CURVE_RANKS."""

    mean: float
    min: float
    p25: float
    p50: float
    p75: float
    p90: float
    p95: float
    p99: float
    max: float
    curve: tuple[float, ...]


@dataclass(frozen=True)
class SizeRow:
    label: str  #: GPUs: "<1", "1", "3-4", ...
    jobs: int
    jobs_share: float
    gpu_time_share: float
    duration_s: Spread


@dataclass(frozen=True)
class BucketRow:
    label: str  #: duration: "under 1 min", ...
    jobs: int
    jobs_share: float
    gpu_time_share: float


@dataclass(frozen=True)
class Arrivals:
    clock: str  #: "calendar", or "since start" where the trace does not tell its origin
    by_hour: tuple[float, ...]  #: 24 shares of jobs
    by_weekday: tuple[float, ...]  #: 7 shares, Monday first; of days since the start without an origin
    by_weekday_hour: tuple[tuple[float, ...], ...]  #: 7 x 24 shares
    gap_mean_s: float
    gap_p50_s: float
    gap_cv: float  #: standard deviation over mean; 1 for Poisson arrivals
    same_second_share: float  #: submissions in the same second as the one before
    busiest_day_jobs: int
    day_cv: float | None  #: of jobs per whole day; None for less than two days


@dataclass(frozen=True)
class Holder:
    name: str
    jobs_share: float
    gpu_time_share: float


@dataclass(frozen=True)
class Skew:
    """How unevenly jobs and GPU time lie with tenants or users; `top5` is what the largest 5 % of them have."""

    count: int
    top1_jobs: float
    top5_jobs: float
    top10_jobs: float
    top1_gpu_time: float
    top5_gpu_time: float
    top10_gpu_time: float
    gini_jobs: float
    gini_gpu_time: float
    largest: tuple[Holder, ...]  #: by jobs
    lorenz_jobs: tuple[float, ...]  #: share of jobs of the largest CURVE_RANKS of them


@dataclass(frozen=True)
class Repeats:
    groups: int
    in_groups_of_2: float  #: share of jobs in groups that ran at least twice
    in_groups_of_5: float
    largest_group: int
    #: median over groups of at least 5 runs of the duration's standard deviation over its mean
    duration_cv_within: float | None
    #: part of the variance of log durations that the group explains
    variance_explained: float | None


@dataclass(frozen=True)
class StatusRow:
    status: str
    jobs_share: float
    gpu_time_share: float
    duration_p50_s: float


@dataclass(frozen=True)
class Demands:
    """What jobs ask for beside whole GPUs; None where the trace has no such column."""

    gpus_mean: float  #: shares counted as such
    gpus_p50: float
    shared_jobs: float | None  #: share of the GPU jobs that ask for less than one GPU
    cpu_milli: Spread | None
    memory_mib: Spread | None
    gpu_types: tuple[Holder, ...] | None  #: of jobs that insist on a type, by jobs


@dataclass(frozen=True)
class Description:
    source: str
    jobs: int
    cpu_jobs: int
    tenants: int | None
    users: int | None
    origin: str | None
    span_s: float  #: from the first submission to the last
    gpu_hours: float
    mean_busy_gpus: float  #: GPU time over the span: the load that it offers, in GPUs
    duration_s: Spread
    sizes: tuple[SizeRow, ...]
    buckets: tuple[BucketRow, ...]
    arrivals: Arrivals
    tenant_skew: Skew | None
    user_skew: Skew | None
    repeats: Repeats | None
    statuses: tuple[StatusRow, ...] | None
    attempts_mean: float | None
    retried_share: float | None
    demands: Demands
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)
