"""Alibaba's PAI, summer 2020: shares of GPUs, many users, several GPU types, CPU and memory demands.

Sizes and durations meet the published means and medians of its 1.04 million GPU jobs; the hours of the day,
CPU and memory come from Alibaba's openb pods of 2023, GPU types from PAI's machine list. The job tables could
not be had, so tenants (PAI has none), failures and repeats are assumptions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairlead.model.errors import InputError
from fairlead.workload.generate.build import Scale, build
from fairlead.workload.generate.mix import LEVELS, Mix, Outcomes, Repeats, Rhythm, Tenant
from fairlead.workload.generate.registry import generator
from fairlead.workload.trace import Floats, Ints, Longs, Names, Trace

_JOBS_BY_SIZE = (0.100, 0.150, 0.332, 0.394, 0.0155, 0.006, 0.0025)

# fmt: off
MIX = Mix(
    name="pai-like",
    origin="2020-07-06T00:00:00",
    cluster_gpus=6742,
    sizes_milli=(100, 250, 500, 1000, 2000, 4000, 8000),
    tenants=tuple(
        Tenant(tuple(weight * share for share in _JOBS_BY_SIZE), users=users)
        for weight, users in (
            (30, 280), (18, 220), (12, 170), (9, 140), (7, 110), (6, 90), (5, 80), (4, 60),
            (3, 50), (2, 40), (1.5, 30), (1, 25), (0.7, 20), (0.5, 15), (0.2, 10), (0.1, 10),
        )
    ),
    levels=LEVELS,
    durations_s=(
        (1, 3, 13, 28, 70, 134, 233, 389, 652, 1130,
         2150, 5260, 7810, 11e3, 17800, 25300, 44e3, 73e3, 208e3, 626e3),
        (1, 3, 13, 29, 74, 146, 257, 438, 746, 1320,
         2560, 6460, 9710, 13800, 22700, 32700, 57900, 97700, 288e3, 626e3),
        (1, 3, 14, 31, 80, 158, 283, 487, 837, 1500,
         2950, 7560, 11500, 16500, 27300, 39500, 70800, 121e3, 363e3, 626e3),
        (1, 3, 13, 30, 79, 161, 292, 511, 895, 1630,
         3280, 8670, 13300, 19300, 32600, 47700, 87100, 151e3, 471e3, 626e3),
        (1, 3, 17, 38, 100, 200, 363, 633, 1100, 2000,
         4010, 10500, 16100, 23300, 39100, 57200, 104e3, 180e3, 555e3, 626e3),
        (1, 4, 21, 47, 124, 248, 448, 779, 1350, 2450,
         4900, 12800, 19600, 28300, 47400, 69200, 126e3, 216e3, 626e3, 626e3),
        (1, 6, 27, 59, 156, 311, 561, 974, 1690, 3050,
         6090, 15900, 24200, 35e3, 58600, 85400, 155e3, 266e3, 626e3, 626e3),
    ),
    rhythm=Rhythm(
        # openb's hours count from its first pod; turned so that the trough lies in the early morning
        hours=(0.98, 0.71, 0.43, 0.65, 0.60, 0.45, 0.44, 0.40, 0.79, 0.88, 1.25, 1.63,
               1.38, 1.03, 1.28, 1.26, 1.59, 1.52, 1.34, 1.07, 1.29, 1.26, 0.93, 0.86),
        weekdays=(1.05, 1.08, 1.08, 1.07, 1.05, 0.85, 0.82),
        day_sigma=0.25, hour_sigma=0.3, gap_median_s=20.0, gap_sigma=1.3,
    ),
    repeats=Repeats(tail=1.5, campaign_share=0.003, campaign_jobs=(20, 200), again=0.55, likeness=0.7),
    outcomes=Outcomes(failed=(-1.3, 0.0), killed=(-2.8, 0.0), retry=0.0, max_attempts=1),
    user_skew=1.5,
)

_TYPES = ("MISC", "P100", "V100M32", "T4", "V100")
_TYPE_GPUS = (2240, 1596, 1080, 994, 832)
#: of jobs of several GPUs: the larger ones insist on the machines with eight of the fastest
_TYPE_GPUS_GANG = (500, 200, 1080, 50, 832)

#: (milli-CPUs, MiB, share) that openb's pods ask for; for more than one GPU, per GPU
_DEMANDS_SHARE = (
    (3152, 5600, 0.37), (11908, 47104, 0.21), (8000, 30517, 0.16), (4000, 22888, 0.07), (4000, 15258, 0.06),
    (4152, 10600, 0.05), (4000, 30517, 0.04), (6000, 6144, 0.03), (1000, 2048, 0.01),
)
_DEMANDS_ONE = (
    (11300, 49152, 0.27), (11400, 48128, 0.17), (3152, 5600, 0.14), (18708, 64512, 0.08),
    (9810, 41560, 0.06), (15700, 58368, 0.05), (12000, 24576, 0.06), (11908, 47104, 0.05),
    (8000, 16384, 0.06), (16000, 32768, 0.06),
)
_DEMANDS_GANG = (
    (8025, 32896, 0.29), (11000, 40960, 0.25), (8050, 33024, 0.23), (15050, 80128, 0.09), (3000, 32768, 0.05),
    (15000, 92160, 0.09),
)
# fmt: on


@generator("pai-like")
def pai_like(
    rng: np.random.Generator,
    *,
    jobs: int | None = None,
    days: float | None = None,
    gpus: int | None = None,
    load: float | None = None,
    max_gpus: int | None = None,
    steady: bool = False,
    typed_share: float = 0.3,
) -> Trace:
    """Alibaba PAI, 2020: shares of a GPU, 1,350 users, GPU types, CPU and memory demands.

    `typed_share` of the jobs insist on a GPU type; set it to 0 for a cluster whose GPUs have no type.
    """
    if not 0 <= typed_share <= 1:
        raise InputError("typed_share must be between 0 and 1", column="typed_share", value=typed_share, accepts="0..1")
    trace = build(rng, MIX, Scale.of(MIX, jobs, days, gpus, load, max_gpus, steady))
    assert trace.gpu_share_milli is not None
    one, gang = trace.gpu_share_milli == 1000, trace.gpus > 1
    demands = np.empty((2, len(trace)), dtype=np.int64)
    for which, table in ((~one, _DEMANDS_SHARE), (one & ~gang, _DEMANDS_ONE), (gang, _DEMANDS_GANG)):
        demands[:, which] = _demands(rng, table, int(which.sum()))
    demands *= trace.gpus
    kinds = Names(_types(rng, gang, typed_share), _TYPES) if typed_share > 0 else None
    return replace(trace, gpu_type=kinds, cpu_milli=demands[0], memory_mib=demands[1])


def _demands(rng: np.random.Generator, table: tuple[tuple[int, int, float], ...], count: int) -> Longs:
    rows = np.array([row[:2] for row in table], dtype=np.int64)
    return np.asarray(rows[_pick(rng, [row[2] for row in table], count)].T)


def _types(rng: np.random.Generator, gang: np.ndarray[tuple[int], np.dtype[np.bool_]], share: float) -> Ints:
    kinds = _pick(rng, _TYPE_GPUS, len(gang))
    kinds[gang] = _pick(rng, _TYPE_GPUS_GANG, int(gang.sum()))
    kinds[rng.random(len(gang)) >= share] = -1
    return kinds


def _pick(rng: np.random.Generator, weights: Floats | list[float] | tuple[int, ...], count: int) -> Ints:
    ranks = np.cumsum(weights) / np.sum(weights)
    found = np.searchsorted(ranks, rng.random(count), side="right")
    return np.minimum(found, len(ranks) - 1).astype(np.int32)
