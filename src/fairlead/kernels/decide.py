"""The pass: who starts, who makes room, in rank order. docs/semantics.md says what it must do; this does it by classes."""

from __future__ import annotations

from fairlead.kernels.bound import find_place
from fairlead.kernels.columns import (
    BLOCKED_NOW,
    BLOCKED_QUOTA,
    BLOCKED_SPACE,
    C_BLOCKED,
    C_LIST,
    C_ROOT,
    C_SHAPE,
    C_TENANT,
    G_ACTIVE,
    G_AGAIN,
    G_IDS,
    G_LANES,
    G_LISTED,
    G_LONE,
    G_PASS_ROW,
    G_PASSES,
    G_READY,
    G_ROWS,
    G_SPARED,
    G_VICTIMS,
    J_KEY,
    J_SINCE,
    K_ALLOC,
    K_CLASS,
    K_LEVEL,
    K_ROW,
    K_RUNLIST,
    K_SCRATCH,
    LIMITS,
    R_CHANGES,
    R_DEMANDS,
    R_EASY,
    R_GROUPED,
    R_INDEXED,
    R_PREEMPTS,
    R_RATES,
    R_RESHAPES,
    R_SHARES,
    R_STRICT,
    S_GPUS,
    S_NODES,
    T_GROUP,
    X_GPUS,
    X_NODE,
    Cluster,
    Jobs,
    Log,
    Plug,
    Queue,
)
from fairlead.kernels.displace import displace, put_back
from fairlead.kernels.heaps import heap_push, list_heap, unlink
from fairlead.kernels.jit import hot, inner, int64
from fairlead.kernels.lanes import empty_lane
from fairlead.kernels.moves import hold, may_wait_again, rank_fresh, rerank, start, suspend
from fairlead.kernels.nodes import all_free, take_pick
from fairlead.kernels.quota import within_quota
from fairlead.kernels.ranks import (
    enter_class_called,
    job_row,
    leave_class,
    leave_class_called,
    outranks,
    rank_tenant,
)
from fairlead.kernels.rates import rerate_neighbours
from fairlead.kernels.reopening import reopen_all, reopen_around
from fairlead.kernels.running import enter_lane

OUTRANKED = 20  # model.reason.Reason.OUTRANKED


@hot
def best_class(j: Jobs, q: Queue, strict: bool) -> int:
    """The class whose best job goes first; classes known to fail are passed over unless the queue is strict."""
    grouped = q.counter[R_GROUPED] != 0
    best, best_job, best_group, level, key = -1, -1, 0.0, 0, 0.0
    for a in range(q.counter[G_ACTIVE]):
        k = q.classes[C_LIST, a]
        if q.classes[C_BLOCKED, k] != 0 and not strict:
            continue
        i = q.classes[C_ROOT, k]
        group = q.tenants[T_GROUP, q.classes[C_TENANT, k]] if grouped else 0.0
        if best >= 0:
            if group > best_group:
                continue
            if group == best_group and outranks(level, key, best_job, int64(j.ints[K_LEVEL, i]), j.floats[J_KEY, i], i):
                continue
        best, best_job, best_group = k, i, group
        level, key = int64(j.ints[K_LEVEL, i]), j.floats[J_KEY, i]
    return best


@hot
def start_picked(c: Cluster, j: Jobs, q: Queue, log: Log, i: int, rows: int, now: float, f: Plug) -> None:
    """Start job i, no longer in its class, on what the placer has picked."""
    s = q.classes[C_SHAPE, int64(j.ints[K_CLASS, i])]
    at = q.counter[G_IDS]
    written = take_pick(c, s, rows, q.counter[R_SHARES] != 0, q.counter[R_DEMANDS] != 0, log.gpu_ids, at)
    hold(c, q, log, i, int64(j.ints[K_CLASS, i]), at)
    start(c, j, q, log, i, now, at, written, f)


@hot
def _changes_places(c: Cluster, j: Jobs, q: Queue, s: int) -> bool:
    """Whether a job of shape s takes the place of one other that needs a node with as much room or more. Nobody who ranks below that
    one made such room, so it can't displace anybody in its turn; and where both are as large, nobody else gains by it either: as
    much is free on the node as before, and who is there ranks no worse."""
    if q.counter[R_INDEXED] == 0 or q.limit[LIMITS] != 0.0 or q.counter[G_SPARED] != 0:
        return False
    if q.counter[G_VICTIMS] != 1 or c.shape[S_NODES, s] != 1:
        return False
    r = int64(j.ints[K_ROW, int64(j.ints[K_SCRATCH, 0])])
    return q.run_ints[r, X_NODE] >= 0 and q.run_ints[r, X_GPUS] >= c.shape[S_GPUS, s]


@inner
def start_displacing(
    c: Cluster, j: Jobs, q: Queue, log: Log, i: int, rows: int, now: float, reason: int, f: Plug
) -> None:
    """Start job i on its pick; of the released jobs, best first, those run on whose GPUs are still free."""
    count = q.counter[G_VICTIMS]
    leave_class_called(j, q, i)
    k = int64(j.ints[K_CLASS, i])
    s = q.classes[C_SHAPE, k]
    first = int64(j.ints[K_SCRATCH, 0])
    level, key, in_vain = int64(j.ints[K_LEVEL, first]), j.floats[J_KEY, first], _changes_places(c, j, q, s)
    shares, demands = q.counter[R_SHARES] != 0, q.counter[R_DEMANDS] != 0
    at = q.counter[G_IDS]
    written = take_pick(c, s, rows, shares, demands, log.gpu_ids, at)
    hold(c, q, log, i, k, at)
    for x in range(count - 1, -1, -1):
        v = int64(j.ints[K_SCRATCH, x])
        kv = int64(j.ints[K_CLASS, v])
        sv = q.classes[C_SHAPE, kv]
        if within_quota(c, q, kv) and all_free(c, sv, log.gpu_ids, int64(j.ints[K_ALLOC, v]), demands):
            put_back(c, j, q, log, v)
            j.ints[K_SCRATCH, x] = -1
        else:
            if q.counter[R_RATES] != 0:
                rerate_neighbours(c, j, q, log, v, now)
            suspend(c, j, q, log, v, now, reason, f)
    start(c, j, q, log, i, now, at, written, f)
    if (
        q.counter[R_RESHAPES] != 0
    ):  # live: somebody else had given them more or less than they asked for, and now they wait
        reopen_all(q)
        return
    in_vain = in_vain and j.ints[K_SCRATCH, 0] >= 0  # it has been suspended, and not put back
    if in_vain and not outranks(int64(j.ints[K_LEVEL, first]), j.floats[J_KEY, first], first, level, key, first):
        kv = int64(j.ints[K_CLASS, first])
        if q.classes[C_ROOT, kv] == first:
            q.classes[C_BLOCKED, kv] = BLOCKED_SPACE
        if c.shape[S_GPUS, q.classes[C_SHAPE, kv]] == c.shape[S_GPUS, s]:
            return
    for x in range(count - 1, -1, -1):
        v = int64(j.ints[K_SCRATCH, x])
        if v >= 0:
            reopen_around(c, j, q, log, q.classes[C_SHAPE, int64(j.ints[K_CLASS, v])], int64(j.ints[K_ALLOC, v]))


@inner
def refresh_running(c: Cluster, j: Jobs, q: Queue, log: Log, as_of: float, f: Plug) -> None:
    """Take the ranks of all running jobs anew and rebuild their lanes. Needs the list of running jobs."""
    for lane in range(q.counter[G_LANES]):
        empty_lane(j, q, lane)
    for r in range(q.counter[G_LISTED]):
        i = int64(j.ints[K_RUNLIST, r])
        rerank(c, j, q, i, as_of, f)
        enter_lane(c, j, q, log, i, as_of, 0.0)


@inner
def tick_lanes(c: Cluster, j: Jobs, q: Queue, log: Log, tick: float, f: Plug) -> None:
    """Jobs that have begun to make progress since the last tick join the lane of those whose keys change as fast."""
    lane = 0
    while lane < q.counter[G_LANES] and q.limit[LIMITS + lane] != 0.0:
        lane += 1
    if lane == q.counter[G_LANES]:
        return
    count = empty_lane(j, q, lane)
    for x in range(count):
        i = int64(j.ints[K_SCRATCH, x])
        slope = 0.0
        if j.floats[J_SINCE, i] <= tick:
            rerank(c, j, q, i, tick, f)
            slope = f.drift(job_row(c, j, q, i, tick), tick, f.p)
        enter_lane(c, j, q, log, i, tick, slope)


@inner
def refresh_waiting(c: Cluster, j: Jobs, q: Queue, now: float, f: Plug) -> None:
    """Take the ranks of all waiting jobs anew and rebuild their classes."""
    for a in range(q.counter[G_ACTIVE]):
        k = q.classes[C_LIST, a]
        count = list_heap(j, q.classes[C_ROOT, k])
        root = -1
        for x in range(count):
            i = int64(j.ints[K_SCRATCH, x])
            unlink(j, i)
            rerank(c, j, q, i, now, f)
            root = heap_push(j, root, i)
        q.classes[C_ROOT, k] = root


@inner
def reopen_spared(q: Queue) -> None:
    """A new pass: what failed only because of what the last one had started may be tried again."""
    q.counter[G_AGAIN] = 0
    for a in range(q.counter[G_ACTIVE]):
        k = q.classes[C_LIST, a]
        if q.classes[C_BLOCKED, k] == BLOCKED_NOW:
            q.classes[C_BLOCKED, k] = 0
            q.counter[G_READY] = 1


@inner
def rank_tenants(q: Queue, now: float, f: Plug) -> None:
    for t in range(q.tenants.shape[1]):
        rank_tenant(q, t, now, f)


@inner
def seat_lone(c: Cluster, j: Jobs, q: Queue, now: float, f: Plug) -> None:
    """Whoever came alone waits in its class like everybody else."""
    i = q.counter[G_LONE] - 1
    if i >= 0:
        q.counter[G_LONE] = 0
        rank_fresh(c, j, q, i, now, f)
        enter_class_called(j, q, i, q.counter[R_PREEMPTS] != 0)


@hot
def walk(c: Cluster, j: Jobs, q: Queue, log: Log, now: float, f: Plug) -> int:
    """Start what can start, in rank order. Returns the job that blocks a strict queue, -1 if none does."""
    q.counter[G_PASSES] += 1
    q.counter[G_PASS_ROW] = q.counter[G_ROWS]
    preempts = q.counter[R_PREEMPTS] != 0
    strict = q.counter[R_STRICT] != 0 or q.counter[R_EASY] != 0
    if q.counter[R_GROUPED] != 0:
        rank_tenants(q, now, f)
    if q.counter[G_READY] != 0:
        seat_lone(c, j, q, now, f)
    while True:
        lone = q.counter[G_LONE] != 0
        if lone:
            i = q.counter[G_LONE] - 1
            k = int64(j.ints[K_CLASS, i])
        else:
            k = best_class(j, q, strict)
            if k < 0:
                return -1
            i = q.classes[C_ROOT, k]
            if q.classes[C_BLOCKED, k] != 0:
                return i
        s = q.classes[C_SHAPE, k]
        rows = -1
        in_quota = within_quota(c, q, k)
        if in_quota:
            rows = find_place(c, j, q, i, s, f)
        if rows >= 0:
            if not lone:
                leave_class(j, q, i)
            elif q.counter[R_CHANGES] == 0 and may_wait_again(q):
                rank_fresh(c, j, q, i, now, f)  # else it will be ranked anew when that matters, or never does
            start_picked(c, j, q, log, i, rows, now, f)
            if lone:
                q.counter[G_LONE] = 0
                return -1
        else:
            seat_lone(c, j, q, now, f)
            if preempts:
                rows = displace(c, j, q, log, i, f)
            if rows >= 0:
                start_displacing(c, j, q, log, i, rows, now, OUTRANKED, f)
            else:
                q.classes[C_BLOCKED, k] = BLOCKED_SPACE if in_quota else BLOCKED_QUOTA
                if preempts and q.counter[G_SPARED] > 0:
                    q.classes[C_BLOCKED, k] = BLOCKED_NOW
                    q.counter[G_AGAIN] = 1
                if strict:
                    return i
        if rows >= 0 and q.counter[R_GROUPED] != 0:
            rank_tenant(q, q.classes[C_TENANT, k], now, f)
