"""Nodes drawn evenly: the baseline that placement papers compare with."""

from __future__ import annotations

from fairlead.kernels.columns import (
    F8,
    S_GPUS,
    S_MILLI,
    WHOLE,
    Cluster,
)
from fairlead.kernels.jit import inner
from fairlead.kernels.picks import enough_free
from fairlead.kernels.rng import uniform
from fairlead.placement.base import Placer
from fairlead.placement.scan import can_take, cpu_only, gpu_usable, pick_gpu, pick_node, picked


@inner
def draw_gpu(c: Cluster, s: int, u: float) -> int:
    count = 0
    for g in range(c.gpu.shape[1]):
        if gpu_usable(c, s, g):
            count += 1
    skip = int(u * count)
    for g in range(c.gpu.shape[1]):
        if gpu_usable(c, s, g):
            if skip == 0:
                return g
            skip -= 1
    return -1


@inner
def draw_node(c: Cluster, s: int, rest: int, rows: int, u: float) -> int:
    count = 0
    for n in range(c.node.shape[1]):
        if not picked(c, n, rows) and can_take(c, s, n, rest) > 0:
            count += 1
    skip = int(u * count)
    for n in range(c.node.shape[1]):
        if not picked(c, n, rows) and can_take(c, s, n, rest) > 0:
            if skip == 0:
                return n
            skip -= 1
    return -1


def place(c: Cluster, s: int, seed: int, job: int, start: int, pp: F8) -> int:
    gpus = c.shape[S_GPUS, s]
    if gpus == 0:
        return cpu_only(c, s)
    if c.shape[S_MILLI, s] < WHOLE:
        return pick_gpu(c, draw_gpu(c, s, uniform(seed, job, start, 2)))
    if not enough_free(c, s):
        return -1
    rest, rows = gpus, 0
    while rest > 0:
        n = draw_node(c, s, rest, rows, uniform(seed, job, start, 2 + rows))
        if n < 0:
            return -1
        g = can_take(c, s, n, rest)
        pick_node(c, rows, n, g)
        rest -= g
        rows += 1
    return rows


class RandomNodes(Placer):
    """Nodes drawn evenly among those with something free; the run's seed decides."""

    name = "random"
    place = staticmethod(place)
