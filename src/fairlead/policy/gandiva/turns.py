"""Taking turns: every quantum, those who have had least of a crowded node's time get its GPUs.

Who goes first: who runs and is not preemptible, then a higher priority, then who has had less (time on GPUs over weight, since
the node got crowded), then who was submitted first. Each in this order gets a turn if what the ones before it left is enough.
So nobody is suspended for a lower priority, and whoever has had least is passed over only for jobs that may not be stopped.
"""

from __future__ import annotations

from fairlead.kernels.bits import following
from fairlead.kernels.columns import Desk, Queue
from fairlead.kernels.jit import hot, inner
from fairlead.policy.gandiva.hosting import cpu_of, mem_of, settle
from fairlead.policy.gandiva.running import fits, leads, start, stop
from fairlead.policy.gandiva.shelf import touch
from fairlead.policy.gandiva.tables import (
    A_CHOSEN,
    A_FIXED,
    A_LIST,
    A_MATE,
    A_PARTS,
    A_PRIORITY,
    A_STATE,
    E_COUNT,
    E_JOB,
    E_MORE,
    E_NEXT,
    E_NODE,
    F_SERVED,
    READY,
    RUNS,
    SCALARS,
    V_CAP,
    V_CPU,
    V_CPU_ROOM,
    V_FREE,
    V_HEAD,
    V_IS_DUE,
    V_MEM,
    V_MEM_ROOM,
    V_READY,
    V_ROOM,
    V_SPANS,
    X_DEMANDS,
    X_DUE,
    X_LIST,
    X_NODES,
)


@hot
def before(d: Desk, a: int, b: int) -> bool:
    t, f = d.ints, d.floats
    stays = t[A_FIXED, a] != 0 and t[A_STATE, a] == RUNS
    if stays != (t[A_FIXED, b] != 0 and t[A_STATE, b] == RUNS):
        return stays
    if t[A_PRIORITY, a] != t[A_PRIORITY, b]:
        return t[A_PRIORITY, a] > t[A_PRIORITY, b]
    if f[F_SERVED, a] != f[F_SERVED, b]:
        return f[F_SERVED, a] < f[F_SERVED, b]
    return a < b


@inner
def _sink(d: Desk, at: int, size: int) -> None:
    t = d.ints
    job = t[A_LIST, at]
    while True:
        kid = 2 * at + 1
        if kid >= size:
            break
        if kid + 1 < size and before(d, t[A_LIST, kid], t[A_LIST, kid + 1]):
            kid += 1
        if not before(d, job, t[A_LIST, kid]):
            break
        t[A_LIST, at] = t[A_LIST, kid]
        at = kid
    t[A_LIST, at] = job


@inner
def put_in_order(d: Desk) -> None:
    """Sort the list of jobs that are being worked on: most are short."""
    t, size = d.ints, d.ints[SCALARS, X_LIST]
    if size <= 24:
        for k in range(1, size):
            job, at = t[A_LIST, k], k
            while at > 0 and before(d, job, t[A_LIST, at - 1]):
                t[A_LIST, at] = t[A_LIST, at - 1]
                at -= 1
            t[A_LIST, at] = job
        return
    for at in range(size // 2 - 1, -1, -1):
        _sink(d, at, size)
    for last in range(size - 1, 0, -1):
        job = t[A_LIST, 0]
        t[A_LIST, 0] = t[A_LIST, last]
        t[A_LIST, last] = job
        _sink(d, 0, last)


@inner
def fill(q: Queue, d: Desk, n: int) -> None:
    """Start who waits at node n and fits, in order. Nobody is stopped for it."""
    t = d.ints
    if t[V_READY, n] == 0 or t[V_FREE, n] == 0:
        return
    t[SCALARS, X_LIST] = 0
    e = t[V_HEAD, n]
    while e != 0:
        i = t[E_JOB, e - 1]
        if t[A_STATE, i] == READY and leads(d, i):
            t[A_LIST, t[SCALARS, X_LIST]] = i
            t[SCALARS, X_LIST] += 1
        e = t[E_NEXT, e - 1]
    put_in_order(d)
    for k in range(t[SCALARS, X_LIST]):
        if t[V_FREE, n] == 0:
            return
        if fits(d, t[A_LIST, k]):
            start(q, d, t[A_LIST, k])


@inner
def _gather(d: Desk, n: int, now: float) -> None:
    """Put those who are to share node n on the list, and count out what there is to share."""
    t = d.ints
    t[V_ROOM, n] = t[V_CAP, n]
    t[V_CPU_ROOM, n] = t[V_CPU, n]
    t[V_MEM_ROOM, n] = t[V_MEM, n]
    e = t[V_HEAD, n]
    while e != 0:
        i = t[E_JOB, e - 1]
        settle(d, i, now)
        if t[A_STATE, i] == RUNS and t[SCALARS, X_DEMANDS] != 0:
            t[V_CPU_ROOM, n] += cpu_of(d, i, t[E_COUNT, e - 1])
            t[V_MEM_ROOM, n] += mem_of(d, i, t[E_COUNT, e - 1])
        if leads(d, i) and t[A_CHOSEN, i] != 2:
            t[A_CHOSEN, i] = 2  # on the list, not decided
            t[A_LIST, t[SCALARS, X_LIST]] = i
            t[SCALARS, X_LIST] += 1
        e = t[E_NEXT, e - 1]


@hot
def _has_room(d: Desk, i: int) -> bool:
    t = d.ints
    mate = t[A_MATE, i] - 1
    e = i
    while True:
        n, gpus = t[E_NODE, e], t[E_COUNT, e]
        if t[V_IS_DUE, n] != 0:
            if t[V_ROOM, n] < gpus:
                return False
            if t[SCALARS, X_DEMANDS] != 0:
                cpu, mem = cpu_of(d, i, gpus), mem_of(d, i, gpus)
                if mate >= 0:
                    cpu += cpu_of(d, mate, 1)
                    mem += mem_of(d, mate, 1)
                if t[V_CPU_ROOM, n] < cpu or t[V_MEM_ROOM, n] < mem:
                    return False
        elif t[A_STATE, i] != RUNS and t[V_FREE, n] < gpus:
            return False
        if t[E_MORE, e] == 0:
            return True
        e = t[E_MORE, e] - 1


@hot
def _give_room(d: Desk, i: int) -> None:
    t = d.ints
    mate = t[A_MATE, i] - 1
    e = i
    while True:
        n, gpus = t[E_NODE, e], t[E_COUNT, e]
        t[V_ROOM, n] -= gpus
        if t[SCALARS, X_DEMANDS] != 0:
            t[V_CPU_ROOM, n] -= cpu_of(d, i, gpus)
            t[V_MEM_ROOM, n] -= mem_of(d, i, gpus)
            if mate >= 0:
                t[V_CPU_ROOM, n] -= cpu_of(d, mate, 1)
                t[V_MEM_ROOM, n] -= mem_of(d, mate, 1)
        if t[E_MORE, e] == 0:
            return
        e = t[E_MORE, e] - 1


@inner
def _share_out(q: Queue, d: Desk) -> None:
    """Decide for all on the list who gets the next turn, stop the others, start those who do not run yet."""
    t = d.ints
    put_in_order(d)
    size = t[SCALARS, X_LIST]
    for k in range(size):
        i = t[A_LIST, k]
        t[A_CHOSEN, i] = 0
        if _has_room(d, i):
            _give_room(d, i)
            t[A_CHOSEN, i] = 1
    for k in range(size):
        i = t[A_LIST, k]
        if t[A_STATE, i] == RUNS and t[A_CHOSEN, i] == 0:
            stop(q, d, i)
    for k in range(size):
        i = t[A_LIST, k]
        if t[A_STATE, i] == READY and t[A_CHOSEN, i] == 1 and fits(d, i):
            start(q, d, i)


@inner
def take_turns(q: Queue, d: Desk, now: float) -> None:
    """A quantum is over: new turns on every node where somebody waits. Nodes with parts of one job decide together."""
    t = d.ints
    at, nodes = t[SCALARS, X_DUE], t[SCALARS, X_NODES]
    n = following(d.cells, at, nodes, 0)
    while n >= 0:
        touch(d, n)
        if t[V_SPANS, n] == 0:
            t[SCALARS, X_LIST] = 0
            _gather(d, n, now)
            _share_out(q, d)
        n = following(d.cells, at, nodes, n + 1)
    t[SCALARS, X_LIST] = 0
    n = following(d.cells, at, nodes, 0)
    while n >= 0:
        if t[V_SPANS, n] != 0:
            _gather(d, n, now)
        n = following(d.cells, at, nodes, n + 1)
    if t[SCALARS, X_LIST] > 0:
        _share_out(q, d)


@inner
def next_in(d: Desk, n: int, gpus: int) -> int:
    """The first, in order, of the jobs that wait at node n alone and need at most so many GPUs, -1 if there is none."""
    t, best = d.ints, -1
    e = t[V_HEAD, n]
    while e != 0:
        i = t[E_JOB, e - 1]
        alone = t[A_PARTS, i] == 1 and t[A_MATE, i] == 0
        if alone and t[A_STATE, i] == READY and t[E_COUNT, i] <= gpus and (best < 0 or before(d, i, best)):
            best = i
        e = t[E_NEXT, e - 1]
    return best
