"""FGD: go where the job spoils least of what the workload's other jobs could use."""

from __future__ import annotations

from fairlead.kernels.columns import (
    F8,
    N_CAP,
    N_CPU,
    N_GPU0,
    N_MEM,
    N_TYPE,
    N_UP,
    S_COUNT,
    S_CPU,
    S_GPUS,
    S_MEM,
    S_MILLI,
    S_NODES,
    U_FREE,
    WHOLE,
    Cluster,
)
from fairlead.kernels.jit import inner
from fairlead.kernels.nodes import part
from fairlead.placement.base import Placer
from fairlead.placement.consolidate import strict
from fairlead.placement.scan import can_take, cpu_only, gpu_usable, pick_gpu, pick_node, wants


@inner
def free_after(c: Cluster, n: int, g: int, taken: int, share_gpu: int, share: int, left: int) -> int:
    """Free milli-GPUs of GPU g once the lowest `taken` free GPUs of its node and `share` of one GPU are gone. `left` is how
    many free GPUs come before g."""
    free = c.gpu[U_FREE, g]
    if g == share_gpu:
        return free - share
    if free == WHOLE and left < taken:
        return 0
    return free


@inner
def fragments(c: Cluster, n: int, taken: int, share_gpu: int, share: int, cpu: int, mem: int) -> int:
    """What the shapes of the workload cannot use of node n, by their counts, after taking this much from it."""
    base, cap = c.node[N_GPU0, n], c.node[N_CAP, n]
    free_cpu, free_mem = c.node[N_CPU, n] - cpu, c.node[N_MEM, n] - mem
    whole, total, before, widest = 0, 0, 0, 0
    for g in range(base, base + cap):
        free = free_after(c, n, g, taken, share_gpu, share, before)
        if c.gpu[U_FREE, g] == WHOLE and g != share_gpu:
            before += 1
        total += free
        widest = max(widest, free)
        if free == WHOLE:
            whole += 1
    wasted = 0
    for m in range(c.shape.shape[1]):
        gpus, milli = c.shape[S_GPUS, m], c.shape[S_MILLI, m]
        if gpus == 0:
            continue
        here = min(gpus, cap)
        fits = wants(c, m, c.node[N_TYPE, n]) and (whole >= here if milli == WHOLE else widest >= milli)
        if fits:
            fits = free_cpu >= part(c.shape[S_CPU, m], here, gpus) and free_mem >= part(c.shape[S_MEM, m], here, gpus)
        if not fits:
            wasted += c.shape[S_COUNT, m] * total
            continue
        unusable, before = 0, 0
        for g in range(base, base + cap):
            free = free_after(c, n, g, taken, share_gpu, share, before)
            if c.gpu[U_FREE, g] == WHOLE and g != share_gpu:
                before += 1
            if free < milli:
                unusable += free
        wasted += c.shape[S_COUNT, m] * unusable
    return wasted


@inner
def least_spoiled_node(c: Cluster, s: int) -> int:
    gpus = c.shape[S_GPUS, s]
    best, least = -1, 0
    for n in range(c.node.shape[1]):
        if can_take(c, s, n, gpus) < gpus:
            continue
        rise = fragments(c, n, gpus, -1, 0, c.shape[S_CPU, s], c.shape[S_MEM, s]) - fragments(c, n, 0, -1, 0, 0, 0)
        if best < 0 or rise < least:
            best, least = n, rise
    return best


@inner
def least_spoiled_gpu(c: Cluster, s: int) -> int:
    milli = c.shape[S_MILLI, s]
    best, least = -1, 0
    for n in range(c.node.shape[1]):
        if c.node[N_UP, n] == 0:
            continue
        now = -1
        base = c.node[N_GPU0, n]
        for g in range(base, base + c.node[N_CAP, n]):
            if not gpu_usable(c, s, g):
                continue
            if now < 0:
                now = fragments(c, n, 0, -1, 0, 0, 0)
            rise = fragments(c, n, 0, g, milli, c.shape[S_CPU, s], c.shape[S_MEM, s]) - now
            if best < 0 or rise < least:
                best, least = g, rise
    return best


def place(c: Cluster, s: int, seed: int, job: int, start: int, pp: F8) -> int:
    gpus = c.shape[S_GPUS, s]
    if gpus == 0:
        return cpu_only(c, s)
    if c.shape[S_MILLI, s] < WHOLE:
        return pick_gpu(c, least_spoiled_gpu(c, s))
    if c.shape[S_NODES, s] > 1:
        return strict(c, s)
    n = least_spoiled_node(c, s)
    if n < 0:
        return -1
    pick_node(c, 0, n, gpus)
    return 1


class Fragmentation(Placer):
    """Fragmentation gradient descent (FGD): least rise in what the workload cannot use."""

    name = "fragmentation"
    needs_gpu_parts = True
    place = staticmethod(place)

    @classmethod
    def takes_fewest_nodes(cls, values: dict[str, object]) -> bool:
        return True
