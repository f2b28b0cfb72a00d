"""`fairlead sim`: run one policy, compare several, sweep parameters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairlead.cli import compare, sweep
from fairlead.cli.options import SimOptions, takes_sim_options
from fairlead.cli.panels import SIMULATION
from fairlead.cli.render import Output, OutputOption, emit, pairs, say
from fairlead.cli.saving import CsvOption, HtmlOption, PngOption, Saving
from fairlead.cli.shared import ClusterOption, PlacerOption, SeedOption, TraceArgument, policy_names

if TYPE_CHECKING:
    from fairlead.cli.work import Done
    from fairlead.workload.trace import Trace


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Simulate policies on a trace.")
    group.command("run")(run)
    group.command("compare")(compare.compare)
    group.command("sweep")(sweep.sweep)
    app.add_typer(group, name="sim", rich_help_panel=SIMULATION)


@takes_sim_options
def run(
    trace: TraceArgument,
    cluster: ClusterOption,
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME[:KEY=VALUE,...]",
            help="A policy (see `fairlead policies`), or your own: file.py:Name[:key=value,...].",
            autocompletion=policy_names,
        ),
    ],
    placer: PlacerOption = "consolidate",
    seed: SeedOption = 0,
    output: OutputOption = Output.table,
    jobs_out: Annotated[Path | None, typer.Option(metavar="F.csv", help="What became of each job.")] = None,
    journal: Annotated[Path | None, typer.Option(metavar="F", help="Every decision, as .parquet or .jsonl.")] = None,
    html: HtmlOption = None,
    csv: CsvOption = None,
    png: PngOption = None,
    story: Annotated[
        str | None, typer.Option(metavar="JOB_ID", help="Tell what happened to this job, event by event.")
    ] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Add fairness, fragmentation and each tenant and size to the result.")
    ] = False,
    *,
    sim: SimOptions,
) -> None:
    """Run TRACE on a cluster under one policy.

    TRACE is one or more files, a folder, or a generated workload such as gen:philly-like:jobs=10000,gpus=512,load=0.9.
    """
    from fairlead.cli.inputs import output_file, read_cluster, read_source, with_quotas
    from fairlead.cli.progress import progress_bar
    from fairlead.cli.work import announce_compiling, check_choices, run_once

    # whatever is quick to check comes before the trace, which may take minutes to read
    outputs = output_file(jobs_out, ".csv"), output_file(journal, ".parquet", ".jsonl")
    saving = Saving(html, csv, png)
    saving.check()
    check_choices([(policy, placer)])
    spec = read_cluster(cluster)
    options, profiles = sim.options(spec, seed), sim.rates()
    source = read_source(trace, format=sim.format, skip_bad=sim.skip_bad, limit=sim.limit, seed=seed)
    spec = with_quotas(spec, sim.quota, source.trace)
    told = None if story is None else job_position(source.trace, story)
    announce_compiling()
    with progress_bar([policy], len(source.trace)) as bars:
        done = run_once(source, spec, policy, placer, options, profiles, bars.next())
    result = done.to_json(cluster)
    if details:
        result["details"] = _details(done)
    if told is not None:
        result["story"] = _story(done, source.trace, told)
    _write(done, source.trace, *outputs, saving)
    emit(result, output, lambda: _summary(result, done))
    _remark(done)


def job_position(trace: Trace, job_id: str) -> int:
    """Where in the trace the job with this id stands."""
    from fairlead.model.errors import InputError

    if trace.job_ids is None:
        if job_id.isdigit() and int(job_id) < len(trace):
            return int(job_id)
    else:
        for position, one in enumerate(trace.job_ids):
            if str(one) == job_id:
                return position
    examples = f"such as {trace.job_id(0)} or {trace.job_id(len(trace) - 1)}"
    raise InputError("the trace has no job with this id", file="--story", value=job_id, accepts=examples)


def _story(done: Done, trace: Trace, job: int) -> list[str]:
    from fairlead.record.story import story

    told = story(done.run.journal, job)
    job_id = trace.job_id(job)
    return told if job_id == str(job) else [f"{job_id} is job {job} of the trace.", *told]


def _details(done: Done) -> dict[str, Any]:
    metrics, core = done.metrics().to_json(), done.core.to_json()
    return {key: value for key, value in metrics.items() if key not in core and key not in ("refused", "migrations")}


def _write(done: Done, trace: Trace, jobs_out: Path | None, journal: Path | None, saving: Saving) -> None:
    if jobs_out is not None:
        from fairlead.record.jobs_csv import jobs_csv

        jobs_csv(done.run.journal, done.run.outcome, trace.job_ids, jobs_out)
    if journal is not None:
        from fairlead.record.journal_io import write_journal

        write_journal(done.run.journal, journal)
    if saving.wanted:
        from fairlead.record.report import RunReport, report_of

        saving.write(report_of([RunReport.fold(done.name, done.run.journal)], workload=trace.source))
    for path in (jobs_out, journal):
        if path is not None:
            say(f"wrote {path}")


def _summary(result: dict[str, Any], done: Done) -> str:
    from fairlead.record.units import digits, duration, percent

    def spread(values: dict[str, float | None]) -> str:
        return ", ".join(f"{name} {duration(_nan(value))}" for name, value in values.items())

    rows = [
        ("policy", f"{result['policy']}, placer {result['placer']}, seed {result['seed']}"),
        ("cluster", result["cluster_is"]),
        ("jobs", f"{result['finished']:,} of {result['jobs']:,} finished" + _unfinished(result)),
        ("makespan", duration(_nan(result["makespan_s"]))),
        ("JCT", spread(result["jct_s"])),
        ("wait", spread(result["wait_s"])),
        ("GPUs held", percent(_nan(result["gpu_utilization"]))),
        ("preemptions", f"{result['preemptions']:,} ({result['migrations']:,} resumed on other nodes)"),
        ("charged", _hours(result["charged_gpu_s"], "of start and preemption costs")),
        ("lost", _hours(result["lost_gpu_s"], "of work, to failures")),
        ("events", f"{result['events']:,} in {digits(result['wall_s'])} s"),
        ("read", f"{digits(result['load_s'])} s, compile {digits(result['compile_s'])} s"),
        ("journal", result["journal_sha256"]),
    ]
    text = pairs(rows)
    if "details" in result:
        text += "\n\n" + _detail_text(result["details"])
    if "story" in result:
        text += "\n\n" + "\n".join(result["story"])
    return text


def _detail_text(details: dict[str, Any]) -> str:
    from fairlead.record.units import digits, duration, percent

    rho = details["rho"]
    rows = [
        ("GPUs computing", percent(_nan(details["gpu_computing"]))),
        ("wasted", _hours(details["wasted_gpu_s"], "held without effect") or "nothing"),
        ("restarts", f"{details['restarts']:,}"),
        ("rho", f"mean {digits(_nan(rho['mean']))}, p95 {digits(_nan(rho['p95']))}"),
        ("Jain index", digits(_nan(details["jain_index"]))),
        ("idle in parts", percent(_nan(details["fragmentation"]))),
    ]
    for kind in ("tenants", "sizes"):
        for row in details[kind]:
            waits = f"wait mean {duration(_nan(row['wait_s']['mean']))}, p95 {duration(_nan(row['wait_s']['p95']))}"
            rows.append((f"{kind[:-1]} {row['name']}", f"{row['jobs']:,} jobs, {waits}"))
    return pairs(rows)


def _unfinished(result: dict[str, Any]) -> str:
    refused, given_up = sum(result["refused"].values()), result["given_up"]
    parts = [f"{number:,} {what}" for number, what in ((refused, "refused"), (given_up, "given up")) if number]
    return f" ({', '.join(parts)})" if parts else ""


def _hours(gpu_s: float, what: str) -> str:
    from fairlead.record.units import digits

    return f"{digits(gpu_s / 3600)} GPU-hours {what}" if gpu_s else ""


def _nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _remark(done: Done) -> None:
    from fairlead.cli.refusals import refusals

    for one in refusals(done.run.journal, done.run.outcome):
        say(one.sentence)
    for note in done.notes:
        say(f"note: {note}")
