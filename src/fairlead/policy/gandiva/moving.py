"""Migration: of a suspended job into the room that another has left, of a split job to one node, and of the few jobs on a
nearly idle node to fuller ones."""

from __future__ import annotations

from fairlead.kernels.columns import Desk, Queue
from fairlead.kernels.jit import inner
from fairlead.policy.gandiva.choose import choose, fullest
from fairlead.policy.gandiva.hosting import has_cpu, host, pick, unhost
from fairlead.policy.gandiva.running import fits, stop
from fairlead.policy.gandiva.shelf import affinity_of, change_load, count_at, node_at
from fairlead.policy.gandiva.tables import (
    A_CHOSEN,
    A_FIXED,
    A_GPUS,
    A_MATE,
    A_PARTS,
    A_SPLIT,
    A_SPLIT_NEXT,
    A_STATE,
    A_TYPE,
    B_CAP,
    B_FREE,
    B_LEVELS,
    D_NODE,
    E_COUNT,
    E_JOB,
    E_MORE,
    E_NEXT,
    E_NODE,
    F_START,
    READY,
    RUNS,
    SCALARS,
    V_AFFINITY,
    V_CAP,
    V_HEAD,
    V_LOAD,
    V_READY,
    V_TYPE,
    V_UP,
    X_AFFINITIES,
    X_DUE_COUNT,
    X_PARTS,
    X_POOLS,
    X_SPLIT,
    Y_SPARE,
)
from fairlead.policy.gandiva.turns import before, next_in

#: how many crowded nodes are looked at for a job that could move
LOOKS = 8
#: in A_CHOSEN: it has just moved
MOVED = 3


@inner
def move(q: Queue, d: Desk, i: int, n: int) -> None:
    """Job i, running or not, is at home on node n from now on."""
    gpus = d.ints[A_GPUS, i]
    stop(q, d, i)
    unhost(d, i)
    d.ints[SCALARS, X_PARTS] = 0
    pick(d, n, gpus)
    host(d, i, gpus)


@inner
def _goes(d: Desk, i: int, n: int) -> bool:
    """Whether job i may be on node n, by its type, CPU and memory."""
    right_type = d.ints[A_TYPE, i] < 0 or d.ints[A_TYPE, i] == d.ints[V_TYPE, n]
    return right_type and has_cpu(d, i, n, d.ints[A_GPUS, i], False)


@inner
def _suspended_elsewhere(d: Desk, n: int, a: int, free: int) -> int:
    """A job that waits on the most loaded node of affinity a and could go to node n, -1 if none is found."""
    t, looks = d.ints, 0
    top = 0
    for p in range(t[SCALARS, X_POOLS]):
        top = max(top, t[B_LEVELS, p])
    for level in range(top - 1, 0, -1):
        for p in range(t[SCALARS, X_POOLS]):
            if level >= t[B_LEVELS, p] or level <= t[B_CAP, p]:
                continue
            m = node_at(d, p, a, level, -1)
            while m >= 0 and looks < LOOKS:
                if m != n and t[V_READY, m] > 0:
                    looks += 1
                    i = next_in(d, m, free)
                    if i >= 0 and _goes(d, i, n):
                        return i
                m = node_at(d, p, a, level, m)
    return -1


@inner
def move_suspended_in(q: Queue, d: Desk, n: int) -> None:
    """Node n has GPUs that nobody is hosted for: bring jobs that wait elsewhere. Those of its affinity first, then larger before
    smaller."""
    t = d.ints
    while t[SCALARS, X_DUE_COUNT] > 0 and t[V_UP, n] != 0 and t[V_LOAD, n] < t[V_CAP, n]:
        free = t[V_CAP, n] - t[V_LOAD, n]
        i = -1
        if t[V_AFFINITY, n] != 0:
            i = _suspended_elsewhere(d, n, t[V_AFFINITY, n], free)
        a = min(affinity_of(free), t[SCALARS, X_AFFINITIES] - 1)
        while i < 0 and a > 0:
            if a != t[V_AFFINITY, n]:
                i = _suspended_elsewhere(d, n, a, free)
            a -= 1
        if i < 0:
            return
        move(q, d, i, n)


@inner
def _gpus_on(d: Desk, i: int, n: int) -> int:
    """How many GPUs of job i node n hosts."""
    t, e = d.ints, i
    while True:
        if t[E_NODE, e] == n:
            return t[E_COUNT, e]
        if t[E_MORE, e] == 0:
            return 0
        e = t[E_MORE, e] - 1


@inner
def bring_together(q: Queue, d: Desk, n: int, now: float) -> None:
    """Move jobs that are split to node n, if it has room for all of one."""
    t = d.ints
    link = t[SCALARS, X_SPLIT]
    while link != 0 and t[V_UP, n] != 0:
        i = link - 1
        link = t[A_SPLIT_NEXT, i]
        if t[A_SPLIT, i] > 1 or (t[A_STATE, i] == RUNS and (d.floats[F_START, i] == now or t[A_FIXED, i] != 0)):
            continue
        if t[V_LOAD, n] - _gpus_on(d, i, n) + t[A_GPUS, i] <= t[V_CAP, n] and _goes(d, i, n):
            move(q, d, i, n)


@inner
def move_spanning(q: Queue, d: Desk) -> None:
    """Suspended jobs with parts on several nodes go where there is room for all of them, in order."""
    t = d.ints
    while True:
        free = 0
        for p in range(t[SCALARS, X_POOLS]):
            free += t[B_FREE, p]
        best = -1
        link = t[SCALARS, X_SPLIT]
        while link != 0:
            i = link - 1
            could = t[A_STATE, i] == READY and t[A_GPUS, i] <= free and t[A_CHOSEN, i] != MOVED and not fits(d, i)
            if could and (best < 0 or before(d, i, best)):
                best = i
            link = t[A_SPLIT_NEXT, i]
        if best < 0 or choose(d, best, t[A_GPUS, best], True) <= 0:
            break
        unhost(d, best)
        host(d, best, t[A_GPUS, best])
        t[A_CHOSEN, best] = MOVED
    link = t[SCALARS, X_SPLIT]
    while link != 0:
        t[A_CHOSEN, link - 1] = 0
        link = t[A_SPLIT_NEXT, link - 1]


@inner
def _nearly_idle(d: Desk) -> int:
    """The node with most free GPUs that is not idle, if these are at least three in four; -1 if there is none."""
    t, best = d.ints, -1
    for p in range(t[SCALARS, X_POOLS]):
        for level in range(1, t[B_CAP, p] // 4 + 1):
            for a in range(1, t[SCALARS, X_AFFINITIES]):
                n = node_at(d, p, a, level, -1)
                if n < 0:
                    continue
                more = best < 0 or t[V_CAP, n] - level > t[V_CAP, best] - t[V_LOAD, best]
                same = best >= 0 and t[V_CAP, n] - level == t[V_CAP, best] - t[V_LOAD, best]
                if more or (same and n < best):
                    best = n
    return best


@inner
def _idle_nodes(d: Desk) -> int:
    count = 0
    for p in range(d.ints[SCALARS, X_POOLS]):
        count += count_at(d, p, 0, 0)
    return count


@inner
def _find_places(d: Desk, n: int, now: float) -> bool:
    """Note for each job of node n a fuller node that has room for it; the loads count as if they had moved. If one of them has
    nowhere to go, nothing is noted and no load changes."""
    t = d.ints
    above = t[V_CAP, n] - t[V_LOAD, n]
    found = True
    e = t[V_HEAD, n]
    done = 0
    while e != 0:
        i = t[E_JOB, e - 1]
        to = -1
        may = t[A_STATE, i] == RUNS and t[A_FIXED, i] == 0 and d.floats[F_START, i] != now
        if may and t[A_PARTS, i] == 1 and t[A_MATE, i] == 0:
            to = fullest(d, i, t[A_GPUS, i], above, n)
        if to < 0:
            found = False
            break
        t[D_NODE, done] = to
        change_load(d, to, t[A_GPUS, i], t[V_AFFINITY, to])
        done += 1
        e = t[E_NEXT, e - 1]
    e = t[V_HEAD, n]
    for k in range(done):
        to = t[D_NODE, k]
        change_load(d, to, -t[A_GPUS, t[E_JOB, e - 1]], t[V_AFFINITY, to])
        e = t[E_NEXT, e - 1]
    return found


@inner
def defragment(q: Queue, d: Desk, now: float) -> bool:
    """While no node is idle, empty the one with most free GPUs, if these are three in four and its jobs fit on fuller nodes.
    Was there anything to gain?"""
    t, gained = d.ints, False
    while _idle_nodes(d) < d.floats[0, Y_SPARE]:
        n = _nearly_idle(d)
        if n < 0 or not _find_places(d, n, now):
            break
        k = 0
        e = t[V_HEAD, n]
        while e != 0:
            i = t[E_JOB, e - 1]
            e = t[E_NEXT, e - 1]
            move(q, d, i, t[D_NODE, k])
            k += 1
        gained = True
    return gained
