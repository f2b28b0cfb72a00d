"""Jobs that say themselves where they must be: on so many nodes with an equal part on each, inside one domain, or both.

They are placed by one rule, whichever the placer: the lowest level of the topology at which a domain can take all of it, there
the domain with the least free GPUs; in it the nodes with the least free that can take a part, or, where the number of nodes is
not said, as few as there are now. docs/semantics.md has it in full.
"""

from __future__ import annotations

from fairlead.kernels.columns import (
    I4,
    K_STARTS,
    N_FREE,
    N_TYPE,
    N_UP,
    NODE_COLUMNS,
    P_CAP,
    P_COUNT,
    P_TYPE,
    R_REACH,
    R_SEED,
    S_BOUND,
    S_GPUS,
    S_RING,
    S_SPLIT,
    S_WITHIN,
    U_NODE,
    Cluster,
    Jobs,
    Log,
    Plug,
    Queue,
)
from fairlead.kernels.jit import hot, inner, int64, kept
from fairlead.kernels.picks import can_take, enough_free, pick_node, relaxed, tightest, wants


@inner
def _domain(c: Cluster, level: int, n: int) -> int:
    """The domain of node n at a level, -1 being the whole cluster."""
    return c.node[NODE_COLUMNS + level, n] if level >= 0 else 0


@inner
def _part(c: Cluster, s: int) -> int:
    """GPUs that each node must have for it; all of them where it does not say how many nodes."""
    return c.shape[S_GPUS, s] // max(c.shape[S_SPLIT, s], 1)


@inner
def _enough_nodes(c: Cluster, s: int) -> bool:
    """Whether there are as many nodes with the free GPUs of a part as it must have: a quick look at counts."""
    part, found = _part(c, s), 0
    for p in range(c.pool.shape[1]):
        if wants(c, s, c.pool[P_TYPE, p]):
            for free in range(part, c.pool[P_CAP, p] + 1):
                found += c.cells[c.pool[P_COUNT, p] + free]
    return found >= c.shape[S_SPLIT, s]


@inner
def _best_domain(c: Cluster, s: int, level: int) -> int:
    """The domain of a level that can take all of it and has the least free GPUs, -1 if none can. Domains are numbered by their
    first node; what each can take is counted in the rows of the pick."""
    gpus, split, part = c.shape[S_GPUS, s], c.shape[S_SPLIT, s], _part(c, s)
    nodes = c.node.shape[1]
    for d in range(nodes):
        c.pick[d, 1] = 0
        c.pick[d, 2] = 0
    for n in range(nodes):
        if c.node[N_UP, n] == 0 or not wants(c, s, c.node[N_TYPE, n]):
            continue
        d = _domain(c, level, n)
        takes = can_take(c, s, n, part)
        c.pick[d, 1] += takes if split == 0 else takes // part
        c.pick[d, 2] += c.node[N_FREE, n]
    needs, best = split if split > 0 else gpus, int64(-1)
    for d in range(nodes):
        if c.pick[d, 1] >= needs and (best < 0 or c.pick[d, 2] < c.pick[best, 2]):
            best = d
    return best


@inner
def _even_parts(c: Cluster, s: int, level: int, domain: int) -> int:
    """The nodes of a domain with the least free GPUs that can take a part, as many as it must have; the domain has them."""
    split, part = c.shape[S_SPLIT, s], _part(c, s)
    free, last = int64(-1), int64(-1)  # of the node that was picked before
    for row in range(split):
        best = int64(-1)
        for n in range(c.node.shape[1]):
            here = c.node[N_FREE, n]
            if here < free or (here == free and n <= last) or (best >= 0 and here >= c.node[N_FREE, best]):
                continue
            if _domain(c, level, n) == domain and can_take(c, s, n, part) == part:
                best = n
        pick_node(c, row, best, part)
        free, last = c.node[N_FREE, best], best
    return split


@kept
def place_bound(c: Cluster, s: int, reach: int) -> int:
    """Pick nodes for a bound shape: how many rows, -1 where it does not fit. `reach` is how wide the placer would go."""
    levels, split = c.node.shape[0] - NODE_COLUMNS, c.shape[S_SPLIT, s]
    widest = min(reach, levels + 1)
    if c.shape[S_WITHIN, s] >= 0:
        widest = min(widest, c.shape[S_WITHIN, s])
    if split <= 1:
        n = tightest(c, s, c.shape[S_GPUS, s], 0)
        if n >= 0:
            pick_node(c, 0, n, c.shape[S_GPUS, s])
            return 1
        if split == 1:
            return -1
    if widest == 0 or not enough_free(c, s) or not _enough_nodes(c, s):
        return -1
    for out in range(1, widest + 1):
        level = levels - out
        domain = _best_domain(c, s, level)
        if domain >= 0:
            return _even_parts(c, s, level, domain) if split > 0 else relaxed(c, s, level, domain)
    return -1


def place_alone(c: Cluster, s: int, reach: int) -> int:
    """place_bound, for callers in Python."""
    return place_bound(c, s, reach)


@hot
def find_place(c: Cluster, j: Jobs, q: Queue, i: int, s: int, f: Plug) -> int:
    """Pick GPUs of c for job i of shape s among the free ones: how many rows, -1 where it does not fit."""
    if c.shape[S_BOUND, s] != 0:
        return place_bound(c, s, q.counter[R_REACH])
    return f.place(c, s, q.counter[R_SEED], i, int64(j.ints[K_STARTS, i]), f.pp)


@inner
def _fits_around(c: Cluster, s: int, n: int) -> bool:
    """Whether the domain of node n, of the level that shape s must be inside, can take all of it."""
    gpus, split, part = c.shape[S_GPUS, s], c.shape[S_SPLIT, s], _part(c, s)
    needs, m = split if split > 0 else gpus, n
    while True:
        takes = can_take(c, s, m, part)
        needs -= takes if split == 0 else takes // part
        if needs <= 0:
            return True
        m = c.cells[c.shape[S_RING, s] + m]
        if m == n:
            return False


@inner
def gives_room(c: Cluster, log: Log, s: int, left: int, at: int) -> bool:
    """Whether bound shape s, which did not fit before, might since a job of shape `left` has left the GPUs at log.gpu_ids[at:].
    Only the nodes that it was on have changed, so it is they that must take a part, and what is around them all of it."""
    gpus, within = c.shape[S_GPUS, left], c.shape[S_WITHIN, s]
    if gpus == 0:
        return True  # it left CPU and memory
    least = _part(c, s) if c.shape[S_SPLIT, s] > 0 or within == 0 else 1
    last = int64(-1)
    for g in range(at, at + gpus):
        n = c.gpu[U_NODE, log.gpu_ids[g]]
        if n != last:
            last = n
            if can_take(c, s, n, least) >= least and (within <= 0 or _fits_around(c, s, n)):
                return True
    return False


@inner
def keeps_bounds(c: Cluster, s: int, ids: I4, first: int) -> bool:
    """Whether the GPUs at ids[first:], in ascending order, are where shape s must be."""
    if c.shape[S_BOUND, s] == 0:
        return True
    levels, gpus = c.node.shape[0] - NODE_COLUMNS, c.shape[S_GPUS, s]
    split, out, part = c.shape[S_SPLIT, s], c.shape[S_WITHIN, s], _part(c, s)
    home = c.gpu[U_NODE, ids[first]]
    held, last = 0, home
    for g in range(first, first + gpus):
        n = c.gpu[U_NODE, ids[g]]
        if out == 0 and n != home:
            return False
        if out > 0 and _domain(c, levels - out, n) != _domain(c, levels - out, home):
            return False
        if n != last:
            if split > 0 and held != part:
                return False
            held, last = 0, n
        held += 1
    return split == 0 or held == part
