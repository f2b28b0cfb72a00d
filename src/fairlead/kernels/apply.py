"""Applying a planner's plan, action by action: the same moves as a pass makes, whoever asked for them."""

from __future__ import annotations

from fairlead.kernels.bound import keeps_bounds
from fairlead.kernels.columns import (
    AGAIN,
    C_SHAPE,
    F8,
    G_IDS,
    G_NEED_IDS,
    G_NEED_ROWS,
    G_ROWS,
    G_TODO,
    G_TODO_DONE,
    I4,
    ILLEGAL_PLAN,
    K_CLASS,
    K_STATE,
    MORE,
    N_TYPE,
    NEED_SPACE,
    Q_WAKE,
    R_DEMANDS,
    R_SHARES,
    RUNNING,
    S_GPUS,
    S_MILLI,
    S_TYPE,
    TODO_CLASS,
    TODO_IDS,
    TODO_JOB,
    TODO_REASON,
    U_NODE,
    WAITING,
    Cluster,
    Desk,
    JobFunction,
    Jobs,
    Log,
    PlaceFunction,
    PlanFunction,
    Plug,
    Queue,
    TenantFunction,
)
from fairlead.kernels.jit import inner, int64
from fairlead.kernels.lanes import is_fixed
from fairlead.kernels.moves import give_back, hold, start, suspend
from fairlead.kernels.nodes import all_free, all_up, take_held
from fairlead.kernels.quota import within_quota
from fairlead.kernels.ranks import leave_class_called
from fairlead.kernels.slim import by_ref, slim
from fairlead.kernels.twins import may_run_as


@inner
def stop_running(c: Cluster, j: Jobs, q: Queue, log: Log, i: int, now: float, reason: int, f: Plug) -> None:
    give_back(c, j, q, log, i, now)
    suspend(c, j, q, log, i, now, reason, f)


@inner
def start_on(c: Cluster, j: Jobs, q: Queue, log: Log, i: int, k: int, ids: I4, first: int, now: float, f: Plug) -> None:
    """Start waiting job i as one of class k on ids[first:]."""
    s = q.classes[C_SHAPE, k]
    at, count = q.counter[G_IDS], max(c.shape[S_GPUS, s], 1)
    leave_class_called(j, q, i)
    if k != j.ints[K_CLASS, i]:
        # whoever reads the journal finds before the ids how many there are, and how much of each
        log.gpu_ids[at] = count
        log.gpu_ids[at + 1] = c.shape[S_MILLI, s]
        at += 2
        j.ints[K_CLASS, i] = k
    for g in range(count):
        log.gpu_ids[at + g] = ids[first + g]
    take_held(c, s, log.gpu_ids, at, q.counter[R_SHARES] != 0, q.counter[R_DEMANDS] != 0)
    hold(c, q, log, i, k, at)
    start(c, j, q, log, i, now, at, count, f)


@inner
def can_start(c: Cluster, j: Jobs, q: Queue, i: int, k: int, ids: I4, first: int) -> bool:
    """Whether job i waits, may run as one of class k, its tenant may, and ids[first:] ascend, are free and of its
    type, and where it must be."""
    s = q.classes[C_SHAPE, k]
    if j.ints[K_STATE, i] != WAITING or not may_run_as(c, j, q, i, k) or not within_quota(c, q, k):
        return False
    for g in range(first, first + c.shape[S_GPUS, s]):
        if c.shape[S_TYPE, s] >= 0 and c.node[N_TYPE, c.gpu[U_NODE, ids[g]]] != c.shape[S_TYPE, s]:
            return False
        if g > first and ids[g] <= ids[g - 1]:
            return False
    if not keeps_bounds(c, s, ids, first) or not all_up(c, s, ids, first):
        return False
    return all_free(c, s, ids, first, q.counter[R_DEMANDS] != 0)


@inner
def carry_out(c: Cluster, j: Jobs, q: Queue, log: Log, desk: Desk, now: float, f: Plug) -> int:
    """Carry out what is left of the plan on the desk. Stops at an action that has no room in the log, or that can't be done:
    action G_TODO_DONE, a mistake in the planner. MORE where all of it is done."""
    while q.counter[G_TODO_DONE] < q.counter[G_TODO]:
        todo = q.counter[G_TODO_DONE]
        i, first = desk.todo[TODO_JOB, todo], desk.todo[TODO_IDS, todo]
        k = desk.todo[TODO_CLASS, todo] if first >= 0 else -1
        if k < 0:
            k = int64(j.ints[K_CLASS, i])
        ids = c.shape[S_GPUS, q.classes[C_SHAPE, k]] + 3
        if q.counter[G_ROWS] + 1 > log.time.shape[0] or q.counter[G_IDS] + ids > log.gpu_ids.shape[0]:
            q.counter[G_NEED_ROWS] = q.counter[G_TODO] - todo
            q.counter[G_NEED_IDS] = ids
            return NEED_SPACE
        if first >= 0:
            if not can_start(c, j, q, i, k, desk.ids, first):
                return ILLEGAL_PLAN
            start_on(c, j, q, log, i, k, desk.ids, first, now, f)
        else:
            if j.ints[K_STATE, i] != RUNNING or is_fixed(q, int64(j.ints[K_CLASS, i])):
                return ILLEGAL_PLAN
            stop_running(c, j, q, log, i, now, desk.todo[TODO_REASON, todo], f)
        q.counter[G_TODO_DONE] += 1
    return MORE


def consult(
    c: Cluster, j: Jobs, q: Queue, log: Log, desk: Desk, now: float, plan: PlanFunction, afresh: int,
    p: F8, pp: F8,
    key: JobFunction, level: JobFunction, drift: JobFunction, wake: JobFunction, resets: JobFunction,
    group: TenantFunction, place: PlaceFunction,
) -> int:  # fmt: skip
    """Let a compiled planner decide at this instant and carry its plan out, or what was left of it, and so on as often as it
    wants to be asked again at once: MORE, or why not."""
    f = by_ref(Plug(p, pp, key, level, drift, wake, resets, group, place))
    while True:
        if afresh != 0:
            q.counter[G_TODO] = 0
            q.counter[G_TODO_DONE] = 0
            q.limit[Q_WAKE] = plan(c, j, q, log, desk, now)
            again = q.limit[Q_WAKE] == AGAIN and q.counter[G_TODO] > 0
            if q.limit[Q_WAKE] <= now and not again:
                return ILLEGAL_PLAN
        outcome = carry_out(c, j, q, log, desk, now, f)
        if outcome != MORE or q.limit[Q_WAKE] != AGAIN:
            return outcome
        afresh = 1


def act(
    c: Cluster, j: Jobs, q: Queue, log: Log, p: F8, pp: F8,
    key: JobFunction, level: JobFunction, drift: JobFunction, wake: JobFunction, resets: JobFunction,
    group: TenantFunction, place: PlaceFunction,
    i: int, k: int, given: I4, now: float, reason: int,
) -> int:  # fmt: skip
    """Start waiting job i as one of class k on `given`, or suspend running job i where that is empty. The caller has checked that it is legal;
    see runtime/planning.py."""
    f = by_ref(Plug(p, pp, key, level, drift, wake, resets, group, place))
    ids = slim(given)
    if ids.shape[0] == 0:
        stop_running(c, j, q, log, i, now, reason, f)
    else:
        start_on(c, j, q, log, i, k, ids, 0, now, f)
    return 0
