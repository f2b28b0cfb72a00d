"""The event loop. It exists once: every queue policy runs inside it, every planner is called from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from fairlead.kernels import beside, jit
from fairlead.kernels.columns import (
    C_REASON,
    C_SHAPE,
    COMPILED_PLANNER,
    ENDED,
    F8,
    G_AGAIN,
    G_EVENTS,
    G_IDS,
    G_LIVE,
    G_LONE,
    G_NEED_IDS,
    G_NEED_ROWS,
    G_NEXT,
    G_READY,
    G_REKEYED,
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
    K_LINK,
    K_ROW,
    K_STATE,
    LEARN,
    MORE,
    NEED_SPACE,
    NEVER,
    PASS,
    PAUSED,
    PLANNER,
    Q_LEARN,
    Q_NOW,
    Q_QUANTUM,
    Q_RANKS_AT,
    Q_WAKE,
    R_CHANGES,
    R_DRIFTS,
    R_EASY,
    R_FORECASTS,
    R_INDEXED,
    R_LIVE,
    R_PLANNED,
    R_PREEMPTS,
    R_QUEUES,
    R_RISES,
    R_SIMPLE,
    R_STRICT,
    R_TIMERS,
    WAITING,
    WAKE,
    BackfillFunction,
    Cluster,
    ConsultFunction,
    Desk,
    ForeseeFunction,
    JobFunction,
    Jobs,
    Log,
    NodeEventFunction,
    PlaceFunction,
    PlanFunction,
    Plug,
    Queue,
    TenantFunction,
    WalkQueuesFunction,
)
from fairlead.kernels.decide import refresh_running, refresh_waiting, reopen_spared, seat_lone, tick_lanes, walk
from fairlead.kernels.events import (
    END,
    TIMER,
    UNDERWAY,
    holds,
    id_of,
    kind_of,
    pop_event,
)
from fairlead.kernels.fetching import fetch_next
from fairlead.kernels.guards import touch_row
from fairlead.kernels.jit import (
    called_as,
    compiled_as,
    f8,
    hot,
    i8,
    in_cache,
    inner,
    int64,
    namesake,
    one_compiles,
    settle_kept,
    settle_types,
)
from fairlead.kernels.moves import arrive, drop_timer, end, refuse, rerank, set_timer
from fairlead.kernels.ranks import (
    enter_class_called,
    job_row,
    leave_class_called,
)
from fairlead.kernels.reopening import reopen_all, reopen_around
from fairlead.kernels.running import enter_lane, leave_lane
from fairlead.kernels.signatures import (
    BACKFILL_CALL,
    CLUSTER,
    CONSULT_CALL,
    DESK,
    FLOATS,
    FORESEE_CALL,
    JOB_CALL,
    JOBS,
    LOG,
    NODE_EVENT_CALL,
    PLACE_CALL,
    PLAIN_QUEUE,
    PLAN_CALL,
    QUEUE,
    TENANT_CALL,
    TYPES,
    WALK_QUEUES_CALL,
)
from fairlead.kernels.slim import by_ref

NOT_ENOUGH_FREE = 10  # model.reason.Reason.NOT_ENOUGH_FREE


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
    if (
        quantum > 0.0
        and q.counter[R_PREEMPTS] != 0
        and q.counter[G_WAITING] > 0
        and (t != NEVER or q.counter[R_LIVE] != 0)
    ):
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


@inner
def timer(c: Cluster, j: Jobs, q: Queue, log: Log, i: int, now: float, f: Plug) -> None:
    """The moment the policy asked for: the job's rank is taken anew, its service forgotten where the policy says so."""
    j.floats[J_TIMER, i] = 0.0
    waiting = j.ints[K_STATE, i] == WAITING
    if waiting:
        leave_class_called(j, q, i)
    elif q.counter[R_PREEMPTS] != 0:
        leave_lane(c, j, q, log, i)
    if f.resets(job_row(c, j, q, i, now), now, f.p) != 0.0:
        j.floats[J_MARK, i] = j.floats[J_RAN, i]
        if waiting:
            j.floats[J_SINCE, i] = now
    rerank(c, j, q, i, now, f)
    if not waiting and q.counter[R_PLANNED] != PASS:
        j.ints[K_LINK, i] = q.counter[G_REKEYED]
        q.counter[G_REKEYED] = i + 1
    if waiting:
        enter_class_called(j, q, i, q.counter[R_PREEMPTS] != 0)
    elif q.counter[R_PREEMPTS] != 0:
        drift = f.drift(job_row(c, j, q, i, now), now, f.p) if q.counter[R_DRIFTS] != 0 else 0.0
        enter_lane(c, j, q, log, i, now, drift)
        if q.counter[R_INDEXED] != 0:
            touch_row(c, q, log, int64(j.ints[K_ROW, i]))
        reopen_around(c, j, q, log, q.classes[C_SHAPE, int64(j.ints[K_CLASS, i])], int64(j.ints[K_ALLOC, i]))
    set_timer(c, j, q, i, now, f)


@inner
def underway(c: Cluster, j: Jobs, q: Queue, log: Log, i: int, now: float, f: Plug) -> None:
    """The start cost of running job i is over: from now on its key drifts. Nothing is decided for that alone."""
    leave_lane(c, j, q, log, i)
    rerank(c, j, q, i, now, f)
    enter_lane(c, j, q, log, i, now, f.drift(job_row(c, j, q, i, now), now, f.p))


@hot
def happen(
    c: Cluster, j: Jobs, q: Queue, log: Log, desk: Desk, now: float, f: Plug,
    node_event: NodeEventFunction, foresee: ForeseeFunction,
) -> bool:  # fmt: skip
    """Everything that happens at this instant, in its fixed order, before anything is decided; was there anything?"""
    real = q.limit[Q_QUANTUM] > 0.0
    while q.counter[G_EVENTS] > 0 and q.event_time[0] == now and kind_of(q.event_code[0]) < TIMER:
        code = q.event_code[0]
        kind, i = kind_of(code), id_of(code)
        if kind == UNDERWAY:
            fine = holds(j, code)
            pop_event(q)
            if fine:
                underway(c, j, q, log, i, now, f)
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
            fetch_next(j, q, log)
            if q.counter[R_FORECASTS] != 0:
                foresee(c, j, q, desk, i, 1, now)
        else:
            node_event(
                c, j, q, log, kind, i, now,
                f.p, f.pp, f.key, f.level, f.drift, f.wake, f.resets, f.group, f.place,
            )  # fmt: skip
    n = j.floats.shape[1]
    i = q.counter[G_NEXT]
    while i < n and j.submit[i] == now:
        real = True
        q.counter[G_SEEN] += 1
        reason = q.classes[C_REASON, int64(j.ints[K_CLASS, i])]
        if reason != 0:
            refuse(log, j, q, i, now, reason)
        else:
            if q.counter[R_FORECASTS] != 0:
                foresee(c, j, q, desk, i, 0, now)
            alone = q.counter[R_SIMPLE] != 0 and q.counter[G_READY] == 0 and q.counter[G_AGAIN] == 0
            alone = alone and (i + 1 == n or j.submit[i + 1] != now)
            arrive(c, j, q, i, now, f, alone and (q.counter[G_EVENTS] == 0 or q.event_time[0] != now))
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
def bring_ranks_up(c: Cluster, j: Jobs, q: Queue, log: Log, now: float, f: Plug) -> None:
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
            tick_lanes(c, j, q, log, tick, f)
        else:
            refresh_running(c, j, q, log, tick, f)
        if changes == 2:
            refresh_waiting(c, j, q, tick, f)
        reopen_all(q)
        return
    q.limit[Q_RANKS_AT] = now
    if changes == 2:
        refresh_waiting(c, j, q, now, f)
    if changes != 0 and preempts and q.counter[R_DRIFTS] == 0:
        refresh_running(c, j, q, log, now, f)
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
    group: TenantFunction, place: PlaceFunction,
    node_event: NodeEventFunction, backfill: BackfillFunction, consult: ConsultFunction,
    walk_queues: WalkQueuesFunction, foresee: ForeseeFunction, plan: PlanFunction,
    until: float, stop_row: int,
) -> int:  # fmt: skip
    """Run until nothing more happens by `until` (PAUSED), the log has `stop_row` rows (MORE), needs more room (NEED_SPACE), a planner must decide (WAKE) or all is
    over (ENDED), or stop before an instant for the model of durations to be trained (LEARN); a compiled planner's plan that
    can't be carried out ends it too (ILLEGAL_PLAN). Called again, it goes on where it stopped. `node_event`, `backfill`,
    `consult`, `walk_queues` and `foresee` are the parts of the core that few runs use, see parts.py."""
    f = by_ref(Plug(p, pp, key, level, drift, wake, resets, group, place))
    if q.counter[G_TODO_DONE] < q.counter[G_TODO]:
        outcome = consult(
            c, j, q, log, desk, q.limit[Q_NOW], plan, 0, p, pp, key, level, drift, wake, resets, group, place
        )
        if outcome != MORE:
            return outcome
    while True:
        if q.counter[G_ROWS] >= stop_row:
            return MORE
        if q.counter[G_LIVE] == 0 and q.counter[R_LIVE] == 0:
            return ENDED
        now = next_instant(j, q)
        if now > until:
            return PAUSED
        if now == NEVER:
            if q.counter[R_PLANNED] == PLANNER and q.counter[G_READY] != 0:
                q.counter[G_READY] = 0
                return WAKE
            refuse_rest(log, j, q, q.limit[Q_NOW])
            return ENDED
        if q.counter[R_FORECASTS] != 0 and now >= q.limit[Q_LEARN]:
            q.limit[Q_LEARN] = now
            return LEARN
        if not room_for_instant(c, j, q, log, now):
            return NEED_SPACE
        q.limit[Q_NOW] = now
        if q.limit[Q_QUANTUM] == 0.0:
            q.limit[Q_RANKS_AT] = now
        real = happen(c, j, q, log, desk, now, f, node_event, foresee)
        if q.counter[R_PLANNED] == PLANNER:
            return WAKE
        if q.counter[R_PLANNED] == COMPILED_PLANNER:
            if not real and now < q.limit[Q_WAKE]:
                continue
            outcome = consult(c, j, q, log, desk, now, plan, 1, p, pp, key, level, drift, wake, resets, group, place)
            if outcome != MORE:
                return outcome
            continue
        if (q.counter[G_WAITING] == 0 and q.counter[G_LONE] == 0) or not real:
            continue
        if q.counter[G_AGAIN] != 0:
            reopen_spared(q)
        if q.counter[R_CHANGES] != 0:
            if q.counter[R_CHANGES] == 2:
                seat_lone(c, j, q, now, f)
            bring_ranks_up(c, j, q, log, now, f)
        if q.counter[R_QUEUES] != 0:
            walk_queues(c, j, q, log, now, p, pp, key, level, drift, wake, resets, group, place)
        elif q.counter[G_READY] != 0 or q.counter[G_LONE] != 0 or q.counter[R_EASY] != 0:
            head = walk(c, j, q, log, now, f)
            if head >= 0 and q.counter[R_EASY] != 0 and q.counter[R_STRICT] == 0:
                backfill(c, shadow, j, q, log, head, now, p, pp, key, level, drift, wake, resets, group, place)
            q.counter[G_READY] = 0


run_plainly = namesake(run_on, "run_plainly")


#: those that this process has, by whether they are for plain runs
_LOOPS: dict[bool, Callable[..., int]] = {}


def compiled_loop(plain: bool = False, place: Callable[..., int] | None = None) -> Callable[..., int]:
    """The loop, compiled for every policy and placer at once, or for plain runs of them; from the cache where it has been
    before. `place`: a placer of ours that will be needed too, and may be compiled meanwhile."""
    if plain not in _LOOPS:
        _LOOPS[plain] = _compile_loop(plain, place)
    return _LOOPS[plain]


def _compile_loop(plain: bool, place: Callable[..., int] | None) -> Callable[..., int]:
    function, queue = _which(plain)
    signature = i8(
        CLUSTER, CLUSTER, JOBS, queue, LOG, DESK, FLOATS, FLOATS,
        JOB_CALL, JOB_CALL, JOB_CALL, JOB_CALL, JOB_CALL, TENANT_CALL, PLACE_CALL,
        NODE_EVENT_CALL, BACKFILL_CALL, CONSULT_CALL, WALK_QUEUES_CALL, FORESEE_CALL, PLAN_CALL, f8, i8,
    )  # fmt: skip
    if not in_cache(function):
        jit.before_compiling()
    with one_compiles(function) as missing:
        if missing:
            settle_types({**TYPES, "Queue": queue}, function, beside.start(plain, place))
        # to Python a state's type is that of all runs: what is compiled for another one must take it on trust
        return called_as(signature, function) if plain else compiled_as(signature)(function)


def compile_kept(plain: bool) -> None:
    """The functions of the loop that are kept by themselves, for whoever compiles the rest."""
    function, queue = _which(plain)
    settle_kept({**TYPES, "Queue": queue}, function)


def _which(plain: bool) -> tuple[Callable[..., int], Any]:
    """The loop, and the type of its queue."""
    return (run_plainly, PLAIN_QUEUE) if plain else (run_on, QUEUE)


@cache
def is_compiled(plain: bool = False) -> bool:
    """Whether the loop was in the cache when this was first asked, or had to be compiled."""
    return in_cache(_which(plain)[0])
