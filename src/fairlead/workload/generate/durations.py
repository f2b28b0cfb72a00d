"""Durations from quantile tables, so that sizes keep their distribution whatever the tenants do within it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairlead.workload.generate import normal
from fairlead.workload.generate.mix import Mix
from fairlead.workload.trace import Floats, Longs


def score_tables(mix: Mix, shares: Floats) -> Floats:
    """For each size, the logarithm of the duration at each score of `normal.GRID`.

    Tenants' scores have their own mean and deviation, so those of one size are a mixture of normals. Its
    exact distribution turns a score into a rank, and the size's quantile table turns the rank into a duration.
    """
    tables = np.empty((len(mix.sizes_milli), len(normal.GRID)))
    levels = np.array(mix.levels)
    for size, seconds in enumerate(mix.durations_s):
        weights = shares[:, size]
        total = weights.sum()
        if total <= 0:
            tables[size] = 0.0
            continue
        rank = np.zeros(len(normal.GRID))
        for tenant, weight in enumerate(weights.tolist()):
            mean, deviation = mix.pace(tenant, size)
            rank += weight / total * normal.cdf((normal.GRID - mean) / deviation)
        tables[size] = np.interp(rank, levels, np.log(seconds))
    return tables


def look_up(tables: Floats, size: Longs, score: Floats) -> Floats:
    """Durations in whole seconds, at least one."""
    grid = normal.GRID
    last = len(grid) - 2
    place = (score - grid[0]) * ((len(grid) - 1) / (grid[-1] - grid[0]))
    np.clip(place, 0.0, last + 1.0, out=place)
    cell = np.minimum(place.astype(np.int64), last)
    place -= cell
    cell += size * len(grid)
    flat = tables.ravel()
    low = flat[cell]
    place *= flat[cell + 1] - low
    place += low
    np.exp(place, out=place)
    np.rint(place, out=place)
    return np.asarray(np.maximum(place, 1.0, out=place))


def table_means(levels: Sequence[float], durations_s: Sequence[Sequence[float]]) -> Floats:
    """The mean duration that each table stands for."""
    ranks = (np.arange(20_000) + 0.5) / 20_000
    return np.array([np.exp(np.interp(ranks, levels, np.log(seconds))).mean() for seconds in durations_s])
