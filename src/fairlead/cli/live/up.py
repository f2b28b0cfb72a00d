"""`fairlead up`: start the scheduler here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairlead.cli.render import pairs, say
from fairlead.cli.shared import placer_names, policy_names
from fairlead.model.errors import InputError

if TYPE_CHECKING:
    from fairlead.cli.live.daemon import Ready
    from fairlead.server.config import Config

_SLOW_S = 5.0  #: a start that takes longer is explained


def register(app: typer.Typer, panel: str) -> None:
    app.command("up", rich_help_panel=panel)(up)


def up(
    gpus: Annotated[
        int | None, typer.Option("--gpus", metavar="N", help="Declare N virtual GPUs instead of using real ones.")
    ] = None,
    nodes: Annotated[
        int | None, typer.Option("--nodes", metavar="N", help="N virtual nodes, each with --gpus GPUs.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="SPEC", help="Virtual nodes as a shape (2x8), or a cluster file.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option("--engine", metavar="NAME", help="Who carries decisions out: local, slurm or ray.")
    ] = None,
    partition: Annotated[
        str | None, typer.Option("--partition", metavar="NAME", help="slurm: the partition that is handed to fairlead.")
    ] = None,
    slurm_mode: Annotated[
        str | None,
        typer.Option("--slurm-mode", metavar="MODE", help="slurm: jobs, or pilot (steps of standing allocations)."),
    ] = None,
    address: Annotated[
        str | None, typer.Option("--address", metavar="HOST:PORT", help="ray: the cluster's address.")
    ] = None,
    shadow: Annotated[
        bool | None,
        typer.Option("--shadow", help="Only watch the engine and record what would be decided.", show_default=False),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar="NAME[:KEY=VALUE,...]",
            help="Who runs. See `fairlead policies`.",
            autocompletion=policy_names,
        ),
    ] = None,
    placer: Annotated[
        str | None,
        typer.Option("--placer", metavar="NAME", help="Where. See `fairlead placers`.", autocompletion=placer_names),
    ] = None,
    port: Annotated[int | None, typer.Option("--port", metavar="N", help="7878 unless said; 0 for any.")] = None,
    bind: Annotated[
        str | None, typer.Option("--bind", metavar="ADDRESS", help="127.0.0.1 unless said: this machine only.")
    ] = None,
    state_dir: Annotated[
        Path | None, typer.Option("--state-dir", metavar="DIR", help="Where the store, logs and tokens are kept.")
    ] = None,
    store: Annotated[
        str | None, typer.Option("--store", metavar="PATH|URL", help="Another SQLite file, or postgresql://...")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", metavar="FILE", help="Listen with TLS.")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="The certificate's key.")] = None,
    allow_public: Annotated[
        bool | None, typer.Option("--allow-public", help="Listen beyond this machine without TLS.", show_default=False)
    ] = None,
    config_file: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="A file of settings instead of ./fairlead.yaml.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log every request and decision to stderr.")] = False,
) -> None:
    """Start the scheduler on this machine.

    It uses the GPUs that are here, declared virtual ones (--gpus 8), or those of a cluster that Slurm or Ray runs (--engine). It runs until Ctrl-C or SIGTERM. Jobs run on without it, and are adopted when it is started again on the same state
    directory. Every setting can also stand in a file or the environment: see docs/operate.md.
    """
    from fairlead.cli.live import pid_file
    from fairlead.cli.live.engines import check_engine
    from fairlead.cli.live.listening import check_certificate, listen, url_of
    from fairlead.cli.work import announce_compiling, check_choices
    from fairlead.server.config import load_config, strange_variables

    config = load_config(
        {
            "gpus": gpus,
            "nodes": nodes,
            "cluster": cluster,
            "engine": engine,
            "partition": partition,
            "slurm_mode": slurm_mode,
            "address": address,
            "shadow": shadow,
            "policy": policy,
            "placer": placer,
            "port": port,
            "bind": bind,
            "state_dir": state_dir,
            "store": store,
            "tls_cert": tls_cert,
            "tls_key": tls_key,
            "allow_public": allow_public,
            "config": config_file,
        }
    )
    for told in strange_variables(os.environ):
        say(f"note: {told}")
    config.check_bind()
    check_certificate(config)
    check_engine(config)
    check_choices([(config.policy, config.placer)])
    found = pid_file.running(config.state_dir)
    if found is not None:
        raise InputError(
            f"a scheduler runs here already: pid {found.pid}, at {found.url}",
            accepts=f"to use that one, to end it (kill {found.pid}), or another --state-dir",
        )
    if config.shadow:
        _watch(config, verbose)
        return
    with listen(config) as listening:
        announce_compiling()
        _run(config, listening, url_of(config, listening), verbose)
    say("stopped: jobs run on; start `fairlead up` again to adopt them")


def _watch(config: Config, verbose: bool) -> None:
    import asyncio

    from fairlead.cli.live.daemon import make_state_dir, set_up_logging
    from fairlead.cli.live.shadow import watch

    make_state_dir(config)
    set_up_logging(verbose)
    asyncio.run(watch(config))


def _run(config: Config, listening: Any, url: str, verbose: bool) -> None:
    import asyncio
    import threading

    from fairlead.cli.live.daemon import make_state_dir, serve, set_up_logging
    from fairlead.server.store import StoreError

    make_state_dir(config)
    set_up_logging(verbose)
    # a thread's, since compiling holds up everything else
    slow = threading.Timer(
        _SLOW_S, say, ["still starting: what has not run on this machine yet is compiled first, once"]
    )
    slow.daemon = True
    slow.start()

    def tell(ready: Ready) -> None:
        slow.cancel()
        print(_told(ready, config), flush=True)

    try:
        asyncio.run(serve(config, listening, url, tell))
    except StoreError as error:
        say(f"fairlead: {error}")
        raise typer.Exit(1) from None
    finally:
        slow.cancel()


def _told(ready: Ready, config: Config) -> str:
    from fairlead import __version__
    from fairlead.cli.live.words import counts

    scheduler = ready.scheduler
    found: dict[str, int] = {}
    for job in scheduler.jobs.values():
        found[str(job.state)] = found.get(str(job.state), 0) + 1
    return pairs(
        [
            ("fairlead", f"{__version__}, pid {os.getpid()}"),
            ("listens at", ready.url),
            ("dashboard", f"{ready.url}/   (open it in a browser; sign in with what the token's file holds)"),
            ("GPUs", _gpus(ready)),
            ("policy", f"{scheduler.policy}, placer {scheduler.placer}"),
            ("state", str(config.state_dir)),
            ("token", f"{config.token_path}{' (made now)' if ready.token_made else ''}"),
            ("jobs", f"{counts(found)}: taken up where they were" if found else ""),
            (
                "next",
                f"fairlead submit --gpus {min(scheduler.spec.gpus, 1)} -- python train.py   (in another terminal; Ctrl-C here ends)",
            ),
        ]
    )


def _gpus(ready: Ready) -> str:
    from fairlead.backends.local.executor import LocalExecutor

    spec = ready.scheduler.spec
    nodes, total = spec.nodes, spec.gpus
    if not isinstance(ready.executor, LocalExecutor):
        return f"{total:,} on {len(nodes):,} node{'s' if len(nodes) != 1 else ''} of {ready.executor.name}"
    if ready.executor.machine.is_virtual:
        return f"{total} virtual, on {len(nodes)} node{'s' if len(nodes) != 1 else ''}: jobs run here, without GPUs of their own"
    if not total:
        return "none was found: only jobs with --gpus 0 can run; `fairlead up --gpus 8` declares virtual ones"
    return ", ".join(f"{node.gpus} x {node.gpu_type or 'GPU'}" for node in nodes if node.gpus)
