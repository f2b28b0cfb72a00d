"""The fewest nodes that can hold the job: whole nodes first, best fit for the rest. Strict unless relaxed=true."""

from __future__ import annotations

from fairlead.kernels.columns import (
    F8,
    N_FREE,
    P_CAP,
    P_COUNT,
    P_TYPE,
    S_GPUS,
    S_MILLI,
    S_NODES,
    S_SUMS,
    WHOLE,
    Cluster,
)
from fairlead.kernels.jit import hot
from fairlead.kernels.picks import enough_free, first_at_level, pick_node, relaxed, tightest, wants
from fairlead.placement.base import Placer
from fairlead.placement.scan import cpu_only, pick_gpu, tightest_gpu


@hot
def largest_whole(c: Cluster, s: int, rest: int, nodes: int, rows: int) -> int:
    """The wholly free node of the largest capacity ≤ rest that leaves no more than the other nodes could hold."""
    best, best_cap = -1, 0
    beyond = c.cells[c.shape[S_SUMS, s] + nodes - 1]
    for p in range(c.pool.shape[1]):
        cap = c.pool[P_CAP, p]
        if cap < best_cap or cap > rest or rest - cap > beyond or not wants(c, s, c.pool[P_TYPE, p]):
            continue
        if c.cells[c.pool[P_COUNT, p] + cap] == 0:
            continue
        n = first_at_level(c, s, p, cap, cap, rows)
        if n >= 0 and (cap > best_cap or n < best):
            best, best_cap = n, cap
    return best


@hot
def strict(c: Cluster, s: int) -> int:
    rest, nodes = c.shape[S_GPUS, s], c.shape[S_NODES, s]
    rows = 0
    while nodes > 1:
        n = largest_whole(c, s, rest, nodes, rows)
        if n < 0:
            return -1
        pick_node(c, rows, n, c.node[N_FREE, n])
        rest -= c.node[N_FREE, n]
        rows += 1
        nodes -= 1
    n = tightest(c, s, rest, rows)
    if n < 0:
        return -1
    pick_node(c, rows, n, rest)
    return rows + 1


def place(c: Cluster, s: int, seed: int, job: int, start: int, pp: F8) -> int:
    if c.shape[S_GPUS, s] == 0:
        return cpu_only(c, s)
    if c.shape[S_MILLI, s] < WHOLE:
        return pick_gpu(c, tightest_gpu(c, s))
    rows = strict(c, s)
    if rows < 0 and pp[0] != 0.0 and enough_free(c, s):
        rows = relaxed(c, s, -1, 0)
    return rows


class Consolidate(Placer):
    """Fewest nodes, whole nodes first, best fit for the rest; waits for them unless relaxed."""

    name = "consolidate"
    parameters = {"relaxed": False}
    place = staticmethod(place)

    @classmethod
    def takes_fewest_nodes(cls, values: dict[str, object]) -> bool:
        return not values["relaxed"]
