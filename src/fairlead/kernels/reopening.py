"""What more room on a node means for those who wait: which classes are worth another try."""

from __future__ import annotations

from fairlead.kernels.columns import (
    BLOCKED_QUOTA,
    C_BLOCKED,
    C_LACKS,
    C_LIST,
    C_ROOT,
    C_SHAPE,
    G_ACTIVE,
    G_READY,
    J_KEY,
    K_LEVEL,
    N_CAP,
    N_FREE,
    N_GPU0,
    N_TYPE,
    P_FREE,
    P_TYPE,
    R_GATED,
    R_INDEXED,
    R_OWNERS,
    R_PREEMPTS,
    S_GPUS,
    S_MATTERS,
    S_NEED,
    S_PLAIN,
    S_TYPE,
    U_NODE,
    U_ROW,
    Cluster,
    Jobs,
    Log,
    Queue,
)
from fairlead.kernels.guards import look_at, need_of, outranks_guard
from fairlead.kernels.jit import hot, inner, int64
from fairlead.kernels.lanes import key_now
from fairlead.kernels.ranks import (
    outranks_row,
)


@hot
def could_clear(c: Cluster, j: Jobs, q: Queue, n: int, i: int, need: int) -> bool:
    """Whether so many GPUs of node n are free or held by running jobs that job i outranks."""
    base, cap = c.node[N_GPU0, n], c.node[N_CAP, n]
    level, mine = int64(j.ints[K_LEVEL, i]), j.floats[J_KEY, i]
    spare, last, below = cap - need, -1, False
    if spare < 0:
        return False
    for g in range(base, base + cap):
        r = c.gpu[U_ROW, g]
        if r < 0:
            continue
        if r != last:
            last = r
            key_now(q, r)
            below = outranks_row(q, level, mine, i, r)
        if not below:
            spare -= 1
            if spare < 0:  # who needs a whole node mostly knows by the first of its jobs
                return False
    return True


@hot
def could_have(c: Cluster, q: Queue, j: Jobs, d: int, n: int, i: int) -> bool:
    """Whether node n has the room of need d, or would have without jobs that job i outranks; by the index."""
    if c.node[N_FREE, n] >= need_of(q, d):
        return True
    look_at(c, q, n)
    return outranks_guard(q, int64(j.ints[K_LEVEL, i]), j.floats[J_KEY, i], i, d, n)


@inner
def reopen(c: Cluster, j: Jobs, q: Queue, n: int) -> None:
    """Node n has more room: let those classes be tried again that this could help. Erring on the side of trying is safe."""
    preempts = q.counter[R_PREEMPTS] != 0
    for a in range(q.counter[G_ACTIVE]):
        k = q.classes[C_LIST, a]
        if q.classes[C_BLOCKED, k] == 0:
            continue
        s = q.classes[C_SHAPE, k]
        wanted = c.shape[S_TYPE, s]
        if q.classes[C_BLOCKED, k] != BLOCKED_QUOTA and wanted >= 0 and wanted != c.node[N_TYPE, n]:
            continue
        if q.classes[C_BLOCKED, k] != BLOCKED_QUOTA and c.shape[S_PLAIN, s] != 0:
            if q.counter[R_GATED] != 0:
                if preempts:
                    if q.counter[R_INDEXED] != 0:
                        if not could_have(c, q, j, c.shape[S_NEED, s], n, q.classes[C_ROOT, k]):
                            continue
                        if q.classes[C_LACKS, k] > 0:
                            if not could_have(c, q, j, q.guard.shape[1] - 1, n, q.classes[C_ROOT, k]):
                                continue
                            q.classes[C_LACKS, k] -= 1
                            if q.classes[C_LACKS, k] > 0:
                                continue
                    elif q.counter[R_OWNERS] != 0:
                        need = c.node[N_CAP, n] if q.classes[C_LACKS, k] > 0 else c.shape[S_MATTERS, s]
                        if not could_clear(c, j, q, n, q.classes[C_ROOT, k], need):
                            continue
                        if q.classes[C_LACKS, k] > 0:
                            q.classes[C_LACKS, k] -= 1
                            if q.classes[C_LACKS, k] > 0:
                                continue
                elif c.node[N_FREE, n] < c.shape[S_MATTERS, s]:
                    continue
            elif not preempts:
                free = 0
                for pool in range(c.pool.shape[1]):
                    if wanted < 0 or c.pool[P_TYPE, pool] == wanted:
                        free += c.pool[P_FREE, pool]
                if free < c.shape[S_GPUS, s]:
                    continue
        q.classes[C_BLOCKED, k] = 0
        q.counter[G_READY] = 1


@inner
def reopen_all(q: Queue) -> None:
    for a in range(q.counter[G_ACTIVE]):
        q.classes[C_BLOCKED, q.classes[C_LIST, a]] = 0
    if q.counter[G_ACTIVE] > 0:
        q.counter[G_READY] = 1


@inner
def reopen_around(c: Cluster, j: Jobs, q: Queue, log: Log, s: int, at: int) -> None:
    """Reopen for each node that holds some of the ids at log.gpu_ids[at:]."""
    if q.counter[G_ACTIVE] == 0:
        return
    gpus = c.shape[S_GPUS, s]
    if gpus == 0:
        reopen(c, j, q, -1 - log.gpu_ids[at])
        return
    last = -1
    for g in range(at, at + gpus):
        n = c.gpu[U_NODE, log.gpu_ids[g]]
        if n != last:
            last = n
            reopen(c, j, q, n)
