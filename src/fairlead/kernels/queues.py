"""The pass where each tenant has a queue of its own, with a guarantee: docs/semantics.md says what it must do.

First everybody gets what is guaranteed, from who has borrowed it where it must be; then what is left is lent. A guaranteed
start never puts its tenant above its guarantee, and only tenants above theirs give anything back, so no pass takes back what
it has given.
"""

from __future__ import annotations

from fairlead.kernels.bound import find_place
from fairlead.kernels.columns import (
    BLOCKED_QUOTA,
    BLOCKED_SPACE,
    C_BLOCKED,
    C_LIST,
    C_PASSED,
    C_ROOT,
    C_SHAPE,
    C_TENANT,
    F8,
    G_ACTIVE,
    G_LANES,
    G_PASSES,
    G_READY,
    G_VICTIMS,
    J_KEY,
    K_ALLOC,
    K_CLASS,
    K_LEVEL,
    K_SCRATCH,
    P_FREE,
    P_TYPE,
    R_BORROWS,
    R_PREEMPTS,
    R_SHARES,
    R_STRICT,
    S_GPUS,
    S_MILLI,
    S_TYPE,
    T_GROUP,
    T_GUARANTEE,
    T_HEAD,
    T_HELD,
    T_STUCK,
    UNTOUCHABLE,
    WHOLE,
    X_JOB,
    X_LEVEL,
    Cluster,
    JobFunction,
    Jobs,
    Log,
    PlaceFunction,
    Plug,
    Queue,
    TenantFunction,
)
from fairlead.kernels.decide import rank_tenants, start_displacing, start_picked
from fairlead.kernels.displace import could_help, put_back
from fairlead.kernels.jit import called, hot, inner, int64
from fairlead.kernels.lanes import next_in_lane, worst_of
from fairlead.kernels.moves import release
from fairlead.kernels.ranks import leave_class_called, outranks
from fairlead.kernels.running import leave_lane
from fairlead.kernels.slim import by_ref

RECLAIMED = 22  # model.reason.Reason.RECLAIMED

start_picked_called = called(start_picked)


@hot
def demand(c: Cluster, q: Queue, k: int) -> int:
    """Milli-GPUs that a job of class k asks for."""
    s = q.classes[C_SHAPE, k]
    return c.shape[S_GPUS, s] * c.shape[S_MILLI, s]


@hot
def guaranteed(c: Cluster, q: Queue, k: int) -> bool:
    """Whether a job of class k would keep its tenant within its guarantee."""
    t = q.classes[C_TENANT, k]
    return q.tenants[T_HELD, t] + demand(c, q, k) <= q.tenants[T_GUARANTEE, t]


@hot
def _goes_before(j: Jobs, i: int, other: int) -> bool:
    return outranks(
        int64(j.ints[K_LEVEL, i]), j.floats[J_KEY, i], i, int64(j.ints[K_LEVEL, other]), j.floats[J_KEY, other], other
    )


@hot
def _passed(q: Queue, mark: float, lending: bool) -> bool:
    """Whether a mark says that there is nothing more to be had in this pass, or in this half of it."""
    this = 2.0 * q.counter[G_PASSES]
    return mark == this + 1.0 or (mark == this and not lending)


@inner
def pass_over(q: Queue, k: int, only_now: bool) -> None:
    """Class k gets nothing more in this pass, or in its first half only; nor does anybody behind it in a strict queue."""
    mark, t = 2 * q.counter[G_PASSES] + (0 if only_now else 1), q.classes[C_TENANT, k]
    q.classes[C_PASSED, k] = mark
    if q.counter[R_STRICT] != 0:
        q.tenants[T_STUCK, t] = float(mark)
        q.tenants[T_HEAD, t] = -1.0


@inner
def find_heads(j: Jobs, q: Queue, lending: bool) -> None:
    """Per tenant, the class whose best job is the head of its queue, among those that are not passed over."""
    for t in range(q.tenants.shape[1]):
        q.tenants[T_HEAD, t] = -1.0
    for a in range(q.counter[G_ACTIVE]):
        k = q.classes[C_LIST, a]
        t = q.classes[C_TENANT, k]
        if _passed(q, float(q.classes[C_PASSED, k]), lending) or _passed(q, q.tenants[T_STUCK, t], lending):
            continue
        head = int64(q.tenants[T_HEAD, t])
        if head < 0 or _goes_before(j, q.classes[C_ROOT, k], q.classes[C_ROOT, head]):
            q.tenants[T_HEAD, t] = float(k)


@inner
def next_head(j: Jobs, q: Queue) -> int:
    """The class of the head that goes next: by its tenant's group key, then its own rank; -1 if there is none."""
    best = int64(-1)
    for t in range(q.tenants.shape[1]):
        k = int64(q.tenants[T_HEAD, t])
        if k < 0:
            continue
        if best >= 0:
            mine, its = q.tenants[T_GROUP, t], q.tenants[T_GROUP, q.classes[C_TENANT, best]]
            if mine > its or (mine == its and not _goes_before(j, q.classes[C_ROOT, k], q.classes[C_ROOT, best])):
                continue
        best = k
    return best


@inner
def enough_to_reclaim(c: Cluster, q: Queue, k: int) -> bool:
    """Whether what is free and what tenants above their guarantee hold could be enough for a job of class k."""
    s = q.classes[C_SHAPE, k]
    within_reach = 0.0
    for t in range(q.tenants.shape[1]):
        if q.tenants[T_HELD, t] > q.tenants[T_GUARANTEE, t]:
            within_reach += q.tenants[T_HELD, t]
    if within_reach == 0.0:
        return False
    if q.counter[R_SHARES] != 0:
        return True  # parts of GPUs are free too, and no count is kept of them
    for p in range(c.pool.shape[1]):
        if c.shape[S_TYPE, s] < 0 or c.pool[P_TYPE, p] == c.shape[S_TYPE, s]:
            within_reach += c.pool[P_FREE, p] * WHOLE
    return within_reach >= demand(c, q, k)


@inner
def reclaim(c: Cluster, j: Jobs, q: Queue, log: Log, i: int, f: Plug) -> int:
    """Release running jobs of tenants above their guarantee, worst rank first, until job i fits: the rows of its pick, or -1
    with all undone. The released jobs are the first G_VICTIMS of K_SCRATCH, as after displace()."""
    k = int64(j.ints[K_CLASS, i])
    s = q.classes[C_SHAPE, k]
    q.counter[G_VICTIMS] = 0
    if q.counter[G_LANES] == 0 or not enough_to_reclaim(c, q, k):
        return -1
    count, rows = 0, -1
    r = worst_of(q, 0)
    while rows < 0 and r >= 0 and q.run_ints[r, X_LEVEL] != UNTOUCHABLE:  # such jobs rank best
        better, v = next_in_lane(q, r), int64(q.run_ints[r, X_JOB])
        its = int64(j.ints[K_CLASS, v])
        t = q.classes[C_TENANT, its]
        if q.tenants[T_HELD, t] > q.tenants[T_GUARANTEE, t]:
            leave_lane(c, j, q, log, v)
            release(c, j, q, log, v)
            j.ints[K_SCRATCH, count] = v
            count += 1
            if could_help(c, q, log, s, q.classes[C_SHAPE, its], int64(j.ints[K_ALLOC, v])):
                rows = find_place(c, j, q, i, s, f)
        r = better
    if rows < 0:
        for x in range(count - 1, -1, -1):
            put_back(c, j, q, log, int64(j.ints[K_SCRATCH, x]))
        count = 0
    q.counter[G_VICTIMS] = count
    return rows


@inner
def give(c: Cluster, j: Jobs, q: Queue, log: Log, lending: bool, now: float, f: Plug) -> None:
    """Start heads of queues, in order, as long as one fits: those that are guaranteed, or, lending, all."""
    find_heads(j, q, lending)
    while True:
        k = next_head(j, q)
        if k < 0:
            return
        i, rows = q.classes[C_ROOT, k], -1
        if not lending and not guaranteed(c, q, k):
            if q.counter[R_BORROWS] == 0:
                q.classes[C_BLOCKED, k] = BLOCKED_QUOTA
            pass_over(q, k, True)
        else:
            if q.classes[C_BLOCKED, k] == 0:
                s = q.classes[C_SHAPE, k]
                rows = find_place(c, j, q, i, s, f)
            if rows >= 0:
                leave_class_called(j, q, i)
                start_picked_called(c, j, q, log, i, rows, now, f)
            else:
                q.classes[C_BLOCKED, k] = BLOCKED_SPACE
                if not lending and q.counter[R_PREEMPTS] != 0:
                    rows = reclaim(c, j, q, log, i, f)
                if rows >= 0:
                    start_displacing(c, j, q, log, i, rows, now, RECLAIMED, f)
                else:
                    pass_over(q, k, False)
        if rows >= 0:
            rank_tenants(q, now, f)
        if rows >= 0 or q.counter[R_STRICT] == 0:
            find_heads(j, q, lending)


def walk_queues(
    c: Cluster, j: Jobs, q: Queue, log: Log, now: float,
    p: F8, pp: F8,
    key: JobFunction, level: JobFunction, drift: JobFunction, wake: JobFunction, resets: JobFunction,
    group: TenantFunction, place: PlaceFunction,
) -> int:  # fmt: skip
    """The pass, for policies with a queue per tenant."""
    f = by_ref(Plug(p, pp, key, level, drift, wake, resets, group, place))
    if q.counter[R_PREEMPTS] == 0 and q.counter[G_READY] == 0:
        return 0  # nothing has come or gone that could help anybody; taking back depends on more than room
    q.counter[G_PASSES] += 1
    rank_tenants(q, now, f)
    give(c, j, q, log, False, now, f)
    if q.counter[R_BORROWS] != 0:
        give(c, j, q, log, True, now, f)
    q.counter[G_READY] = 0
    return 0
