"""Microsoft's Philly cluster, as its public trace shows it in October 2017.

Fitted to the jobs submitted from 2 to 29 October 2017. Jobs before are in the merged list only if they were
still running when it begins (their median duration is weeks), so they would bend the mix.
"""

from __future__ import annotations

import numpy as np

from fairlead.workload.generate.build import Scale, build
from fairlead.workload.generate.mix import LEVELS, Mix, Outcomes, Repeats, Rhythm, Tenant
from fairlead.workload.generate.registry import generator
from fairlead.workload.trace import Trace

# fmt: off
MIX = Mix(
    name="philly-like",
    origin="2017-10-02T00:00:00",
    cluster_gpus=3205,
    sizes_milli=(1000, 2000, 4000, 8000, 16000, 32000, 64000),
    # of 10,000 jobs, by size; where the durations lie
    tenants=(
        Tenant((4392.3, 19.5, 75.8, 36.8, 0.5, 0.0, 0.4), (0.13, 0.94), (0.17, 0.98), users=60),
        Tenant((1867.2, 4.0, 45.4, 53.6, 0.7, 0.2, 0.4), (0.15, 0.98), (-0.54, 0.81), users=45),
        Tenant((1295.1, 4.7, 21.1, 45.7, 10.7, 0.4, 0.0), (-0.20, 0.47), (0.25, 1.13), users=40),
        Tenant((902.3, 89.4, 3.0, 0.7, 0.5, 0.0, 0.0), (-0.90, 0.90), (-0.76, 0.66), users=30),
        Tenant((198.2, 11.1, 45.7, 90.6, 16.9, 0.2, 0.0), (0.58, 1.59), (0.06, 0.86), users=40),
        Tenant((139.5, 20.9, 47.8, 29.7, 3.3, 1.1, 0.7), (-0.05, 1.62), (0.03, 0.97), users=30),
        Tenant((88.8, 37.6, 36.4, 5.5, 0.0, 0.0, 0.0), (-0.29, 1.21), (0.90, 0.76), users=20),
        Tenant((31.3, 0.0, 46.1, 27.3, 0.0, 0.0, 0.0), (0.85, 1.28), (0.16, 1.05), users=20),
        Tenant((71.4, 1.4, 16.7, 0.0, 0.0, 0.0, 0.0), (-0.20, 1.07), (0.58, 0.54), users=15),
        Tenant((75.8, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0), (1.35, 1.17), (0.00, 1.00), users=5),
        Tenant((5.8, 3.3, 2.5, 47.0, 0.5, 5.6, 0.0), (0.19, 1.50), (-0.29, 0.93), users=10),
        Tenant((9.8, 0.4, 5.5, 1.9, 1.9, 1.2, 0.0), (0.87, 1.18), (-0.41, 0.57), users=5),
    ),
    levels=LEVELS,
    durations_s=(
        (1, 20, 53, 67, 307, 779, 1270, 1770, 2350, 2810,
         5040, 12700, 19300, 32900, 63500, 94800, 271e3, 598e3, 2120e3, 5190e3),
        (2, 5, 10, 13, 16, 19, 22, 208, 2560, 47300,
         116e3, 291e3, 373e3, 455e3, 601e3, 696e3, 924e3, 1480e3, 2200e3, 2580e3),
        (2, 20, 45, 103, 383, 965, 2490, 14600, 40600, 75600,
         128e3, 245e3, 295e3, 354e3, 525e3, 765e3, 1530e3, 2230e3, 2950e3, 4010e3),
        (2, 23, 52, 144, 752, 1410, 5760, 17700, 52e3, 115e3,
         204e3, 404e3, 568e3, 665e3, 991e3, 1180e3, 1970e3, 2770e3, 4130e3, 4340e3),
        (14, 16, 46, 118, 554, 1050, 3980, 18e3, 36500, 67400,
         164e3, 351e3, 573e3, 589e3, 795e3, 830e3, 1260e3, 1500e3, 1710e3, 1710e3),
        (20, 21, 26, 27, 214, 386, 1280, 16300, 47300, 50700,
         54100, 60800, 68900, 93100, 257e3, 318e3, 473e3, 473e3, 473e3, 473e3),
        (137, 138, 141, 145, 305, 546, 602, 793, 1080, 1450,
         1610, 1830, 1940, 2010, 2200, 2200, 2200, 2200, 2200, 2200),
    ),
    rhythm=Rhythm(
        hours=(1.36, 1.32, 1.22, 0.99, 0.95, 1.30, 1.81, 1.91, 1.36, 0.88, 0.69, 0.59,
               0.57, 0.49, 0.41, 0.57, 0.82, 0.79, 0.63, 0.70, 0.94, 1.11, 1.25, 1.35),
        weekdays=(0.97, 1.16, 1.12, 1.20, 1.21, 0.73, 0.61),
        day_sigma=0.30, hour_sigma=0.50, gap_median_s=6.0, gap_sigma=1.5,
    ),
    repeats=Repeats(tail=1.9, campaign_share=0.012, campaign_jobs=(20, 600), again=0.6, likeness=0.55),
    outcomes=Outcomes(failed=(-1.622, 0.288), killed=(-4.021, 0.617), retry=0.45, max_attempts=5),
    user_skew=1.0,
)
# fmt: on


@generator("philly-like")
def philly_like(
    rng: np.random.Generator,
    *,
    jobs: int | None = None,
    days: float | None = None,
    gpus: int | None = None,
    load: float | None = None,
    max_gpus: int | None = None,
    steady: bool = False,
) -> Trace:
    """Microsoft Philly, October 2017: gangs of 1 to 64 GPUs, 12 tenants, mostly short single-GPU jobs."""
    return build(rng, MIX, Scale.of(MIX, jobs, days, gpus, load, max_gpus, steady))
