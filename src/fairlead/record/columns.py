"""The columns in which runs are compared, for the terminal and for the report alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fairlead.record.metrics import Metrics
from fairlead.record.units import digits, duration, percent


@dataclass(frozen=True)
class Column:
    title: str
    help: str
    value: Callable[[Metrics], float]
    text: Callable[[float], str]
    better: int = 0  #: 1 where more is better, -1 where less is, 0 where neither is
    rank: int = 0  #: where room is short, the columns of the highest rank go first


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _three_places(value: float) -> str:
    return f"{value:.3f}"


def _rho_above_1(metrics: Metrics) -> float:
    return metrics.rho_above_1_share


COLUMNS: tuple[Column, ...] = (
    Column("finished", "jobs that finished", lambda m: m.core.finished, _whole, 1, rank=3),
    Column("JCT mean", "from submission to finish", lambda m: m.core.jct_s.mean, duration, -1, rank=0),
    Column("JCT p50", "half of the jobs took no longer", lambda m: m.core.jct_s.p50, duration, -1, rank=6),
    Column("JCT p95", "95 % of the jobs took no longer", lambda m: m.core.jct_s.p95, duration, -1, rank=5),
    Column("wait mean", "submitted, but not on GPUs", lambda m: m.core.wait_s.mean, duration, -1, rank=1),
    Column("wait p95", "95 % of the jobs waited no longer", lambda m: m.core.wait_s.p95, duration, -1, rank=7),
    Column("makespan", "first submission to last end", lambda m: m.core.makespan_s, duration, -1, rank=4),
    Column("GPUs held", "of all GPU-time", lambda m: m.core.gpu_utilization, percent, 1, rank=2),
    Column("GPUs computing", "work of finished jobs, of all GPU-time", lambda m: m.gpu_computing, percent, 1, rank=12),
    Column("preempted", "suspensions by the policy", lambda m: m.core.preemptions, _whole, rank=8),
    Column("wasted GPU-h", "GPU-hours held without effect", lambda m: m.wasted_gpu_s / 3600, digits, -1, rank=13),
    Column("rho mean", "JCT over that of an equal part of the cluster", lambda m: m.rho_mean, digits, -1, rank=9),
    Column("rho > 1", "jobs that an equal part had served better", _rho_above_1, percent, -1, rank=14),
    Column("Jain", "evenness of service over tenants", lambda m: m.jain_index, _three_places, 1, rank=10),
    Column("idle in parts", "idle GPUs on partly used nodes", lambda m: m.fragmentation, percent, -1, rank=11),
)


@dataclass(frozen=True)
class Cell:
    text: str
    ratio: str  #: to the first run, as `0.43×`; empty where that is 1, or one of the two is nothing
    best: bool


def shown_columns(runs: Sequence[Metrics]) -> list[Column]:
    """Those that say something: a column without a number in any run is left out."""
    return [c for c in COLUMNS if any(math.isfinite(c.value(m)) for m in runs)]


def cells(column: Column, runs: Sequence[Metrics]) -> list[Cell]:
    """One per run. Best is whatever reads as well as the best; none is where all read the same."""
    values = [column.value(m) for m in runs]
    texts = [column.text(v) if math.isfinite(v) else "–" for v in values]
    known = [v for v in values if math.isfinite(v)]
    best_text = ""
    if column.better and known and len(set(texts)) > 1:
        best_text = column.text(max(known) if column.better > 0 else min(known))
    nothing = (texts[0], column.text(0.0), "–")
    return [
        Cell(text, "" if text in nothing or texts[0] in nothing[1:] else _ratio(v, values[0]), text == best_text)
        for v, text in zip(values, texts)
    ]


def _ratio(value: float, first: float) -> str:
    text = f"{digits(value / first)}×" if first else ""
    return "" if text == "1×" else text
