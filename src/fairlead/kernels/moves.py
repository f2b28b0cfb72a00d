"""What happens to one job: arriving, starting, stopping, ending. Each move changes state and writes its journal row."""

from __future__ import annotations

import math

from fairlead.kernels.attempts import begin_attempt, lose_work
from fairlead.kernels.columns import (
    C_ROOT,
    C_SHAPE,
    C_TENANT,
    DONE,
    G_COST_MS,
    G_DONE,
    G_IDS,
    G_LIVE,
    G_LONE,
    G_MOVES,
    G_PREEMPTIONS,
    G_RUNNING,
    GIVEN_UP,
    J_BEGUN,
    J_DONE,
    J_DUE,
    J_EXPECT,
    J_FAILS,
    J_FIRST,
    J_GIB,
    J_HELD,
    J_KEY,
    J_RAN,
    J_RATE,
    J_SINCE,
    J_TIMER,
    K_ALLOC,
    K_ATTEMPT,
    K_CLASS,
    K_LEVEL,
    K_PREEMPTS,
    K_RESUMES,
    K_STAMP,
    K_STARTS,
    K_STATE,
    K_TIMER_STAMP,
    NEVER,
    Q_FAILURES,
    Q_QUANTUM,
    Q_RESUME_COST,
    Q_RESUME_PER_GIB,
    Q_START_COST,
    R_CHANGES,
    R_DEMANDS,
    R_DRIFTS,
    R_GROUPED,
    R_INDEXED,
    R_LEVELS,
    R_LISTED,
    R_LIVE,
    R_NODES_FAIL,
    R_OWNERS,
    R_PREEMPTS,
    R_QUOTAS,
    R_RATES,
    R_RESHAPES,
    R_RETRIES,
    R_SHARES,
    R_TIMERS,
    REFUSED,
    RUNNING,
    S_CPU,
    S_GPUS,
    S_MEM,
    S_MILLI,
    T_CPU,
    T_HELD,
    T_MEM,
    WAITING,
    WHOLE,
    Cluster,
    Jobs,
    Log,
    Plug,
    Queue,
)
from fairlead.kernels.counts import note_free
from fairlead.kernels.events import TIMER, UNDERWAY, code_of, outdate_end, outdate_timer, push_event_called
from fairlead.kernels.guards import touch_nodes
from fairlead.kernels.jit import hot, inner, int64
from fairlead.kernels.lanes import free_row, own, take_row
from fairlead.kernels.nodes import give_held, moved
from fairlead.kernels.ranks import (
    begun,
    bring_use_up,
    enter_class,
    enter_class_called,
    expected_run,
    fresh_row,
    gpu_part,
    job_row,
    list_running,
    progress,
    unlist_running,
)
from fairlead.kernels.rates import rate_of, rerate_neighbours, seat, set_due
from fairlead.kernels.reopening import reopen_around
from fairlead.kernels.rows import (
    FAIL_ROW,
    FINISH_ROW,
    GIVE_UP_ROW,
    KILL_ROW,
    REFUSE_ROW,
    START_AS_ROW,
    START_ROW,
    SUSPEND_ROW,
    write_row,
)
from fairlead.kernels.running import enter_lane, leave_lane
from fairlead.kernels.twins import be_itself, is_itself


@inner
def set_timer(c: Cluster, j: Jobs, q: Queue, i: int, now: float, f: Plug) -> None:
    """Ask the policy when it wants to look at the job again."""
    if j.floats[J_TIMER, i] != 0.0:
        outdate_timer(j, q, i)
    # a job whose start cost is not over makes no progress yet: it is asked as of when it does
    at = max(now, j.floats[J_SINCE, i]) if j.ints[K_STATE, i] == RUNNING else now
    due = f.wake(job_row(c, j, q, i, at), at, f.p)
    # where its end is foreseen and nothing can move it, a moment behind that never comes
    foreseen = j.ints[K_STATE, i] == RUNNING and q.counter[R_RATES] == 0 and q.counter[R_LIVE] == 0
    if due == NEVER or (foreseen and j.floats[J_DUE, i] <= due):
        j.floats[J_TIMER, i] = 0.0
        return
    # a moment that rounding puts in the past is the next instant that can be told from this one
    due = max(due, math.nextafter(now, NEVER))
    j.floats[J_TIMER, i] = due
    push_event_called(q, due, code_of(TIMER, i, int64(j.ints[K_TIMER_STAMP, i])))


@inner
def rerank(c: Cluster, j: Jobs, q: Queue, i: int, now: float, f: Plug) -> None:
    row = job_row(c, j, q, i, now)
    if q.counter[R_LEVELS] != 0:
        j.ints[K_LEVEL, i] = int(f.level(row, now, f.p))
    j.floats[J_KEY, i] = f.key(row, now, f.p)


@hot
def rank_fresh(c: Cluster, j: Jobs, q: Queue, i: int, now: float, f: Plug) -> None:
    """The first rank of a job that has just arrived."""
    row = fresh_row(c, j, q, i)
    if q.counter[R_LEVELS] != 0:
        j.ints[K_LEVEL, i] = int(f.level(row, now, f.p))
    j.floats[J_KEY, i] = f.key(row, now, f.p)


@hot
def may_wait_again(q: Queue) -> bool:
    """Whether a run may be cut short."""
    return (
        q.counter[R_PREEMPTS] != 0
        or q.counter[R_NODES_FAIL] != 0
        or q.counter[R_LIVE] != 0
        or q.limit[Q_FAILURES] > 0.0
    )


@hot
def arrive(c: Cluster, j: Jobs, q: Queue, i: int, now: float, f: Plug, alone: bool) -> None:
    """`alone`: nothing else has happened that lets anybody start, so a job for which nobody of its class waits is the only one to
    be tried, and need not be put into a queue to be found there, nor have a rank."""
    j.ints[K_STATE, i] = WAITING
    if q.limit[Q_FAILURES] > 0.0:
        begin_attempt(j, q, i)
    if alone and q.classes[C_ROOT, int64(j.ints[K_CLASS, i])] < 0:
        q.counter[G_LONE] = i + 1
    else:
        rank_fresh(c, j, q, i, now, f)
        enter_class(j, q, i, q.counter[R_PREEMPTS] != 0)


@inner
def refuse(log: Log, j: Jobs, q: Queue, i: int, now: float, reason: int) -> None:
    j.ints[K_STATE, i] = REFUSED
    j.ints[K_ALLOC, i] = reason
    q.counter[G_LIVE] -= 1
    write_row(log, q, now, REFUSE_ROW, i, reason)


@hot
def _charge(c: Cluster, q: Queue, k: int, sign: int) -> None:
    """Count what a job of class k holds to its tenant, or no longer."""
    if q.counter[R_QUOTAS] != 0 or q.counter[R_GROUPED] != 0:
        s, t = q.classes[C_SHAPE, k], q.classes[C_TENANT, k]
        q.tenants[T_HELD, t] += sign * c.shape[S_GPUS, s] * c.shape[S_MILLI, s]
        q.tenants[T_CPU, t] += sign * c.shape[S_CPU, s]
        q.tenants[T_MEM, t] += sign * c.shape[S_MEM, s]


@inner
def hold(c: Cluster, q: Queue, log: Log, i: int, k: int, at: int) -> None:
    """Job i of class k has the GPUs at log.gpu_ids[at:]: tell its tenant and who looks at nodes. Whose they are is said when it has
    its row."""
    _charge(c, q, k, 1)
    s = q.classes[C_SHAPE, k]
    if q.counter[R_OWNERS] != 0 and q.counter[R_INDEXED] != 0:
        touch_nodes(c, q, log, at, c.shape[S_GPUS, s])
    if q.counter[R_RATES] != 0 and c.shape[S_MILLI, s] < WHOLE:
        seat(c, log.gpu_ids[at], i, True)


@inner
def let_go(c: Cluster, q: Queue, log: Log, i: int, k: int, at: int) -> None:
    """And now it has them no longer."""
    _charge(c, q, k, -1)
    s = q.classes[C_SHAPE, k]
    if q.counter[R_OWNERS] != 0:
        if q.counter[R_INDEXED] != 0:
            touch_nodes(c, q, log, at, c.shape[S_GPUS, s])
        else:
            own(c, log, at, c.shape[S_GPUS, s], int64(-1))
            note_free(c, q, log, at, c.shape[S_GPUS, s])
    if q.counter[R_RATES] != 0 and c.shape[S_MILLI, s] < WHOLE:
        seat(c, log.gpu_ids[at], i, False)


@hot
def start_cost(j: Jobs, q: Queue, i: int) -> float:
    """Seconds before a start of job i makes progress."""
    if j.ints[K_RESUMES, i] != 0:
        return q.limit[Q_RESUME_COST] + q.limit[Q_RESUME_PER_GIB] * j.floats[J_GIB, i]
    return q.limit[Q_START_COST]


@inner
def start(c: Cluster, j: Jobs, q: Queue, log: Log, i: int, now: float, at: int, written: int, f: Plug) -> None:
    """Job i, no longer in its class, runs on the ids at log.gpu_ids[at:], already taken and held."""
    k = int64(j.ints[K_CLASS, i])
    s = q.classes[C_SHAPE, k]
    q.counter[G_IDS] = at + written
    starts = int64(j.ints[K_STARTS, i])
    first = starts == 0  # then nothing else of it need be read
    # where jobs run as something else, the journal tells
    if (
        not first
        and j.ints[K_RESUMES, i] != 0
        and q.counter[R_RESHAPES] == 0
        and moved(c, log.gpu_ids, int64(j.ints[K_ALLOC, i]), at, c.shape[S_GPUS, s])
    ):
        q.counter[G_MOVES] += 1
    j.ints[K_ALLOC, i] = at
    j.ints[K_STATE, i] = RUNNING
    cost = q.limit[Q_START_COST] if first else start_cost(j, q, i)
    if cost > 0.0:
        q.counter[G_COST_MS] += int(cost * gpu_part(c, s) * 1000.0)
    j.ints[K_STARTS, i] = starts + 1
    j.floats[J_SINCE, i] = now + cost
    if first:
        j.floats[J_FIRST, i] = now
    else:
        j.floats[J_BEGUN, i] = now
        j.ints[K_RESUMES, i] = 0
    q.counter[G_RUNNING] += 1
    if q.counter[R_RATES] != 0:
        j.floats[J_RATE, i] = rate_of(c, j, q, log, i)
        rerate_neighbours(c, j, q, log, i, now)
    set_due(j, q, i, now + cost, first)
    write_row(log, q, now, START_ROW if is_itself(j, q, i) else START_AS_ROW, i, at)
    if q.counter[R_LISTED] != 0:
        list_running(j, q, i)
        j.floats[J_EXPECT, i] = now + cost + expected_run(j, q, i)
    if q.counter[R_PREEMPTS] != 0:
        take_row(c, j, q, log, i)
        if q.counter[R_CHANGES] != 0:
            rerank(c, j, q, i, now, f)
        slope = 0.0
        if q.counter[R_DRIFTS] != 0 and q.limit[Q_QUANTUM] == 0.0:  # with one, its key stays until the next tick
            slope = f.drift(job_row(c, j, q, i, now), now, f.p)
            if cost > 0.0 and slope != 0.0:
                slope = 0.0  # and without, until it makes progress
                push_event_called(q, now + cost, code_of(UNDERWAY, i, int64(j.ints[K_STAMP, i])))
        enter_lane(c, j, q, log, i, now, slope)
    if q.counter[R_TIMERS] != 0:
        set_timer(c, j, q, i, now, f)


@inner
def release(c: Cluster, j: Jobs, q: Queue, log: Log, i: int) -> None:
    """Job i holds nothing any more. Nothing else of it changes, so decide.put_back undoes this exactly."""
    k = int64(j.ints[K_CLASS, i])
    at = int64(j.ints[K_ALLOC, i])
    s = q.classes[C_SHAPE, k]
    give_held(c, s, log.gpu_ids, at, q.counter[R_SHARES] != 0, q.counter[R_DEMANDS] != 0)
    let_go(c, q, log, i, k, at)


@inner
def give_back(c: Cluster, j: Jobs, q: Queue, log: Log, i: int, now: float) -> None:
    """Job i leaves its GPUs for good: tenants are charged up to now, neighbours speed up."""
    if q.counter[R_GROUPED] != 0:
        bring_use_up(q, q.classes[C_TENANT, int64(j.ints[K_CLASS, i])], now)
    release(c, j, q, log, i)
    if q.counter[R_RATES] != 0:
        rerate_neighbours(c, j, q, log, i, now)


@inner
def settle(j: Jobs, q: Queue, i: int, now: float) -> None:
    """Write down what a run that ends now has done."""
    done, ran = progress(j, q, i, now)
    j.floats[J_DONE, i] = done
    j.floats[J_RAN, i] = ran
    j.floats[J_HELD, i] += now - begun(j, i)


@hot
def drop_timer(j: Jobs, q: Queue, i: int) -> None:
    if q.counter[R_TIMERS] != 0 and j.floats[J_TIMER, i] != 0.0:
        j.floats[J_TIMER, i] = 0.0
        outdate_timer(j, q, i)


@inner
def wait_again(c: Cluster, j: Jobs, q: Queue, i: int, now: float, f: Plug) -> None:
    """A job whose run was cut short goes back to its class."""
    be_itself(j, q, i)
    j.ints[K_STATE, i] = WAITING
    j.floats[J_SINCE, i] = now
    if q.counter[R_CHANGES] != 0:
        rerank(c, j, q, i, now, f)
    enter_class_called(j, q, i, q.counter[R_PREEMPTS] != 0)
    if q.counter[R_TIMERS] != 0:
        set_timer(c, j, q, i, now, f)


@inner
def suspend(c: Cluster, j: Jobs, q: Queue, log: Log, i: int, now: float, reason: int, f: Plug) -> None:
    """Job i, which has given its GPUs back and left its lane, waits from now on."""
    settle(j, q, i, now)
    drop_timer(j, q, i)
    j.ints[K_PREEMPTS, i] += 1
    q.counter[G_RUNNING] -= 1
    j.ints[K_RESUMES, i] = 1
    q.counter[G_PREEMPTIONS] += 1
    if q.counter[R_LISTED] != 0:
        unlist_running(j, q, i)
    if q.counter[R_PREEMPTS] != 0:
        free_row(j, q, i)
    write_row(log, q, now, SUSPEND_ROW, i, reason)
    j.floats[J_DUE, i] = NEVER
    outdate_end(j, q, i)
    wait_again(c, j, q, i, now, f)


@hot
def end(c: Cluster, j: Jobs, q: Queue, log: Log, i: int, now: float, f: Plug) -> None:
    """The run of job i ends as it was due: it has finished, or its attempt has failed."""
    k = int64(j.ints[K_CLASS, i])
    s = q.classes[C_SHAPE, k]
    if q.counter[R_PREEMPTS] != 0:
        leave_lane(c, j, q, log, i)
        free_row(j, q, i)
        j.ints[K_STAMP, i] += 1  # an UNDERWAY of this very instant must not find it
    give_back(c, j, q, log, i, now)
    q.counter[G_RUNNING] -= 1
    if q.counter[R_LISTED] != 0:
        unlist_running(j, q, i)
    drop_timer(j, q, i)
    at = int64(j.ints[K_ALLOC, i])
    if q.limit[Q_FAILURES] > 0.0 and j.floats[J_FAILS, i] >= 0.0:
        settle(j, q, i, now)
        j.floats[J_DONE, i] = j.work[i] - j.floats[J_FAILS, i]
        j.ints[K_ATTEMPT, i] += 1
        attempts = int64(j.ints[K_ATTEMPT, i])
        lose_work(c, j, q, i)
        j.floats[J_DUE, i] = NEVER
        if attempts > q.counter[R_RETRIES]:
            j.ints[K_STATE, i] = GIVEN_UP
            q.counter[G_LIVE] -= 1
            be_itself(j, q, i)
            write_row(log, q, now, GIVE_UP_ROW, i, attempts)
        else:
            write_row(log, q, now, FAIL_ROW, i, attempts)
            begin_attempt(j, q, i)
            wait_again(c, j, q, i, now, f)
    else:
        j.ints[K_STATE, i] = DONE
        q.counter[G_LIVE] -= 1
        q.counter[G_DONE] += 1
        be_itself(j, q, i)
        write_row(log, q, now, FINISH_ROW, i, 0)
    reopen_around(c, j, q, log, s, at)


@inner
def kill(c: Cluster, j: Jobs, q: Queue, log: Log, i: int, n: int, now: float, f: Plug) -> None:
    """Node n took running job i with it."""
    k = int64(j.ints[K_CLASS, i])
    at = int64(j.ints[K_ALLOC, i])
    if q.counter[R_PREEMPTS] != 0:
        leave_lane(c, j, q, log, i)
        free_row(j, q, i)
    give_back(c, j, q, log, i, now)
    q.counter[G_RUNNING] -= 1
    if q.counter[R_LISTED] != 0:
        unlist_running(j, q, i)
    drop_timer(j, q, i)
    settle(j, q, i, now)
    lose_work(c, j, q, i)
    j.floats[J_DUE, i] = NEVER
    write_row(log, q, now, KILL_ROW, i, n)
    outdate_end(j, q, i)
    wait_again(c, j, q, i, now, f)
    reopen_around(c, j, q, log, q.classes[C_SHAPE, k], at)
