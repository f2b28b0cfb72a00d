"""The textbook workload: Poisson arrivals, one duration law, gangs drawn from a list."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fairlead.model.errors import InputError
from fairlead.model.suggest import unknown
from fairlead.workload.generate.registry import generator
from fairlead.workload.trace import Floats, Trace

_LAWS = ("exponential", "lognormal", "fixed")


@generator("poisson")
def poisson(
    rng: np.random.Generator,
    *,
    jobs: int | None = None,
    days: float | None = None,
    gpus: int = 64,
    load: float | None = None,
    sizes: str | Sequence[int] = (1, 2, 4, 8),
    durations: str = "exponential",
    mean_s: float = 3600.0,
    sigma: float = 1.5,
) -> Trace:
    """Poisson arrivals, gangs drawn evenly from `sizes`, durations of mean `mean_s`.

    `durations` is exponential, lognormal (with `sigma`) or fixed. A size may be listed several times to make it
    more frequent.
    """
    if durations not in _LAWS:
        raise unknown("duration law", durations, _LAWS)
    if not mean_s > 0:
        raise InputError("mean_s must be above 0", column="mean_s", value=mean_s)
    gangs = _sizes(sizes)
    if jobs is not None and days is not None and load is not None:
        raise InputError("jobs, days and load can't all be chosen: any two give the third", accepts="two of them")
    if jobs is None:
        span_s = 86400.0 * (days if days is not None else 1.0)
        load = load if load is not None else 0.7
        jobs = max(1, round(span_s * gpus * load / (float(gangs.mean()) * mean_s)))
    size = gangs[rng.integers(0, len(gangs), jobs)]
    duration_s = _durations(rng, durations, jobs, mean_s, sigma)
    if days is not None and load is None:
        span_s = 86400.0 * days
    else:
        span_s = float((size * duration_s).sum()) / (gpus * (load if load is not None else 0.7))
    at = np.cumsum(rng.exponential(1.0, jobs))
    at -= at[0]
    if jobs > 1:
        at *= span_s / at[-1]
    return Trace(submit_s=at, gpus=size.astype(np.int32), duration_s=duration_s, source="poisson")


def _sizes(sizes: str | Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """`1,2,4` or a sequence of whole numbers."""
    parts = sizes.split(",") if isinstance(sizes, str) else sizes
    try:
        found = np.array([int(part) for part in parts], dtype=np.int64)
    except (TypeError, ValueError):
        found = np.empty(0, dtype=np.int64)
    if len(found) == 0 or (found < 1).any():
        raise InputError("sizes are whole numbers of GPUs", column="sizes", value=sizes, accepts="such as 1,2,4,8")
    return found


def _durations(rng: np.random.Generator, law: str, jobs: int, mean_s: float, sigma: float) -> Floats:
    if law == "fixed":
        return np.full(jobs, mean_s)
    if law == "exponential":
        return np.maximum(rng.exponential(mean_s, jobs), 1.0)
    return np.maximum(rng.lognormal(math.log(mean_s) - sigma**2 / 2, sigma, jobs), 1.0)
