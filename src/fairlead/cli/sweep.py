"""`fairlead sim sweep`: every combination of parameters, clusters, seeds and loads, one row each."""

from __future__ import annotations

import csv
import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairlead.cli.options import SimOptions, takes_sim_options
from fairlead.cli.render import Output, emit, grid, say
from fairlead.cli.shared import PlacerOption, TraceArgument, policy_names
from fairlead.model.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.cli.inputs import Source
    from fairlead.cli.work import Done
    from fairlead.model.cluster import ClusterSpec


class SweepOutput(StrEnum):
    table = "table"
    json = "json"
    yaml = "yaml"
    csv = "csv"


@dataclass(frozen=True)
class Point:
    """One combination. `changed` is what tells it from the others, as shown in its row."""

    policy: str
    cluster: str
    seed: int
    load: float
    changed: dict[str, str]


@takes_sim_options
def sweep(
    trace: TraceArgument,
    policy: Annotated[
        list[str],
        typer.Option(metavar="NAME[:KEY=VALUE,...]", help="A policy; repeat for several.", autocompletion=policy_names),
    ],
    cluster: Annotated[str, typer.Option(metavar="SPEC", help="As for `sim run`.")] = "",
    set_: Annotated[
        list[str], typer.Option("--set", metavar="KEY=A,B,...", help="Values of a policy's parameter. Repeatable.")
    ] = [],  # noqa: B006  # typer copies it
    clusters: Annotated[str, typer.Option(metavar="A,B,...", help="Several clusters: 32x8,64x8.")] = "",
    seeds: Annotated[str, typer.Option(metavar="A,B,...", help="Several seeds.")] = "0",
    load_scale: Annotated[str, typer.Option(metavar="A,B,...", help="Submit the jobs so many times as fast.")] = "1",
    placer: PlacerOption = "consolidate",
    output: Annotated[SweepOutput, typer.Option("-o", "--output", help="How to print the rows.")] = SweepOutput.table,
    *,
    sim: SimOptions,
) -> None:
    """Run every combination of parameters, clusters, seeds and loads."""
    from fairlead.cli.inputs import read_cluster, read_source
    from fairlead.cli.work import check_choices

    names = [name for name in [cluster, *clusters.split(",")] if name]
    if not names:
        raise InputError("no cluster was given", accepts="--cluster SPEC or --clusters A,B")
    points = list(_points(policy, set_, names, _seeds(seeds), _loads(load_scale)))
    check_choices([(point.policy, placer) for point in points])
    specs = {name: read_cluster(name) for name in names}
    sources: dict[int, Source] = {}
    for seed in dict.fromkeys(point.seed for point in points):
        # a file is the same under every seed, a generated workload is not
        kept = next(iter(sources.values()), None) if not trace[0].startswith("gen:") else None
        sources[seed] = kept or read_source(trace, format=sim.format, skip_bad=sim.skip_bad, limit=sim.limit, seed=seed)
    rows = _run_all(points, specs, sources, placer, sim)
    if output is SweepOutput.csv:
        _print_csv(rows)
    else:
        emit(rows, Output(output.value), lambda: _table(rows))


def _points(
    policies: list[str], sets: list[str], clusters: list[str], seeds: list[int], loads: list[float]
) -> Iterator[Point]:
    axes: list[list[tuple[str, str]]] = []
    for item in sets:
        key, equals, values = item.partition("=")
        if not equals or not key or not values:
            raise InputError("a parameter's values are written key=a,b", file="--set", value=item, accepts="key=a,b")
        axes.append([(key, value) for value in values.split(",")])
    for policy, cluster, seed, load in itertools.product(policies, clusters, seeds, loads):
        for chosen in itertools.product(*axes):
            changed = {"policy": policy, "cluster": cluster, "seed": str(seed), "load_scale": f"{load:g}"}
            text = ",".join(f"{key}={value}" for key, value in chosen)
            # the class of a user's file follows a colon too, so what is set already shows in '='
            joint = "," if "=" in policy else ":"
            full = f"{policy}{joint}{text}" if text else policy
            yield Point(full, cluster, seed, load, {**changed, **dict(chosen)})


def _seeds(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError("this is no list of seeds", file="--seeds", value=text, accepts="e.g. 1,2,3") from None


def _loads(text: str) -> list[float]:
    from fairlead.cli.inputs import numbers

    found = numbers(text, "--load-scale")
    if min(found) <= 0:
        raise InputError("a load is above 0", file="--load-scale", value=text, accepts="e.g. 0.8,1,1.2")
    return found


def _run_all(
    points: list[Point], specs: dict[str, ClusterSpec], sources: dict[int, Source], placer: str, sim: SimOptions
) -> list[dict[str, Any]]:
    from fairlead.cli.inputs import scaled, with_quotas
    from fairlead.cli.progress import progress_bar
    from fairlead.cli.work import announce_compiling, run_once

    profiles = sim.rates()
    first = next(iter(sources.values()))
    specs = {name: with_quotas(spec, sim.quota, first.trace) for name, spec in specs.items()}
    announce_compiling()
    rows, notes = [], []
    with progress_bar([_label(point, points) for point in points], len(first.trace)) as bars:
        for point in points:
            source = sources[point.seed]
            source = replace(source, trace=scaled(source.trace, point.load))
            spec = specs[point.cluster]
            options = sim.options(spec, point.seed)
            done = run_once(source, spec, point.policy, placer, options, profiles, bars.next())
            rows.append(_row(point, done))
            notes += [f"note: {note}" for note in done.notes]
            del done
    for note in dict.fromkeys(notes):
        say(note)
    return rows


def _label(point: Point, points: list[Point]) -> str:
    varied = [value for key, value in point.changed.items() if len({p.changed.get(key) for p in points}) > 1]
    return " ".join(varied) or point.policy


def _row(point: Point, done: Done) -> dict[str, Any]:
    known = done.to_json(point.cluster)
    row = {**point.changed, "seed": point.seed, "load_scale": point.load}
    for key in ("jobs", "finished", "makespan_s"):
        row[key] = known[key]
    for key in ("jct_s", "wait_s"):
        for part in ("mean", "p50", "p95", "p99"):
            row[f"{key.removesuffix('_s')}_{part}_s"] = known[key][part]
    for key in ("gpu_utilization", "preemptions", "migrations", "wall_s", "journal_sha256"):
        row[key] = known[key]
    row["refused"] = sum(known["refused"].values())
    return row


def _print_csv(rows: list[dict[str, Any]]) -> None:
    writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def _table(rows: list[dict[str, Any]]) -> RenderableType:
    """What varies between the rows, then the numbers that matter most; JSON and CSV have all of them."""
    from fairlead.record.units import duration, percent

    outcome = list(rows[0]).index("jobs")
    axes = [key for key in list(rows[0])[:outcome] if len({str(row[key]) for row in rows}) > 1] or ["policy"]
    times = {
        "JCT mean": "jct_mean_s",
        "JCT p95": "jct_p95_s",
        "wait mean": "wait_mean_s",
        "wait p95": "wait_p95_s",
    }
    lines = []
    for row in rows:
        line = [str(row[key]) for key in axes]
        line += [f"{row['finished']:,}"]
        line += [duration(float("nan") if row[key] is None else row[key]) for key in times.values()]
        held = row["gpu_utilization"]
        line += [percent(float("nan") if held is None else held), f"{row['preemptions']:,}"]
        lines.append(line)
    numbers = ["finished", *times, "GPUs held", "preempted"]
    return grid([*axes, *numbers], lines, numbers=numbers)
