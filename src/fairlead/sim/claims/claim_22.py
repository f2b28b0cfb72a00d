"""Claim 22: how many GPUs sharing saves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fairlead.model.cluster import ClusterSpec, parse_cluster_shape
from fairlead.model.event import EventKind
from fairlead.record.journal import Journal
from fairlead.record.runs import fold_runs
from fairlead.sim.claims.result import Ask, Figure, Form, Result
from fairlead.sim.claims.workloads import data_file
from fairlead.sim.run import simulate
from fairlead.workload.generate import generate
from fairlead.workload.readers import load_trace
from fairlead.workload.trace import Floats, Trace

PODS = Path("pods", "openb_pod_list_default.csv")
PAPER_MEAN, PAPER_PEAK = 0.50, 0.73
HOUR_S = 3600.0
#: more than any hour needs, so that nobody waits and all that differs is who shares
AMPLE = "1200x8"
JOBS = 60_000


@dataclass(frozen=True)
class Saved:
    mean: float  #: of the GPU-hours
    peak: float  #: of the hour in which most is saved
    busiest: float  #: of the hour in which most GPUs would be in use without sharing


def measure(ask: Ask) -> Result:
    traces: dict[str, Trace] = {}
    if ask.data is not None:
        pods = load_trace(data_file(ask.data, PODS), limit=ask.jobs).trace
        traces["openb pods of 2023"] = pods
    made = generate("pai-like", seed=1, jobs=ask.jobs or JOBS, gpus=2000, load=0.5, typed_share=0.0)
    traces["generated pai-like jobs"] = made
    figures: list[Figure] = []
    for name, trace in traces.items():
        found = saved(plain(trace), parse_cluster_shape(AMPLE))
        figures.append(
            Figure(
                f"GPUs saved, {name}",
                ("mean", "best hour", "busiest hour", "mean at best"),
                (PAPER_MEAN, PAPER_PEAK, None, None),
                (found.mean, found.peak, found.busiest, at_best(plain(trace))),
                None,
                Form.share,
            )
        )
        assert trace.gpu_share_milli is not None
        asked = trace.gpu_share_milli[trace.gpus > 0]
        figures.append(
            Figure(
                f"jobs that ask for a part of a GPU, {name}",
                ("",),
                (None,),
                (float(np.mean(asked < 1000)),),
                None,
                Form.share,
            )
        )
    return Result(
        claim=22,
        title="What sharing saves",
        setting=(
            f"{' and '.join(f'{len(trace):,} {name}' for name, trace in traces.items())}, each replayed with its shares and with a whole"
            " GPU for each of them, on more GPUs than are ever needed, placer consolidate (the fullest GPU that has room); a GPU"
            " is in use while anybody is on it"
        ),
        figures=tuple(figures),
        differs=_DIFFERS,
    )


def plain(trace: Trace) -> Trace:
    """Jobs with a GPU, and what they ask of GPUs alone."""
    some = trace.gpus > 0
    shares = None if trace.gpu_share_milli is None else trace.gpu_share_milli[some]
    return Trace(trace.submit_s[some], trace.gpus[some], trace.duration_s[some], gpu_share_milli=shares)


def at_best(trace: Trace) -> float:
    """The part of the GPU time that would be saved if shares left no gaps."""
    assert trace.gpu_share_milli is not None
    whole_s = trace.gpus * trace.duration_s
    return 1 - float((whole_s * trace.gpu_share_milli / 1000.0).sum() / whole_s.sum())


def saved(trace: Trace, spec: ClusterSpec) -> Saved:
    shared = in_use(simulate(trace, spec, "fifo-backfill").journal)
    alone = in_use(simulate(replace(trace, gpu_share_milli=None), spec, "fifo-backfill").journal)
    hours = min(len(shared), len(alone))
    busy = alone[:hours] > 0
    part = 1 - shared[:hours][busy] / alone[:hours][busy]
    return Saved(
        mean=1 - float(shared.sum() / alone.sum()),
        peak=float(part.max()),
        busiest=float(part[np.argmax(alone[:hours][busy])]),
    )


def in_use(journal: Journal) -> Floats:
    """GPU-hours in use by hour: how long each GPU had anybody on it."""
    assert not np.isin(journal.kind, (EventKind.SUSPEND, EventKind.FAIL, EventKind.KILL)).any(), (
        "nobody is interrupted here"
    )
    runs = fold_runs(journal)
    count = np.maximum(journal.jobs.gpus[runs.job], 1)
    run = np.repeat(np.arange(len(count)), count)
    at = np.repeat(runs.offset, count) + np.arange(len(run)) - np.repeat(np.cumsum(count) - count, count)
    gpu, start, end = journal.gpu_ids[at], runs.start_s[run], runs.end_s[run]
    order = np.lexsort((run, start, gpu))
    gpu, start, end = gpu[order], start[order], end[order]
    # a run adds what lies behind everything before it on the same GPU
    hours = np.zeros(int(np.ceil(end.max() / HOUR_S)) + 1)
    until, last = 0.0, -1
    for g, a, b in zip(gpu.tolist(), start.tolist(), end.tolist()):
        if g != last:
            until, last = 0.0, g
        a, until = max(a, until), max(until, b)
        if b > a:
            _add(hours, a, b)
    return hours


def _add(hours: Floats, start_s: float, end_s: float) -> None:
    first, last = int(start_s // HOUR_S), int(end_s // HOUR_S)
    if first == last:
        hours[first] += (end_s - start_s) / HOUR_S
        return
    hours[first] += first + 1 - start_s / HOUR_S
    hours[first + 1 : last] += 1.0
    hours[last] += end_s / HOUR_S - last


_DIFFERS = (
    "What can be saved is bounded by what is asked for (at best: no gaps at all), and in neither workload is that half: openb's"
    " shares are large and its long-running pods take whole GPUs; PAI's published sizes are those of whole jobs, while in its"
    " production each of a job's many instances asks for a part of a GPU, and instances could not be had. Of what is to be had,"
    " packing shares on the fullest GPU saves about three quarters."
)
