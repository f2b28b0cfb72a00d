"""What a node can take of a job, looking for nodes by their free counts, and noting what is picked.

Placers work with these, and so does bound.py for jobs that say themselves where they must be.
"""

from __future__ import annotations

from fairlead.kernels.bits import first, following
from fairlead.kernels.columns import (
    N_CPU,
    N_FREE,
    N_MEM,
    N_TYPE,
    N_UP,
    NODE_COLUMNS,
    P_BITS,
    P_CAP,
    P_COUNT,
    P_FIRST,
    P_FREE,
    P_NODES,
    P_STRIDE,
    P_TYPE,
    S_CPU,
    S_GPUS,
    S_MEM,
    S_TYPE,
    Cluster,
)
from fairlead.kernels.jit import hot, inner
from fairlead.kernels.nodes import part


@hot
def room(c: Cluster, s: int, n: int, gpus: int) -> bool:
    """Whether node n has the CPU and memory that go with `gpus` GPUs of shape s."""
    of = c.shape[S_GPUS, s]
    return (
        c.node[N_CPU, n] >= part(c.shape[S_CPU, s], gpus, of)
        and c.node[N_MEM, n] >= part(c.shape[S_MEM, s], gpus, of)
    )  # fmt: skip


@hot
def wants(c: Cluster, s: int, kind: int) -> bool:
    """Whether shape s can run on GPUs of this type."""
    return c.shape[S_TYPE, s] < 0 or c.shape[S_TYPE, s] == kind


@hot
def demanding(c: Cluster, s: int) -> bool:
    return c.shape[S_CPU, s] > 0 or c.shape[S_MEM, s] > 0


@hot
def picked(c: Cluster, n: int, rows: int) -> bool:
    for r in range(rows):
        if c.pick[r, 0] == n:
            return True
    return False


@hot
def first_at_level(c: Cluster, s: int, p: int, level: int, gpus: int, rows: int) -> int:
    """The first node of pool p with exactly `level` free GPUs, room for `gpus` of shape s, and not picked yet; -1 if none."""
    at, size = c.pool[P_BITS, p] + level * c.pool[P_STRIDE, p], c.pool[P_NODES, p]
    base = c.pool[P_FIRST, p]
    slot = first(c.cells, at, size)
    if slot < 0:
        return -1
    if not demanding(c, s) and rows == 0:
        return c.cells[base + slot]
    while slot >= 0:
        n = c.cells[base + slot]
        if not picked(c, n, rows) and (not demanding(c, s) or room(c, s, n, gpus)):
            return n
        slot = following(c.cells, at, size, slot + 1)
    return -1


@hot
def tightest(c: Cluster, s: int, gpus: int, rows: int) -> int:
    """The node with the least free GPUs that are at least `gpus`, not among the picked; -1 if none."""
    best, best_level = -1, 0
    for p in range(c.pool.shape[1]):
        if not wants(c, s, c.pool[P_TYPE, p]):
            continue
        cap, count = c.pool[P_CAP, p], c.pool[P_COUNT, p]
        for level in range(gpus, cap + 1):
            if best >= 0 and level > best_level:
                break
            if c.cells[count + level] == 0:
                continue
            n = first_at_level(c, s, p, level, gpus, rows)
            if n >= 0:
                if best < 0 or level < best_level or n < best:
                    best, best_level = n, level
                break
    return best


@hot
def can_take(c: Cluster, s: int, n: int, rest: int) -> int:
    """How many GPUs of shape s node n could hold, at most `rest`; 0 where it is down or of another type."""
    if c.node[N_UP, n] == 0 or not wants(c, s, c.node[N_TYPE, n]):
        return 0
    g = min(c.node[N_FREE, n], rest)
    if demanding(c, s):
        while g > 0 and not room(c, s, n, g):
            g -= 1
    return g


@hot
def pick_node(c: Cluster, row: int, n: int, gpus: int) -> None:
    c.pick[row, 0] = n
    c.pick[row, 1] = gpus
    c.pick[row, 2] = -1


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
