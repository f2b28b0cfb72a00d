"""The first node that can take all of it; else from each node in order what it can take."""

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
from fairlead.placement.base import Placer
from fairlead.placement.scan import can_take, cpu_only, gpu_usable, pick_gpu, pick_node


@inner
def first_gpu(c: Cluster, s: int) -> int:
    for g in range(c.gpu.shape[1]):
        if gpu_usable(c, s, g):
            return g
    return -1


def place(c: Cluster, s: int, seed: int, job: int, start: int, pp: F8) -> int:
    gpus = c.shape[S_GPUS, s]
    if gpus == 0:
        return cpu_only(c, s)
    if c.shape[S_MILLI, s] < WHOLE:
        return pick_gpu(c, first_gpu(c, s))
    if not enough_free(c, s):
        return -1
    for n in range(c.node.shape[1]):
        if can_take(c, s, n, gpus) == gpus:
            pick_node(c, 0, n, gpus)
            return 1
    rest, rows = gpus, 0
    for n in range(c.node.shape[1]):
        g = can_take(c, s, n, rest)
        if g > 0:
            pick_node(c, rows, n, g)
            rest -= g
            rows += 1
            if rest == 0:
                return rows
    return -1


class FirstFit(Placer):
    """Nodes in their order, the first that fits."""

    name = "first-fit"
    place = staticmethod(place)
