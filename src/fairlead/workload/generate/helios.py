"""SenseTime's Helios clusters, 2020: the published means of all four, Venus's virtual clusters as tenants.

The public slice that could be had is two virtual clusters for a month, far from typical (its mean gang is 47
GPUs), so it gives the rhythm and the users' skew only. Sizes and durations are log-normal tables that meet
the published mean and median duration, mean gang and GPU time per job of the 1.58 million GPU jobs.
"""

from __future__ import annotations

import numpy as np

from fairlead.workload.generate import durations
from fairlead.workload.generate.build import Scale, build
from fairlead.workload.generate.mix import LEVELS, Mix, Outcomes, Repeats, Rhythm, Tenant
from fairlead.workload.generate.registry import generator
from fairlead.workload.trace import Trace

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_JOBS_BY_SIZE = (0.702, 0.060, 0.080, 0.110, 0.020, 0.015, 0.010, 0.002)
#: mean GPUs of Venus's virtual clusters, April to September 2020
_QUOTAS = (153, 80, 72, 64, 64, 64, 61, 57, 54, 52, 48, 44, 38, 32, 30, 26, 19, 17, 14, 13, 8, 7, 7)

# fmt: off
_DURATIONS_S = (
    (1, 1, 3, 7, 23, 51, 102, 193, 365, 722,
     1600, 4840, 7890, 12100, 21800, 33700, 66900, 125e3, 456e3, 4320e3),
    (1, 1, 3, 8, 25, 57, 116, 224, 430, 866,
     1960, 6110, 10100, 15600, 28700, 44800, 90500, 172e3, 649e3, 4320e3),
    (1, 1, 3, 7, 25, 60, 124, 244, 480, 989,
     2310, 7460, 12500, 19700, 36900, 58500, 121e3, 236e3, 929e3, 4320e3),
    (1, 1, 2, 7, 24, 59, 126, 254, 513, 1090,
     2620, 8860, 15200, 24300, 46600, 75300, 160e3, 320e3, 1330e3, 4320e3),
    (1, 1, 1, 4, 18, 47, 106, 224, 475, 1060,
     2720, 10e3, 17900, 29500, 59500, 99400, 223e3, 468e3, 2150e3, 2500e3),
    (1, 1, 1, 5, 21, 57, 132, 285, 617, 1410,
     3710, 14200, 25700, 43e3, 88300, 150e3, 344e3, 735e3, 2000e3, 2000e3),
    (1, 1, 1, 3, 14, 41, 104, 244, 573, 1430,
     4160, 18300, 35200, 62200, 138e3, 247e3, 618e3, 1200e3, 1200e3, 1200e3),
    (1, 1, 1, 1, 5, 20, 59, 163, 445, 1300,
     4590, 26300, 56800, 111e3, 283e3, 563e3, 800e3, 800e3, 800e3, 800e3),
)
_RHYTHM = Rhythm(
    hours=(0.92, 0.80, 0.69, 0.62, 0.58, 0.51, 0.48, 0.57, 0.77, 0.95, 1.01, 1.07,
           1.32, 1.67, 1.92, 1.78, 1.43, 1.07, 0.88, 0.88, 0.96, 1.04, 1.05, 1.02),
    weekdays=(1.20, 1.25, 1.24, 1.15, 1.05, 0.55, 0.56),
    day_sigma=0.4, hour_sigma=0.5, gap_median_s=15.0, gap_sigma=1.5,
)
# fmt: on


def _tenants() -> tuple[Tenant, ...]:
    """Tenants submit what fits their quota, and GPU time in proportion to it; sizes keep their shares."""
    sizes, want = np.array(_SIZES), np.array(_JOBS_BY_SIZE)
    quotas = np.array(_QUOTAS, dtype=np.float64)
    fits = sizes[None, :] <= quotas[:, None]
    work = sizes * durations.table_means(LEVELS, _DURATIONS_S)
    jobs = fits * want
    for _ in range(100):
        jobs *= (quotas / (jobs @ work))[:, None]
        jobs *= want / want.sum() / jobs.sum(axis=0)
    users = np.maximum(2, np.rint(quotas / 4)).astype(int)
    return tuple(Tenant(tuple(row), users=count) for row, count in zip(jobs.tolist(), users.tolist()))


def _mix() -> Mix:
    return Mix(
        name="helios-like",
        origin="2020-08-31T00:00:00",
        cluster_gpus=1024,
        sizes_milli=tuple(1000 * size for size in _SIZES),
        tenants=_tenants(),
        levels=LEVELS,
        durations_s=_DURATIONS_S,
        rhythm=_RHYTHM,
        repeats=Repeats(tail=1.3, campaign_share=0.008, campaign_jobs=(20, 300), again=0.6, likeness=0.5),
        outcomes=Outcomes(failed=(-1.210, -0.074), killed=(-1.525, 0.184), retry=0.0, max_attempts=1),
        user_skew=1.2,
    )


@generator("helios-like")
def helios_like(
    rng: np.random.Generator,
    *,
    jobs: int | None = None,
    days: float | None = None,
    gpus: int | None = None,
    load: float | None = None,
    max_gpus: int | None = None,
    steady: bool = False,
) -> Trace:
    """SenseTime Helios, 2020: gangs of 1 to 128 GPUs, 23 tenants, half of the jobs under 4 minutes."""
    mix = _mix()
    return build(rng, mix, Scale.of(mix, jobs, days, gpus, load, max_gpus, steady))
