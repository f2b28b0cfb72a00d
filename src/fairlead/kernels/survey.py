"""Looking before leaping: who would have to go for a job, worst rank first, without moving anybody.

Only for plain shapes, where free counts per node decide, and where every GPU's owner is known (R_OWNERS).
"""

from __future__ import annotations

from fairlead.kernels.columns import (
    C_LACKS,
    C_SHAPE,
    G_LANES,
    G_PASSES,
    G_SPARED,
    G_SURVEY,
    G_VICTIMS,
    J_KEY,
    K_ALLOC,
    K_CLASS,
    K_LEVEL,
    K_PASS,
    K_SCRATCH,
    K_SURVEY,
    L_FINGER,
    N_CAP,
    N_FREE,
    N_GPU0,
    N_ROOM,
    N_SURVEY,
    N_TYPE,
    P_CAP,
    P_COUNT,
    P_TYPE,
    S_GPUS,
    S_MATTERS,
    S_TYPE,
    U_JOB,
    U_NODE,
    Cluster,
    Jobs,
    Log,
    Queue,
)
from fairlead.kernels.jit import hot, inner, int64
from fairlead.kernels.lanes import leave_lane, next_in_lane, worst_of
from fairlead.kernels.moves import release
from fairlead.kernels.ranks import key_now, outranks


@hot
def _below(j: Jobs, i: int, v: int) -> bool:
    """Whether job v ranks below job i, by the keys last taken."""
    return outranks(int64(j.ints[K_LEVEL, i]), j.floats[J_KEY, i], i, int64(j.ints[K_LEVEL, v]), j.floats[J_KEY, v], v)


@hot
def begin_survey(j: Jobs, q: Queue) -> None:
    """Put a finger on the worst job of each lane."""
    q.counter[G_SURVEY] += 1
    q.counter[G_SPARED] = 0
    for lane in range(q.counter[G_LANES]):
        v = worst_of(j, q, lane)
        q.classes[L_FINGER, lane] = v
        if v >= 0:
            key_now(j, q, v)


@hot
def next_outranked(j: Jobs, q: Queue, i: int) -> int:
    """The next worst running job that job i outranks and may displace, -1 if there is none left."""
    while True:
        worst, at = int64(-1), 0
        for lane in range(q.counter[G_LANES]):
            v = q.classes[L_FINGER, lane]
            if v >= 0 and (worst < 0 or _below(j, worst, v)):
                worst, at = v, lane
        if worst < 0 or not _below(j, i, worst):
            return int64(-1)
        v = next_in_lane(j, worst)
        q.classes[L_FINGER, at] = v
        if v >= 0:
            key_now(j, q, v)
        if j.ints[K_PASS, worst] != q.counter[G_PASSES]:
            return worst
        # what this pass has started stays: with a quantum, a job that was just suspended may outrank it
        q.counter[G_SPARED] += 1


@hot
def count_room(c: Cluster, j: Jobs, q: Queue, log: Log, s: int, v: int) -> None:
    """Count the GPUs of running job v as room for shape s on their nodes."""
    survey_no = q.counter[G_SURVEY]
    j.ints[K_SURVEY, v] = survey_no
    at = int64(j.ints[K_ALLOC, v])
    wanted = c.shape[S_TYPE, s]
    for g in range(at, at + c.shape[S_GPUS, q.classes[C_SHAPE, int64(j.ints[K_CLASS, v])]]):
        n = c.gpu[U_NODE, log.gpu_ids[g]]
        if wanted >= 0 and c.node[N_TYPE, n] != wanted:
            continue
        if c.node[N_SURVEY, n] != survey_no:
            c.node[N_SURVEY, n] = survey_no
            c.node[N_ROOM, n] = c.node[N_FREE, n]
        c.node[N_ROOM, n] += 1


@inner
def _release_surveyed(c: Cluster, j: Jobs, q: Queue, log: Log, stop: int, gpus: int) -> None:
    """Job `stop` was the last: release those surveyed jobs that are on a node where it made room for `gpus`. Releases
    elsewhere would be put back, since nobody takes anything there."""
    count = 0
    at = int64(j.ints[K_ALLOC, stop])
    last = int64(-1)
    for g in range(at, at + c.shape[S_GPUS, q.classes[C_SHAPE, int64(j.ints[K_CLASS, stop])]]):
        n = c.gpu[U_NODE, log.gpu_ids[g]]
        if n == last or c.node[N_SURVEY, n] != q.counter[G_SURVEY] or c.node[N_ROOM, n] < gpus:
            continue
        last = n
        base = c.node[N_GPU0, n]
        for h in range(base, base + c.node[N_CAP, n]):
            v = c.gpu[U_JOB, h]
            if v >= 0 and j.ints[K_SURVEY, v] == q.counter[G_SURVEY]:
                count = _insert_worst_first(j, count, v)
    for x in range(count):
        v = int64(j.ints[K_SCRATCH, x])
        leave_lane(q, j, v)
        release(c, j, q, log, v)
    q.counter[G_VICTIMS] = count


@inner
def _insert_worst_first(j: Jobs, count: int, v: int) -> int:
    """Put job v into the scratch list, worst rank first, unless it is there: the new length."""
    at = count
    while at > 0 and _below(j, int64(j.ints[K_SCRATCH, at - 1]), v):
        at -= 1
    if at > 0 and j.ints[K_SCRATCH, at - 1] == v:
        return count
    for x in range(count, at, -1):
        j.ints[K_SCRATCH, x] = j.ints[K_SCRATCH, x - 1]
    j.ints[K_SCRATCH, at] = v
    return count + 1


@inner
def room_on_one_node(c: Cluster, j: Jobs, q: Queue, log: Log, i: int) -> bool:
    """For a job of one node: find, worst first, who must go until a node has room, and release those that matter. They are
    left in K_SCRATCH, worst first, G_VICTIMS of them."""
    s = q.classes[C_SHAPE, int64(j.ints[K_CLASS, i])]
    gpus = c.shape[S_GPUS, s]
    begin_survey(j, q)
    while True:
        v = next_outranked(j, q, i)
        if v < 0:
            return False
        count_room(c, j, q, log, s, v)
        at = int64(j.ints[K_ALLOC, v])
        for g in range(at, at + c.shape[S_GPUS, q.classes[C_SHAPE, int64(j.ints[K_CLASS, v])]]):
            n = c.gpu[U_NODE, log.gpu_ids[g]]
            if c.node[N_SURVEY, n] == q.counter[G_SURVEY] and c.node[N_ROOM, n] >= gpus:
                _release_surveyed(c, j, q, log, v, gpus)
                return True


@inner
def room_on_many_nodes(c: Cluster, j: Jobs, q: Queue, log: Log, i: int) -> bool:
    """For a job of several nodes: whether displacing all that it outranks would make room. Where whole nodes lack, its
    class remembers how many: so many must come before looking again is worth while."""
    k = int64(j.ints[K_CLASS, i])
    s = q.classes[C_SHAPE, k]
    gpus, least, cap, whole, fitting = c.shape[S_GPUS, s], c.shape[S_MATTERS, s], 0, 0, 0
    for p in range(c.pool.shape[1]):
        if c.pool[P_CAP, p] > 0 and (c.shape[S_TYPE, s] < 0 or c.pool[P_TYPE, p] == c.shape[S_TYPE, s]):
            cap = c.pool[P_CAP, p]
            whole += c.cells[c.pool[P_COUNT, p] + cap]
            for level in range(least, cap + 1):
                fitting += c.cells[c.pool[P_COUNT, p] + level]
    full = gpus // cap
    nodes = full + (1 if gpus % cap > 0 else 0)
    begin_survey(j, q)
    while True:
        v = next_outranked(j, q, i)
        if v < 0:
            q.classes[C_LACKS, k] = max(full - whole, 0)
            return False
        at = int64(j.ints[K_ALLOC, v])
        mine = c.shape[S_GPUS, q.classes[C_SHAPE, int64(j.ints[K_CLASS, v])]]
        # what its nodes had before: a node counts once, when it crosses the line
        for g in range(at, at + mine):
            n = c.gpu[U_NODE, log.gpu_ids[g]]
            if c.shape[S_TYPE, s] >= 0 and c.node[N_TYPE, n] != c.shape[S_TYPE, s]:
                continue
            known = c.node[N_SURVEY, n] == q.counter[G_SURVEY]
            room = c.node[N_ROOM, n] if known else c.node[N_FREE, n]
            c.node[N_SURVEY, n] = q.counter[G_SURVEY]
            c.node[N_ROOM, n] = room + 1
            if room + 1 == cap:
                whole += 1
            if room + 1 == least:
                fitting += 1
        if whole >= full and fitting >= nodes:
            return True
