"""Looking before leaping: what room a job could get by displacing all who rank below it, without moving anybody.

Only for plain shapes, where free counts per node decide, and where every GPU's owner is known (R_OWNERS).
"""

from __future__ import annotations

from fairlead.kernels.columns import (
    C_SHAPE,
    G_LANES,
    G_PASSES,
    G_SPARED,
    G_SURVEY,
    G_TOUCHED,
    G_VICTIMS,
    J_KEY,
    K_ALLOC,
    K_CHILD,
    K_CLASS,
    K_LEVEL,
    K_NEXT,
    K_PASS,
    K_SCRATCH,
    K_SURVEY,
    L_ROOT,
    N_CAP,
    N_FREE,
    N_GPU0,
    N_ROOM,
    N_SURVEY,
    N_TOUCHED,
    N_TYPE,
    P_CAP,
    P_COUNT,
    P_TYPE,
    S_GPUS,
    S_MATTERS,
    S_NODES,
    S_TYPE,
    U_JOB,
    U_NODE,
    Cluster,
    Jobs,
    Log,
    Plug,
    Queue,
)
from fairlead.kernels.jit import hot, inner, int64
from fairlead.kernels.moves import release
from fairlead.kernels.ranks import key_now, leave_lane, outranks


@hot
def _below(j: Jobs, i: int, v: int) -> bool:
    """Whether running job v ranks below waiting job i, by the keys last taken."""
    return outranks(int64(j.ints[K_LEVEL, i]), j.floats[J_KEY, i], i, int64(j.ints[K_LEVEL, v]), j.floats[J_KEY, v], v)


@inner
def _count_room(c: Cluster, j: Jobs, q: Queue, log: Log, s: int, v: int) -> None:
    """Count the GPUs of running job v as room on their nodes."""
    survey_no = q.counter[G_SURVEY]
    at = int64(j.ints[K_ALLOC, v])
    wanted = c.shape[S_TYPE, s]
    for g in range(at, at + c.shape[S_GPUS, q.classes[C_SHAPE, int64(j.ints[K_CLASS, v])]]):
        n = c.gpu[U_NODE, log.gpu_ids[g]]
        if wanted >= 0 and c.node[N_TYPE, n] != wanted:
            continue
        if c.node[N_SURVEY, n] != survey_no:
            c.node[N_SURVEY, n] = survey_no
            c.node[N_ROOM, n] = c.node[N_FREE, n]
            c.node[N_TOUCHED, q.counter[G_TOUCHED]] = n
            q.counter[G_TOUCHED] += 1
        c.node[N_ROOM, n] += 1


@inner
def survey(c: Cluster, j: Jobs, q: Queue, log: Log, i: int, f: Plug) -> bool:
    """Find all running jobs that rank below job i and the room they hold; would it be enough?

    In a lane, who stands below a job that is not outranked is not outranked either, so only the outranked are visited.
    """
    s = q.classes[C_SHAPE, int64(j.ints[K_CLASS, i])]
    q.counter[G_SURVEY] += 1
    q.counter[G_TOUCHED] = 0
    q.counter[G_SPARED] = 0
    count = 0
    for lane in range(q.counter[G_LANES]):
        root = q.classes[L_ROOT, lane]
        if root >= 0:
            key_now(c, j, q, root, f)
            if _below(j, i, root):
                j.ints[K_SCRATCH, count] = root
                count += 1
    seen = 0
    while seen < count:
        v = int64(j.ints[K_SCRATCH, seen])
        seen += 1
        if j.ints[K_PASS, v] == q.counter[G_PASSES]:
            q.counter[G_SPARED] += 1
        else:
            j.ints[K_SURVEY, v] = q.counter[G_SURVEY]
            _count_room(c, j, q, log, s, v)
        kid = int64(j.ints[K_CHILD, v])
        while kid > 0:
            key_now(c, j, q, kid - 1, f)
            if _below(j, i, kid - 1):
                j.ints[K_SCRATCH, count] = kid - 1
                count += 1
            kid = int64(j.ints[K_NEXT, kid - 1])
    return _enough(c, q, s)


@inner
def _enough(c: Cluster, q: Queue, s: int) -> bool:
    """Whether the surveyed room, with what is free on other nodes, holds shape s: whole nodes, and one for the rest."""
    gpus, least = c.shape[S_GPUS, s], c.shape[S_MATTERS, s]
    touched = q.counter[G_TOUCHED]
    if c.shape[S_NODES, s] == 1:
        for x in range(touched):
            if c.node[N_ROOM, c.node[N_TOUCHED, x]] >= gpus:
                return True
        return False
    whole, fitting = 0, 0
    cap = 0
    for p in range(c.pool.shape[1]):
        if c.shape[S_TYPE, s] < 0 or c.pool[P_TYPE, p] == c.shape[S_TYPE, s]:
            if c.pool[P_CAP, p] == 0:
                continue
            cap = c.pool[P_CAP, p]
            whole += c.cells[c.pool[P_COUNT, p] + cap]
            for level in range(least, cap + 1):
                fitting += c.cells[c.pool[P_COUNT, p] + level]
    for x in range(touched):
        n = c.node[N_TOUCHED, x]
        if c.node[N_ROOM, n] == cap:
            whole += 1
        if c.node[N_FREE, n] < least <= c.node[N_ROOM, n]:
            fitting += 1
    full = gpus // cap
    return whole >= full and fitting >= full + (1 if gpus % cap > 0 else 0)


@inner
def _next_worst(c: Cluster, j: Jobs, q: Queue, n: int, last: int) -> int:
    """Of the surveyed jobs on node n, the one with the worst rank after `last` (-1: of all); -1 if there is none."""
    base, worst = c.node[N_GPU0, n], int64(-1)
    for g in range(base, base + c.node[N_CAP, n]):
        v = c.gpu[U_JOB, g]
        if v < 0 or v == worst or v == last or j.ints[K_SURVEY, v] != q.counter[G_SURVEY]:
            continue
        if (last < 0 or _below(j, v, last)) and (worst < 0 or _below(j, worst, v)):
            worst = v
    return worst


@inner
def _gpus_on(c: Cluster, n: int, v: int) -> int:
    base, count = c.node[N_GPU0, n], 0
    for g in range(base, base + c.node[N_CAP, n]):
        if c.gpu[U_JOB, g] == v:
            count += 1
    return count


@inner
def _critical(c: Cluster, j: Jobs, q: Queue, n: int, gpus: int) -> int:
    """The job whose release, worst first, makes room for `gpus` on node n."""
    free, v = c.node[N_FREE, n], int64(-1)
    while free < gpus:
        v = _next_worst(c, j, q, n, v)
        free += _gpus_on(c, n, v)
    return v


@inner
def release_critical(c: Cluster, j: Jobs, q: Queue, log: Log, i: int) -> None:
    """After a survey that found room for job i, of one node: release exactly those jobs that matter of the ones that would
    be released, worst first, until it fits. They are left in K_SCRATCH, worst first, G_VICTIMS of them.

    The releasing would stop at the first node with room: where the critical job has the worst rank. Only releases there
    (and on other nodes of that same job, if it makes room on several at once) can be seen by the placer; all others would
    be put back.
    """
    gpus = c.shape[S_GPUS, q.classes[C_SHAPE, int64(j.ints[K_CLASS, i])]]
    stop = int64(-1)
    for x in range(q.counter[G_TOUCHED]):
        n = c.node[N_TOUCHED, x]
        if c.node[N_ROOM, n] >= gpus:
            v = _critical(c, j, q, n, gpus)
            if stop < 0 or _below(j, stop, v):
                stop = v
    count = 0
    for x in range(q.counter[G_TOUCHED]):
        n = c.node[N_TOUCHED, x]
        if c.node[N_ROOM, n] < gpus or _critical(c, j, q, n, gpus) != stop:
            continue
        v = _next_worst(c, j, q, n, -1)
        while True:
            count = _insert_worst_first(j, count, v)
            if v == stop:
                break
            v = _next_worst(c, j, q, n, v)
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
