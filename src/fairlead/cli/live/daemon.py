"""The scheduler as a process: everything put together, served, and let go of again without stopping a job."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pwd
import signal
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import uvicorn

from fairlead.backends.local.executor import LocalExecutor
from fairlead.backends.local.inventory import readings
from fairlead.cli.live import pid_file
from fairlead.cli.live.engines import open_executor
from fairlead.model.cluster import ClusterSpec
from fairlead.model.errors import InputError
from fairlead.runtime.live_jobs import Costs
from fairlead.runtime.protocols import Executor
from fairlead.runtime.warm import warm_up
from fairlead.server import garbage
from fairlead.server.api import create_app, end_streams
from fairlead.server.auth import Tokens, ensure_local_token
from fairlead.server.clock import WallClock
from fairlead.server.config import Config
from fairlead.server.gate import Gate
from fairlead.server.metrics import GpuReading, Metrics
from fairlead.server.scheduler import Scheduler
from fairlead.server.store import Store
from fairlead.server.unix_user import UnixUsers
from fairlead.server.upkeep import keep_up

if TYPE_CHECKING:
    from collections.abc import Callable

#: how long requests under way may take once it is to stop
_LAST_REQUESTS_S = 3
_READ_GPUS_EVERY_S = 10.0


@dataclass(frozen=True)
class Ready:
    """What there is to tell once it serves."""

    url: str
    scheduler: Scheduler
    executor: Executor
    token_made: bool


class _Server(uvicorn.Server):
    """Signals are ours: they end the scheduler in order, and its jobs not at all."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(config: Config, listening: socket.socket, url: str, tell: Callable[[Ready], None]) -> None:
    """Until SIGTERM or SIGINT, or until the scheduler can't go on, which raises."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        ready, app, tokens = await _put_together(config, url, stack)
        if stop.is_set():
            return
        scheduler = ready.scheduler
        upkeep = asyncio.create_task(
            keep_up(scheduler.store, tokens, config, scheduler.now, lambda id: id in scheduler.jobs)
        )
        stack.push_async_callback(_ended, upkeep)
        stack.push_async_callback(_ended, asyncio.create_task(garbage.collect()))
        reading = asyncio.create_task(_read_gpus(ready.executor, scheduler.metrics))
        stack.push_async_callback(_ended, reading)
        server = _Server(_uvicorn(config, app))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        stopping = asyncio.create_task(stop.wait())
        tell(ready)
        ends: set[asyncio.Future[Any]] = {serving, stopping, scheduler.failure}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            end_streams(app)
            server.should_exit = True
            await serving
        if scheduler.failure.done():
            scheduler.failure.result()


async def _put_together(config: Config, url: str, stack: AsyncExitStack) -> tuple[Ready, Any, Tokens]:
    """What the stack lets go of, it lets go of in the opposite order."""
    store = await asyncio.to_thread(Store, config.store_url)
    stack.callback(store.close)
    executor = await open_executor(config)
    opened = AsyncExitStack()
    opened.push_async_callback(executor.close)
    async with opened:
        spec = cluster_of(config, await executor.inventory())
        policy, placer = chosen(config, store)
        await asyncio.to_thread(warm_up, spec, policy, placer)
        clock = WallClock(await asyncio.to_thread(store.last_time_s))
        scheduler = Scheduler(
            store,
            executor,
            spec,
            clock,
            policy=policy,
            placer=placer,
            logs=config.logs,
            gate=Gate(config.max_jobs, config.max_jobs_per_user, config.max_array),
            users=UnixUsers("" if config.run_as == "submitter" else config.run_as),
            costs=Costs(config.start_cost, config.resume_cost),
        )
        await scheduler.open()
        opened.pop_all()  # closing the scheduler closes the executor
    stack.push_async_callback(scheduler.close)
    tokens = Tokens(store.accounts, scheduler.now)
    stack.callback(tokens.flush)
    user = _own_name()
    made = await asyncio.to_thread(ensure_local_token, tokens, config.token_path, user, user)
    app = create_app(scheduler, tokens, config)
    # both locks are ours: from here on commands may find us by it
    pid_file.write(config.state_dir, url)
    stack.callback(pid_file.remove, config.state_dir)
    return Ready(url, scheduler, executor, made), app, tokens


def _own_name() -> str:
    """Whoever we really are; LOGNAME may say anything."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container's user without a name
        return f"uid-{os.geteuid()}"


async def _read_gpus(executor: Executor, metrics: Metrics) -> None:
    """What this machine's GPUs say of themselves, for /metrics. One that falls silent is no reason to stop."""
    while isinstance(executor, LocalExecutor) and executor.machine.cluster.gpus and not executor.machine.is_virtual:
        try:
            found = await asyncio.to_thread(readings, executor.machine)
        except Exception as error:
            logging.getLogger(__name__).warning("the GPUs can't be read: %s", error)
            found = []
        metrics.gpus(
            GpuReading(
                one.node,
                one.gpu.index,
                one.gpu.name,
                one.gpu.type,
                one.utilization_percent,
                one.memory_used_mib,
                one.memory_free_mib,
                one.power_w,
                one.temperature_c,
            )
            for one in found
        )
        await asyncio.sleep(_READ_GPUS_EVERY_S)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _uvicorn(config: Config, app: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=False,  # the API has its own
        server_header=False,
        proxy_headers=False,  # whoever asks is who connects: an address that a stranger names would evade limits
        timeout_graceful_shutdown=_LAST_REQUESTS_S,
        ssl_certfile=None if config.tls_cert is None else str(config.tls_cert),
        ssl_keyfile=None if config.tls_key is None else str(config.tls_key),
    )


def cluster_of(config: Config, found: ClusterSpec) -> ClusterSpec:
    """What was found; with tenants, levels and speeds of a cluster file where there is one and it has the same nodes."""
    if config.cluster is None:
        return found
    from dataclasses import replace

    from fairlead.cli.inputs import read_cluster

    spec = read_cluster(config.cluster)
    here = {node.name: node for node in found.nodes}
    strange = [node.name for node in spec.nodes if node.name not in here or here[node.name].gpus != node.gpus]
    if strange or len(spec.nodes) != len(here):
        has = ", ".join(f"{node.name} with {node.gpus} GPUs" for node in found.nodes[:5])
        raise InputError(
            "these are not the nodes that are here",
            file=config.sources.get("cluster"),
            value=", ".join(strange[:5]) or config.cluster,
            accepts=f"{has}{' and so on' if len(found.nodes) > 5 else ''}",
        )
    nodes = tuple(replace(here[node.name], path=node.path) for node in spec.nodes)
    return replace(spec, nodes=nodes)


def chosen(config: Config, store: Store) -> tuple[str, str]:
    """Whoever spoke last: what `fairlead policy set` said, unless flags, environment or files say something else by now."""
    configured = [config.policy, config.placer]
    stored = store.standing.settings()
    if stored.get("configured") == configured:
        return str(stored.get("policy", config.policy)), str(stored.get("placer", config.placer))
    store.standing.put_settings({"configured": configured, "policy": config.policy, "placer": config.placer})
    return config.policy, config.placer


def set_up_logging(verbose: bool) -> None:
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    # what a client does wrong is told to the client
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)


def make_state_dir(config: Config) -> None:
    """Nobody else can look in, whoever made it."""
    path = config.state_dir
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.stat().st_mode & 0o077:
            os.chmod(path, 0o700)
    except OSError as error:
        raise InputError(
            f"the state directory can't be used: {error.strerror}",
            file=config.sources.get("state_dir"),
            value=str(path),
            accepts="a folder of your own (--state-dir)",
        ) from None
