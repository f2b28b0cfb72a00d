"""The description as tables for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.workload.describe.description import Description, Skew
from fairlead.workload.describe.words import percent, seconds

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def render_table(description: Description) -> Group:
    """Something that rich prints: an overview, then sizes, durations, arrivals, skew and outcomes."""
    # rich is slow to import and only needed where something is printed
    from rich.console import Group

    parts: list[Table | None] = [
        _overview(description),
        _sizes(description),
        _buckets(description),
        _hours(description),
        _skews(description),
        _outcomes(description),
    ]
    return Group(*(part for part in parts if part is not None))


def _new(title: str, *columns: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left")
    return table


def _overview(it: Description) -> Table:
    table = _new(it.source or "trace", "what", "value")
    rows = [
        ("jobs", f"{it.jobs:,}"),
        ("CPU-only jobs", f"{it.cpu_jobs:,}" if it.cpu_jobs else ""),
        ("tenants", f"{it.tenants:,}" if it.tenants else ""),
        ("users", f"{it.users:,}" if it.users else ""),
        ("first submission", it.origin or ""),
        ("span", seconds(it.span_s)),
        ("GPU time", f"{it.gpu_hours:,.0f} GPU-hours, {it.mean_busy_gpus:,.1f} GPUs busy on average"),
        ("GPUs per job", f"mean {it.demands.gpus_mean:.3g}, median {it.demands.gpus_p50:.3g}"),
        (
            "duration",
            (
                f"mean {seconds(it.duration_s.mean)}, median {seconds(it.duration_s.p50)}, "
                f"p90 {seconds(it.duration_s.p90)}, p99 {seconds(it.duration_s.p99)}"
            ),
        ),
        (
            "between submissions",
            f"mean {it.arrivals.gap_mean_s:.3g} s, median {it.arrivals.gap_p50_s:.3g} s, CV {it.arrivals.gap_cv:.2f}",
        ),
    ]
    if it.repeats is not None:
        again, often = percent(it.repeats.in_groups_of_2), percent(it.repeats.in_groups_of_5)
        rows.append(("repeated", f"{again} of jobs ran at least twice, {often} at least 5 times"))
    if it.demands.shared_jobs is not None:
        rows.append(("less than a GPU", percent(it.demands.shared_jobs)))
    for label, value in rows:
        if value:
            table.add_row(label, value)
    return table


def _sizes(it: Description) -> Table:
    table = _new("by size", "GPUs", "jobs", "of jobs", "of GPU time", "mean", "median", "p90", "p99")
    for row in it.sizes:
        spread = row.duration_s
        times = [seconds(value) for value in (spread.mean, spread.p50, spread.p90, spread.p99)]
        table.add_row(row.label, f"{row.jobs:,}", percent(row.jobs_share), percent(row.gpu_time_share), *times)
    return table


def _buckets(it: Description) -> Table:
    table = _new("by duration", "duration", "jobs", "of jobs", "of GPU time")
    for row in it.buckets:
        table.add_row(row.label, f"{row.jobs:,}", percent(row.jobs_share), percent(row.gpu_time_share))
    return table


def _hours(it: Description) -> Table:
    calendar = it.arrivals.clock == "calendar"
    title = "submissions, of jobs" if calendar else "submissions, of jobs (hours and days since the start)"
    table = _new(title, "when", "0-5 h", "6-11 h", "12-17 h", "18-23 h", "day")
    for day, hours in enumerate(it.arrivals.by_weekday_hour):
        quarters = [percent(sum(hours[first : first + 6])) for first in (0, 6, 12, 18)]
        table.add_row(_DAYS[day] if calendar else f"day {day + 1}", *quarters, percent(sum(hours)))
    whole = [percent(sum(it.arrivals.by_hour[first : first + 6])) for first in (0, 6, 12, 18)]
    table.add_row("week", *whole, percent(sum(it.arrivals.by_weekday)))
    return table


def _skews(it: Description) -> Table | None:
    found: list[tuple[str, Skew]] = []
    for label, part in (("tenants", it.tenant_skew), ("users", it.user_skew)):
        if part is not None:
            found.append((label, part))
    if not found:
        return None
    table = _new("skew", "who", "count", "top 1 %", "top 5 %", "top 10 %", "Gini", "largest")
    for label, part in found:
        first = part.largest[0]
        table.add_row(
            f"{label}, jobs",
            f"{part.count:,}",
            *(percent(top) for top in (part.top1_jobs, part.top5_jobs, part.top10_jobs)),
            f"{part.gini_jobs:.2f}",
            f"{first.name}: {percent(first.jobs_share)}",
        )
        table.add_row(
            f"{label}, GPU time",
            f"{part.count:,}",
            *(percent(top) for top in (part.top1_gpu_time, part.top5_gpu_time, part.top10_gpu_time)),
            f"{part.gini_gpu_time:.2f}",
            f"{first.name}: {percent(first.gpu_time_share)}",
        )
    return table


def _outcomes(it: Description) -> Table | None:
    if it.statuses is None:
        return None
    table = _new("how jobs ended", "status", "of jobs", "of GPU time", "median duration")
    for row in it.statuses:
        table.add_row(row.status, percent(row.jobs_share), percent(row.gpu_time_share), seconds(row.duration_p50_s))
    return table
