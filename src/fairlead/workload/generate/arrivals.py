"""When batches and their jobs are submitted: a weekly rhythm with noisy days and hours."""

from __future__ import annotations

import math

import numpy as np

from fairlead.workload.generate.mix import Rhythm
from fairlead.workload.trace import Floats, Longs

HOUR = 3600.0
DAY = 24 * HOUR
#: how much of a day's deviation carries over to the next
_DAY_MEMORY = 0.5


def hourly_weights(rng: np.random.Generator, rhythm: Rhythm, span_s: float) -> Floats:
    """The arrival rate of each hour from second 0 (a Monday, midnight), up to a constant."""
    hours = max(1, math.ceil(span_s / HOUR))
    days = (hours + 23) // 24
    fresh = rng.standard_normal(days) * math.sqrt(1 - _DAY_MEMORY**2)
    noise = np.empty(days)
    level = rng.standard_normal()
    for day, step in enumerate(fresh.tolist()):
        level = _DAY_MEMORY * level + step
        noise[day] = level
    weights = np.tile(np.array(rhythm.hours), days)[:hours]
    weekday = np.array(rhythm.weekdays)[np.arange(days) % 7]
    weights = weights * np.repeat(weekday * np.exp(rhythm.day_sigma * noise), 24)[:hours]
    weights *= np.exp(rhythm.hour_sigma * rng.standard_normal(hours))
    return np.asarray(weights)


def batch_starts(rng: np.random.Generator, rhythm: Rhythm, batches: int, span_s: float) -> Floats:
    """Ascending start times within the span."""
    weights = hourly_weights(rng, rhythm, span_s)
    edges = np.minimum(np.arange(len(weights) + 1) * HOUR, span_s)
    # a last hour that the span cuts short gets its part only
    mass = np.concatenate(([0.0], np.cumsum(weights * np.diff(edges))))
    draws = rng.random(batches)
    draws.sort()
    draws *= mass[-1]
    return np.asarray(np.interp(draws, mass, edges))


def job_times(rng: np.random.Generator, rhythm: Rhythm, starts: Floats, lengths: Longs, span_s: float) -> Floats:
    """Each job's time: its batch's start plus the gaps before it. What runs over the end wraps around."""
    jobs = int(lengths.sum())
    gaps = rng.standard_normal(jobs)
    gaps *= rhythm.gap_sigma
    np.exp(gaps, out=gaps)
    # one gap can't be longer than two hours: a longer pause is a new batch
    gaps *= rhythm.gap_median_s
    np.minimum(gaps, 2 * HOUR, out=gaps)
    first = np.cumsum(lengths) - lengths
    gaps[first] = 0.0
    np.cumsum(gaps, out=gaps)
    gaps += np.repeat(starts - gaps[first], lengths)
    return np.asarray(np.mod(gaps, span_s)) if span_s > 0 else np.zeros(jobs)
