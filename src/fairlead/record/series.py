"""What the charts draw: use and queue over time, distributions, and who held which GPU when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from fairlead.model.event import EventKind
from fairlead.record.breakdown import tenant_groups
from fairlead.record.journal import JobTable, Journal, Outcome
from fairlead.record.outcome import fold_outcome, held_gpu_s, wait_s
from fairlead.record.places import down_spans, held_gpus, node_of_gpu
from fairlead.record.runs import Floats, Ints, Runs, fold_runs, gpu_weight, sum_by, window_s
from fairlead.record.spread import groups, interpolate
from fairlead.record.steps import Bins, bin_averages, bins_for, cell_averages

MOST_POINTS = 600
MOST_ROWS = 256
#: colours that people can tell apart; tenants beyond the largest of them share the last one
MOST_COLOURS = 12


@dataclass(frozen=True)
class Lines:
    """Time-weighted averages per bin: each column × the bin width adds up to the run's total."""

    bins: Bins
    allocated_gpus: Floats
    #: as `computing_gpu_s` of the metrics: each finished job's useful GPU-seconds spread evenly over what it held
    computing_gpus: Floats
    queued_jobs: Floats
    queued_gpus: Floats

    @property
    def middle_s(self) -> Floats:
        """Seconds from the first submission to the middle of each bin."""
        edges = self.bins.edges_s - self.bins.begin_s
        return (edges[1:] + edges[:-1]) / 2


def fold_lines(
    journal: Journal, outcome: Outcome | None = None, runs: Runs | None = None, most: int = MOST_POINTS
) -> Lines:
    """A job is queued from its submission, or from whatever stopped it for a while, until it starts or is
    refused."""
    runs = fold_runs(journal) if runs is None else runs
    outcome = fold_outcome(journal, runs) if outcome is None else outcome
    jobs = journal.jobs
    bins = bins_for(*window_s(journal, runs), most)
    weight = gpu_weight(jobs)
    held_s = held_gpu_s(jobs, outcome)
    useful = np.where(np.isfinite(outcome.finish_s), np.minimum(held_s, jobs.duration_s * weight), 0.0)
    part = np.divide(useful, held_s, out=np.zeros_like(useful), where=held_s > 0)
    held = runs.weight
    times = np.concatenate([runs.start_s, runs.end_s])
    computing = held * part[runs.job]
    refusals = np.flatnonzero(journal.kind == EventKind.REFUSE)
    back = np.isin(runs.end_kind, (EventKind.SUSPEND, EventKind.FAIL, EventKind.KILL))
    leave = np.concatenate([runs.job, journal.job[refusals]])
    enter = np.concatenate([np.arange(len(weight), dtype=np.int32), runs.job[back]])
    queue_s = np.concatenate([jobs.submit_s, runs.end_s[back], runs.start_s, journal.time_s[refusals]])
    sign = np.concatenate([np.ones(len(enter)), -np.ones(len(leave))])
    inside = queue_s <= bins.end_s  # an unfinished record may know of submissions after its last run
    queue_s, sign = queue_s[inside], sign[inside]
    who = np.concatenate([enter, leave])[inside]
    return Lines(
        bins=bins,
        allocated_gpus=bin_averages(times, np.concatenate([held, -held]), bins),
        computing_gpus=bin_averages(times, np.concatenate([computing, -computing]), bins),
        queued_jobs=bin_averages(queue_s, sign, bins),
        queued_gpus=bin_averages(queue_s, sign * weight[who], bins),
    )


@dataclass(frozen=True)
class Cdf:
    """`share[i]` of the values are at most `value[i]`."""

    value: Floats
    share: Floats


def fold_cdf(values: Floats, most: int = 400) -> Cdf:
    """Exact at every point it keeps: evenly spaced shares, and ever finer ones towards the long tail."""
    ordered = np.sort(values[np.isfinite(values)])
    count = len(ordered)
    if count == 0:
        return Cdf(np.zeros(0), np.zeros(0))
    if count <= most:
        picked = np.arange(count)
    else:
        tail = most // 4
        even = np.linspace(0, count - 1, most - tail)
        from_end = count - np.geomspace(1, count / 4, tail)
        picked = np.unique(np.concatenate([even, from_end]).astype(np.int64))
    value = np.unique(ordered[picked])
    return Cdf(value, np.searchsorted(ordered, value, side="right") / count)


@dataclass(frozen=True)
class WaitBox:
    """One tenant's waits, in seconds, of its finished jobs."""

    name: str
    finished: int
    mean_s: float
    p5_s: float
    p25_s: float
    p50_s: float
    p75_s: float
    p95_s: float


def tenant_waits(jobs: JobTable, outcome: Outcome) -> tuple[WaitBox, ...]:
    """In the order of the tenants' codes; all jobs in one box where the trace names no tenants."""
    codes, names = tenant_groups(jobs)
    names = names or ["all jobs"]
    order, bounds = groups(codes, len(names))
    column = wait_s(jobs, outcome)[order]
    boxes = []
    for code, name in enumerate(names):
        mine = column[bounds[code] : bounds[code + 1]]
        mine = np.sort(mine[np.isfinite(mine)])
        if len(mine):
            levels = [interpolate(mine, q) for q in (0.05, 0.25, 0.5, 0.75, 0.95)]
            boxes.append(WaitBox(name, len(mine), float(mine.mean()), *levels))
    return tuple(boxes)


@dataclass(frozen=True)
class Raster:
    """Who held the GPUs of each row for most of each bin. Row 0 is the first GPU or node."""

    FREE = 0
    DOWN = 1

    bins: Bins
    row_is: Literal["GPU", "node", "stretch of nodes"]
    row_names: tuple[str, ...]
    codes: npt.NDArray[np.int8]  #: rows × bins; FREE, DOWN, or 2 + the position in `names`
    #: tenants, largest first and the rest together; none: colours only tell jobs apart
    names: tuple[str, ...]


def fold_raster(
    journal: Journal, runs: Runs | None = None, most_rows: int = MOST_ROWS, most_bins: int = MOST_POINTS
) -> Raster:
    """One row per GPU while there is room, then one per node, then one per stretch of neighbouring nodes.

    A cell is free when less than half of its GPU-time is held; otherwise it belongs to whoever held most of
    it.
    """
    runs = fold_runs(journal) if runs is None else runs
    begin_s, end_s = window_s(journal, runs)
    bins = bins_for(begin_s, end_s, most_bins)
    row_is, row_of_gpu, row_names = _rows(journal, most_rows)
    colour, names = _colours(journal, runs)
    rows, colours = len(row_names), int(colour.max(initial=0)) + 1
    row_gpus = np.bincount(row_of_gpu, minlength=rows)
    weight = runs.weight / np.maximum(runs.gpus, 1)
    held = np.zeros((rows * colours, bins.count))
    for piece in held_gpus(journal, runs):
        row = row_of_gpu[piece.what]
        job = runs.job[piece.run]
        cell = row * np.int64(colours) + colour[job]
        part = weight[piece.run] / row_gpus[row]
        times = np.concatenate([runs.start_s[piece.run], runs.end_s[piece.run]])
        cells = np.concatenate([cell, cell])
        held += cell_averages(cells, rows * colours, times, np.concatenate([part, -part]), bins)
    by_colour = held.reshape(rows, colours, bins.count)
    codes = (2 + by_colour.argmax(axis=1)).astype(np.int8)
    codes[by_colour.sum(axis=1) < 0.5] = Raster.FREE
    codes[_down(journal, bins, row_of_gpu, row_gpus) >= 0.5] = Raster.DOWN
    return Raster(bins, row_is, row_names, codes, names)


def _rows(journal: Journal, most: int) -> tuple[Literal["GPU", "node", "stretch of nodes"], Ints, tuple[str, ...]]:
    """What a row is, for each GPU its row, and the rows' names."""
    nodes = journal.cluster.nodes
    node_of = node_of_gpu(journal.cluster)
    if len(node_of) <= most:
        names = tuple(f"{node.name} GPU {i}" for node in nodes for i in range(node.gpus))
        return "GPU", np.arange(len(node_of), dtype=np.int32), names
    per_row = -(-len(nodes) // most)
    firsts = range(0, len(nodes), per_row)
    lasts = [min(first + per_row, len(nodes)) - 1 for first in firsts]
    names = tuple(nodes[a].name if a == b else f"{nodes[a].name} to {nodes[b].name}" for a, b in zip(firsts, lasts))
    return "node" if per_row == 1 else "stretch of nodes", (node_of // per_row).astype(np.int32), names


def _colours(journal: Journal, runs: Runs) -> tuple[Ints, tuple[str, ...]]:
    """For each job its colour. Tenants get them by GPU-seconds held; without tenants jobs get them in
    turn."""
    jobs = journal.jobs
    codes, names = tenant_groups(jobs)
    if not names:
        return np.arange(len(codes), dtype=np.int32) % np.int32(MOST_COLOURS), ()
    held = sum_by(codes[runs.job], (runs.end_s - runs.start_s) * runs.weight, len(names))
    largest = np.argsort(-held, kind="stable")
    shown = largest[held[largest] > 0]
    kept = shown if len(shown) <= MOST_COLOURS else shown[: MOST_COLOURS - 1]
    colour = np.full(len(names), len(kept), dtype=np.int32)
    colour[kept] = np.arange(len(kept))
    rest = len(shown) - len(kept)
    labels = [names[code] for code in kept] + ([f"{rest} others"] if rest else [])
    # a tenant that never held a GPU never draws; any colour that exists will do
    return np.minimum(colour, max(len(labels) - 1, 0)).astype(np.int32)[codes], tuple(labels)


def _down(journal: Journal, bins: Bins, row_of_gpu: Ints, row_gpus: npt.NDArray[np.intp]) -> Floats:
    spans = down_spans(journal, bins.begin_s, bins.end_s)
    node_of = node_of_gpu(journal.cluster)
    first_gpu = np.searchsorted(node_of, spans.group)
    gpus = np.array([journal.cluster.nodes[node].gpus for node in spans.group], dtype=np.int64)
    span = np.repeat(np.arange(len(gpus)), gpus)
    gpu = first_gpu[span] + np.arange(len(span)) - np.repeat(np.cumsum(gpus) - gpus, gpus)
    row = row_of_gpu[gpu].astype(np.int64)
    part = 1.0 / row_gpus[row]
    times = np.concatenate([spans.begin_s[span], spans.end_s[span]])
    both = np.concatenate([row, row])
    return cell_averages(both, len(row_gpus), times, np.concatenate([part, -part]), bins)
