"""What a report on runs says before its charts: the numbers that everybody asks for, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fairlead.record.metrics import Metrics
from fairlead.record.report.page import Lead, Tile
from fairlead.record.report.run import RunReport
from fairlead.record.units import count, digits, duration, percent

Value = Callable[[Metrics], float]


def lead_of(runs: Sequence[RunReport]) -> Lead:
    return _of_one(runs[0]) if len(runs) == 1 else _of_several(runs)


def _of_one(run: RunReport) -> Lead:
    m = run.metrics
    wasted = f"{digits(m.wasted_gpu_s / 3600)} GPU-hours without effect" if m.wasted_gpu_s else ""
    return Lead(
        [
            Tile("finished", f"{m.core.finished:,}", f"of {count(m.core.jobs, 'job')}"),
            Tile("mean JCT", duration(m.core.jct_s.mean), f"half within {duration(m.core.jct_s.p50)}"),
            Tile("wait, p95", duration(m.core.wait_s.p95), f"half within {duration(m.core.wait_s.p50)}"),
            Tile("GPUs held", percent(m.core.gpu_utilization), wasted or "of all GPU-time"),
            Tile("suspensions", f"{m.core.preemptions:,}", f"{m.migrations:,} resumed on other nodes"),
        ],
        _left(run),
    )


def _left(run: RunReport) -> list[str]:
    """Jobs that did not finish, where there are any."""
    m, parts = run.metrics, []
    for number, what in ((sum(m.refused.values()), "refused"), (m.failed, "given up"), (m.unfinished, "never ended")):
        if number:
            parts.append(f"{number:,} {what}")
    return [f"Under {run.name} {m.core.jobs - m.core.finished:,} jobs did not finish: {', '.join(parts)}."] * bool(
        parts
    )


def _ranked(runs: Sequence[RunReport], value: Value, sign: int = 1) -> list[RunReport]:
    """The best first; where they are equal, in the order of the page."""
    known = [run for run in runs if math.isfinite(value(run.metrics))]
    return sorted(known, key=lambda run: sign * value(run.metrics))


def _best_tile(label: str, runs: Sequence[RunReport], value: Value, text: Callable[[float], str], sign: int) -> Tile:
    ranked = _ranked(runs, value, sign)
    if not ranked:
        return Tile(label, "–")
    best, first = ranked[0], runs[0]
    shown = text(value(best.metrics))
    if all(text(value(run.metrics)) == shown for run in ranked):
        return Tile(label, shown, "under every policy")
    than = first if best is not first and math.isfinite(value(first.metrics)) else ranked[-1]
    return Tile(label, shown, f"{best.name}; {text(value(than.metrics))} under {than.name}")


def _of_several(runs: Sequence[RunReport]) -> Lead:
    def finished(m: Metrics) -> float:
        return float(m.core.finished)

    tiles = [
        _best_tile("finished", runs, finished, lambda v: f"{v:,.0f}", -1),
        _best_tile("shortest mean JCT", runs, lambda m: m.core.jct_s.mean, duration, 1),
        _best_tile("shortest wait, p95", runs, lambda m: m.core.wait_s.p95, duration, 1),
        _best_tile("soonest done", runs, lambda m: m.core.makespan_s, duration, 1),
        _best_tile("most GPU-time held", runs, lambda m: m.core.gpu_utilization, percent, -1),
    ]
    said = [*_times(runs), *_price(runs), *_even(runs)]
    for run in runs:
        said += _left(run)
    return Lead(tiles, said)


def _times(runs: Sequence[RunReport]) -> list[str]:
    ranked = _ranked(runs, lambda m: m.core.jct_s.mean)
    if not ranked:
        return ["No job finished under any policy."]
    best, first, last = ranked[0], runs[0], ranked[-1]
    mean, worst = best.metrics.core.jct_s.mean, last.metrics.core.jct_s.mean
    if duration(mean) == duration(worst):
        return [f"The mean job takes {duration(mean)} under every policy: they decide alike here."]
    if best is first:
        told = f"No policy finishes jobs sooner on average than {first.name}, with a mean JCT of {duration(mean)}; "
        return [f"{told}under {last.name} it is {duration(worst)}, {digits(worst / mean)} times as long."]
    base = first.metrics.core.jct_s.mean
    if not math.isfinite(base):
        return [f"{best.name} has the shortest mean JCT, {duration(mean)}; under {first.name} no job finished."]
    told = (
        f"{best.name} finishes jobs soonest on average: a mean JCT of {duration(mean)}, against {duration(base)} under "
    )
    saved = f"{first.name}, {percent(1 - mean / base)} less"
    return [f"{told}{saved}." if last is first else f"{told}{saved}; the longest is {last.name}'s, {duration(worst)}."]


def _price(runs: Sequence[RunReport]) -> list[str]:
    """What the shortest JCT costs."""
    ranked = _ranked(runs, lambda m: m.core.jct_s.mean)
    if not ranked or not any(run.metrics.core.preemptions for run in runs):
        return []
    m, name = ranked[0].metrics, ranked[0].name
    if not m.core.preemptions:
        most = max(runs, key=lambda run: run.metrics.core.preemptions)
        return [f"It suspends no job for that; {most.name} does so {most.metrics.core.preemptions:,} times."]
    each = digits(m.core.preemptions / max(m.core.jobs, 1))
    wasted = f"; {digits(m.wasted_gpu_s / 3600)} GPU-hours were held without effect" if m.wasted_gpu_s else ""
    return [f"For that {name} suspends jobs {m.core.preemptions:,} times, {each} times per job on average{wasted}."]


def _even(runs: Sequence[RunReport]) -> list[str]:
    ranked = _ranked(runs, lambda m: m.jain_index, -1)
    if len(ranked) < 2:
        return []
    best, worst = ranked[0], ranked[-1]
    high, low = f"{best.metrics.jain_index:.2f}", f"{worst.metrics.jain_index:.2f}"
    if high == low:
        return [f"All serve the tenants as evenly as each other: Jain's index is {high} (1 is perfectly even)."]
    return [
        f"Tenants are served most evenly by {best.name} (Jain's index {high}; 1 is even), least by {worst.name} ({low})."
    ]
