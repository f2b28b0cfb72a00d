"""The fewest nodes that can hold the job: whole nodes first, best fit for the rest. Strict unless relaxed=true."""

from __future__ import annotations

from fairlead.kernels.columns import (
    F8,
    N_FREE,
    NODE_COLUMNS,
    P_CAP,
    P_COUNT,
    P_FREE,
    P_TYPE,
    S_GPUS,
    S_MILLI,
    S_NODES,
    S_SUMS,
    WHOLE,
    Cluster,
)
from fairlead.kernels.jit import hot, inner
from fairlead.placement.base import Placer
from fairlead.placement.scan import (
    can_take,
    cpu_only,
    first_at_level,
    pick_gpu,
    pick_node,
    picked,
    tightest,
    tightest_gpu,
    wants,
)


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


@inner
def fullest(c: Cluster, s: int, rest: int, rows: int, level: int, domain: int) -> int:
    """The node (of a domain, where level >= 0) that can take most of the rest; among those that can take all of it, the
    one with the least free. -1 if none can take anything."""
    best, most, least = -1, 0, 0
    for n in range(c.node.shape[1]):
        if level >= 0 and c.node[NODE_COLUMNS + level, n] != domain:
            continue
        if c.node[N_FREE, n] < most or picked(c, n, rows):
            continue
        g = can_take(c, s, n, rest)
        if g > most or (g > 0 and g == most == rest and c.node[N_FREE, n] < least):
            best, most, least = n, g, c.node[N_FREE, n]
    return best


@inner
def relaxed(c: Cluster, s: int, level: int, domain: int) -> int:
    """As few nodes as there are now, most first."""
    rest, rows = c.shape[S_GPUS, s], 0
    while rest > 0:
        n = fullest(c, s, rest, rows, level, domain)
        if n < 0:
            return -1
        g = can_take(c, s, n, rest)
        pick_node(c, rows, n, g)
        rest -= g
        rows += 1
    return rows


@hot
def enough_free(c: Cluster, s: int) -> bool:
    """Whether the eligible nodes together have as many free GPUs as the job needs."""
    free = 0
    for p in range(c.pool.shape[1]):
        if wants(c, s, c.pool[P_TYPE, p]):
            free += c.pool[P_FREE, p]
    return free >= c.shape[S_GPUS, s]


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
