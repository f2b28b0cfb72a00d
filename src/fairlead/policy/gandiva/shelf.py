"""Nodes by affinity and load, so that the next one to use is found without looking at all of them."""

from __future__ import annotations

from fairlead.kernels.bits import add, first, following, remove
from fairlead.kernels.columns import Desk
from fairlead.kernels.jit import hot, inner
from fairlead.policy.gandiva.tables import (
    B_BITS,
    B_CAP,
    B_COUNT,
    B_FIRST,
    B_FREE,
    B_LEVELS,
    B_NODES,
    B_WORDS,
    F_CHANGED,
    SCALARS,
    V_AFFINITY,
    V_CAP,
    V_LIST,
    V_LOAD,
    V_POOL,
    V_SLOT,
    V_TOUCHED,
    V_UP,
    X_CAPACITY,
    X_LOAD,
    X_TOUCHED,
    Y_NOW,
)


@hot
def affinity_of(gpus: int) -> int:
    """Sizes that go together, as tables.affinity has them."""
    a, size = 1, 1
    while size < gpus:
        size *= 2
        a += 1
    return a


@hot
def bucket(d: Desk, p: int, a: int, level: int) -> int:
    return a * d.ints[B_LEVELS, p] + min(level, d.ints[B_LEVELS, p] - 1)


@hot
def count_at(d: Desk, p: int, a: int, level: int) -> int:
    """How many nodes of a pool have this affinity and load."""
    return d.cells[d.ints[B_COUNT, p] + bucket(d, p, a, level)]


@inner
def put(d: Desk, n: int, here: bool) -> None:
    """Put node n on the shelf of its affinity and load, or take it from there."""
    t = d.ints
    p = t[V_POOL, n]
    b = bucket(d, p, t[V_AFFINITY, n], t[V_LOAD, n])
    at = t[B_BITS, p] + b * t[B_WORDS, p]
    free = max(t[V_CAP, n] - t[V_LOAD, n], 0)
    if here:
        add(d.cells, at, t[B_NODES, p], t[V_SLOT, n])
        d.cells[t[B_COUNT, p] + b] += 1
        t[B_FREE, p] += free
    else:
        remove(d.cells, at, t[B_NODES, p], t[V_SLOT, n])
        d.cells[t[B_COUNT, p] + b] -= 1
        t[B_FREE, p] -= free


@inner
def change_load(d: Desk, n: int, by: int, a: int) -> None:
    """Node n hosts so many GPUs more, and has affinity a from now on."""
    t = d.ints
    if t[V_UP, n] != 0:
        put(d, n, False)
    t[V_LOAD, n] += by
    t[V_AFFINITY, n] = a
    t[SCALARS, X_LOAD] += by
    d.floats[F_CHANGED, n] = d.floats[0, Y_NOW]
    if t[V_UP, n] != 0:
        put(d, n, True)


@inner
def set_up(d: Desk, n: int, up: bool) -> None:
    """Node n comes back, or goes down; it is on no shelf while it is down."""
    t = d.ints
    if (t[V_UP, n] != 0) == up:
        return
    put(d, n, up)
    t[V_UP, n] = 1 if up else 0
    t[SCALARS, X_CAPACITY] += t[V_CAP, n] if up else -t[V_CAP, n]


@inner
def node_at(d: Desk, p: int, a: int, level: int, after: int) -> int:
    """The lowest node of a pool with this affinity and load whose index is above `after`, -1 if there is none."""
    t = d.ints
    b = bucket(d, p, a, level)
    if d.cells[t[B_COUNT, p] + b] == 0:
        return -1
    at, base = t[B_BITS, p] + b * t[B_WORDS, p], t[B_FIRST, p]
    if after < d.cells[base]:
        slot = first(d.cells, at, t[B_NODES, p])
    else:
        low, high = 0, t[B_NODES, p]
        while low < high:
            middle = (low + high) // 2
            if d.cells[base + middle] > after:
                high = middle
            else:
                low = middle + 1
        slot = following(d.cells, at, t[B_NODES, p], low)
    return d.cells[base + slot] if slot >= 0 else -1


@hot
def load_for(d: Desk, p: int, free: int) -> int:
    """The load of a node of this pool that has so many GPUs free."""
    return d.ints[B_CAP, p] - free


@hot
def touch(d: Desk, n: int) -> None:
    """Something changed at node n: who waits there may be able to start."""
    if d.ints[V_TOUCHED, n] == 0:
        d.ints[V_TOUCHED, n] = 1
        d.ints[V_LIST, d.ints[SCALARS, X_TOUCHED]] = n
        d.ints[SCALARS, X_TOUCHED] += 1
