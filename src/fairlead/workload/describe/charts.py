"""The description as chart specifications: plain dictionaries that whoever draws turns into pictures.

Each has `title`, `sentence` (what to see, with numbers), `kind` (cdf, bar, line or heatmap), `x_title` and `y_title`.
A bar or line has `x` and `series` of {name, y}; a cdf has `series` of {name, x, y}; a heatmap has `x`, `y` and `z`
with one row for each y. `x_scale` and `y_scale` say how an axis is divided and labelled where that is not plainly.
"""

from __future__ import annotations

from typing import Any

from fairlead.workload.describe.description import CURVE_RANKS, Description, Skew
from fairlead.workload.describe.words import percent, seconds

Chart = dict[str, Any]

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def charts(description: Description) -> list[Chart]:
    found = [
        _durations(description),
        _sizes(description),
        _buckets(description),
        _hours(description),
        _week(description),
        _holders(description),
        _concentration(description),
        _outcomes(description),
        _types(description),
    ]
    kept = [chart for chart in found if chart is not None]
    if len(kept) % 2:  # nothing stands beside the last one then
        kept[-1]["wide"] = True
    return kept


def headlines(it: Description) -> list[tuple[str, str, str]]:
    """The numbers that everybody asks for first: what, how much, and a word on it."""
    duration, sizes = it.duration_s, it.demands
    owners = [f"{n:,} {what}" for n, what in ((it.tenants, "tenants"), (it.users, "users")) if n]
    return [
        ("jobs", f"{it.jobs:,}", "of " + " and ".join(owners) if owners else ""),
        ("span", seconds(it.span_s), "from the first submission to the last"),
        ("GPU time", f"{it.gpu_hours:,.0f} GPU-h", f"{it.mean_busy_gpus:,.1f} GPUs busy on average"),
        ("median duration", seconds(duration.p50), f"mean {seconds(duration.mean)}, p99 {seconds(duration.p99)}"),
        ("GPUs per job", f"{sizes.gpus_mean:.3g}", f"on average; the median is {sizes.gpus_p50:.3g}"),
    ]


def facts(it: Description) -> list[tuple[str, str]]:
    return [
        ("first submission", (it.origin or "").replace("T", " ")),
        ("CPU-only jobs", f"{it.cpu_jobs:,}" if it.cpu_jobs else ""),
        ("between submissions", f"{it.arrivals.gap_mean_s:,.3g} s on average"),
        ("busiest day", f"{it.arrivals.busiest_day_jobs:,} jobs"),
    ]


def _durations(it: Description) -> Chart:
    longest = max(it.sizes, key=lambda row: row.duration_s.p50)
    series = [{"name": "all", "x": list(it.duration_s.curve), "y": list(CURVE_RANKS)}]
    if len(it.sizes) > 1:
        for row in it.sizes:
            # a curve of a handful of jobs shows nothing but them
            if row.jobs >= 20:
                name = (
                    f"{row.label} GPU{'s' * (row.label != '1')}"
                    if row.label[0].isdigit() or row.label[0] in "<>"
                    else row.label
                )
                series.append({"name": name, "x": list(row.duration_s.curve), "y": list(CURVE_RANKS)})
    return {
        "title": "Durations",
        "sentence": (
            f"Half of the jobs end within {seconds(it.duration_s.p50)} and 90 % within "
            f"{seconds(it.duration_s.p90)}, while the mean is {seconds(it.duration_s.mean)}; the longest median "
            f"is {seconds(longest.duration_s.p50)}, of jobs of size {longest.label}."
        ),
        "kind": "cdf",
        "x_scale": "duration",
        "series": series,
        "x_title": "duration, from start to end",
        "y_title": "share of jobs",
    }


def _shares_chart(title: str, sentence: str, rows: list[tuple[str, float, float]], x_title: str) -> Chart:
    return {
        "title": title,
        "sentence": sentence,
        "kind": "bar",
        "x": [label for label, _, _ in rows],
        "series": [
            {"name": "jobs", "y": [jobs for _, jobs, _ in rows]},
            {"name": "GPU time", "y": [work for _, _, work in rows]},
        ],
        "x_title": x_title,
        "y_title": "share of the total",
        "y_scale": "percent",
    }


def _sizes(it: Description) -> Chart:
    common = max(it.sizes, key=lambda row: row.jobs)
    heavy = max(it.sizes, key=lambda row: row.gpu_time_share)
    sentence = (
        f"Jobs of size {common.label} are {percent(common.jobs_share)} of the jobs and "
        f"{percent(common.gpu_time_share)} of the GPU time"
    )
    if heavy.label != common.label:
        sentence += (
            f"; those of size {heavy.label} are {percent(heavy.jobs_share)} of the jobs and "
            f"{percent(heavy.gpu_time_share)} of the GPU time"
        )
    rows = [(row.label, row.jobs_share, row.gpu_time_share) for row in it.sizes]
    return _shares_chart("Jobs and GPU time by size", sentence + ".", rows, "GPUs that the job asks for")


def _buckets(it: Description) -> Chart:
    short = it.buckets[:3]
    long = it.buckets[5:]
    sentence = (
        f"Jobs under an hour are {percent(sum(r.jobs_share for r in short))} of the jobs and "
        f"{percent(sum(r.gpu_time_share for r in short))} of the GPU time; those over a day are "
        f"{percent(sum(r.jobs_share for r in long))} and {percent(sum(r.gpu_time_share for r in long))}."
    )
    rows = [(row.label, row.jobs_share, row.gpu_time_share) for row in it.buckets]
    return _shares_chart("Jobs and GPU time by duration", sentence, rows, "duration of the job")


def _hour_title(it: Description) -> str:
    return "hour of the day" if it.arrivals.clock == "calendar" else "hours since the first submission, modulo 24"


def _hours(it: Description) -> Chart:
    by_hour = it.arrivals.by_hour
    most, least = by_hour.index(max(by_hour)), by_hour.index(min(by_hour))
    return {
        "title": "Submissions by hour of the day",
        "sentence": (
            f"Hour {most} has {percent(by_hour[most])} of the submissions and hour {least} has "
            f"{percent(by_hour[least])}; the gaps between submissions have a CV of {it.arrivals.gap_cv:.1f} "
            "(1 would be Poisson)."
        ),
        "kind": "bar",
        "x": list(range(24)),
        "series": [{"name": "jobs", "y": list(by_hour)}],
        "x_title": _hour_title(it),
        "y_title": "share of jobs",
        "y_scale": "percent",
    }


def _week(it: Description) -> Chart:
    calendar = it.arrivals.clock == "calendar"
    days = list(_DAYS) if calendar else [f"day {i + 1}" for i in range(7)]
    by_day = it.arrivals.by_weekday
    most, least = by_day.index(max(by_day)), by_day.index(min(by_day))
    return {
        "title": "Submissions over the week",
        "sentence": f"{days[most]} has {percent(by_day[most])} of the jobs, {days[least]} {percent(by_day[least])}.",
        "kind": "heatmap",
        "x": list(range(24)),
        "y": days,
        "z": [list(row) for row in it.arrivals.by_weekday_hour],
        "x_title": _hour_title(it),
        "y_title": "day of the week" if calendar else "day since the first submission, modulo 7",
        "z_title": "of jobs",
        "z_scale": "percent",
    }


def _holders(it: Description) -> Chart | None:
    kind, part = ("tenants", it.tenant_skew) if it.tenant_skew else ("users", it.user_skew)
    if part is None:
        return None
    first = part.largest[0]
    sentence = (
        f"{first.name} has {percent(first.jobs_share)} of the jobs and {percent(first.gpu_time_share)} of the "
        f"GPU time; the Gini index over {part.count:,} {kind} is {part.gini_jobs:.2f} for jobs and "
        f"{part.gini_gpu_time:.2f} for GPU time."
    )
    rows = [(holder.name, holder.jobs_share, holder.gpu_time_share) for holder in part.largest]
    return _shares_chart(f"The largest {kind}", sentence, rows, kind[:-1])


def _concentration(it: Description) -> Chart | None:
    found: list[tuple[str, Skew]] = []
    for label, part in (("users", it.user_skew), ("tenants", it.tenant_skew)):
        if part is not None:
            found.append((label, part))
    if not found:
        return None
    label, part = found[0]
    return {
        "title": "Who submits the jobs",
        "sentence": (
            f"The most active 5 % of {part.count:,} {label} submit {percent(part.top5_jobs)} of the jobs, "
            f"and the 5 % with most GPU time use {percent(part.top5_gpu_time)} of it."
        ),
        "kind": "line",
        "x": list(CURVE_RANKS),
        "series": [{"name": name, "y": list(skew.lorenz_jobs)} for name, skew in found],
        "x_title": "share of them, most active first",
        "y_title": "share of jobs that they submit",
        "x_scale": "percent",
        "y_scale": "percent",
    }


def _outcomes(it: Description) -> Chart | None:
    if it.statuses is None:
        return None
    parts = [
        f"{row.status} jobs are {percent(row.jobs_share)} of the jobs and {percent(row.gpu_time_share)} of the time"
        for row in it.statuses
    ]
    sentence = "; ".join(parts) + "."
    rows = [(row.status, row.jobs_share, row.gpu_time_share) for row in it.statuses]
    return _shares_chart("How jobs ended", sentence[0].upper() + sentence[1:], rows, "status")


def _types(it: Description) -> Chart | None:
    if not it.demands.gpu_types:
        return None
    some = sum(row.jobs_share for row in it.demands.gpu_types)
    first = it.demands.gpu_types[0]
    sentence = (
        f"{percent(some)} of the jobs insist on a GPU type, most often {first.name} ({percent(first.jobs_share)})."
    )
    rows = [(row.name, row.jobs_share, row.gpu_time_share) for row in it.demands.gpu_types]
    return _shares_chart("GPU types that jobs insist on", sentence, rows, "GPU type")
