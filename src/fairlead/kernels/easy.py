"""EASY backfilling: the first job that does not fit gets a reservation, and nobody may delay it."""

from __future__ import annotations

from fairlead.kernels.bound import find_place, gives_room
from fairlead.kernels.columns import (
    BLOCKED_QUOTA,
    BLOCKED_SPACE,
    C_BLOCKED,
    C_ROOT,
    C_SHAPE,
    C_TENANT,
    F8,
    G_IDS,
    G_LISTED,
    J_EXPECT,
    K_ALLOC,
    K_CLASS,
    K_RUNLIST,
    K_SCRATCH,
    NEVER,
    Q_SPARE,
    R_DEMANDS,
    R_GROUPED,
    R_QUOTAS,
    R_SHARES,
    S_BOUND,
    S_GPUS,
    S_MILLI,
    T_HELD,
    T_QUOTA,
    Cluster,
    JobFunction,
    Jobs,
    Log,
    PlaceFunction,
    Plug,
    Queue,
    Table,
    TenantFunction,
)
from fairlead.kernels.decide import best_class
from fairlead.kernels.jit import inner, int64
from fairlead.kernels.moves import hold, start, start_cost
from fairlead.kernels.nodes import give_held, take_held, take_pick
from fairlead.kernels.quota import within_quota
from fairlead.kernels.ranks import (
    enter_class_called,
    expected_run,
    leave_class_called,
    rank_tenant,
)
from fairlead.kernels.scratch import heap_scratch, pop_scratch
from fairlead.kernels.slim import by_ref


@inner
def _copy_table(a: Table, b: Table) -> None:
    # a loop: array assignment compiles ten times slower
    for row in range(a.shape[0]):
        for i in range(a.shape[1]):
            b[row, i] = a[row, i]


@inner
def copy_state(c: Cluster, shadow: Cluster) -> None:
    _copy_table(c.node, shadow.node)
    _copy_table(c.pool, shadow.pool)
    _copy_table(c.gpu, shadow.gpu)
    for i in range(c.cells.shape[0]):
        shadow.cells[i] = c.cells[i]


@inner
def reserve(shadow: Cluster, j: Jobs, q: Queue, log: Log, head: int, now: float, f: Plug) -> float:
    """Release running jobs from the shadow in order of expected end until the head fits there: when that is."""
    k = int64(j.ints[K_CLASS, head])
    s, t = q.classes[C_SHAPE, k], q.classes[C_TENANT, k]
    shares, demands = q.counter[R_SHARES] != 0, q.counter[R_DEMANDS] != 0
    spare = NEVER
    if q.counter[R_QUOTAS] != 0 and q.tenants[T_QUOTA, t] >= 0.0:
        spare = q.tenants[T_QUOTA, t] - q.tenants[T_HELD, t]
    need = shadow.shape[S_GPUS, s] * shadow.shape[S_MILLI, s]
    # where a quota may be all that it waits for, room is no sign
    bound = shadow.shape[S_BOUND, s] != 0 and q.counter[R_QUOTAS] == 0
    running = q.counter[G_LISTED]
    for r in range(running):
        j.ints[K_SCRATCH, r] = int64(j.ints[K_RUNLIST, r])
    heap_scratch(j, running, now, True)
    while running > 0:
        v = pop_scratch(j, running, now, True)
        running -= 1
        kv = int64(j.ints[K_CLASS, v])
        sv = q.classes[C_SHAPE, kv]
        give_held(shadow, sv, log.gpu_ids, int64(j.ints[K_ALLOC, v]), shares, demands)
        if q.classes[C_TENANT, kv] == t:
            spare += shadow.shape[S_GPUS, sv] * shadow.shape[S_MILLI, sv]
        if bound and not gives_room(shadow, log, s, sv, int64(j.ints[K_ALLOC, v])):
            continue
        if need <= spare and find_place(shadow, j, q, head, s, f) >= 0:
            q.limit[Q_SPARE] = spare - need
            return max(j.floats[J_EXPECT, v], now)
    q.limit[Q_SPARE] = spare - need
    return NEVER


def backfill(
    c: Cluster, shadow: Cluster, j: Jobs, q: Queue, log: Log, head: int, now: float,
    p: F8, pp: F8,
    key: JobFunction, level: JobFunction, drift: JobFunction, wake: JobFunction, resets: JobFunction,
    group: TenantFunction, place: PlaceFunction,
) -> int:  # fmt: skip
    """Start, in rank order behind the head, whatever fits now and does not delay it."""
    f = by_ref(Plug(p, pp, key, level, drift, wake, resets, group, place))
    copy_state(c, shadow)
    at_time = reserve(shadow, j, q, log, head, now, f)
    head_shape = q.classes[C_SHAPE, int64(j.ints[K_CLASS, head])]
    shares, demands = q.counter[R_SHARES] != 0, q.counter[R_DEMANDS] != 0
    held_back = 0
    while True:
        k = best_class(j, q, False)
        if k < 0:
            break
        i = q.classes[C_ROOT, k]
        s = q.classes[C_SHAPE, k]
        in_quota = within_quota(c, q, k)
        rows = find_place(c, j, q, i, s, f) if in_quota else -1
        if rows < 0:
            q.classes[C_BLOCKED, k] = BLOCKED_SPACE if in_quota else BLOCKED_QUOTA
            continue
        leave_class_called(j, q, i)
        at = q.counter[G_IDS]
        written = take_pick(c, s, rows, shares, demands, log.gpu_ids, at)
        ends = now + start_cost(j, q, i) + expected_run(j, q, i)
        allowed = ends <= at_time
        if not allowed:
            # what it would leave of the head's quota: endless where that has none
            spare = q.limit[Q_SPARE]
            if q.classes[C_TENANT, k] == q.classes[C_TENANT, int64(j.ints[K_CLASS, head])]:
                spare -= c.shape[S_GPUS, s] * c.shape[S_MILLI, s]
            take_held(shadow, s, log.gpu_ids, at, shares, demands)
            allowed = spare >= 0.0 and find_place(shadow, j, q, head, head_shape, f) >= 0
            if allowed:
                q.limit[Q_SPARE] = spare
            else:
                give_held(shadow, s, log.gpu_ids, at, shares, demands)
        if allowed:
            hold(c, q, log, i, k, at)
            start(c, j, q, log, i, now, at, written, f)
            if q.counter[R_GROUPED] != 0:
                rank_tenant(q, q.classes[C_TENANT, k], now, f)
        else:
            give_held(c, s, log.gpu_ids, at, shares, demands)
            j.ints[K_SCRATCH, held_back] = i
            held_back += 1
    for x in range(held_back):
        enter_class_called(j, q, int64(j.ints[K_SCRATCH, x]), False)
    return 0
