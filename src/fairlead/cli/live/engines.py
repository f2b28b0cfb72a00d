"""Who carries decisions out: this machine's own processes, or the engine that a cluster has already.

An engine's module is imported when it is asked for: what it needs beyond fairlead is an extra.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

from fairlead.backends.local.settings import LocalSettings
from fairlead.model.errors import InputError
from fairlead.model.suggest import unknown

if TYPE_CHECKING:
    from fairlead.backends.ray import RaySettings
    from fairlead.runtime.protocols import Capabilities, Executor, Watcher
    from fairlead.server.config import Config

_LOGS_KEPT = 3  #: older files of a job's output
#: what a setting is of no use without
_OF_ENGINE = {"partition": "slurm", "slurm_mode": "slurm", "address": "ray", "ray_python": "ray", "ray_fence": "ray"}


def check_engine(config: Config) -> None:
    """InputError where settings of different engines are mixed, or shadow mode has nothing to watch."""
    for key, engine in _OF_ENGINE.items():
        if key in config.sources and config.engine != engine:
            raise InputError(
                f"this is for {engine} only, and the engine is {config.engine}",
                file=config.sources[key],
                value=getattr(config, key),
                accepts=f"--engine {engine}, or to leave it out",
            )
    if config.engine == "local":
        if config.shadow:
            raise InputError(
                "there is nothing to watch: this machine's processes are started by fairlead alone",
                file=config.sources.get("shadow"),
                accepts="--engine slurm or --engine ray",
            )
        return
    for key in ("gpus", "nodes"):
        if key in config.sources:
            raise InputError(
                f"{config.engine} says which GPUs there are; virtual ones are for a single machine",
                file=config.sources[key],
                value=getattr(config, key),
                accepts="to leave it out",
            )


def capabilities_of(engine: str) -> Capabilities:
    """What an engine can do, as far as it can be said without one."""
    from fairlead.runtime.protocols import EVERYTHING

    if engine == "local":
        return EVERYTHING
    if engine in ("slurm", "slurm-pilot"):
        from fairlead.backends.slurm.settings import capabilities

        return capabilities("pilot" if engine == "slurm-pilot" else "jobs")
    if engine == "ray":
        from fairlead.backends.ray.settings import CAPABILITIES

        return CAPABILITIES
    raise unknown("engine", engine, ["local", "slurm", "slurm-pilot", "ray"])


async def open_executor(config: Config) -> Executor:
    if config.engine == "slurm":
        from fairlead.backends.slurm import SlurmExecutor, SlurmSettings

        return await SlurmExecutor.open(
            SlurmSettings(config.state_dir, config.partition, mode=config.slurm_mode, poll_s=config.poll)
        )
    if config.engine == "ray":
        from fairlead.backends.ray import RayExecutor

        return await RayExecutor.open(ray_settings(config))
    from fairlead.backends.local.executor import LocalExecutor

    return await LocalExecutor.open(local_settings(config))


async def open_watcher(config: Config) -> Watcher:
    if config.engine == "slurm":
        from fairlead.backends.slurm import SlurmSettings, SlurmWatcher

        return await SlurmWatcher.open(SlurmSettings(config.state_dir, config.partition, poll_s=config.poll))
    from fairlead.backends.ray import RayWatcher

    return await RayWatcher.open(ray_settings(config))


def ray_settings(config: Config) -> RaySettings:
    from fairlead.backends.ray import RaySettings

    if not config.ray_python and importlib.util.find_spec("ray") is None:
        raise InputError(
            "the engine 'ray' needs a package that is not here",
            accepts="pip install 'fairlead[ray]', or ray_python: a Python that has Ray",
        )
    python = config.ray_python or sys.executable
    return RaySettings(config.state_dir, config.address, poll_s=config.poll, python=python, fence_s=config.ray_fence)


def local_settings(config: Config) -> LocalSettings:
    gpus, nodes, gpu_type = config.gpus, config.nodes, ""
    if config.cluster is not None and gpus is None:
        gpus, nodes, gpu_type = _virtual(config)
    return LocalSettings(
        config.state_dir,
        gpus=gpus,
        nodes=nodes,
        gpu_type=gpu_type,
        log_limit_bytes=max(config.log_size // (_LOGS_KEPT + 1), 1024),
        log_keep=_LOGS_KEPT,
    )


def _virtual(config: Config) -> tuple[int, int, str]:
    """A cluster that is declared rather than found: its nodes are virtual ones of this machine, all alike."""
    from fairlead.cli.inputs import read_cluster

    assert config.cluster is not None
    spec = read_cluster(config.cluster)
    kinds = {(node.gpus, node.gpu_type) for node in spec.nodes}
    if len(kinds) != 1:
        raise InputError(
            "virtual nodes of one machine are all alike",
            file=config.sources.get("cluster"),
            value=config.cluster,
            accepts="nodes with as many GPUs each, of one type, such as 2x8",
        )
    ((gpus, gpu_type),) = kinds
    return gpus, len(spec.nodes), gpu_type
