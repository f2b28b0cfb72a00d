"""`fairlead demo`: a month of a Philly-like cluster under six policies, from nothing but a seed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.panels import SIMULATION
from fairlead.cli.render import console, say
from fairlead.model.errors import InputError

if TYPE_CHECKING:
    from fairlead.cli.compare import SideBySide

#: as large as Philly itself
NODES, GPUS_PER_NODE = 400, 8
LOAD = 0.95
#: what many clusters have, two that are kinder without preempting, one that would have to know the future, and two that
#: come close to it without knowing anything
POLICIES = ("fifo", "easy-backfill", "fair-share", "srtf", "las", "tiresias")


def register(app: typer.Typer) -> None:
    app.command(
        "demo",
        rich_help_panel=SIMULATION,
        short_help="A month under six policies, then real programs for half a minute.",
    )(demo)


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the report goes.")] = Path("demo-out"),
    days: Annotated[float, typer.Option(help="How much of the cluster's life.")] = 30.0,
    seed: Annotated[int, typer.Option(help="Another seed is another month, and other jobs.")] = 1,
    part: Annotated[str, typer.Option(metavar="PART", help="all, sim or live.")] = "all",
) -> None:
    """Simulate a month under six policies; then schedule real programs for half a minute.

    The first half generates a month of a Philly-like cluster, runs six policies on it side by side and writes a report. The second
    starts a scheduler with virtual GPUs, submits programs of three tenants, shows them run, be suspended, resume and finish, and
    prints what the simulator foretold beside what happened.
    """
    if part not in ("all", "sim", "live"):
        raise InputError("this is no part of the demo", value=part, accepts="all, sim or live")
    if part in ("all", "sim"):
        _simulated(out, days, seed)
    if part in ("all", "live"):
        from fairlead.cli.demo_live import demo_live

        demo_live(seed)


def _simulated(out: Path, days: float, seed: int) -> None:
    from fairlead.cli.compare import run_side_by_side
    from fairlead.cli.inputs import read_source
    from fairlead.cli.work import DEFAULT_PLACER
    from fairlead.model.cluster import parse_cluster_shape
    from fairlead.record.units import count, duration
    from fairlead.sim.profiles import Profiles
    from fairlead.state.rules import Options

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"this folder can't be made: {error.strerror}", file=str(out)) from None
    shape = f"{NODES}x{GPUS_PER_NODE}"
    source = read_source([f"gen:philly-like:days={days:g},gpus={NODES * GPUS_PER_NODE},load={LOAD},seed={seed}"])
    jobs = source.trace
    span_s = float(jobs.submit_s[-1] - jobs.submit_s[0])
    say(
        f"{count(len(jobs), 'job')} over {duration(span_s)}, on {NODES} nodes of {GPUS_PER_NODE} GPUs at {LOAD:.0%} load"
    )
    pairs = [(policy, DEFAULT_PLACER) for policy in POLICIES]
    side = run_side_by_side(
        source, parse_cluster_shape(shape), pairs, Options(seed=seed), Profiles(), cluster=shape, charts=True
    )
    report = out / "report.html"
    side.report(workload=jobs.source, title="A month of a Philly-like cluster under six policies").write(report)
    console().print(side.table())
    print(_what_to_see(side, report))


def _what_to_see(side: SideBySide, report: Path) -> str:
    from fairlead.record.units import digits, duration

    by_name = dict(side.metrics)
    head, best, blind = by_name["fifo"].core, by_name["srtf"].core, by_name["las"].core
    jct = (
        f"fifo takes {duration(head.jct_s.mean)} on average, srtf {duration(best.jct_s.mean)} "
        f"({digits(head.jct_s.mean / best.jct_s.mean)} times less), but srtf knows how long jobs will run; "
        f"las does not, and takes {duration(blind.jct_s.mean)}"
    )
    price = f"las suspends jobs {blind.preemptions:,} times, tiresias {by_name['tiresias'].core.preemptions:,} times"
    lines = (
        f"The report is {report.resolve()}: open it in a browser; it needs no network.",
        "What to look at:",
        f"- JCT: {jct}.",
        f"- The price: {price}, free of charge here; `--preempt-cost h200` puts the measured price on it.",
        "- 'Waits by tenant': who pays for the others under fifo, and what fair-share changes.",
        "- 'Who held which GPU when': a gang at the head of fifo's queue empties nodes before it starts.",
        "Next: fairlead sim compare YOUR_TRACE --cluster NODESxGPUS --policy fifo --policy las",
    )
    return "\n".join(lines)
