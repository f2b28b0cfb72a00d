"""Taking and giving back GPUs: the only code that changes a Cluster. Every change has an exact inverse."""

from __future__ import annotations

from fairlead.kernels.bits import add, remove
from fairlead.kernels.columns import (
    I4,
    N_CAP,
    N_CPU,
    N_FREE,
    N_GPU0,
    N_MEM,
    N_POOL,
    N_SLOT,
    N_UP,
    N_WORD0,
    P_BITS,
    P_COUNT,
    P_FREE,
    P_NODES,
    P_STRIDE,
    S_CPU,
    S_GPUS,
    S_MEM,
    S_MILLI,
    U_FREE,
    U_NODE,
    WHOLE,
    Cluster,
)
from fairlead.kernels.jit import from_python, hot, inner, lowest_bit


@hot
def part(demand: int, gpus: int, of: int) -> int:
    """What a node must provide of a job's CPU or memory when it holds `gpus` of its `of` GPUs."""
    if of == 0:
        return demand
    return (demand * gpus + of - 1) // of


part_from_python = from_python(part)


@hot
def move_level(c: Cluster, n: int, to: int) -> None:
    """The node now has `to` wholly free GPUs."""
    level = c.node[N_FREE, n]
    c.node[N_FREE, n] = to
    if c.node[N_UP, n] == 0 or level == to:
        return
    p = c.node[N_POOL, n]
    size, at, stride = c.pool[P_NODES, p], c.pool[P_BITS, p], c.pool[P_STRIDE, p]
    slot, count = c.node[N_SLOT, n], c.pool[P_COUNT, p]
    remove(c.cells, at + level * stride, size, slot)
    add(c.cells, at + to * stride, size, slot)
    c.cells[count + level] -= 1
    c.cells[count + to] += 1
    c.pool[P_FREE, p] += to - level


@inner
def set_up(c: Cluster, n: int, up: bool) -> None:
    """A node that is down is in no level's set, so no placer sees it; what it holds is still counted."""
    if (c.node[N_UP, n] != 0) == up:
        return
    p, level = c.node[N_POOL, n], c.node[N_FREE, n]
    size, at, stride = c.pool[P_NODES, p], c.pool[P_BITS, p], c.pool[P_STRIDE, p]
    slot, count = c.node[N_SLOT, n], c.pool[P_COUNT, p]
    if up:
        add(c.cells, at + level * stride, size, slot)
        c.cells[count + level] += 1
        c.pool[P_FREE, p] += level
        c.node[N_UP, n] = 1
    else:
        remove(c.cells, at + level * stride, size, slot)
        c.cells[count + level] -= 1
        c.pool[P_FREE, p] -= level
        c.node[N_UP, n] = 0


@hot
def take_whole(c: Cluster, n: int, gpus: int, out: I4, at: int) -> None:
    """Take the lowest free GPUs of node n, writing their ids."""
    w, base = c.node[N_WORD0, n], c.node[N_GPU0, n]
    left = gpus
    while left > 0:
        word = c.cells[w]
        while word != 0 and left > 0:
            out[at] = base + lowest_bit(word)
            word &= word - 1
            at += 1
            left -= 1
        c.cells[w] = word
        w += 1
        base += 32
    move_level(c, n, c.node[N_FREE, n] - gpus)


@hot
def change_share(c: Cluster, n: int, g: int, milli: int) -> None:
    """Take (milli > 0) or give back (milli < 0) a part of GPU g on node n."""
    old = c.gpu[U_FREE, g]
    new = old - milli
    c.gpu[U_FREE, g] = new
    local = g - c.node[N_GPU0, n]
    w, bit = c.node[N_WORD0, n] + (local >> 5), 1 << (local & 31)
    if old == WHOLE:
        c.cells[w] &= ~bit
        move_level(c, n, c.node[N_FREE, n] - 1)
    elif new == WHOLE:
        c.cells[w] |= bit
        move_level(c, n, c.node[N_FREE, n] + 1)


@inner
def take_pick(c: Cluster, s: int, rows: int, shares: bool, demands: bool, out: I4, at: int) -> int:
    """Take what the placer picked for shape s; returns how many ids were written."""
    gpus, milli = c.shape[S_GPUS, s], c.shape[S_MILLI, s]
    written = 0
    for r in range(rows):
        n, g = c.pick[r, 0], c.pick[r, 1]
        if gpus == 0:
            out[at] = -1 - n
            written = 1
        elif milli < WHOLE:
            out[at] = c.pick[r, 2]
            change_share(c, n, c.pick[r, 2], milli)
            written = 1
        else:
            take_whole(c, n, g, out, at + written)
            if shares:
                for k in range(at + written, at + written + g):
                    c.gpu[U_FREE, out[k]] = 0
            written += g
        if demands:
            c.node[N_CPU, n] -= part(c.shape[S_CPU, s], g, gpus)
            c.node[N_MEM, n] -= part(c.shape[S_MEM, s], g, gpus)
    return written


@hot
def _change_held(c: Cluster, s: int, ids: I4, at: int, taking: bool, shares: bool, demands: bool) -> None:
    """Take exactly the GPUs in ids[at:] for shape s, or give exactly them back; compiled for each way by itself."""
    gpus, milli = c.shape[S_GPUS, s], c.shape[S_MILLI, s]
    sign = 1 if taking else -1
    if gpus == 0:
        n = -1 - ids[at]
        if demands:
            c.node[N_CPU, n] -= sign * c.shape[S_CPU, s]
            c.node[N_MEM, n] -= sign * c.shape[S_MEM, s]
        return
    if milli < WHOLE:
        n = c.gpu[U_NODE, ids[at]]
        change_share(c, n, ids[at], sign * milli)
        if demands:
            c.node[N_CPU, n] -= sign * c.shape[S_CPU, s]
            c.node[N_MEM, n] -= sign * c.shape[S_MEM, s]
        return
    k, end = at, at + gpus
    while k < end:
        n = c.gpu[U_NODE, ids[k]]
        base, top = c.node[N_GPU0, n], c.node[N_GPU0, n] + c.node[N_CAP, n]
        w0 = c.node[N_WORD0, n]
        g = 0
        while k < end and base <= ids[k] < top:
            local = ids[k] - base
            c.cells[w0 + (local >> 5)] ^= 1 << (local & 31)
            if shares:
                c.gpu[U_FREE, ids[k]] = 0 if taking else WHOLE
            g += 1
            k += 1
        move_level(c, n, c.node[N_FREE, n] - sign * g)
        if demands:
            c.node[N_CPU, n] -= sign * part(c.shape[S_CPU, s], g, gpus)
            c.node[N_MEM, n] -= sign * part(c.shape[S_MEM, s], g, gpus)


@inner
def take_held(c: Cluster, s: int, ids: I4, at: int, shares: bool, demands: bool) -> None:
    """Take exactly the GPUs in ids[at:] for shape s."""
    _change_held(c, s, ids, at, True, shares, demands)


@inner
def give_held(c: Cluster, s: int, ids: I4, at: int, shares: bool, demands: bool) -> None:
    """Give exactly the GPUs in ids[at:] back, which shape s has."""
    _change_held(c, s, ids, at, False, shares, demands)


@inner
def all_free(c: Cluster, s: int, ids: I4, at: int, demands: bool) -> bool:
    """Whether nobody has what the GPUs in ids[at:] are for shape s, be their nodes up or not."""
    gpus, milli = c.shape[S_GPUS, s], c.shape[S_MILLI, s]
    count = max(gpus, 1)
    k = at
    while k < at + count:
        n = -1 - ids[k] if gpus == 0 else c.gpu[U_NODE, ids[k]]
        g = 0
        while k < at + count and (gpus == 0 or c.gpu[U_NODE, ids[k]] == n):
            if gpus > 0:
                if milli < WHOLE:
                    if c.gpu[U_FREE, ids[k]] < milli:
                        return False
                else:
                    local = ids[k] - c.node[N_GPU0, n]
                    if (c.cells[c.node[N_WORD0, n] + (local >> 5)] >> (local & 31)) & 1 == 0:
                        return False
                g += 1
            k += 1
        if demands:
            if c.node[N_CPU, n] < part(c.shape[S_CPU, s], g, gpus):
                return False
            if c.node[N_MEM, n] < part(c.shape[S_MEM, s], g, gpus):
                return False
    return True


@inner
def all_up(c: Cluster, s: int, ids: I4, at: int) -> bool:
    """Whether the nodes of ids[at:] are up."""
    gpus = c.shape[S_GPUS, s]
    for k in range(at, at + max(gpus, 1)):
        n = -1 - ids[k] if gpus == 0 else c.gpu[U_NODE, ids[k]]
        if c.node[N_UP, n] == 0:
            return False
    return True


@inner
def held_within(c: Cluster, ids: I4, a: int, b: int, gpus: int) -> bool:
    """Whether every node of the ids at ids[a:] is one of those at ids[b:]."""
    for x in range(a, a + gpus):
        n = c.gpu[U_NODE, ids[x]]
        if x > a and c.gpu[U_NODE, ids[x - 1]] == n:
            continue
        found = False
        for y in range(b, b + gpus):
            found = found or c.gpu[U_NODE, ids[y]] == n
        if not found:
            return False
    return True


@inner
def moved(c: Cluster, ids: I4, a: int, b: int, gpus: int) -> bool:
    """Whether the ids at ids[a:] and [b:] are on different sets of nodes."""
    if gpus == 0:
        return ids[a] != ids[b]
    return not (held_within(c, ids, a, b, gpus) and held_within(c, ids, b, a, gpus))
