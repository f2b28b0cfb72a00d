"""Step functions of time: averages over bins, integrals, and when a group had anything at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.record.runs import Floats, Ints, Longs, sum_by
from fairlead.record.spread import groups as group_positions


@dataclass(frozen=True)
class Bins:
    """`count` equal stretches of time."""

    begin_s: float
    end_s: float
    count: int

    @property
    def width_s(self) -> float:
        return (self.end_s - self.begin_s) / self.count

    @property
    def edges_s(self) -> Floats:
        return np.linspace(self.begin_s, self.end_s, self.count + 1)

    def of(self, time_s: Floats) -> Longs:
        at = ((time_s - self.begin_s) / self.width_s).astype(np.int64)
        return np.clip(at, 0, self.count - 1, out=at)


def bins_for(begin_s: float, end_s: float, most: int) -> Bins:
    """At most `most` bins and none shorter than a second; a run of no length gets one bin of one second."""
    length = max(end_s - begin_s, 1.0)
    return Bins(begin_s, begin_s + length, int(np.clip(length, 1, most)))


def bin_averages(time_s: Floats, delta: Floats, bins: Bins) -> Floats:
    """Time-weighted average per bin of the step function that changes by `delta` at `time_s` (in any order).

    The averages times the bin width add up to the function's integral: nothing is lost by drawing fewer
    points.
    """
    return cell_averages(np.zeros(len(time_s), dtype=np.int64), 1, time_s, delta, bins).reshape(-1)


def cell_averages(row: Longs, rows: int, time_s: Floats, delta: Floats, bins: Bins) -> Floats:
    """As `bin_averages`, for one function per row at once: an array of rows × bins."""
    # a change counts in its own bin for what is left of that bin, and fully in all later ones
    column = bins.of(time_s)
    cell = row * bins.count + column
    left_s = bins.edges_s[1:][column] - time_s
    size = rows * bins.count
    inside = sum_by(cell, delta * left_s, size).reshape(rows, bins.count)
    change = sum_by(cell, delta, size).reshape(rows, bins.count)
    level = np.zeros((rows, bins.count))
    np.cumsum(change[:, :-1], axis=1, out=level[:, 1:])
    return level + inside / bins.width_s


@dataclass(frozen=True)
class Spans:
    """Stretches of time by group; within a group they neither overlap nor touch."""

    group: Ints
    begin_s: Floats
    end_s: Floats

    def total_s(self, groups: int) -> Floats:
        return sum_by(self.group, self.end_s - self.begin_s, groups)


def union(group: Ints, begin_s: Floats, end_s: Floats, groups: int) -> Spans:
    """When each group had at least one of its stretches."""
    ends = np.argsort(end_s)
    begins = np.argsort(begin_s, kind="stable")
    # begins before ends at the same instant, so that stretches which touch become one
    times = np.concatenate([begin_s[begins], end_s[ends]])
    order = np.argsort(times, kind="stable")
    code = np.concatenate([group[begins], group[ends]])[order]
    delta = np.where(order < len(begins), 1, -1)
    by_code, _ = group_positions(code, groups)
    delta = delta[by_code]
    level = np.cumsum(delta)
    opens = by_code[(level == 1) & (delta == 1)]
    closes = by_code[level == 0]
    ordered = times[order]
    return Spans(code[opens], ordered[opens], ordered[closes])


def average_between(spans: Spans, begin_s: Floats, end_s: Floats) -> Floats:
    """How many of the spans were open on average between each `begin_s` and `end_s`; where they are equal,
    1."""
    times = np.concatenate([spans.begin_s, spans.end_s])
    order = np.argsort(times, kind="stable")
    at = times[order]
    level = np.cumsum(np.where(order < len(spans.begin_s), 1, -1))
    integral = np.zeros(len(at))
    np.cumsum(level[:-1] * np.diff(at), out=integral[1:])
    length = end_s - begin_s
    area = np.interp(end_s, at, integral) - np.interp(begin_s, at, integral)
    return np.divide(area, length, out=np.ones_like(length), where=length > 0)
