"""One GPU after another on the least loaded node: balance at the price of locality."""

from __future__ import annotations

from fairlead.kernels.columns import (
    F8,
    N_FREE,
    N_TYPE,
    N_UP,
    S_GPUS,
    S_MILLI,
    U_FREE,
    WHOLE,
    Cluster,
)
from fairlead.kernels.jit import inner
from fairlead.kernels.picks import enough_free
from fairlead.placement.base import Placer
from fairlead.placement.scan import cpu_only, gpu_usable, pick_gpu, pick_node, room, wants


@inner
def row_of(c: Cluster, n: int, rows: int) -> int:
    """Which pick row names node n, -1 if none does."""
    for r in range(rows):
        if c.pick[r, 0] == n:
            return r
    return -1


@inner
def emptiest(c: Cluster, s: int, rows: int) -> int:
    """The node with the most free GPUs left after what is picked already, with room for one more."""
    best, most = -1, 0
    for n in range(c.node.shape[1]):
        if c.node[N_FREE, n] <= most or c.node[N_UP, n] == 0 or not wants(c, s, c.node[N_TYPE, n]):
            continue
        r = row_of(c, n, rows)
        taken = c.pick[r, 1] if r >= 0 else 0
        left = c.node[N_FREE, n] - taken
        if left > most and room(c, s, n, taken + 1):
            best, most = n, left
    return best


@inner
def freest_gpu(c: Cluster, s: int) -> int:
    best, most = -1, 0
    for g in range(c.gpu.shape[1]):
        if c.gpu[U_FREE, g] > most and gpu_usable(c, s, g):
            best, most = g, c.gpu[U_FREE, g]
    return best


def place(c: Cluster, s: int, seed: int, job: int, start: int, pp: F8) -> int:
    gpus = c.shape[S_GPUS, s]
    if gpus == 0:
        return cpu_only(c, s)
    if c.shape[S_MILLI, s] < WHOLE:
        return pick_gpu(c, freest_gpu(c, s))
    if not enough_free(c, s):
        return -1
    rows = 0
    for _ in range(gpus):
        n = emptiest(c, s, rows)
        if n < 0:
            return -1
        r = row_of(c, n, rows)
        if r >= 0:
            c.pick[r, 1] += 1
        else:
            pick_node(c, rows, n, 1)
            rows += 1
    return rows


class Spread(Placer):
    """Every GPU on the node with the most free ones."""

    name = "spread"
    place = staticmethod(place)
