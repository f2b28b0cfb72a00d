"""Gandiva's decisions at one instant, in order: what happened, who comes, turns if a quantum is over, moves, starts."""

from __future__ import annotations

import math

from fairlead.kernels.columns import (
    C_SHAPE,
    C_TENANT,
    G_NEXT,
    G_ROWS,
    K_CLASS,
    K_LEAST,
    K_MOST,
    K_PRIORITY,
    K_STATE,
    NEVER,
    S_BOUND,
    S_CPU,
    S_GPUS,
    S_MEM,
    S_MILLI,
    S_SPLIT,
    S_TYPE,
    S_WITHIN,
    T_WEIGHT,
    WAITING,
    WITHDRAWN,
    Cluster,
    Desk,
    Jobs,
    Log,
    Queue,
)
from fairlead.kernels.desk import ask_start
from fairlead.kernels.jit import inner, int64
from fairlead.kernels.lanes import is_fixed
from fairlead.kernels.rows import (
    ADMIT_ROW,
    FAIL_ROW,
    FINISH_ROW,
    GIVE_UP_ROW,
    KILL_ROW,
    NODE_DOWN_ROW,
    NODE_UP_ROW,
    WITHDRAW_ROW,
)
from fairlead.policy.gandiva.choose import choose, within_quota
from fairlead.policy.gandiva.hosting import host, part_ways, see_if_due, unhost
from fairlead.policy.gandiva.moving import bring_together, defragment, move_spanning, move_suspended_in
from fairlead.policy.gandiva.packing import judge_pairs, try_pairs, unpack
from fairlead.policy.gandiva.running import leave_gpus
from fairlead.policy.gandiva.shelf import set_up, touch
from fairlead.policy.gandiva.sizing import grow, make_room
from fairlead.policy.gandiva.tables import (
    A_ASK,
    A_CLASS,
    A_CPU,
    A_FIXED,
    A_GPUS,
    A_LEAST,
    A_LOST,
    A_MEM,
    A_MILLI,
    A_MOST,
    A_NEXT,
    A_PARTS,
    A_PRIORITY,
    A_SPLIT,
    A_STATE,
    A_TENANT,
    A_TYPE,
    A_WITHIN,
    E_JOB,
    E_NEXT,
    E_NODE,
    F_WEIGHT,
    NOT_HERE,
    P_NODE,
    QUEUED,
    READY,
    RUNS,
    SCALARS,
    V_CAP,
    V_CPU,
    V_HEAD,
    V_LIST,
    V_LOAD,
    V_MEM,
    V_READY,
    V_TOUCHED,
    V_UP,
    W_FAILED,
    W_HEAD,
    W_LIST,
    W_TAIL,
    X_DUE_COUNT,
    X_FREED,
    X_GROWER_COUNT,
    X_GROWS,
    X_IDS,
    X_JOB,
    X_LOST,
    X_MIGRATES,
    X_NODES,
    X_PACKS,
    X_QUEUED,
    X_ROW,
    X_TOUCHED,
    X_TRIALS,
    Y_NOW,
    Y_QUANTUM,
    Y_TICK,
)
from fairlead.policy.gandiva.turns import fill, take_turns

# -- what happened -----------------------------------------------------------------------------------------------------------


@inner
def _lose_home(d: Desk, i: int) -> None:
    """Job i has to find another home."""
    if d.ints[A_PARTS, i] > 0:
        unhost(d, i)
    d.ints[A_LOST, d.ints[SCALARS, X_LOST]] = i
    d.ints[SCALARS, X_LOST] += 1


@inner
def _stopped(d: Desk, i: int, gone: bool) -> None:
    """Job i has stopped by itself: it has ended, or its attempt has failed and it starts again where it was."""
    t = d.ints
    if t[A_ASK, i] == 0:
        n = t[E_NODE, i]
        t[V_CPU, n] += t[A_CPU, i]
        t[V_MEM, n] += t[A_MEM, i]
        t[A_STATE, i] = NOT_HERE
        t[SCALARS, X_FREED] = 1
        touch(d, n)
        if not gone:
            _lose_home(d, i)
        return
    part_ways(d, i)
    leave_gpus(d, i)
    if gone:
        unhost(d, i)


@inner
def _send_away(d: Desk, n: int) -> None:
    """Who waits at node n must find another home."""
    t = d.ints
    e = t[V_HEAD, n]
    while e != 0:
        i = t[E_JOB, e - 1]
        e = t[E_NEXT, e - 1]
        if t[A_STATE, i] == READY:
            _lose_home(d, i)


@inner
def _node_down(d: Desk, n: int) -> None:
    """Who waits at node n must go elsewhere; who ran there is reported row by row, or runs on where it was only closed."""
    set_up(d, n, False)
    _send_away(d, n)
    see_if_due(d, n)


@inner
def _leave_queue(d: Desk, i: int) -> None:
    """Queued job i is withdrawn."""
    t, k = d.ints, d.ints[A_CLASS, i]
    before = 0
    link = t[W_HEAD, k]
    while link != i + 1:
        before, link = link, t[A_NEXT, link - 1]
    if before != 0:
        t[A_NEXT, before - 1] = t[A_NEXT, i]
    else:
        t[W_HEAD, k] = t[A_NEXT, i]
    if t[W_TAIL, k] == i + 1:
        t[W_TAIL, k] = before
    t[A_STATE, i] = NOT_HERE
    if t[W_HEAD, k] == 0:
        last, at = t[SCALARS, X_QUEUED] - 1, 0
        while t[W_LIST, at] != k:
            at += 1
        t[W_LIST, at] = t[W_LIST, last]
        t[SCALARS, X_QUEUED] = last


@inner
def _withdrawn(d: Desk, i: int) -> None:
    """Somebody took job i out."""
    state = d.ints[A_STATE, i]
    if state == RUNS:
        _stopped(d, i, True)
    elif state == READY:
        unhost(d, i)
    elif state == QUEUED:
        _leave_queue(d, i)


@inner
def _admitted(c: Cluster, j: Jobs, q: Queue, d: Desk, i: int) -> None:
    """Job i is let in again; one that has not been seen yet is an arrival."""
    t = d.ints
    if i >= t[SCALARS, X_JOB]:
        return
    for x in range(t[SCALARS, X_LOST]):
        if t[A_LOST, x] == i:
            return
    _meet(c, j, q, d, i)
    t[A_LOST, t[SCALARS, X_LOST]] = i
    t[SCALARS, X_LOST] += 1


@inner
def _read_log(c: Cluster, j: Jobs, q: Queue, log: Log, d: Desk) -> None:
    t = d.ints
    for row in range(t[SCALARS, X_ROW], q.counter[G_ROWS]):
        kind, subject = int64(log.what[0, row]), int64(log.what[1, row])
        if kind == FINISH_ROW or kind == GIVE_UP_ROW:
            _stopped(d, subject, True)
        elif kind == FAIL_ROW:
            _stopped(d, subject, False)
        elif kind == KILL_ROW:
            if t[A_ASK, subject] == 0:
                _stopped(d, subject, False)
            else:
                part_ways(d, subject)
                leave_gpus(d, subject)
                _lose_home(d, subject)
        elif kind == WITHDRAW_ROW:
            _withdrawn(d, subject)
        elif kind == ADMIT_ROW:
            _admitted(c, j, q, d, subject)
        elif kind == NODE_DOWN_ROW:
            _node_down(d, subject)
        elif kind == NODE_UP_ROW:
            set_up(d, subject, True)
            t[SCALARS, X_FREED] = 1
            touch(d, subject)
    t[SCALARS, X_ROW] = q.counter[G_ROWS]


# -- who comes -----------------------------------------------------------------------------------------------------------------


@inner
def _meet(c: Cluster, j: Jobs, q: Queue, d: Desk, i: int) -> None:
    """Note what arriving job i asks for."""
    t = d.ints
    k = int64(j.ints[K_CLASS, i])
    s = q.classes[C_SHAPE, k]
    t[A_CLASS, i] = k
    t[A_TENANT, i] = q.classes[C_TENANT, k]
    t[A_ASK, i] = c.shape[S_GPUS, s]
    t[A_GPUS, i] = c.shape[S_GPUS, s]
    t[A_MILLI, i] = c.shape[S_MILLI, s]
    t[A_TYPE, i] = c.shape[S_TYPE, s]
    t[A_CPU, i] = c.shape[S_CPU, s]
    t[A_MEM, i] = c.shape[S_MEM, s]
    t[A_PRIORITY, i] = int64(j.ints[K_PRIORITY, i])
    t[A_FIXED, i] = 1 if is_fixed(q, k) else 0
    t[A_SPLIT, i] = c.shape[S_SPLIT, s] if c.shape[S_BOUND, s] != 0 else 0
    t[A_WITHIN, i] = c.shape[S_WITHIN, s] if c.shape[S_BOUND, s] != 0 else -1
    if t[SCALARS, X_GROWS] != 0 and t[A_FIXED, i] == 0:  # who is not to be stopped can't be resized
        t[A_LEAST, i] = int64(j.ints[K_LEAST, i])
        t[A_MOST, i] = int64(j.ints[K_MOST, i])
    d.floats[F_WEIGHT, i] = q.tenants[T_WEIGHT, t[A_TENANT, i]]


@inner
def _start_without_gpus(q: Queue, d: Desk, i: int) -> bool:
    """A job that needs no GPU goes to the first node that has the CPU and memory for it."""
    t = d.ints
    for n in range(t[SCALARS, X_NODES]):
        if t[V_UP, n] != 0 and t[V_CPU, n] >= t[A_CPU, i] and t[V_MEM, n] >= t[A_MEM, i]:
            t[V_CPU, n] -= t[A_CPU, i]
            t[V_MEM, n] -= t[A_MEM, i]
            t[E_NODE, i] = n
            t[A_STATE, i] = RUNS
            d.ids[t[SCALARS, X_IDS]] = -1 - n
            ask_start(q, d, i, t[SCALARS, X_IDS])
            t[SCALARS, X_IDS] += 1
            return True
    return False


@inner
def _find_home(q: Queue, d: Desk, i: int) -> bool:
    t = d.ints
    if t[A_ASK, i] == 0:
        return _start_without_gpus(q, d, i)
    if not within_quota(d, q, i, t[A_ASK, i]):
        return False
    gpus = choose(d, i, t[A_ASK, i], False)
    if gpus == 0:
        return False
    if gpus < 0:
        gpus = -gpus
        n = t[P_NODE, 0]
        make_room(q, d, i, n, gpus)
        t[P_NODE, 0] = n
    host(d, i, gpus)
    return True


@inner
def _enqueue(d: Desk, i: int) -> None:
    t = d.ints
    k = t[A_CLASS, i]
    t[A_STATE, i] = QUEUED
    t[A_NEXT, i] = 0
    if t[W_HEAD, k] == 0:
        t[W_HEAD, k] = i + 1
        t[W_LIST, t[SCALARS, X_QUEUED]] = k
        t[SCALARS, X_QUEUED] += 1
    else:
        t[A_NEXT, t[W_TAIL, k] - 1] = i + 1
    t[W_TAIL, k] = i + 1


@inner
def _come_in(q: Queue, d: Desk, i: int) -> None:
    """A new job, or one that lost its home; those of its class that are queued go first."""
    if d.ints[W_HEAD, d.ints[A_CLASS, i]] != 0 or not _find_home(q, d, i):
        _enqueue(d, i)


@inner
def _try_queue(q: Queue, d: Desk) -> None:
    """Something left: the first queued job of each class is tried, and the next as long as that succeeds. A higher priority
    first, then the earlier submission."""
    t = d.ints
    t[SCALARS, X_FREED] = 0
    for x in range(t[SCALARS, X_QUEUED]):
        t[W_FAILED, t[W_LIST, x]] = 0
    while True:
        best, at = -1, -1
        for x in range(t[SCALARS, X_QUEUED]):
            k = t[W_LIST, x]
            i = t[W_HEAD, k] - 1
            if t[W_FAILED, k] != 0:
                continue
            higher = best < 0 or t[A_PRIORITY, i] > t[A_PRIORITY, best]
            if higher or (t[A_PRIORITY, i] == t[A_PRIORITY, best] and i < best):
                best, at = i, x
        if best < 0:
            return
        k = t[W_LIST, at]
        if not _find_home(q, d, best):
            t[W_FAILED, k] = 1
            continue
        t[W_HEAD, k] = t[A_NEXT, best]
        if t[W_HEAD, k] == 0:
            last = t[SCALARS, X_QUEUED] - 1
            t[W_LIST, at] = t[W_LIST, last]
            t[SCALARS, X_QUEUED] = last


@inner
def _take_in(j: Jobs, q: Queue, d: Desk) -> None:
    """Find homes for those who lost theirs, but for who was withdrawn meanwhile."""
    t = d.ints
    for x in range(t[SCALARS, X_LOST]):
        i = t[A_LOST, x]
        if t[A_STATE, i] == NOT_HERE and j.ints[K_STATE, i] != WITHDRAWN:
            _come_in(q, d, i)
    t[SCALARS, X_LOST] = 0


@inner
def _arrivals(c: Cluster, j: Jobs, q: Queue, d: Desk) -> None:
    t = d.ints
    _take_in(j, q, d)
    for i in range(t[SCALARS, X_JOB], q.counter[G_NEXT]):
        if j.ints[K_STATE, i] == WAITING:
            _meet(c, j, q, d, i)
            _come_in(q, d, i)
    t[SCALARS, X_JOB] = q.counter[G_NEXT]


# -- what follows from it ------------------------------------------------------------------------------------------------------


@inner
def _fill_touched(q: Queue, d: Desk) -> None:
    """Start who can start now where something changed, in order of the nodes' index."""
    t = d.ints
    for x in range(1, t[SCALARS, X_TOUCHED]):
        n, at = t[V_LIST, x], x
        while at > 0 and t[V_LIST, at - 1] > n:
            t[V_LIST, at] = t[V_LIST, at - 1]
            at -= 1
        t[V_LIST, at] = n
    for x in range(t[SCALARS, X_TOUCHED]):
        fill(q, d, t[V_LIST, x])


@inner
def _use_room(q: Queue, d: Desk, now: float) -> None:
    """GPUs that nobody is hosted for, where something changed: suspended jobs of other nodes, then split jobs go there; then
    suspended jobs that need several nodes may find room."""
    t = d.ints
    for x in range(t[SCALARS, X_TOUCHED]):
        n = t[V_LIST, x]
        if t[V_UP, n] != 0 and t[V_LOAD, n] < t[V_CAP, n]:
            move_suspended_in(q, d, n)
            bring_together(q, d, n, now)
    move_spanning(q, d)


@inner
def _clear_closed(j: Jobs, q: Queue, d: Desk) -> None:
    """Who was stopped on a node that takes nobody any more can't start there again."""
    t, found = d.ints, False
    for x in range(t[SCALARS, X_TOUCHED]):
        n = t[V_LIST, x]
        if t[V_UP, n] == 0 and t[V_READY, n] > 0:
            _send_away(d, n)
            found = True
    if found:
        _take_in(j, q, d)
        _try_queue(q, d)


@inner
def _close(q: Queue, d: Desk, now: float) -> None:
    """Start who can start now, and see which nodes are crowded."""
    t = d.ints
    _fill_touched(q, d)
    for x in range(t[SCALARS, X_TOUCHED]):
        n = t[V_LIST, x]
        if t[SCALARS, X_PACKS] != 0:
            unpack(q, d, n, now)
        see_if_due(d, n)
        t[V_TOUCHED, n] = 0
    t[SCALARS, X_TOUCHED] = 0


@inner
def _next_tick(d: Desk, now: float) -> float:
    """When the next quantum is over, NEVER where nobody waits for that."""
    t, f = d.ints, d.floats
    waits = t[SCALARS, X_DUE_COUNT] > 0 or t[SCALARS, X_GROWER_COUNT] > 0 or t[SCALARS, X_TRIALS] > 0
    if not waits:
        f[0, Y_TICK] = NEVER
    elif f[0, Y_TICK] == NEVER or f[0, Y_TICK] <= now:
        tick = math.floor(now / f[0, Y_QUANTUM]) + 1.0
        while tick * f[0, Y_QUANTUM] <= now:
            tick += 1.0
        f[0, Y_TICK] = tick * f[0, Y_QUANTUM]
    return f[0, Y_TICK]


def plan_gandiva(c: Cluster, j: Jobs, q: Queue, log: Log, desk: Desk, now: float) -> float:
    t, f = desk.ints, desk.floats
    f[0, Y_NOW] = now
    t[SCALARS, X_IDS] = 0
    _read_log(c, j, q, log, desk)
    departed = t[SCALARS, X_FREED] != 0
    if departed and t[SCALARS, X_QUEUED] > 0:
        _try_queue(q, desk)
    _arrivals(c, j, q, desk)
    if now >= f[0, Y_TICK]:
        if t[SCALARS, X_GROWS] != 0:
            grow(j, q, desk, now)
        if t[SCALARS, X_PACKS] != 0:
            judge_pairs(j, q, desk, now)
            try_pairs(j, q, desk, now)
        take_turns(q, desk, now)
        departed = departed or t[SCALARS, X_FREED] != 0
    if departed and t[SCALARS, X_MIGRATES] != 0:
        _fill_touched(q, desk)
        _use_room(q, desk, now)
        if defragment(q, desk, now) and t[SCALARS, X_QUEUED] > 0:
            _try_queue(q, desk)
    _clear_closed(j, q, desk)
    t[SCALARS, X_FREED] = 0
    _close(q, desk, now)
    return _next_tick(desk, now)
