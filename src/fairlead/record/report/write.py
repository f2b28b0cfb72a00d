"""Write a report to a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fairlead.record.report.charts import ChartSpec
from fairlead.record.report.page import charts_html, comparison_html, page
from fairlead.record.report.run import RunReport
from fairlead.record.report.sections import charts_of
from fairlead.record.units import count, duration


def write_report(path: str | Path, runs: Sequence[RunReport], *, title: str = "", workload: str = "") -> None:
    """One run, or several on the same workload side by side; the first is what the others are compared
    with."""
    if not runs:
        raise ValueError("a report needs at least one run")
    names = ", ".join(run.name for run in runs)
    body, figures = charts_html(charts_of(runs))
    text = page(title or f"fairlead: {names}", _facts(runs, workload), comparison_html(runs) + body, figures)
    Path(path).write_text(text, encoding="utf-8")


def write_charts(
    path: str | Path,
    title: str,
    charts: Sequence[ChartSpec | Sequence[ChartSpec]],
    *,
    facts: Iterable[tuple[str, str]] = (),
) -> None:
    """Any charts on one page, two to a row; a list of charts is one chart with tabs. `facts` go under the
    title."""
    sections = [[chart] if isinstance(chart, dict) else list(chart) for chart in charts]
    body, figures = charts_html(sections)
    Path(path).write_text(page(title, facts, body, figures), encoding="utf-8")


def _facts(runs: Sequence[RunReport], workload: str) -> list[tuple[str, str]]:
    """What holds for all runs; what differs between them is in their names and in the last line."""
    first = runs[0]
    core = first.metrics.core
    facts = [
        ("workload", workload or str(first.run.get("workload", ""))),
        ("jobs", f"{count(core.jobs, 'job')}, submitted over {duration(first.submission_s)}"),
        ("cluster", first.cluster),
    ]
    keys = [key for run in runs for key in run.run]
    for key in dict.fromkeys(keys):
        if key == "workload":
            continue
        values = [_value(run.run[key]) for run in runs if key in run.run]
        facts.append((key.replace("_", " "), ", ".join(dict.fromkeys(values))))
    refused = {run.name: sum(run.metrics.refused.values()) for run in runs}
    if any(refused.values()):
        facts.append(("refused jobs", ", ".join(f"{name} {n:,}" for name, n in refused.items())))
    return facts


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={_value(inner)}" for key, inner in value.items())
    return value if isinstance(value, str) else json.dumps(value)
