"""`fairlead sim compare`: several policies on one trace, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairlead.cli.options import SimOptions, takes_sim_options
from fairlead.cli.render import PLAIN_WIDTH, Output, OutputOption, console, emit, say
from fairlead.cli.saving import CsvOption, HtmlOption, PngOption, Saving
from fairlead.cli.shared import ClusterOption, PlacerOption, SeedOption, TraceArgument, policy_names
from fairlead.model.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.cli.inputs import Source
    from fairlead.cli.work import Done
    from fairlead.model.cluster import ClusterSpec
    from fairlead.record.metrics import Metrics
    from fairlead.record.report import Report, RunReport
    from fairlead.sim.profiles import Profiles
    from fairlead.state.rules import Options


@takes_sim_options
def compare(
    trace: TraceArgument,
    cluster: ClusterOption,
    policy: Annotated[
        list[str],
        typer.Option(metavar="NAME[:KEY=VALUE,...]", help="A policy; repeat for each.", autocompletion=policy_names),
    ] = [],  # noqa: B006  # typer copies it
    policies: Annotated[str, typer.Option(metavar="A,B,...", help="The same, in one list.")] = "",
    placer: PlacerOption = "consolidate",
    placers: Annotated[str, typer.Option(metavar="A,B,...", help="Each policy with each of these placers.")] = "",
    seed: SeedOption = 0,
    output: OutputOption = Output.table,
    html: HtmlOption = None,
    csv: CsvOption = None,
    png: PngOption = None,
    *,
    sim: SimOptions,
) -> None:
    """Run TRACE on a cluster under several policies and compare them; the first is what the others are measured by."""
    from fairlead.cli.inputs import read_cluster, read_source, split_policies, with_quotas
    from fairlead.cli.work import check_choices

    chosen = [*policy, *split_policies(policies)]
    if not chosen:
        raise InputError("nothing to compare", accepts="--policy NAME, at least once, or --policies A,B")
    pairs = [(one, spot) for one in chosen for spot in split_policies(placers) or [placer]]
    saving = Saving(html, csv, png)
    saving.check()
    # a misspelt last policy must not cost the runs of all before it
    check_choices(pairs)
    spec = read_cluster(cluster)
    options, profiles = sim.options(spec, seed), sim.rates()
    source = read_source(trace, format=sim.format, skip_bad=sim.skip_bad, limit=sim.limit, seed=seed)
    spec = with_quotas(spec, sim.quota, source.trace)
    side = run_side_by_side(source, spec, pairs, options, profiles, cluster=cluster, charts=saving.wanted)
    emit(side.results, output, side.table)
    for line in dict.fromkeys(side.remarks):
        say(line)
    if saving.wanted:
        saving.write(side.report(workload=source.trace.source))


class SideBySide:
    """What is kept of each run once its journal has been let go."""

    def __init__(self) -> None:
        self.results: list[dict[str, Any]] = []
        self.metrics: list[tuple[str, Metrics]] = []
        self.reports: list[RunReport] = []
        self.remarks: list[str] = []

    def add(self, done: Done, cluster: str, *, charts: bool) -> None:
        from fairlead.cli.refusals import refusals

        metrics = done.metrics()
        known = done.to_json(cluster)
        more = {key: value for key, value in metrics.to_json().items() if key not in known}
        self.results.append({**known, **more})
        self.metrics.append((done.name, metrics))
        if charts:
            from fairlead.record.report import RunReport

            self.reports.append(RunReport.fold(done.name, done.run.journal, metrics=metrics))
        self.remarks += [f"{done.name}: {one.sentence}" for one in refusals(done.run.journal, done.run.outcome)]
        self.remarks += [f"note: {note}" for note in done.notes]

    def table(self) -> RenderableType:
        from fairlead.record.tables import comparison_table

        return comparison_table(self.metrics, width=min(console().width, 2 * PLAIN_WIDTH))

    def report(self, *, workload: str, title: str = "") -> Report:
        from fairlead.record.report import report_of

        return report_of(self.reports, workload=workload, title=title)


def run_side_by_side(
    source: Source,
    spec: ClusterSpec,
    pairs: list[tuple[str, str]],
    options: Options,
    profiles: Profiles,
    *,
    cluster: str,
    charts: bool,
) -> SideBySide:
    from fairlead.cli.progress import progress_bar
    from fairlead.cli.work import announce_compiling, name_of, run_once

    announce_compiling()
    side = SideBySide()
    with progress_bar([name_of(*pair) for pair in pairs], len(source.trace)) as bars:
        for policy, placer in pairs:
            done = run_once(source, spec, policy, placer, options, profiles, bars.next())
            side.add(done, cluster, charts=charts)
            del done  # a journal of a million jobs is a hundred megabytes: one at a time
    return side
