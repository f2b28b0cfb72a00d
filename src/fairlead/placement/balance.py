"""Load balancing as in Alibaba's PAI: the node of which the least is taken, GPUs, CPU and memory weighed against each other."""

from __future__ import annotations

from fairlead.kernels.columns import (
    F8,
    N_CAP,
    N_CPU,
    N_CPU_CAP,
    N_GPU0,
    N_MEM,
    N_MEM_CAP,
    N_TYPE,
    N_UP,
    S_GPUS,
    S_MILLI,
    U_FREE,
    UNLIMITED,
    WHOLE,
    Cluster,
)
from fairlead.kernels.jit import inner
from fairlead.kernels.picks import enough_free
from fairlead.model.cluster import ClusterSpec
from fairlead.model.errors import InputError
from fairlead.placement.base import Placer
from fairlead.placement.scan import can_take, gpu_usable, pick_gpu, pick_node, picked, room, wants


@inner
def load_of(c: Cluster, n: int, pp: F8) -> float:
    """The weighted sum of what is taken of node n, each over the node's capacity; what a node does not state is 0."""
    load = 0.0
    cap = c.node[N_CAP, n]
    if cap > 0:
        free = 0
        for g in range(c.node[N_GPU0, n], c.node[N_GPU0, n] + cap):
            free += c.gpu[U_FREE, g]
        load += pp[0] * ((cap * WHOLE - free) / (cap * WHOLE))
    cpu, mem = c.node[N_CPU_CAP, n], c.node[N_MEM_CAP, n]
    if 0 < cpu < UNLIMITED:
        load += pp[1] * ((cpu - c.node[N_CPU, n]) / cpu)
    if 0 < mem < UNLIMITED:
        load += pp[2] * ((mem - c.node[N_MEM, n]) / mem)
    return load


@inner
def lightest(c: Cluster, s: int, least: int, rest: int, rows: int, pp: F8) -> int:
    """The node with the least load that can take at least `least` GPUs of the rest, not among the picked; -1 if none."""
    best, lowest = -1, 0.0
    for n in range(c.node.shape[1]):
        if can_take(c, s, n, rest) < least or picked(c, n, rows):
            continue
        load = load_of(c, n, pp)
        if best < 0 or load < lowest:
            best, lowest = n, load
    return best


@inner
def lightest_without_gpu(c: Cluster, s: int, pp: F8) -> int:
    best, lowest = -1, 0.0
    for n in range(c.node.shape[1]):
        if c.node[N_UP, n] == 0 or not wants(c, s, c.node[N_TYPE, n]) or not room(c, s, n, 0):
            continue
        load = load_of(c, n, pp)
        if best < 0 or load < lowest:
            best, lowest = n, load
    return best


@inner
def gpu_on_lightest(c: Cluster, s: int, pp: F8) -> int:
    """On the node with the least load that has a GPU for the share: the GPU with the least free part that is enough."""
    best, lowest = -1, 0.0
    for n in range(c.node.shape[1]):
        tight = -1
        for g in range(c.node[N_GPU0, n], c.node[N_GPU0, n] + c.node[N_CAP, n]):
            if gpu_usable(c, s, g) and (tight < 0 or c.gpu[U_FREE, g] < c.gpu[U_FREE, tight]):
                tight = g
        if tight < 0:
            continue
        load = load_of(c, n, pp)
        if best < 0 or load < lowest:
            best, lowest = tight, load
    return best


def place(c: Cluster, s: int, seed: int, job: int, start: int, pp: F8) -> int:
    gpus = c.shape[S_GPUS, s]
    if gpus == 0:
        n = lightest_without_gpu(c, s, pp)
        if n < 0:
            return -1
        pick_node(c, 0, n, 0)
        return 1
    if c.shape[S_MILLI, s] < WHOLE:
        return pick_gpu(c, gpu_on_lightest(c, s, pp))
    if not enough_free(c, s):
        return -1
    n = lightest(c, s, gpus, gpus, 0, pp)
    if n >= 0:
        pick_node(c, 0, n, gpus)
        return 1
    rest, rows = gpus, 0
    while rest > 0:
        n = lightest(c, s, 1, rest, rows, pp)
        if n < 0:
            return -1
        g = can_take(c, s, n, rest)
        pick_node(c, rows, n, g)
        rest -= g
        rows += 1
    return rows


class Balance(Placer):
    """The node of which the least is taken: gpu, cpu and memory are the weights of each resource's taken part."""

    name = "balance"
    parameters = {"gpu": 1.0, "cpu": 1.0, "memory": 1.0}
    needs_gpu_parts = True
    place = staticmethod(place)

    @classmethod
    def numbers(cls, values: dict[str, object], cluster: ClusterSpec) -> list[float]:
        numbers = super().numbers(values, cluster)
        for name, weight in zip(cls.parameters, numbers):
            if not weight >= 0:
                raise InputError("a weight is not negative", column=name, value=weight, accepts="0 or more")
        return numbers
