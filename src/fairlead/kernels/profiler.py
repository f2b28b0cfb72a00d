"""What a planner may learn of jobs by watching them: how fast they go and how much of their GPU they use.

This is the interface: planners ask here and read neither rates nor profiles themselves. In a simulation J_RATE and the profile
are the truth, and an observation is off by up to Q_NOISE, drawn anew each time. A live executor writes what it measured into
the same columns and states its own error; nothing above can tell which it was.
"""

from __future__ import annotations

from fairlead.kernels.columns import (
    J_GIB,
    J_RATE,
    K_PROFILE,
    K_STARTS,
    Q_NOISE,
    R_RATES,
    R_SEED,
    R_USE,
    Jobs,
    Queue,
)
from fairlead.kernels.jit import hot, inner, int64
from fairlead.kernels.rng import uniform

#: draws of a job's numbers that are not the profiler's are below these
_RATE, _USE = 1 << 20, 1 << 21


@hot
def error(q: Queue) -> float:
    """How far off an observation may be, as a fraction, either way."""
    return q.limit[Q_NOISE]


@inner
def blurred(j: Jobs, q: Queue, i: int, value: float, what: int, now: float) -> float:
    draw = uniform(q.counter[R_SEED], i, int64(j.ints[K_STARTS, i]), what + int(now) % _RATE)
    return value * (1.0 + q.limit[Q_NOISE] * (2.0 * draw - 1.0))


@inner
def seen_rate(j: Jobs, q: Queue, i: int, now: float) -> float:
    """Work that running job i does per second: mini-batches, in any unit that is the same for all its runs."""
    rate = j.floats[J_RATE, i] if q.counter[R_RATES] != 0 else 1.0
    return blurred(j, q, i, rate, _RATE, now)


@inner
def seen_use(j: Jobs, q: Queue, i: int, now: float) -> float:
    """The part of a GPU that job i uses when it has one to itself, at most 1."""
    return min(1.0, blurred(j, q, i, q.rates[int64(j.ints[K_PROFILE, i]), q.counter[R_USE]], _USE, now))


@hot
def seen_gib(j: Jobs, i: int) -> float:
    """GPU memory of job i, on each of its GPUs, as far as it is known."""
    return j.floats[J_GIB, i]
