"""Where runs were: GPUs to nodes, the nodes of each run, and when nodes were down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fairlead.model.cluster import ClusterSpec
from fairlead.model.event import EventKind
from fairlead.record.journal import Journal
from fairlead.record.runs import Floats, Ints, Longs, Runs, rows_of
from fairlead.record.steps import Spans

#: runs expanded at once; keeps the memory of a preemptive policy's millions of runs bounded
_CHUNK = 1 << 19


@dataclass(frozen=True)
class Held:
    """Pairs of a run (its position in Runs) and something it held: a GPU or a node."""

    run: Ints
    what: Ints


def node_gpus(cluster: ClusterSpec) -> Ints:
    return np.array([node.gpus for node in cluster.nodes], dtype=np.int32)


def node_of_gpu(cluster: ClusterSpec) -> Ints:
    gpus = node_gpus(cluster)
    return np.repeat(np.arange(len(gpus), dtype=np.int32), gpus)


def held_gpus(journal: Journal, runs: Runs) -> Iterator[Held]:
    """Every (run, GPU), in chunks; CPU jobs hold none."""
    gpus = runs.gpus
    for first in range(0, len(runs), _CHUNK):
        chunk = slice(first, first + _CHUNK)
        count = gpus[chunk]
        begin = np.cumsum(count) - count
        run = np.repeat(np.arange(first, first + len(count), dtype=np.int32), count)
        at = np.arange(len(run)) + np.repeat(runs.offset[chunk] - begin, count)
        yield Held(run, journal.gpu_ids[at])


def held_nodes(journal: Journal, runs: Runs) -> Held:
    """Every (run, node). A node stands once per stretch of neighbouring GPUs of a run, so it may stand
    twice."""
    node_of = node_of_gpu(journal.cluster)
    run: list[Ints] = []
    what: list[Ints] = []
    for held in held_gpus(journal, runs):
        node = node_of[held.what]
        keep = np.ones(len(node), dtype=np.bool_)
        keep[1:] = (np.diff(held.run) != 0) | (np.diff(node) != 0)
        run.append(held.run[keep])
        what.append(node[keep])
    none = np.zeros(0, dtype=np.int32)
    return Held(np.concatenate([none, *run]), np.concatenate([none, *what]))


def down_spans(journal: Journal, begin_s: float, end_s: float) -> Spans:
    """When which node was down, cut to a window. Failures are few: a plain loop does."""
    since: dict[int, float] = {}
    found: list[tuple[int, float, float]] = []
    for row in rows_of(journal, (EventKind.NODE_DOWN, EventKind.NODE_UP)).tolist():
        node, time_s = int(journal.job[row]), float(journal.time_s[row])
        if journal.kind[row] == EventKind.NODE_DOWN:
            since.setdefault(node, time_s)
        elif node in since:
            found.append((node, since.pop(node), time_s))
    found += [(node, time_s, end_s) for node, time_s in since.items()]
    cut = [(n, max(b, begin_s), min(e, end_s)) for n, b, e in found if b < end_s and e > begin_s]
    begins: Floats = np.array([b for _, b, _ in cut], dtype=np.float64)
    ends: Floats = np.array([e for _, _, e in cut], dtype=np.float64)
    return Spans(np.array([n for n, _, _ in cut], dtype=np.int32), begins, ends)


def count_moves(journal: Journal, runs: Runs, before: Longs, after: Longs) -> int:
    """How many of the runs `after` were on other nodes than the runs `before`, pair by pair."""
    return int(np.count_nonzero(_signature(journal, runs, before) != _signature(journal, runs, after)))


def _signature(journal: Journal, runs: Runs, chosen: Longs) -> Longs:
    """A number per run that depends on its set of nodes only: the sum of a 64-bit mix of each of them."""
    part = Runs(
        runs.job[chosen],
        runs.start_s[chosen],
        runs.end_s[chosen],
        runs.end_kind[chosen],
        runs.offset[chosen],
        runs.gpus[chosen],
        runs.weight[chosen],
    )
    held = held_nodes(journal, part)
    pairs = np.sort((held.run.astype(np.int64) << 32) | held.what)
    pairs = pairs[np.diff(pairs, prepend=-1) != 0]  # a node once per run
    mixed = (pairs & 0xFFFFFFFF).astype(np.uint64) + np.uint64(1)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    # sums that wrap around at 64 bits are as good; a run without GPUs keeps 0
    total = np.zeros(len(chosen), dtype=np.uint64)
    first = np.flatnonzero(np.diff(pairs >> 32, prepend=-1))
    if len(first):
        total[(pairs >> 32)[first]] = np.add.reduceat(mixed, first)
    return total.view(np.int64)
