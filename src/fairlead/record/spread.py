"""Mean and percentiles of a column, whole or by group."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairlead.record.runs import Floats, Ints, Longs

_LEVELS = (0.50, 0.90, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Spread:
    """NaN throughout where there was nothing to measure. Percentiles interpolate linearly, as numpy's
    default."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float

    def to_json(self) -> dict[str, float | None]:
        return {
            "mean": number(self.mean),
            "p50": number(self.p50),
            "p90": number(self.p90),
            "p95": number(self.p95),
            "p99": number(self.p99),
        }


NOTHING = Spread(math.nan, math.nan, math.nan, math.nan, math.nan)


def number(value: float) -> float | None:
    """JSON has no NaN: null says that there was nothing to measure."""
    return value if math.isfinite(value) else None


def spread(values: Floats, *, overwrite: bool = False) -> Spread:
    """NaNs are left out. `overwrite` lets it reorder `values` in place of a copy."""
    column = values if overwrite else values.copy()
    count = len(column) - int(np.count_nonzero(np.isnan(column)))
    if count == 0:
        return NOTHING
    # NaNs go last, so the first `count` are the numbers; a partition at the few ranks we read is a third of
    # a sort
    ranks = sorted({min(int(q * (count - 1)) + i, count - 1) for q in _LEVELS for i in (0, 1)})
    if count < len(column):
        ranks.append(count - 1)
    column.partition(ranks)
    numbers = column[:count]
    return Spread(float(numbers.mean()), *(interpolate(numbers, q) for q in _LEVELS))


def interpolate(ordered: Floats, q: float) -> float:
    """The q-quantile of a column whose two ranks around q are in their places; numpy's arithmetic, digit
    for digit."""
    at = q * (len(ordered) - 1)
    low = int(at)
    t = at - low
    a = float(ordered[low])
    b = float(ordered[min(low + 1, len(ordered) - 1)])
    return b - (b - a) * (1.0 - t) if t >= 0.5 else a + (b - a) * t


def by_group(values: Floats, order: Longs, bounds: Longs) -> list[Spread]:
    """One spread per group; `order` and `bounds` as `groups` gives them."""
    column = values[order]
    return [spread(column[bounds[g] : bounds[g + 1]], overwrite=True) for g in range(len(bounds) - 1)]


def groups(codes: Ints, count: int) -> tuple[Longs, Longs]:
    """Positions ordered by code, and where each code's stretch begins (one more for the end)."""
    narrow = codes.astype(np.uint16) if count <= 1 << 16 else codes  # numpy sorts 16 bits by radix
    order = np.argsort(narrow, kind="stable")
    bounds = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(codes, minlength=count), out=bounds[1:])
    return order, bounds
