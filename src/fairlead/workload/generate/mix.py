"""What a cluster-like workload is described by: small tables that one file per cluster fills in."""

from __future__ import annotations

from dataclasses import dataclass, field

#: ranks at which the duration tables give seconds; dense at the top, where the GPU time is
LEVELS = (
    *(0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7),
    *(0.8, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999, 1),
)


@dataclass(frozen=True)
class Tenant:
    """One tenant's part of the mix.

    `jobs` counts its jobs by size in any common unit (the columns of Mix.sizes_milli). `one` and `gang` place the
    durations of its jobs of up to one GPU and of several within those of jobs of the same size, as mean and
    standard deviation of their normal score: 0 and 1 are like everybody's, a larger mean is longer jobs.
    """

    jobs: tuple[float, ...]
    one: tuple[float, float] = (0.0, 1.0)
    gang: tuple[float, float] = (0.0, 1.0)
    users: int = 1


@dataclass(frozen=True)
class Rhythm:
    """When jobs arrive. Hour and weekday (Monday first) weights need not be normalised."""

    hours: tuple[float, ...]
    weekdays: tuple[float, ...]
    day_sigma: float  #: log-normal noise of whole days, each day leaning on the one before
    hour_sigma: float  #: log-normal noise of single hours
    gap_median_s: float  #: between the submissions of one batch
    gap_sigma: float


@dataclass(frozen=True)
class Repeats:
    """How one thing is run again and again. A batch is one thing submitted several times in a row."""

    tail: float  #: P(batch of at least n jobs) is n ** -tail for ordinary batches
    campaign_share: float  #: of batches; a campaign has campaign_jobs[0] to [1] jobs, log-uniformly
    campaign_jobs: tuple[int, int]
    again: float  #: chance that a user's next batch of the same size runs the same thing
    likeness: float  #: correlation of the durations' normal scores within one group


@dataclass(frozen=True)
class Outcomes:
    """How jobs end: x being log10 of the GPU seconds, passed weighs 1, failed and killed exp(a + b*x)."""

    failed: tuple[float, float]
    killed: tuple[float, float]
    retry: float  #: chance that a failed job was tried once more, and once more after that
    max_attempts: int


@dataclass(frozen=True)
class Mix:
    name: str
    origin: str  #: ISO time of second 0; a Monday, midnight
    cluster_gpus: int  #: the default cluster
    sizes_milli: tuple[int, ...]  #: GPUs of each size, in thousandths; below 1000 is a share of one GPU
    tenants: tuple[Tenant, ...]
    levels: tuple[float, ...]  #: from 0 to 1
    durations_s: tuple[tuple[float, ...], ...]  #: by size: the duration at each level
    rhythm: Rhythm
    repeats: Repeats
    outcomes: Outcomes
    user_skew: float  #: within a tenant, the k-th user's weight is (k+1) ** -user_skew
    notes: tuple[str, ...] = field(default=())

    def pace(self, tenant: int, size: int) -> tuple[float, float]:
        """Mean and standard deviation of the scores of a tenant's jobs of a size."""
        it = self.tenants[tenant]
        return it.one if self.sizes_milli[size] <= 1000 else it.gang
