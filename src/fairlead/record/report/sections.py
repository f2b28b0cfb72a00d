"""The charts of a report on runs, each with a sentence that says in numbers what there is to see."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fairlead.record.breakdown import GroupRow
from fairlead.record.report.charts import ChartSpec, SeriesSpec
from fairlead.record.report.run import RunReport
from fairlead.record.runs import Floats
from fairlead.record.series import Cdf
from fairlead.record.spread import Spread
from fairlead.record.units import count, digits, duration, percent, unit_for

_MOST_TENANTS = 12
_UNIT_NAMES = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days"}


def charts_of(runs: Sequence[RunReport]) -> list[list[ChartSpec]]:
    """In the order of the page. A list of several is one chart with tabs. Charts of nothing are left out."""
    sections: list[list[ChartSpec]] = []
    if any(len(run.jct_s.value) for run in runs):
        sections.append(
            [_cdf(runs, "JCT", "take", "from submission to finish", lambda r: r.jct_s, lambda r: r.metrics.core.jct_s)]
        )
        sections.append(
            [
                _cdf(
                    runs,
                    "Wait",
                    "wait",
                    "submitted but not on GPUs",
                    lambda r: r.wait_s,
                    lambda r: r.metrics.core.wait_s,
                )
            ]
        )
    sections.append([_held(runs), _computing(runs)])
    sections.append([_queued_jobs(runs), _queued_gpus(runs)])
    tenants = any(run.metrics.tenants for run in runs)
    if tenants:
        sections.append([_tenants(runs, "mean", lambda s: s.mean), _tenants(runs, "p95", lambda s: s.p95)])
    sizes = [_sizes(runs, "mean", lambda s: s.mean), _sizes(runs, "p95", lambda s: s.p95)]
    for spec in sizes:
        spec["wide"] = not tenants  # nothing stands beside it then
    sections.append(sizes)
    sections.append([_occupancy(run) for run in runs])
    return sections


def _best(runs: Sequence[RunReport], value: Callable[[RunReport], float]) -> tuple[RunReport, RunReport]:
    """The runs with the least and the most of it."""
    known = [run for run in runs if math.isfinite(value(run))] or list(runs)
    return min(known, key=value), max(known, key=value)


def _between(runs: Sequence[RunReport], seconds: Callable[[RunReport], float]) -> str:
    """`5 min`, or `5 min under a and 2 h under b`."""
    low, high = _best(runs, seconds)
    least, most = duration(seconds(low)), duration(seconds(high))
    if len(runs) == 1:
        return least
    return f"{least} under any policy" if least == most else f"{least} under {low.name} and {most} under {high.name}"


def _cdf(
    runs: Sequence[RunReport],
    what: str,
    verb: str,
    meaning: str,
    curve: Callable[[RunReport], Cdf],
    spread: Callable[[RunReport], Spread],
) -> ChartSpec:
    half = _between(runs, lambda r: spread(r).p50)
    most = _between(runs, lambda r: spread(r).p95)
    sentence = f"Half of the jobs {verb} at most {half}; 95 % at most {most}."
    if len(runs) > 1:
        sentence += " Further left is better."
    series: list[SeriesSpec] = [{"name": run.name, "x": curve(run).value, "y": curve(run).share} for run in runs]
    return {
        "title": f"{what} of finished jobs",
        "sentence": sentence,
        "kind": "cdf",
        "series": series,
        "x_title": f"{what}: {meaning}",
        "y_title": "share of finished jobs",
        "x_scale": "duration",
    }


def _over_time(
    runs: Sequence[RunReport], title: str, tab: str, y_title: str, value: Callable[[RunReport], Floats], sentence: str
) -> ChartSpec:
    unit, size = unit_for(max(run.lines.bins.end_s - run.lines.bins.begin_s for run in runs))
    series: list[SeriesSpec] = [{"name": run.name, "x": run.lines.middle_s / size, "y": value(run)} for run in runs]
    return {
        "title": title,
        "tab": tab,
        "sentence": sentence,
        "kind": "line",
        "series": series,
        "x_title": f"{_UNIT_NAMES[unit]} since the first submission",
        "y_title": y_title,
    }


def _and_least(runs: Sequence[RunReport], high: RunReport, low: RunReport, value: Callable[[RunReport], float]) -> str:
    """`a, 12 % under b`, or that it makes no difference."""
    least = percent(value(low))
    if len(runs) > 1 and least == percent(value(high)):
        return "every policy"
    return high.name if low is high else f"{high.name}, {least} under {low.name}"


def _held(runs: Sequence[RunReport]) -> ChartSpec:
    low, high = _best(runs, lambda r: r.metrics.core.gpu_utilization)
    sentence = f"{percent(high.metrics.core.gpu_utilization)} of all GPU-time is held under "
    sentence += _and_least(runs, high, low, lambda r: r.metrics.core.gpu_utilization)
    bin_text = duration(runs[0].lines.bins.width_s)
    sentence += f"; each point averages {bin_text}."
    spec = _over_time(
        runs, "GPUs held", "held", "share of the GPUs", lambda r: r.lines.allocated_gpus / max(r.gpus, 1), sentence
    )
    return {**spec, "y_scale": "percent"}


def _computing(runs: Sequence[RunReport]) -> ChartSpec:
    low, high = _best(runs, lambda r: r.metrics.gpu_computing)
    _, waster = _best(runs, lambda r: r.metrics.wasted_gpu_s)
    sentence = f"{percent(high.metrics.gpu_computing)} of all GPU-time is work of jobs that finished under "
    sentence += _and_least(runs, high, low, lambda r: r.metrics.gpu_computing)
    sentence += (
        f". At most {digits(waster.metrics.wasted_gpu_s / 3600)} GPU-hours were held without effect "
        f"(under {waster.name}): overheads, lost progress, jobs given up."
    )
    spec = _over_time(
        runs,
        "GPUs computing",
        "computing",
        "share of the GPUs",
        lambda r: r.lines.computing_gpus / max(r.gpus, 1),
        sentence,
    )
    return {**spec, "y_scale": "percent"}


def _queue_sentence(runs: Sequence[RunReport], value: Callable[[RunReport], Floats], what: str) -> str:
    low, high = _best(runs, lambda r: float(value(r).mean()))
    at = int(np.argmax(value(high)))
    peak = (
        f"{digits(float(value(high)[at]))} at its longest, "
        f"{duration(float(high.lines.middle_s[at]))} after the first submission"
    )
    sentence = f"Under {high.name} {digits(float(value(high).mean()))} {what} wait on average ({peak})"
    if low is not high:
        sentence += f"; under {low.name} {digits(float(value(low).mean()))}"
    return sentence + "."


def _queued_jobs(runs: Sequence[RunReport]) -> ChartSpec:
    def value(run: RunReport) -> Floats:
        return run.lines.queued_jobs

    return _over_time(runs, "Queue", "jobs", "jobs waiting", value, _queue_sentence(runs, value, "jobs"))


def _queued_gpus(runs: Sequence[RunReport]) -> ChartSpec:
    def value(run: RunReport) -> Floats:
        return run.lines.queued_gpus

    sentence = _queue_sentence(runs, value, "GPUs' worth of jobs")
    return _over_time(runs, "Queue", "GPUs", "GPUs that waiting jobs ask for", value, sentence)


def _grouped(
    runs: Sequence[RunReport],
    names: Sequence[str],
    rows: Callable[[RunReport], Sequence[GroupRow]],
    value: Callable[[GroupRow], float],
) -> tuple[list[SeriesSpec], str, list[list[float]]]:
    """Bars by group in a unit that suits the largest; the unit's name; the seconds themselves."""
    seconds = []
    for run in runs:
        found = {row.name: value(row) for row in rows(run)}
        seconds.append([found.get(name, math.nan) for name in names])
    unit, size = unit_for(max((s for line in seconds for s in line if math.isfinite(s)), default=0.0))
    series: list[SeriesSpec] = [
        {"name": run.name, "x": list(names), "y": [s / size for s in line]} for run, line in zip(runs, seconds)
    ]
    return series, unit, seconds


def _largest(
    runs: Sequence[RunReport], names: Sequence[str], seconds: list[list[float]]
) -> tuple[float, str, int, int]:
    """The largest number of a table: itself, its group, and their positions."""
    r, g = max(
        ((r, g) for r in range(len(runs)) for g in range(len(names)) if math.isfinite(seconds[r][g])),
        key=lambda at: seconds[at[0]][at[1]],
        default=(0, 0),
    )
    return seconds[r][g], names[g], r, g


def _group_sentence(runs: Sequence[RunReport], names: Sequence[str], seconds: list[list[float]], told: str) -> str:
    most, name, r, g = _largest(runs, names, seconds)
    sentence = told.format(name=name, run=runs[r].name, time=duration(most))
    others = [(line[g], run.name) for line, run in zip(seconds, runs) if math.isfinite(line[g])]
    if len(others) > 1:
        least, best = min(others)
        sentence += f"; under {best} it is {duration(least)}"
    return sentence + "."


def _tenants(runs: Sequence[RunReport], level: str, pick: Callable[[Spread], float]) -> ChartSpec:
    held: dict[str, float] = {}
    for row in runs[0].metrics.tenants:
        held[row.name] = row.held_gpu_s
    names = sorted(held, key=lambda name: (-held[name], name))[:_MOST_TENANTS]
    series, unit, seconds = _grouped(runs, names, lambda r: r.metrics.tenants, lambda row: pick(row.wait_s))
    told = "Longest for {name} under {run}: {time}"
    sentence = _group_sentence(runs, names, seconds, told)
    if len(held) > len(names):
        sentence += f" Shown are the {len(names)} of {len(held)} tenants that held most GPU-time."
    return {
        "title": "Waits by tenant",
        "tab": level,
        "sentence": sentence,
        "kind": "bar",
        "series": series,
        "x_title": "tenant, by GPU-time held",
        "y_title": f"{level} wait, {_UNIT_NAMES[unit]}",
    }


def _sizes(runs: Sequence[RunReport], level: str, pick: Callable[[Spread], float]) -> ChartSpec:
    sizes = runs[0].metrics.sizes
    names = [row.name for row in sizes]
    series, unit, seconds = _grouped(runs, names, lambda r: r.metrics.sizes, lambda row: pick(row.jct_s))
    sentence = "There are no jobs."
    if sizes:
        sentence = _group_sentence(runs, names, seconds, "Longest for jobs of size {name} under {run}: {time}")
        common = max(sizes, key=lambda row: row.jobs)
        total = sum(row.jobs for row in sizes)
        sentence += f" {percent(common.jobs / total)} of the {count(total, 'job')} are of size {common.name}."
    return {
        "title": "JCT by size of job",
        "tab": level,
        "sentence": sentence,
        "kind": "bar",
        "series": series,
        "x_title": "GPUs that the job asks for",
        "y_title": f"{level} JCT, {_UNIT_NAMES[unit]}",
    }


def _occupancy(run: RunReport) -> ChartSpec:
    raster, metrics = run.raster, run.metrics
    unit, size = unit_for(raster.bins.end_s - raster.bins.begin_s)
    middle = (raster.bins.edges_s[1:] + raster.bins.edges_s[:-1]) / 2 - raster.bins.begin_s
    held = f"Under {run.name} {percent(metrics.core.gpu_utilization)} of the GPU-time is held"
    if math.isfinite(metrics.fragmentation):
        held += f"; of what is idle, {percent(metrics.fragmentation)} sits on nodes that are partly in use"
    colours = "a colour is a tenant" if raster.names else "neighbouring jobs differ in colour"
    names = raster.names or tuple("a job" for _ in range(int(raster.codes.max(initial=0))))
    return {
        "title": "Who held which GPU when",
        "tab": run.name,
        "sentence": f"{held}. A row is a {raster.row_is}; {colours}; empty is free.",
        "kind": "heatmap",
        "x": middle / size,
        "y": raster.row_names,
        "z": raster.codes,
        "categories": ["free", "down", *names],
        "x_title": f"{_UNIT_NAMES[unit]} since the first submission",
        "wide": True,
    }
