"""`fairlead report`: what the cluster did in the last days, for whoever runs it and whoever pays for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.live.connect import Reach, talks
from fairlead.cli.render import Output, OutputOption, emit, grid
from fairlead.cli.saving import CsvOption, HtmlOption, PngOption, Saving
from fairlead.model.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.cli.live.lived import Source
    from fairlead.record.lived_numbers import LivedNumbers


def register(app: typer.Typer, panel: str) -> None:
    app.command("report", rich_help_panel=panel)(report)


@talks
def report(
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="So long ago (7d, 12h), or a moment: 2030-01-31T08:00Z.")
    ] = "7d",
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="The same; now, if not said.")] = None,
    output: OutputOption = Output.table,
    html: HtmlOption = None,
    csv: CsvOption = None,
    png: PngOption = None,
    state_dir: Annotated[
        Path | None,
        typer.Option("--state-dir", metavar="DIR", help="Read the store here instead of asking a scheduler."),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="SPEC", help="With --state-dir: the nodes that there were.")
    ] = None,
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="What the page is called.")] = "",
    *,
    reach: Reach,
) -> None:
    """Report what the cluster did: use by tenant, waits, utilisation, suspensions, failures, fairness."""
    from fairlead.cli.live.lived import FromScheduler, from_state_dir

    saving = Saving(html, csv, png)
    saving.check()
    if cluster is not None and state_dir is None:
        raise InputError(
            "a running scheduler knows its nodes", file="--cluster", value=cluster, accepts="--state-dir DIR with it"
        )

    def tell(source: Source) -> None:
        _tell(source, since, until, output, saving, title)

    if state_dir is not None:
        from fairlead.cli.inputs import read_cluster

        from_state_dir(state_dir, None if cluster is None else read_cluster(cluster), tell)
        return
    with reach.client() as client:
        tell(FromScheduler(client))


def _tell(source: Source, since: str, until: str | None, output: Output, saving: Saving, title: str) -> None:
    from fairlead.cli.live.lived import collect
    from fairlead.record.lived_numbers import fold_lived

    end_s = source.now_s if until is None else _moment("--until", until, source.now_s)
    begin_s = _moment("--since", since, source.now_s)
    if begin_s >= end_s:
        raise InputError("this ends before it begins", file="--since", value=since, accepts="a time before --until")
    numbers = fold_lived(collect(source, begin_s, end_s))
    emit(numbers.to_json(), output, lambda: _table(numbers))
    if saving.wanted:
        from fairlead.record.report.lived import lived_report
        from fairlead.server.clock import ahead_of_utc

        saving.write(lived_report(numbers, ahead_of_utc, title=title, notes=source.notes))


def _moment(option: str, text: str, now_s: float) -> float:
    from datetime import datetime

    from fairlead.model.units import parse_duration

    try:
        return now_s - parse_duration(text)
    except ValueError:
        pass
    try:
        # a time without a zone is this machine's
        return datetime.fromisoformat(text).astimezone().timestamp()
    except ValueError:
        raise InputError(
            "this is no time", file=option, value=text, accepts="so long ago, such as 7d, or 2030-01-31T08:00Z"
        ) from None


def _table(numbers: LivedNumbers) -> RenderableType:
    from fairlead.record.units import count, digits, duration, percent

    lived, total = numbers.lived, numbers.held_gpu_s
    lines = []
    for row in numbers.tenants:
        fair = percent(row.held_gpu_s / row.fair_gpu_s) if row.fair_gpu_s else "–"
        lines.append(
            [
                row.name,
                f"{row.jobs:,}",
                digits(row.held_gpu_s / 3600),
                percent(row.held_gpu_s / total) if total else "–",
                fair,
                duration(row.wait_s.p50),
                duration(row.wait_s.p95),
                f"{row.suspensions:,}",
                f"{row.failed:,}",
            ]
        )
    heads = [
        "tenant",
        "jobs",
        "GPU-hours",
        "of use",
        "of its fair share",
        "wait p50",
        "wait p95",
        "suspended",
        "failed",
    ]
    caption = (
        f"{percent(numbers.utilization)} of {count(lived.cluster.gpus, 'GPU')} in use over {duration(lived.window_s)}; "
        f"{count(numbers.ended, 'job')} ended, {numbers.failed:,} of them failed; wait p50 {duration(numbers.wait_s.p50)}, "
        f"p95 {duration(numbers.wait_s.p95)}; Jain's index {digits(numbers.jain_index)}."
    )
    return grid(heads, lines, numbers=heads[1:], caption=caption)
