"""A report put together, and written to a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairlead.record.report.charts import ChartSpec, figure
from fairlead.record.report.lead import lead_of
from fairlead.record.report.page import Lead, charts_html, comparison_html, page
from fairlead.record.report.run import RunReport
from fairlead.record.report.saving import csv_of, file_names
from fairlead.record.report.script import PICTURES_JS
from fairlead.record.report.sections import charts_of
from fairlead.record.units import count, duration


@dataclass(frozen=True)
class Report:
    """Everything that is to be shown, in whatever form: a page, a table per chart, a picture per chart."""

    title: str
    charts: Sequence[Sequence[ChartSpec]]  #: in the order of the page; several in one are tabs
    facts: Sequence[tuple[str, str]] = ()
    lead: Lead = field(default_factory=Lead)
    before: str = ""  #: HTML that goes before the charts

    def html(self) -> str:
        """One file that needs nothing else."""
        body, figures = charts_html(self.charts)
        return page(self.title, self.facts, self.before + body, figures, lead=self.lead)

    def figures(self) -> list[dict[str, Any]]:
        return [figure(chart) for section in self.charts for chart in section]

    def names(self) -> list[str]:
        """Of the charts, as files are called after them."""
        return file_names(self.figures())

    def tables(self) -> dict[str, str]:
        """The numbers of each chart as CSV, by its name."""
        figures = self.figures()
        return dict(zip(file_names(figures), map(csv_of, figures), strict=True))

    def pictures_page(self) -> str:
        """A page that draws each chart into a `pre`, as a data URL, in their order: for a browser that nobody looks at."""
        return page(self.title, (), "", self.figures(), script=PICTURES_JS)

    def write(self, path: str | Path) -> None:
        Path(path).write_text(self.html(), encoding="utf-8")


def report_of(runs: Sequence[RunReport], *, title: str = "", workload: str = "") -> Report:
    """One run, or several on the same workload side by side; the first is what the others are compared
    with."""
    if not runs:
        raise ValueError("a report needs at least one run")
    names = ", ".join(run.name for run in runs)
    usual = f"{names}: a simulation" if len(runs) == 1 else f"{len(runs)} policies compared"
    before = comparison_html(runs)
    return Report(title or usual, charts_of(runs), _facts(runs, workload), lead_of(runs), before)


def write_report(path: str | Path, runs: Sequence[RunReport], *, title: str = "", workload: str = "") -> None:
    report_of(runs, title=title, workload=workload).write(path)


def charts_report(
    title: str,
    charts: Sequence[ChartSpec | Sequence[ChartSpec]],
    *,
    facts: Iterable[tuple[str, str]] = (),
    lead: Lead | None = None,
) -> Report:
    """Any charts on one page, two to a row; a list of charts is one chart with tabs. `facts` go under the
    title."""
    sections = [[chart] if isinstance(chart, dict) else list(chart) for chart in charts]
    return Report(title, sections, tuple(facts), lead or Lead())


def write_charts(
    path: str | Path,
    title: str,
    charts: Sequence[ChartSpec | Sequence[ChartSpec]],
    *,
    facts: Iterable[tuple[str, str]] = (),
) -> None:
    charts_report(title, charts, facts=facts).write(path)


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
        if key in ("workload", "source") and workload:
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
