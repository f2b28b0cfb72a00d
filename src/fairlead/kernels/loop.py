"""The event loop. It exists once: every queue policy runs inside it, every planner is called from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from fairlead.kernels.apply import CARRIED_OUT, NO_ROOM, carry_out
from fairlead.kernels.columns import (
    C_REASON,
    C_SHAPE,
    F8,
    G_AGAIN,
    G_EVENTS,
    G_IDS,
    G_LISTED,
    G_LIVE,
    G_NEED_IDS,
    G_NEED_ROWS,
    G_NEXT,
    G_READY,
    G_ROWS,
    G_RUNNING,
    G_SEEN,
    G_STALE,
    G_TODO,
    G_TODO_DONE,
    G_WAITING,
    J_MARK,
    J_RAN,
    J_SINCE,
    J_TIMER,
    K_ALLOC,
    K_CLASS,
    K_RUNLIST,
    K_SCRATCH,
    K_STATE,
    N_TURNS,
    N_UP,
    NEVER,
    Q_MTBF,
    Q_MTTR,
    Q_NOW,
    Q_QUANTUM,
    Q_RANKS_AT,
    Q_WAKE,
    R_CHANGES,
    R_DRIFTS,
    R_EASY,
    R_PLANNED,
    R_PREEMPTS,
    R_RISES,
    R_SEED,
    R_STRICT,
    R_TIMERS,
    S_GPUS,
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
from fairlead.kernels.decide import refresh_running, refresh_waiting, reopen_spared, tick_lanes, walk
from fairlead.kernels.easy import backfill
from fairlead.kernels.events import (
    END,
    NODE_DOWN,
    NODE_UP,
    TIMER,
    UNDERWAY,
    code_of,
    holds,
    id_of,
    kind_of,
    pop_event,
    push_event_called,
)
from fairlead.kernels.jit import compiled, compiled_as, hot, i8, in_cache, inner, int64, settle_types
from fairlead.kernels.lanes import enter_lane, leave_lane
from fairlead.kernels.moves import (
    arrive,
    drop_timer,
    end,
    kill,
    refuse,
    reopen,
    reopen_all,
    reopen_around_called,
    rerank,
    set_timer,
)
from fairlead.kernels.nodes import set_up
from fairlead.kernels.ranks import (
    enter_class_called,
    job_row,
    leave_class_called,
)
from fairlead.kernels.rng import uniform
from fairlead.kernels.rows import NODE_DOWN_ROW, NODE_UP_ROW, write_row
from fairlead.kernels.scratch import heap_scratch, pop_scratch
from fairlead.kernels.signatures import (
    CLUSTER,
    DESK,
    FLOATS,
    JOB_CALL,
    JOBS,
    LOG,
    PLACE_CALL,
    PLAN_CALL,
    QUEUE,
    TENANT_CALL,
    TYPES,
)

NOT_ENOUGH_FREE = 10  # model.reason.Reason.NOT_ENOUGH_FREE

#: who decides, as R_PLANNED says
PASS, PLANNER, COMPILED_PLANNER = 0, 1, 2

#: why run_on() came back
ENDED, MORE, NEED_SPACE, WAKE, ILLEGAL_PLAN = 0, 1, 2, 3, 4


@hot
def next_instant(j: Jobs, q: Queue) -> float:
    """When something happens next, NEVER if nothing will."""
    while q.counter[G_STALE] > 0 and not holds(j, q.event_code[0]):
        if kind_of(q.event_code[0]) != UNDERWAY:
            q.counter[G_STALE] -= 1
        pop_event(q)
    t = NEVER
    if q.counter[G_EVENTS] > 0:
        t = q.event_time[0]
    i = q.counter[G_NEXT]
    if i < j.floats.shape[1] and j.submit[i] < t:
        t = j.submit[i]
    quantum = q.limit[Q_QUANTUM]
    if quantum > 0.0 and q.counter[R_PREEMPTS] != 0 and q.counter[G_WAITING] > 0 and t != NEVER:
        t = min(t, (math.floor(q.limit[Q_NOW] / quantum) + 1.0) * quantum)
    if q.counter[R_PLANNED] == COMPILED_PLANNER:
        t = min(t, q.limit[Q_WAKE])
    return t


@hot
def room_for_instant(c: Cluster, j: Jobs, q: Queue, log: Log, t: float) -> bool:
    """Whether everything that can happen at t has room in the log; notes how much it may take where not."""
    n = j.floats.shape[1]
    upto = q.counter[G_NEXT]
    while upto < n and j.submit[upto] == t:
        upto += 1
    arriving = upto - q.counter[G_NEXT]
    # each running job may end or be suspended once, each waiting or arriving one start once, a suspended one start again
    jobs = q.counter[G_RUNNING] * 3 + q.counter[G_WAITING] + arriving
    rows = jobs + 2 * c.node.shape[1]
    ids = jobs + c.gpu.shape[1] * 2
    if q.counter[G_ROWS] + rows <= log.time.shape[0] and q.counter[G_IDS] + ids <= log.gpu_ids.shape[0]:
        return True
    q.counter[G_NEED_ROWS] = rows
    q.counter[G_NEED_IDS] = ids
    return False


@compiled
def draw_turn(c: Cluster, q: Queue, n: int, now: float, mean: float, code: int) -> None:
    """Draw when node n fails or is repaired next, in whole seconds."""
    if mean <= 0.0:
        return
    turn = c.node[N_TURNS, n]
    c.node[N_TURNS, n] = turn + 1
    gap = -math.log(1.0 - uniform(q.counter[R_SEED], n, turn, 1000)) * mean
    push_event_called(q, now + math.floor(gap) + 1.0, code_of(code, n, 0))


@inner
def node_down(c: Cluster, j: Jobs, q: Queue, log: Log, n: int, now: float, f: Plug) -> None:
    if c.node[N_UP, n] == 0:
        return
    set_up(c, n, False)
    write_row(log, q, now, NODE_DOWN_ROW, n, 0)
    hit = 0
    for r in range(q.counter[G_LISTED]):
        i = int64(j.ints[K_RUNLIST, r])
        at = int64(j.ints[K_ALLOC, i])
        gpus = c.shape[S_GPUS, q.classes[C_SHAPE, int64(j.ints[K_CLASS, i])]]
        touched = gpus == 0 and log.gpu_ids[at] == -1 - n
        for g in range(at, at + gpus):
            touched = touched or c.gpu[U_NODE, log.gpu_ids[g]] == n
        if touched:
            j.ints[K_SCRATCH, hit] = i
            hit += 1
    heap_scratch(j, hit, now, False)
    while hit > 0:
        kill(c, j, q, log, pop_scratch(j, hit, now, False), n, now, f)
        hit -= 1
    draw_turn(c, q, n, now, q.limit[Q_MTTR], NODE_UP)


@inner
def node_up(c: Cluster, j: Jobs, q: Queue, log: Log, n: int, now: float, f: Plug) -> None:
    if c.node[N_UP, n] != 0:
        return
    set_up(c, n, True)
    write_row(log, q, now, NODE_UP_ROW, n, 0)
    reopen(c, j, q, n)
    draw_turn(c, q, n, now, q.limit[Q_MTBF], NODE_DOWN)


@inner
def timer(c: Cluster, j: Jobs, q: Queue, log: Log, i: int, now: float, f: Plug) -> None:
    """The moment the policy asked for: the job's rank is taken anew, its service forgotten where the policy says so."""
    j.floats[J_TIMER, i] = 0.0
    waiting = j.ints[K_STATE, i] == WAITING
    if waiting:
        leave_class_called(j, q, i)
    elif q.counter[R_PREEMPTS] != 0:
        leave_lane(q, j, i)
    if f.resets(job_row(c, j, q, i, now), now, f.p) != 0.0:
        j.floats[J_MARK, i] = j.floats[J_RAN, i]
        if waiting:
            j.floats[J_SINCE, i] = now
    rerank(c, j, q, i, now, f)
    if waiting:
        enter_class_called(j, q, i, q.counter[R_PREEMPTS] != 0)
    elif q.counter[R_PREEMPTS] != 0:
        enter_lane(q, j, i, now, f.drift(job_row(c, j, q, i, now), now, f.p) if q.counter[R_DRIFTS] != 0 else 0.0)
        reopen_around_called(c, j, q, log, q.classes[C_SHAPE, int64(j.ints[K_CLASS, i])], int64(j.ints[K_ALLOC, i]))
    set_timer(c, j, q, i, now, f)


@inner
def underway(c: Cluster, j: Jobs, q: Queue, i: int, now: float, f: Plug) -> None:
    """The start cost of running job i is over: from now on its key drifts. Nothing is decided for that alone."""
    leave_lane(q, j, i)
    rerank(c, j, q, i, now, f)
    enter_lane(q, j, i, now, f.drift(job_row(c, j, q, i, now), now, f.p))


@hot
def happen(c: Cluster, j: Jobs, q: Queue, log: Log, now: float, f: Plug) -> bool:
    """Everything that happens at this instant, in its fixed order, before anything is decided; was there anything?"""
    real = q.limit[Q_QUANTUM] > 0.0
    while q.counter[G_EVENTS] > 0 and q.event_time[0] == now and kind_of(q.event_code[0]) < TIMER:
        code = q.event_code[0]
        kind, i = kind_of(code), id_of(code)
        if kind == UNDERWAY:
            fine = holds(j, code)
            pop_event(q)
            if fine:
                underway(c, j, q, i, now, f)
            continue
        fine = q.counter[G_STALE] == 0 or holds(j, code)
        pop_event(q)
        if not fine:
            q.counter[G_STALE] -= 1
            continue
        real = True
        q.counter[G_SEEN] += 1
        if kind == END:
            end(c, j, q, log, i, now, f)
        elif kind == NODE_DOWN:
            node_down(c, j, q, log, i, now, f)
        else:
            node_up(c, j, q, log, i, now, f)
    n = j.floats.shape[1]
    i = q.counter[G_NEXT]
    while i < n and j.submit[i] == now:
        real = True
        q.counter[G_SEEN] += 1
        reason = q.classes[C_REASON, int64(j.ints[K_CLASS, i])]
        if reason != 0:
            refuse(log, j, q, i, now, reason)
        else:
            arrive(c, j, q, i, now, f)
        i += 1
    q.counter[G_NEXT] = i
    while q.counter[G_EVENTS] > 0 and q.event_time[0] == now:
        code = q.event_code[0]
        fine = holds(j, code)
        real = real or fine
        pop_event(q)
        if fine and kind_of(code) == TIMER:
            q.counter[G_SEEN] += 1
            timer(c, j, q, log, id_of(code), now, f)
        elif not fine:
            q.counter[G_STALE] -= 1
    return real


@inner
def consult(
    c: Cluster, j: Jobs, q: Queue, log: Log, desk: Desk, now: float, plan: PlanFunction, f: Plug, afresh: bool
) -> int:
    """Let the compiled planner decide at this instant and carry its plan out, or what was left of it: MORE, or why not."""
    if afresh:
        q.counter[G_TODO] = 0
        q.counter[G_TODO_DONE] = 0
        q.limit[Q_WAKE] = plan(c, j, q, log, desk, now)
        if q.limit[Q_WAKE] <= now:
            return ILLEGAL_PLAN
    outcome = carry_out(c, j, q, log, desk, now, f)
    if outcome == CARRIED_OUT:
        return MORE
    return NEED_SPACE if outcome == NO_ROOM else ILLEGAL_PLAN


@inner
def bring_ranks_up(c: Cluster, j: Jobs, q: Queue, now: float, f: Plug) -> None:
    """Take those ranks anew that time alone has changed."""
    changes, preempts = q.counter[R_CHANGES], q.counter[R_PREEMPTS] != 0
    quantum = q.limit[Q_QUANTUM]
    if quantum > 0.0 and preempts:
        if q.counter[R_TIMERS] != 0:
            q.limit[Q_RANKS_AT] = now  # it says itself when ranks change
            return
        tick = math.floor(now / quantum) * quantum
        if tick <= q.limit[Q_RANKS_AT]:
            return
        q.limit[Q_RANKS_AT] = tick
        if q.counter[R_DRIFTS] != 0:
            tick_lanes(c, j, q, tick, f)
        else:
            refresh_running(c, j, q, tick, f)
        if changes == 2:
            refresh_waiting(c, j, q, tick, f)
        reopen_all(q)
        return
    q.limit[Q_RANKS_AT] = now
    if changes == 2:
        refresh_waiting(c, j, q, now, f)
    if changes != 0 and preempts and q.counter[R_DRIFTS] == 0:
        refresh_running(c, j, q, now, f)
    if changes == 2 or (preempts and (q.counter[R_DRIFTS] == 0 or q.counter[R_RISES] != 0)):
        reopen_all(q)


@inner
def refuse_rest(log: Log, j: Jobs, q: Queue, now: float) -> None:
    """Nothing will ever happen again, and some jobs still wait: say so."""
    for i in range(j.floats.shape[1]):
        if j.ints[K_STATE, i] == WAITING:
            leave_class_called(j, q, i)
            drop_timer(j, q, i)
            refuse(log, j, q, i, now, NOT_ENOUGH_FREE)


def run_on(
    c: Cluster, shadow: Cluster, j: Jobs, q: Queue, log: Log, desk: Desk,
    p: F8, pp: F8,
    key: JobFunction, level: JobFunction, drift: JobFunction, wake: JobFunction, resets: JobFunction,
    group: TenantFunction, place: PlaceFunction, plan: PlanFunction,
    stop_row: int,
) -> int:  # fmt: skip
    """Run until the log has `stop_row` rows (MORE), needs more room (NEED_SPACE), a planner must decide (WAKE) or all is
    over (ENDED); a compiled planner's plan that can't be carried out ends it too (ILLEGAL_PLAN). Called again, it goes on
    where it stopped."""
    f = Plug(p, pp, key, level, drift, wake, resets, group, place)
    if q.counter[G_TODO_DONE] < q.counter[G_TODO]:
        outcome = consult(c, j, q, log, desk, q.limit[Q_NOW], plan, f, False)
        if outcome != MORE:
            return outcome
    while True:
        if q.counter[G_ROWS] >= stop_row:
            return MORE
        if q.counter[G_LIVE] == 0:
            return ENDED
        now = next_instant(j, q)
        if now == NEVER:
            if q.counter[R_PLANNED] == PLANNER and q.counter[G_READY] != 0:
                q.counter[G_READY] = 0
                return WAKE
            refuse_rest(log, j, q, q.limit[Q_NOW])
            return ENDED
        if not room_for_instant(c, j, q, log, now):
            return NEED_SPACE
        q.limit[Q_NOW] = now
        if q.limit[Q_QUANTUM] == 0.0:
            q.limit[Q_RANKS_AT] = now
        real = happen(c, j, q, log, now, f)
        if q.counter[R_PLANNED] == PLANNER:
            return WAKE
        if q.counter[R_PLANNED] == COMPILED_PLANNER:
            if not real and now < q.limit[Q_WAKE]:
                continue
            outcome = consult(c, j, q, log, desk, now, plan, f, True)
            if outcome != MORE:
                return outcome
            continue
        if q.counter[G_WAITING] == 0 or not real:
            continue
        if q.counter[G_AGAIN] != 0:
            reopen_spared(q)
        if q.counter[R_CHANGES] != 0:
            bring_ranks_up(c, j, q, now, f)
        if q.counter[G_READY] != 0 or q.counter[R_EASY] != 0:
            head = walk(c, j, q, log, now, f)
            if head >= 0 and q.counter[R_EASY] != 0 and q.counter[R_STRICT] == 0:
                backfill(c, shadow, j, q, log, head, now, f)
            q.counter[G_READY] = 0


RUN_ON = i8(
    CLUSTER, CLUSTER, JOBS, QUEUE, LOG, DESK, FLOATS, FLOATS,
    JOB_CALL, JOB_CALL, JOB_CALL, JOB_CALL, JOB_CALL, TENANT_CALL, PLACE_CALL, PLAN_CALL, i8,
)  # fmt: skip


@cache
def compiled_loop() -> Callable[..., int]:
    """run_on, compiled for every policy and placer at once; from the cache where it has been before."""
    if not in_cache(run_on):
        settle_types(TYPES, "fairlead.kernels")
    return compiled_as(RUN_ON)(run_on)


def is_compiled() -> bool:
    """Whether the core will come from the cache, or must be compiled first."""
    return in_cache(run_on)
