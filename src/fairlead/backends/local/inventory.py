"""The nodes and GPUs that this machine has, or is declared to have."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairlead.backends.local import driver
from fairlead.backends.local.settings import LocalSettings
from fairlead.model.cluster import ClusterSpec, NodeSpec

#: the first driver whose restore can put a process onto other GPUs
MOVES_SINCE = 580


@dataclass(frozen=True)
class Gpu:
    index: int  #: as NVML counts
    name: str  #: its UUID, as CUDA_VISIBLE_DEVICES takes it; the index for a virtual one
    type: str
    memory_mib: int | None


@dataclass(frozen=True)
class Machine:
    cluster: ClusterSpec
    gpus: dict[str, tuple[Gpu, ...]]  #: by node
    is_virtual: bool
    checkpoints: bool = False  #: the driver can take a process's memory to the host
    moves: bool = False  #: and bring it back on another GPU


def look(settings: LocalSettings) -> Machine:
    cpu_milli = 1000 * len(os.sched_getaffinity(0))
    memory_mib = _memory_mib()
    if settings.gpus is None:
        gpus, version = _real_gpus()
        by_node = _nodes(gpus)
        nodes = tuple(
            NodeSpec(
                name,
                len(own),
                own[0].type if own else "",
                cpu_milli * max(1, len(own)) // max(1, len(gpus)),
                memory_mib * max(1, len(own)) // max(1, len(gpus)),
                min((gpu.memory_mib or 0 for gpu in own), default=None),
            )
            for name, own in by_node.items()
        )
        can = bool(gpus) and driver.has_calls()
        return Machine(ClusterSpec(nodes), by_node, False, can, can and version >= MOVES_SINCE)
    virtual = tuple(Gpu(i, str(i), settings.gpu_type, settings.gpu_memory_mib) for i in range(settings.gpus))
    nodes = tuple(
        NodeSpec(
            f"node-{i}",
            settings.gpus,
            settings.gpu_type,
            cpu_milli // settings.nodes,
            memory_mib // settings.nodes,
            settings.gpu_memory_mib,
        )
        for i in range(settings.nodes)
    )
    return Machine(ClusterSpec(nodes), {node.name: virtual for node in nodes}, True)


def _nodes(gpus: list[Gpu]) -> dict[str, tuple[Gpu, ...]]:
    """This machine; as a node per type where it has GPUs of several types, since a node has one."""
    host = socket.gethostname() or "localhost"
    types = list(dict.fromkeys(gpu.type for gpu in gpus))
    if len(types) < 2:
        return {host: tuple(gpus)}
    return {f"{host}-{kind}": tuple(gpu for gpu in gpus if gpu.type == kind) for kind in types}


def _memory_mib() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20


def _real_gpus() -> tuple[list[Gpu], int]:
    """And the driver's major version. No NVML, no driver, no GPU: none of them is an error."""
    try:
        import pynvml
    except ImportError:
        return [], 0
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return [], 0
    try:
        found = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            name = _text(pynvml.nvmlDeviceGetName(handle))
            memory_mib = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total) >> 20
            found.append(Gpu(index, _text(pynvml.nvmlDeviceGetUUID(handle)), short_type(name), memory_mib))
        return found, int(_text(pynvml.nvmlSystemGetDriverVersion()).split(".")[0])
    finally:
        pynvml.nvmlShutdown()


def used_memory_mib(names: list[str], pids: set[int]) -> int:
    """GPU memory that these processes hold on these GPUs; where the driver does not tell per process, all that is held."""
    import pynvml

    total = 0
    pynvml.nvmlInit()
    try:
        for name in names:
            handle = pynvml.nvmlDeviceGetHandleByUUID(name)
            users = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
            own = [user.usedGpuMemory for user in users if user.pid in pids]
            known = own and all(own)
            total += sum(own) if known else int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
    finally:
        pynvml.nvmlShutdown()
    return total >> 20


@dataclass(frozen=True)
class Reading:
    """What one GPU's driver says at a moment. None: it does not tell."""

    node: str
    gpu: Gpu
    utilization_percent: float | None = None
    memory_used_mib: float | None = None
    memory_free_mib: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None


def readings(machine: Machine) -> list[Reading]:
    """Of all real GPUs; none of virtual ones."""
    if machine.is_virtual or not machine.cluster.gpus:
        return []
    import pynvml

    def told(ask: Callable[..., Any], *about: Any) -> Any:
        try:
            return ask(*about)
        except pynvml.NVMLError:
            return None

    found = []
    pynvml.nvmlInit()
    try:
        for node, gpus in machine.gpus.items():
            for gpu in gpus:
                handle = pynvml.nvmlDeviceGetHandleByUUID(gpu.name)
                memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
                rates = told(pynvml.nvmlDeviceGetUtilizationRates, handle)
                milliwatts = told(pynvml.nvmlDeviceGetPowerUsage, handle)
                found.append(
                    Reading(
                        node,
                        gpu,
                        None if rates is None else float(rates.gpu),
                        memory.used / 2**20,
                        memory.free / 2**20,
                        None if milliwatts is None else milliwatts / 1000,
                        told(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
                    )
                )
    finally:
        pynvml.nvmlShutdown()
    return found


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def short_type(name: str) -> str:
    """`NVIDIA H200` is H200, `Tesla V100-SXM2-32GB` is V100: what jobs ask for and shapes of clusters say."""
    words = name.replace("-", " ").split()
    known = [word for word in words if word not in ("NVIDIA", "Tesla", "GeForce", "Quadro", "RTX", "GRID")]
    return known[0] if known else name
