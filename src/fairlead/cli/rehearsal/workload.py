"""A workload that is short enough to be lived through: seconds and minutes instead of hours and days."""

from __future__ import annotations

import numpy as np

from fairlead.workload.trace import Names, Trace

TENANTS = ("vision", "speech", "search")
#: how many jobs ask for how many GPUs: most for one, a few for a whole node
SIZES = ((1, 0.5), (2, 0.25), (4, 0.25))


def mix(jobs: int, gpus: int, load: float, mean_s: float, seed: int, largest: int) -> Trace:
    """Jobs of several tenants and sizes that come at random and ask for `load` of the GPUs. Lengths are spread over a factor of
    ten or more around the mean, as policies that look at them need."""
    rng = np.random.Generator(np.random.PCG64(seed))
    sizes = [(size, part) for size, part in SIZES if size <= largest]
    weights = np.array([part for _, part in sizes])
    asked = rng.choice([size for size, _ in sizes], jobs, p=weights / weights.sum()).astype(np.int32)
    length = np.clip(rng.lognormal(0.0, 0.8, jobs), 0.2, 4.0)
    length *= mean_s / length.mean()
    work = float((asked * length).sum())
    gaps = rng.exponential(1.0, jobs)
    submit = np.concatenate([[0.0], np.cumsum(gaps)[:-1]])
    if jobs > 1:
        submit *= work / (gpus * load) / float(gaps.sum())
    tenant = rng.integers(0, len(TENANTS), jobs).astype(np.int32)
    return Trace(
        submit_s=np.round(submit, 3),
        gpus=asked,
        duration_s=np.round(length, 3),
        tenant=Names(tenant, TENANTS),
        source=f"a mix of {jobs} short jobs",
    )


def alike(trace: Trace, jobs: int, seed: int = 0) -> Trace:
    """Other jobs of its kind, drawn from it, that come as fast on average."""
    rng = np.random.Generator(np.random.PCG64(seed))
    drawn = rng.integers(0, len(trace), jobs)
    apart = float(trace.submit_s[-1] - trace.submit_s[0]) / max(len(trace) - 1, 1)
    return Trace(
        submit_s=np.cumsum(rng.exponential(1.0, jobs)) * apart,
        gpus=trace.gpus[drawn],
        duration_s=trace.duration_s[drawn],
        priority=None if trace.priority is None else trace.priority[drawn],
        tenant=None if trace.tenant is None else Names(trace.tenant.codes[drawn], trace.tenant.values),
    )
