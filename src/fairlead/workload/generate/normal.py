"""The normal distribution by table: numpy has no error function, which turning scores into ranks needs."""

from __future__ import annotations

import math

import numpy as np

from fairlead.workload.trace import Floats

GRID: Floats = np.linspace(-8.0, 8.0, 6401)
_CDF: Floats = np.array([0.5 * math.erfc(-z / math.sqrt(2.0)) for z in GRID.tolist()])


def cdf(score: Floats) -> Floats:
    return np.interp(score, GRID, _CDF)


def score(rank: Floats) -> Floats:
    """The inverse of `cdf`, for ranks between 0 and 1."""
    return np.interp(rank, _CDF, GRID)
