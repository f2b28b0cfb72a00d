"""`fairlead rehearse`: live through a short workload with real processes, and say how well the simulator foretold it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.panels import SIMULATION
from fairlead.cli.render import console, say
from fairlead.model.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from fairlead.cli.rehearsal.compare import Agreement
    from fairlead.cli.rehearsal.live_run import Stage
    from fairlead.model.cluster import ClusterSpec
    from fairlead.workload.trace import Trace

#: with times that suit jobs of seconds: Tiresias demotes after 20 GPU-seconds, Gandiva's turns take 2 s
POLICIES = ("fifo", "srtf", "tiresias:thresholds=20", "gandiva:quantum=2,idle=2")


def register(app: typer.Typer) -> None:
    app.command(
        "rehearse", rich_help_panel=SIMULATION, short_help="A workload with real processes beside its simulation."
    )(rehearse)


def rehearse(
    trace: Annotated[
        list[str] | None, typer.Argument(metavar="[TRACE]", help="A trace of seconds; else a mix of short jobs.")
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option(help="NAME[:key=value,...]; several are lived one after another.")
    ] = None,
    placer: Annotated[str, typer.Option(help="NAME[:key=value,...]")] = "consolidate",
    cluster: Annotated[
        str | None, typer.Option(help="Virtual nodes and GPUs, all nodes alike; 4x4 unless said.", show_default=False)
    ] = None,
    engine: Annotated[str, typer.Option(help="Where to live through it: local, slurm or ray.")] = "local",
    partition: Annotated[str | None, typer.Option(help="slurm: the partition that is handed to fairlead.")] = None,
    address: Annotated[str | None, typer.Option(help="ray: the cluster's address, HOST:PORT.")] = None,
    poll: Annotated[str | None, typer.Option(help="How often the engine is asked how things stand.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many, of a mix.")] = 200,
    mean: Annotated[float, typer.Option(min=0.05, help="How many seconds a job of a mix works, on average.")] = 6.0,
    load: Annotated[float, typer.Option(min=0.05, help="What a mix asks for, of all GPUs.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Another seed is another mix.")] = 1,
    within: Annotated[
        float, typer.Option(help="How far the mean completion time may be off before it is a failure.")
    ] = 0.05,
    output: Annotated[str, typer.Option("-o", "--output", metavar="FORMAT", help="table or json.")] = "table",
) -> None:
    """Run one workload live, as real processes on virtual GPUs, and simulated; compare.

    On an engine, its latencies are measured and given to the simulation: those of the run itself. The scheduler is given what a few jobs
    showed beforehand.
    """
    import json
    from dataclasses import asdict

    from fairlead.cli.work import announce_compiling, check_choices
    from fairlead.model.suggest import unknown

    if output not in ("table", "json"):
        raise unknown("output", output, ("table", "json"))
    policies = policy or list(POLICIES)
    check_choices((one, placer) for one in policies)
    settings = {"engine": engine, "partition": partition, "address": address, "poll": poll}
    stage, spec = _stage(settings, cluster)
    workload = _workload(trace, spec, jobs, mean, load, seed)
    announce_compiling()
    found = [_one(workload, spec, one, placer, seed, stage) for one in policies]
    if output == "json":
        print(json.dumps([{**asdict(one), "jct_off": one.jct_off} for one in found]))
    else:
        console().print(_table(found))
    if not all(one.holds(within) for one in found):
        say(f"not within {within:.0%}, or in another order where the order was settled")
        raise typer.Exit(1)


def _workload(trace: list[str] | None, spec: ClusterSpec, jobs: int, mean: float, load: float, seed: int) -> Trace:
    from fairlead.cli.inputs import read_source
    from fairlead.cli.rehearsal.workload import mix

    if trace:
        return read_source(trace).trace
    return mix(jobs, spec.gpus, load, mean, seed, spec.nodes[0].gpus)


def _stage(settings: dict[str, str | None], cluster: str | None) -> tuple[Stage, ClusterSpec]:
    """Where it is lived through, and what is there."""
    import asyncio
    import tempfile
    from dataclasses import replace

    from fairlead.cli.live.engines import check_engine, open_executor
    from fairlead.cli.rehearsal.live_run import Stage, own_stage
    from fairlead.model.cluster import parse_cluster_shape
    from fairlead.server.config import load_config

    if settings["engine"] == "local":
        spec = parse_cluster_shape(cluster or "4x4")
        if len({(node.gpus, node.gpu_type) for node in spec.nodes}) > 1:
            raise InputError("virtual nodes are all alike", value=cluster, accepts="NODESxGPUS, such as 4x4")
        return own_stage(spec), spec
    if cluster is not None:
        raise InputError("the engine says what nodes there are", value=cluster, accepts="--engine without --cluster")
    config = load_config(settings)
    check_engine(config)

    async def look() -> ClusterSpec:
        with tempfile.TemporaryDirectory(prefix="fairlead-") as folder:
            executor = await open_executor(replace(config, state_dir=Path(folder)))
            try:
                return await executor.inventory()
            finally:
                await executor.close()

    return Stage(lambda folder: open_executor(replace(config, state_dir=folder)), engine=True), asyncio.run(look())


def _one(workload: Trace, spec: ClusterSpec, policy: str, placer: str, seed: int, stage: Stage) -> Agreement:
    import asyncio
    import tempfile
    from dataclasses import replace

    from fairlead.cli.progress import progress_bar
    from fairlead.cli.rehearsal.compare import agree
    from fairlead.cli.rehearsal.live_run import live_through
    from fairlead.model.cluster import TenantSpec

    names = workload.tenant.values if workload.tenant is not None else ()
    spec = replace(spec, tenants={name: TenantSpec(name) for name in names})
    with (
        tempfile.TemporaryDirectory(prefix="fairlead-") as folder,
        progress_bar([policy], len(workload), is_slow=True) as bars,
    ):
        lived, latencies = asyncio.run(live_through(workload, spec, policy, placer, Path(folder), stage, bars.next()))
    return agree(workload, spec, policy, placer, lived, seed, latencies)


def _table(found: list[Agreement]) -> Table:
    from rich.table import Table

    table = Table(box=None)
    for name in ("policy", "mean JCT sim", "live", "off", "makespan sim", "live", "preemptions sim", "live", "late", "pairs settled", "swapped"):  # fmt: skip
        table.add_column(name, justify="left" if name == "policy" else "right")
    for one in found:
        table.add_row(
            one.policy,
            f"{one.sim_jct_s:.2f} s",
            f"{one.live_jct_s:.2f} s",
            f"{one.jct_off:+.1%}",
            f"{one.sim_makespan_s:.1f} s",
            f"{one.live_makespan_s:.1f} s",
            str(one.sim_preemptions),
            str(one.live_preemptions),
            f"{1000 * one.late_s:.0f} ms",
            f"{one.settled:,} of {one.pairs:,}",
            str(one.swapped),
        )
    told = [one.latencies for one in found if one.latencies.start_s]
    if told:
        table.caption = "; ".join(
            f"start {1000 * one.start_s:.0f} ms, end {1000 * one.end_s:.0f} ms, suspend {1000 * one.suspend_s:.0f} ms"
            for one in told
        )
    return table
