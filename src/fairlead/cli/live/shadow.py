"""`fairlead up --shadow` watches an engine; `fairlead shadow` tells what it would have done, and what that would have gained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairlead.cli.render import Output, OutputOption, emit, grid, pairs, say
from fairlead.cli.shared import policy_names
from fairlead.model.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.server.config import Config
    from fairlead.server.shadow.story import Story, Watched

StateDirOption = Annotated[
    Path | None, typer.Option("--state-dir", metavar="DIR", help="Where `fairlead up --shadow` keeps its journal.")
]


def register(app: typer.Typer, panel: str) -> None:
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("report")(report)
    group.command("trace")(trace)
    app.add_typer(
        group, name="shadow", help="What was seen of an engine, and what would have been done.", rich_help_panel=panel
    )


async def watch(config: Config) -> None:
    """Until SIGTERM or SIGINT. It listens nowhere, and no call that it makes changes anything."""
    import asyncio
    import signal

    from fairlead.cli.live.daemon import cluster_of
    from fairlead.cli.live.engines import open_watcher
    from fairlead.server.clock import WallClock
    from fairlead.server.shadow.journal import FILE, ShadowJournal, rows
    from fairlead.server.shadow.watch import Shadow

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    watcher = await open_watcher(config)
    try:
        spec = cluster_of(config, await watcher.inventory())
        before = list(rows(config.state_dir)) if (config.state_dir / FILE).exists() else []
        journal = ShadowJournal(config.state_dir)
        shadow = Shadow(watcher, spec, journal, policy=config.policy, placer=config.placer)
        shadow.go_on(before, WallClock().now())
        told = [
            ("fairlead", f"in the shadow of {watcher.name}: it watches and touches nothing"),
            ("GPUs", f"{spec.gpus:,} on {len(spec.nodes):,} nodes"),
            ("policy", f"{config.policy}, placer {config.placer}"),
            ("journal", str(journal.path)),
            ("next", f"fairlead shadow report --state-dir {config.state_dir}   (any time; Ctrl-C here ends)"),
        ]
        print(pairs(told), flush=True)
        await shadow.run(stop, config.poll)
        tally = shadow.tally
        say(f"{tally.looks:,} looks, {tally.jobs:,} jobs seen, {tally.starts:,} starts, {tally.foreseen:,} foreseen")
    finally:
        await watcher.close()


def _story(state_dir: Path | None) -> Story:
    from fairlead.server.config import load_config
    from fairlead.server.shadow.journal import rows
    from fairlead.server.shadow.story import read_story

    return read_story(rows(load_config({"state_dir": state_dir}).state_dir))


def report(
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME[:KEY=VALUE,...]",
            help="Predict for this one, not the one that was watched with. Repeatable.",
            autocompletion=policy_names,
        ),
    ] = None,
    state_dir: StateDirOption = None,
    output: OutputOption = Output.table,
) -> None:
    """Compare how the engine ran its jobs with how they would have run.

    What was seen is replayed in the simulator: the same jobs, submitted when they were and running as long as they did. Only jobs
    that were seen from submission to end are compared.
    """
    from fairlead.cli.work import announce_compiling, check_choices

    story = _story(state_dir)
    choices = policy or [story.policy]
    check_choices([(one, story.placer) for one in choices])
    announce_compiling()
    found = compare(story, choices)
    emit(found, output, lambda: _table(found))


def trace(
    out: Annotated[Path, typer.Argument(metavar="OUT.csv", help="Where to write the trace.")],
    state_dir: StateDirOption = None,
) -> None:
    """Write what was seen as a trace, for `fairlead sim`."""
    from fairlead.cli.inputs import output_file
    from fairlead.workload.writer import write_csv

    output_file(out)
    made, jobs = _story(state_dir).trace()
    with out.open("w", encoding="utf-8", newline="") as file:
        write_csv(made, file)
    say(f"{len(jobs):,} jobs written to {out}")


def compare(story: Story, policies: list[str]) -> dict[str, Any]:
    from fairlead.sim.run import simulate

    made, jobs = story.trace()
    counted = [i for i, job in enumerate(jobs) if story.counted(job)]
    if not counted:
        raise InputError(
            "no job was seen from its submission to its end yet",
            value=f"{len(story.jobs)} jobs seen",
            accepts="to watch for longer than a job waits and runs",
        )
    begun_s = min(
        job.first_start_s if story.came_before(job) else job.submit_s for job in jobs if job.first_start_s is not None
    )
    rows = [_row(f"{story.engine} as it is", [_lived(jobs[i]) for i in counted])]
    for one in policies:
        outcome = simulate(made, story.cluster, one, story.placer).outcome
        waits = [
            (
                float(outcome.start_s[i]) + begun_s - jobs[i].submit_s,
                float(outcome.finish_s[i]) + begun_s - jobs[i].submit_s,
            )
            for i in counted
        ]
        rows.append(
            _row(one, waits)
            | {"mean_wait_change": _change(rows[0], waits, 0), "mean_jct_change": _change(rows[0], waits, 1)}
        )
    return {
        "engine": story.engine,
        "placer": story.placer,
        "watched_s": story.until_s - story.since_s,
        "jobs": {
            "seen": len(story.jobs),
            "compared": len(counted),
            "waiting": sum(job.first_start_s is None and job.end_s is None for job in story.jobs.values()),
            "running": sum(job.start_s is not None for job in story.jobs.values()),
        },
        "decisions": {
            "policy": story.policy,
            "would": dict(story.would),
            "starts": story.starts,
            "starts_foreseen": len(story.earlier_s),
            "mean_s_earlier": sum(story.earlier_s) / len(story.earlier_s) if story.earlier_s else None,
        },
        "rows": rows,
    }


def _lived(job: Watched) -> tuple[float, float]:
    assert job.first_start_s is not None
    assert job.end_s is not None
    return job.first_start_s - job.submit_s, job.end_s - job.submit_s


def _row(name: str, waits: list[tuple[float, float]]) -> dict[str, Any]:
    import numpy as np

    wait, jct = (np.array(column) for column in zip(*waits, strict=True))
    return {
        "policy": name,
        "mean_wait_s": float(wait.mean()),
        "p50_wait_s": float(np.percentile(wait, 50)),
        "p95_wait_s": float(np.percentile(wait, 95)),
        "mean_jct_s": float(jct.mean()),
    }


def _change(lived: dict[str, Any], waits: list[tuple[float, float]], column: int) -> float | None:
    """As a part of what was lived; None where that was nothing."""
    before = lived["mean_wait_s" if column == 0 else "mean_jct_s"]
    mean = sum(one[column] for one in waits) / len(waits)
    return mean / before - 1 if before > 0 else None


def _table(found: dict[str, Any]) -> RenderableType:
    from fairlead.cli.live.words import NONE, lasting

    def part(value: float | None) -> str:
        return NONE if value is None else f"{value:+.1%}"

    lines = [
        [
            row["policy"],
            *(lasting(row[name]) for name in ("mean_wait_s", "p50_wait_s", "p95_wait_s", "mean_jct_s")),
            part(row.get("mean_wait_change")),
            part(row.get("mean_jct_change")),
        ]
        for row in found["rows"]
    ]
    jobs, said = found["jobs"], found["decisions"]
    would = ", ".join(f"{count:,} to {deed}" for deed, count in sorted(said["would"].items())) or "none"
    caption = (
        f"{jobs['compared']:,} of {jobs['seen']:,} jobs were seen whole in {lasting(found['watched_s'])}; "
        f"{jobs['running']:,} still run and {jobs['waiting']:,} wait. Decisions that {said['policy']} would have made on the "
        f"spot: {would}; {said['starts_foreseen']:,} of the engine's {said['starts']:,} starts were among them"
        + ("" if said["mean_s_earlier"] is None else f", {lasting(said['mean_s_earlier'])} earlier on average")
        + "."
    )
    return grid(["", "mean wait", "p50 wait", "p95 wait", "mean JCT", "wait", "JCT"], lines, caption=caption)
