"""A regression tree (CART): splits that leave the least squared error, over features cut into at most 64 bins.

Whole levels are grown at once from histograms, so training costs a few passes over the sample however many leaves there
are. Sums are taken in the sample's order and nothing is drawn, so every machine grows the same tree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairlead.kernels.columns import F8, I8

_BINS = 64
#: a split must take away this part of the sample's squared error, or it only follows noise
_LEAST_GAIN = 1e-6


@dataclass(frozen=True)
class Tree:
    """Node 0 is the root. Whoever is at most `limit` in `feature` goes to `child`, others to `child` + 1."""

    feature: I8  #: -1 for a leaf
    child: I8
    limit: F8  #: of a leaf: its value

    def predict(self, x: F8) -> F8:
        """The value for each column of x, [feature, sample]."""
        at = np.zeros(x.shape[1], np.int64)
        while True:
            inside = np.flatnonzero(self.feature[at] >= 0)
            if len(inside) == 0:
                return self.limit[at]
            node = at[inside]
            right = x[self.feature[node], inside] > self.limit[node]
            at[inside] = self.child[node] + right


def grow(x: F8, y: F8, *, depth: int, least: int) -> Tree:
    """The tree for samples x[feature, sample] with values y; no leaf has fewer than `least` samples."""
    edges = [_edges(column) for column in x]
    bins = np.array([np.searchsorted(edge, column, side="left") for edge, column in zip(edges, x)])
    feature, child, limit = [-1], [0], [_mean(y)]
    at = np.zeros(len(y), np.int64)
    floor = _LEAST_GAIN * max(_squared_error(y), 1e-12)
    nodes = np.zeros(1, np.int64)
    for _ in range(depth):
        live = at >= nodes[0]
        split = _best_splits(bins[:, live], y[live], at[live] - nodes[0], len(nodes), least)
        grown: list[int] = []
        for node, (gain, by, cut) in zip(nodes.tolist(), split):
            if gain <= floor:
                continue
            feature[node], limit[node], child[node] = by, float(edges[by][cut]), len(feature)
            grown.append(node)
            feature += [-1, -1]
            child += [0, 0]
            limit += [0.0, 0.0]
        if not grown:
            break
        at = _descend(x, at, np.array(feature, np.int64), np.array(child, np.int64), np.array(limit))
        first = child[grown[0]]
        nodes = np.arange(first, len(feature))
        inside = at >= first
        count = np.bincount(at[inside] - first, minlength=len(nodes))
        total = np.bincount(at[inside] - first, weights=y[inside], minlength=len(nodes))
        limit[first:] = (total / count).tolist()
    return Tree(np.array(feature, np.int64), np.array(child, np.int64), np.array(limit))


def _edges(column: F8) -> F8:
    """Where a feature may be cut: below the largest of its values, or of their quantiles where there are many."""
    values = np.unique(column)
    if len(values) > _BINS:
        ordered = np.sort(column)
        values = np.unique(ordered[(np.arange(1, _BINS + 1) * len(ordered)) // _BINS - 1])
    return values[:-1]


def _best_splits(
    bins: npt.NDArray[np.int64], y: F8, node: npt.NDArray[np.int64], nodes: int, least: int
) -> list[tuple[float, int, int]]:
    """Per node: how much the best split takes off the squared error, by which feature, after which bin."""
    width = int(bins.max(initial=0)) + 1
    best = [(0.0, -1, 0)] * nodes
    for by, column in enumerate(bins):
        where = node * width + column
        count = np.bincount(where, minlength=nodes * width).reshape(nodes, width)
        total = np.bincount(where, weights=y, minlength=nodes * width).reshape(nodes, width)
        left_n, left = np.cumsum(count, axis=1), np.cumsum(total, axis=1)
        n, whole = left_n[:, -1:], left[:, -1:]
        right_n = n - left_n
        fits = (left_n >= least) & (right_n >= least)
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = left**2 / left_n + (whole - left) ** 2 / right_n - whole**2 / n
        gain = np.where(fits, gain, -np.inf)
        cut = np.argmax(gain, axis=1)
        for k, (value, after) in enumerate(zip(gain[np.arange(nodes), cut].tolist(), cut.tolist())):
            if value > best[k][0]:
                best[k] = (value, by, after)
    return best


def _descend(x: F8, at: I8, feature: I8, child: I8, limit: F8) -> I8:
    """One step down for those whose node has been split."""
    inside = np.flatnonzero(feature[at] >= 0)
    node = at[inside]
    down = at.copy()
    down[inside] = child[node] + (x[feature[node], inside] > limit[node])
    return down


def _mean(y: F8) -> float:
    return float(np.cumsum(y)[-1]) / len(y)


def _squared_error(y: F8) -> float:
    return float(np.cumsum((y - _mean(y)) ** 2)[-1])
