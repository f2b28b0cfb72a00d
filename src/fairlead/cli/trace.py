"""`fairlead trace`: describe, convert, generate and export workloads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairlead.cli.live.export import export
from fairlead.cli.panels import TRACES
from fairlead.cli.render import Output, OutputOption, emit, grid, pairs, say
from fairlead.cli.saving import CsvOption, HtmlOption, PngOption, Saving
from fairlead.cli.shared import TraceArgument, generator_names
from fairlead.model.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.record.report import Report
    from fairlead.workload.describe import Description
    from fairlead.workload.trace import Trace

FormatOption = Annotated[str | None, typer.Option(help="The trace's format, where its content does not tell.")]
SkipOption = Annotated[bool, typer.Option("--skip-bad", help="Leave out rows that can't be read, and list them.")]
LimitOption = Annotated[int | None, typer.Option(help="Only the first N jobs.")]

TRACE_ENDINGS = (".csv", ".csv.gz", ".parquet")


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        no_args_is_help=True, rich_markup_mode=None, help="Describe, convert, generate and export workloads."
    )
    for command in (describe, convert, generate, formats, export):
        group.command(command.__name__)(command)
    app.add_typer(group, name="trace", rich_help_panel=TRACES)


def describe(
    trace: TraceArgument,
    output: OutputOption = Output.table,
    html: HtmlOption = None,
    csv: CsvOption = None,
    png: PngOption = None,
    format: FormatOption = None,
    skip_bad: SkipOption = False,
    limit: LimitOption = None,
) -> None:
    """Say what a workload is like: sizes, durations, arrivals, tenants, repeats, failures."""
    from fairlead.cli.inputs import read_source
    from fairlead.workload.describe import describe as measure
    from fairlead.workload.describe import render_table

    saving = Saving(html, csv, png)
    saving.check()
    source = read_source(trace, format=format, skip_bad=skip_bad, limit=limit)
    found = measure(source.trace)
    emit(_finite(found.to_dict()), output, lambda: render_table(found))
    for note in found.notes:
        say(f"note: {note}")
    if saving.wanted:
        saving.write(described(found))


def described(found: Description) -> Report:
    """The description as a page."""
    from fairlead.record.report import Lead, Tile, charts_report
    from fairlead.workload.describe import charts, facts, headlines

    tiles = [Tile(*one) for one in headlines(found)]
    title = f"Workload: {found.source}" if found.source else "A workload"
    return charts_report(title, charts(found), facts=facts(found), lead=Lead(tiles, found.notes))  # type: ignore[arg-type]


def _finite(value: Any) -> Any:
    """JSON has no NaN: null says that there was nothing to measure."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and (value != value or abs(value) == float("inf")) else value


def convert(
    source: Annotated[list[str], typer.Argument(metavar="IN", help="Files, a folder, or gen:NAME:key=value,...")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A name that ends in .csv, .csv.gz or .parquet.")],
    format: FormatOption = None,
    skip_bad: SkipOption = False,
    limit: LimitOption = None,
) -> None:
    """Write a trace in fairlead's own form, which every other command reads fastest."""
    from fairlead.cli.inputs import output_file, read_source
    from fairlead.workload.writer import write_trace

    output_file(out, *TRACE_ENDINGS)
    trace = read_source(source, format=format, skip_bad=skip_bad, limit=limit).trace
    write_trace(trace, out)
    for note in trace.notes:
        say(f"note: {note}")
    say(f"wrote {_jobs(trace)} to {out}")


def generate(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="See --list.", autocompletion=generator_names)
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="How many jobs.")] = None,
    gpus: Annotated[int | None, typer.Option(help="The cluster that it is meant for.")] = None,
    load: Annotated[float | None, typer.Option(help="GPU time asked for, over what the cluster has.")] = None,
    days: Annotated[float | None, typer.Option(help="From the first submission to the last.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same jobs.")] = 0,
    set_: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="A parameter of this generator. Repeatable.")
    ] = [],  # noqa: B006  # typer copies it
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="OUT", help="A .csv, .csv.gz or .parquet file.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the generators and their parameters.")] = False,
) -> None:
    """Make a workload from a seed. Of jobs, days and load, two give the third."""
    if list_:
        emit(_generators(), Output.table, lambda: _generator_table(_generators()))
        return
    if name is None:
        raise InputError("no generator was named", accepts="a NAME, or --list to see them")
    if out is None:
        raise InputError("nowhere to write it", accepts="-o FILE.csv, FILE.csv.gz or FILE.parquet")
    from fairlead.cli.inputs import made, output_file, settings
    from fairlead.workload.generate import generate as make
    from fairlead.workload.writer import write_trace

    output_file(out, *TRACE_ENDINGS)
    values = settings(set_)
    for option, value in {"jobs": jobs, "gpus": gpus, "load": load, "days": days}.items():
        if option in values and value is not None:
            raise InputError("this is set twice", column=option, accepts=f"--{option} or --set {option}=, not both")
        if value is not None:
            values[option] = value
    trace = made(make, name, seed, values)
    write_trace(trace, out)
    print(_short(trace, out))


def _short(trace: Trace, out: Path) -> str:
    from fairlead.record.units import digits, duration, percent

    work = trace.duration_s * trace.gpus
    if trace.gpu_share_milli is not None:
        work = work * trace.gpu_share_milli / 1000.0
    gpu_hours = float(work.sum()) / 3600.0
    span_s = float(trace.submit_s[-1] - trace.submit_s[0])
    single = float((trace.gpus <= 1).mean())
    rows = [
        ("wrote", f"{out}, {_jobs(trace)}"),
        ("span", duration(span_s)),
        (
            "work",
            f"{digits(gpu_hours)} GPU-hours" + (f", {digits(gpu_hours * 3600 / span_s)} GPUs busy" if span_s else ""),
        ),
        ("sizes", f"1 to {int(trace.gpus.max())} GPUs, {percent(single)} of the jobs on one or less"),
        ("tenants", f"{len(trace.tenant.values):,}" if trace.tenant is not None else ""),
    ]
    return pairs(rows)


def _jobs(trace: Trace) -> str:
    from fairlead.record.units import count

    return count(len(trace), "job")


def _generators() -> list[dict[str, Any]]:
    from fairlead.workload.generate import generators

    return [{"name": one.name, "summary": one.summary, "parameters": one.parameters} for one in generators()]


def _generator_table(rows: list[dict[str, Any]]) -> RenderableType:
    lines = []
    for row in rows:
        known = [key if value is None else f"{key}={value}" for key, value in row["parameters"].items()]
        lines.append([row["name"], row["summary"], ", ".join(known)])
    return grid(["name", "what it is", "parameters"], lines)


def formats(output: OutputOption = Output.table) -> None:
    """List the trace formats that can be read."""
    from fairlead.workload.readers.registry import FORMATS

    rows = [{"name": one.name, "about": one.about, "notes": list(one.notes)} for one in FORMATS.values()]
    emit(rows, output, lambda: grid(["format", "what it is"], [[str(row["name"]), str(row["about"])] for row in rows]))
