"""Looking before leaping: who would have to go for a job, worst rank first, without moving anybody.

Only for plain shapes, where free counts per node decide, and where every GPU's owner is known (R_OWNERS).
"""

from __future__ import annotations

from fairlead.kernels.columns import (
    C_LACKS,
    C_SHAPE,
    F_GPUS,
    F_JOB,
    F_NODE,
    F_PASS,
    F_ROW,
    G_COUNTED,
    G_FRONT,
    G_FRONT_END,
    G_PASSES,
    G_SPARED,
    G_SURVEY,
    G_SURVEYED,
    G_VICTIMS,
    J_KEY,
    K_CLASS,
    K_LEVEL,
    K_SCRATCH,
    N_FREE,
    N_ROOM,
    N_TYPE,
    N_UP,
    P_CAP,
    P_COUNT,
    P_TYPE,
    R_LARGEST,
    S_GPUS,
    S_MATTERS,
    S_TYPE,
    U_NODE,
    X_ALLOC,
    Cluster,
    Jobs,
    Log,
    Queue,
)
from fairlead.kernels.counts import count, counted_on, has_room, keep_count
from fairlead.kernels.front import below_place, keep_front, lengthen, spares
from fairlead.kernels.jit import hot, inner, int64
from fairlead.kernels.moves import release
from fairlead.kernels.running import leave_lane

#: surveys are counted by this, so that one number tells a survey and less GPUs than a node can have
SURVEY = 1 << 16
#: a node's room, once those on it are the ones who must go
TAKEN = SURVEY - 1
#: what the room of a closed node is less by: jobs run on there, live, and would go in vain
_CLOSED = SURVEY >> 1


@hot
def begin_survey(q: Queue) -> None:
    q.counter[G_SURVEY] += SURVEY
    q.counter[G_SPARED] = 0
    keep_front(q)
    q.counter[G_SURVEYED] = q.counter[G_FRONT]


@hot
def next_outranked(q: Queue, level: int, key: float, i: int) -> int:
    """The place in the front of the next worst running job that job i, of this rank, outranks and may displace, -1 if there is
    none left."""
    while True:
        x = q.counter[G_SURVEYED]
        if x == q.counter[G_FRONT_END] and not lengthen(q):
            return int64(-1)
        if not below_place(q, level, key, i, x):
            return int64(-1)
        q.counter[G_SURVEYED] = x + 1
        if q.front_ints[x, F_PASS] != q.counter[G_PASSES]:
            return x
        # what this pass has started stays: with a quantum, a job that was just suspended may outrank it
        q.counter[G_SPARED] += 1


@hot
def _count_room(c: Cluster, survey: int, n: int, gpus: int) -> int:
    """Count `gpus` more GPUs of node n as room: how many it has now."""
    room = c.node[N_ROOM, n]
    if room < survey:
        room = survey + c.node[N_FREE, n]
        if c.node[N_UP, n] == 0:
            room -= _CLOSED
    room += gpus
    c.node[N_ROOM, n] = room
    return room - survey


@hot
def _must_go(c: Cluster, q: Queue, log: Log, x: int) -> bool:
    """Whether the job at place x of the front, which the survey has seen, is on a node that is taken, and not of this pass."""
    n, mark = int64(q.front_ints[x, F_NODE]), q.counter[G_SURVEY] + TAKEN
    if n >= 0:
        return c.node[N_ROOM, n] == mark and q.front_ints[x, F_PASS] != q.counter[G_PASSES]
    at = int64(q.run_ints[int64(q.front_ints[x, F_ROW]), X_ALLOC])
    for g in range(at, at + int64(q.front_ints[x, F_GPUS])):
        if c.node[N_ROOM, c.gpu[U_NODE, log.gpu_ids[g]]] == mark:
            return q.front_ints[x, F_PASS] != q.counter[G_PASSES]
    return False


@inner
def _release_surveyed(c: Cluster, j: Jobs, q: Queue, log: Log) -> None:
    """Release who must go: releases elsewhere would be put back, since nobody takes anything there. They are left in K_SCRATCH,
    worst first, G_VICTIMS of them."""
    gone = 0
    for x in range(q.counter[G_FRONT], q.counter[G_SURVEYED]):
        if _must_go(c, q, log, x):
            j.ints[K_SCRATCH, gone] = q.front_ints[x, F_JOB]
            gone += 1
    for x in range(gone):
        leave_lane(c, j, q, log, int64(j.ints[K_SCRATCH, x]))
    for x in range(gone):
        release(c, j, q, log, int64(j.ints[K_SCRATCH, x]))
    q.counter[G_VICTIMS] = gone


@inner
def _room_for_largest(c: Cluster, j: Jobs, q: Queue, log: Log, i: int) -> int:
    """room_on_one_node for the largest such job, going on from where counts.py knows that there is no room: 1 where it was made, 0
    where it can't be, -1 where somebody whom this pass has started is on the way, which the counts do not leave out."""
    level, key = int64(j.ints[K_LEVEL, i]), j.floats[J_KEY, i]
    begin_survey(q)
    keep_count(q)
    if spares(q, level, key, i):
        return -1
    x = q.counter[G_COUNTED] - 1
    if x >= q.counter[G_FRONT] and not below_place(q, level, key, i, x):
        return 0
    enough = False
    while not enough:
        q.counter[G_SURVEYED] = q.counter[G_COUNTED]
        x = next_outranked(q, level, key, i)
        if q.counter[G_SPARED] > 0:
            return -1
        if x < 0:
            return 0
        q.counter[G_COUNTED] = x + 1
        enough = count(c, q, log, x, 1)
    mark, n = q.counter[G_SURVEY] + TAKEN, int64(q.front_ints[x, F_NODE])
    if n >= 0:
        c.node[N_ROOM, n] = mark
        if counted_on(c, q, n) == q.front_ints[x, F_GPUS]:  # as mostly, it has the node to itself
            q.counter[G_VICTIMS] = 1
            v = int64(q.front_ints[x, F_JOB])
            j.ints[K_SCRATCH, 0] = v
            leave_lane(c, j, q, log, v)
            release(c, j, q, log, v)
            return 1
    else:
        at = int64(q.run_ints[int64(q.front_ints[x, F_ROW]), X_ALLOC])
        for g in range(at, at + int64(q.front_ints[x, F_GPUS])):
            n = c.gpu[U_NODE, log.gpu_ids[g]]
            if has_room(c, q, n):
                c.node[N_ROOM, n] = mark
    _release_surveyed(c, j, q, log)
    return 1


@inner
def room_on_one_node(c: Cluster, j: Jobs, q: Queue, log: Log, i: int) -> bool:
    """For a job of one node: find, worst first, who must go until a node has room, and release those on that node."""
    s = q.classes[C_SHAPE, int64(j.ints[K_CLASS, i])]
    gpus, wanted = c.shape[S_GPUS, s], c.shape[S_TYPE, s]
    if gpus == q.counter[R_LARGEST] and wanted < 0:
        known = _room_for_largest(c, j, q, log, i)
        if known >= 0:
            return known > 0
    level, key = int64(j.ints[K_LEVEL, i]), j.floats[J_KEY, i]
    begin_survey(q)
    survey, found = q.counter[G_SURVEY], False
    while not found:
        x = next_outranked(q, level, key, i)
        if x < 0:
            return False
        n, held = int64(q.front_ints[x, F_NODE]), int64(q.front_ints[x, F_GPUS])
        if n >= 0:
            if (wanted < 0 or c.node[N_TYPE, n] == wanted) and _count_room(c, survey, n, held) >= gpus:
                c.node[N_ROOM, n] = survey + TAKEN
                found = True
            continue
        at = int64(q.run_ints[int64(q.front_ints[x, F_ROW]), X_ALLOC])
        for g in range(at, at + held):
            n = c.gpu[U_NODE, log.gpu_ids[g]]
            if wanted < 0 or c.node[N_TYPE, n] == wanted:
                _count_room(c, survey, n, 1)
        for g in range(at, at + held):
            n = c.gpu[U_NODE, log.gpu_ids[g]]
            if c.node[N_ROOM, n] >= survey + gpus:
                c.node[N_ROOM, n] = survey + TAKEN
                found = True
    _release_surveyed(c, j, q, log)
    return True


@inner
def room_on_many_nodes(c: Cluster, j: Jobs, q: Queue, log: Log, i: int) -> bool:
    """The same for a job of several nodes: whole ones, and one for the rest. Where whole nodes lack, its class remembers how
    many: so many must come before looking again is worth while."""
    k = int64(j.ints[K_CLASS, i])
    s = q.classes[C_SHAPE, k]
    gpus, wanted, least = c.shape[S_GPUS, s], c.shape[S_TYPE, s], c.shape[S_MATTERS, s]
    cap, whole, fitting, listed = 0, 0, 0, 0
    for p in range(c.pool.shape[1]):
        if c.pool[P_CAP, p] > 0 and (wanted < 0 or c.pool[P_TYPE, p] == wanted):
            cap = c.pool[P_CAP, p]
            whole += c.cells[c.pool[P_COUNT, p] + cap]
            for free in range(least, cap + 1):
                fitting += c.cells[c.pool[P_COUNT, p] + free]
    full = gpus // cap
    nodes = full + (1 if gpus % cap > 0 else 0)
    level, key = int64(j.ints[K_LEVEL, i]), j.floats[J_KEY, i]
    begin_survey(q)
    survey = q.counter[G_SURVEY]
    while True:
        x = next_outranked(q, level, key, i)
        if x < 0:
            q.classes[C_LACKS, k] = max(full - whole, 0)
            return False
        alone, held, at = int64(q.front_ints[x, F_NODE]), int64(q.front_ints[x, F_GPUS]), 0
        parts = 1
        if alone < 0:
            parts, held, at = held, 1, int64(q.run_ints[int64(q.front_ints[x, F_ROW]), X_ALLOC])
        for g in range(at, at + parts):
            # what it holds on one node after another; a node counts once, when it crosses a line
            n = alone if alone >= 0 else c.gpu[U_NODE, log.gpu_ids[g]]
            if wanted >= 0 and c.node[N_TYPE, n] != wanted:
                continue
            known = c.node[N_ROOM, n] >= survey
            room = _count_room(c, survey, n, held)
            if room == cap:
                whole += 1
            if room >= least:
                fitting += room - held < least
                if not known or room - held < least:
                    c.pick[listed, 0] = n  # some of its jobs go, and it may be taken
                    listed += 1
        if whole >= full and fitting >= nodes:
            break
    for x in range(listed):
        c.node[N_ROOM, c.pick[x, 0]] = survey + TAKEN
    _release_surveyed(c, j, q, log)
    return True
