"""The report on a lived stretch, for whoever runs the cluster and whoever pays for it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fairlead.record.lived_numbers import LivedNumbers
from fairlead.record.report.lived_charts import DAY_S, AheadOfUtc, LivedCharts
from fairlead.record.report.page import Lead, Tile
from fairlead.record.report.run import describe_cluster
from fairlead.record.report.write import Report
from fairlead.record.units import count, digits, duration, percent


def lived_report(
    numbers: LivedNumbers, ahead_of_utc: AheadOfUtc, *, title: str = "", notes: Sequence[str] = ()
) -> Report:
    """`notes`: what is to be known of how this came together."""
    charts = LivedCharts(numbers, ahead_of_utc)
    lived = numbers.lived
    facts = [
        ("from", charts.moment(lived.begin_s)),
        ("to", charts.moment(lived.end_s)),
        ("cluster", describe_cluster(lived.cluster)),
        ("jobs", f"{count(len(lived.jobs), 'job')} of {count(len(lived.tenants), 'tenant')}"),
        ("whose", lived.whose),
    ]
    lead = Lead(_tiles(numbers), [*_sentences(numbers), *notes])
    return Report(title or _title(lived.window_s), charts.sections(), facts, lead)


def _title(window_s: float) -> str:
    days = round(window_s / DAY_S)
    if days >= 2 and abs(window_s - days * DAY_S) < 60.0:
        return f"{days} days of the cluster"
    return f"{duration(window_s)} of the cluster"


def _tiles(n: LivedNumbers) -> list[Tile]:
    lived = n.lived
    well = f"{percent(n.states.get('done', 0) / n.ended)} of them well" if n.ended else ""
    if cancelled := n.states.get("cancelled", 0):
        well += f", {cancelled:,} cancelled"
    down = lived.down_gpu_s() / n.capacity_gpu_s if n.capacity_gpu_s else 0.0
    return [
        Tile(
            "GPUs in use",
            percent(n.utilization),
            f"{digits(n.held_gpu_s / 3600)} of {digits(n.capacity_gpu_s / 3600)} GPU-hours",
        ),
        Tile("jobs ended", f"{n.ended:,}", well),
        Tile(
            "wait, median",
            duration(n.wait_s.p50),
            f"p95 {duration(n.wait_s.p95)}, of jobs that ended",
        ),
        Tile("suspended", f"{len(lived.suspensions):,}", "times by the policy"),
        Tile("failed", f"{n.failed:,}", f"{digits(_failed_hours(n))} GPU-hours were theirs"),
        Tile("out of service", percent(down), "of all GPU-time, drained or down"),
    ]


def _failed_hours(n: LivedNumbers) -> float:
    return sum(gpu_s for why, gpu_s in n.reason_gpu_s.items() if not why.startswith("refused")) / 3600


def _sentences(n: LivedNumbers) -> list[str]:
    if not n.lived.jobs:
        return ["There were no jobs."]
    said = []
    first = n.tenants[0]
    if n.held_gpu_s > 0:
        said.append(
            f"{percent(n.utilization)} of the GPU-time was in use; {first.name} had most of that, "
            f"{percent(first.held_gpu_s / n.held_gpu_s)}."
        )
    waiting = [row for row in n.tenants if math.isfinite(row.wait_s.p95)]
    if waiting:
        worst = max(waiting, key=lambda row: row.wait_s.p95)
        said.append(
            f"Half of the jobs that ended had waited at most {duration(n.wait_s.p50)}, 95 % at most {duration(n.wait_s.p95)}; "
            f"{worst.name} waited longest (p95 {duration(worst.wait_s.p95)})."
        )
    short = [row for row in n.tenants if row.fair_gpu_s > 0 and row.held_gpu_s < 0.95 * row.fair_gpu_s]
    if short:
        least = min(short, key=lambda row: row.held_gpu_s / row.fair_gpu_s)
        part = percent(least.held_gpu_s / least.fair_gpu_s)
        said.append(
            f"{least.name} got {part} of what a fair division by weights would have given it, the least of all tenants."
        )
    elif n.held_gpu_s > 0:
        said.append("Every tenant got at least 95 % of what a fair division by weights would have given it.")
    if n.failed:
        why, number = next(((w, c) for w, c in n.reasons.items() if not w.startswith("refused")), ("", 0))
        said.append(f"{count(n.failed, 'job')} of {n.ended:,} failed, most often by {why} ({number:,} times).")
    return said
