"""Mean and percentiles of a column, whole or by group."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fairlead.record.runs import Floats, Ints, Longs

_LEVELS = (0.50, 0.90, 0.95, 0.99)
#: from here on a sample pays off, and its size
_MANY = 50_000
_SAMPLE = 10_000


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
    if count < len(column):
        # NaNs go last, so the first `count` are the numbers
        column.partition(count - 1)
        column = column[:count]
    mean = float(column.mean())
    if count >= _MANY:
        return Spread(mean, *_select(column))
    column.sort()
    return Spread(mean, *(interpolate(column, q) for q in _LEVELS))


def _select(column: Floats) -> Iterator[float]:
    """The quantiles without ordering the column: a sample says between which two values the ranks around each must lie, and only
    what lies there is sorted. Exact: where the sample misleads, the ranks are counted out of bounds and the whole column is
    partitioned instead."""
    count = len(column)
    sample = np.sort(column[:: count // _SAMPLE])
    for q in _LEVELS:
        slack = 4.0 * math.sqrt(len(sample) * q * (1.0 - q)) + 2.0
        low = float(sample[max(int(q * len(sample) - slack), 0)])
        high = float(sample[min(int(q * len(sample) + slack), len(sample) - 1)])
        rank = int(q * (count - 1))
        is_above = column > low
        up_to_low = count - int(np.count_nonzero(is_above))
        if rank + 1 < up_to_low and np.count_nonzero(column < low) <= rank:
            yield low  # many are equal, as waits of 0 are
            continue
        near = column[is_above & (column <= high)]
        if rank < up_to_low or rank + 1 >= up_to_low + len(near):
            yield interpolate(np.partition(column, [rank, min(rank + 1, count - 1)]), q)
            continue
        near.partition([rank - up_to_low, rank + 1 - up_to_low])
        yield interpolate(near, q, up_to_low, count)


def interpolate(ordered: Floats, q: float, below: int = 0, count: int | None = None) -> float:
    """The q-quantile of a column whose two ranks around q are in their places; numpy's arithmetic, digit for digit.

    `ordered` may be a part of the column: `below` values lie before it, and `count` is of the whole.
    """
    count = len(ordered) if count is None else count
    at = q * (count - 1)
    low = int(at)
    t = at - low
    a = float(ordered[low - below])
    b = float(ordered[min(low + 1, count - 1) - below])
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
