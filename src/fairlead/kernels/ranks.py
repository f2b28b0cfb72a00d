"""Ranks: asking the policy's functions about a job, and keeping waiting and running jobs in the order they give."""

from __future__ import annotations

import math

from fairlead.kernels.columns import (
    C_ACTIVE,
    C_BLOCKED,
    C_LACKS,
    C_LIST,
    C_ROOT,
    C_SHAPE,
    C_TENANT,
    G_ACTIVE,
    G_LANES,
    G_LISTED,
    G_READY,
    G_WAITING,
    J_BEGUN,
    J_DONE,
    J_ESTIMATE,
    J_FIRST,
    J_MARK,
    J_RAN,
    J_RATE,
    J_SINCE,
    K_CLASS,
    K_PRIORITY,
    K_RUNLIST,
    K_RUNPOS,
    K_STARTS,
    K_STATE,
    NEVER,
    Q_HALF_LIFE,
    Q_TOTALS,
    R_ESTIMATES,
    R_RATES,
    RUNNING,
    S_GPUS,
    S_MILLI,
    T_AT,
    T_CPU,
    T_GROUP,
    T_GUARANTEE,
    T_HELD,
    T_MEM,
    T_USE,
    T_WEIGHT,
    WHOLE,
    X_JOB,
    X_KEY,
    X_LEVEL,
    Cluster,
    JobRow,
    Jobs,
    Plug,
    Queue,
    TenantRow,
)
from fairlead.kernels.heaps import heap_pop, heap_push, heap_remove
from fairlead.kernels.jit import called, from_python, hot, inner, int64
from fairlead.kernels.lanes import key_now, worst_of

LN2 = math.log(2.0)


@hot
def gpu_part(c: Cluster, s: int) -> float:
    """GPUs of a shape, a share as its fraction."""
    if c.shape[S_MILLI, s] == WHOLE:
        return float(c.shape[S_GPUS, s])  # a division takes longer than all the rest
    return c.shape[S_GPUS, s] * (c.shape[S_MILLI, s] / WHOLE)


@hot
def progress(j: Jobs, q: Queue, i: int, now: float) -> tuple[float, float]:
    """Work done and seconds of progress of a running job at `now`."""
    dt = now - j.floats[J_SINCE, i]
    if dt <= 0.0:
        return j.floats[J_DONE, i], j.floats[J_RAN, i]
    rate = j.floats[J_RATE, i] if q.counter[R_RATES] != 0 else 1.0
    return j.floats[J_DONE, i] + dt * rate, j.floats[J_RAN, i] + dt


@hot
def estimate_of(j: Jobs, q: Queue, i: int) -> float:
    return j.floats[J_ESTIMATE, i] if q.counter[R_ESTIMATES] != 0 else j.work[i]


@hot
def begun(j: Jobs, i: int) -> float:
    """When the present run of job i began."""
    return j.floats[J_FIRST, i] if j.ints[K_STARTS, i] == 1 else j.floats[J_BEGUN, i]


@hot
def expected_run(j: Jobs, q: Queue, i: int) -> float:
    """How long a run of job i that begins now is thought to last, its start cost aside."""
    return j.floats[J_ESTIMATE, i] if q.counter[R_ESTIMATES] != 0 else j.work[i] - j.floats[J_DONE, i]


@hot
def job_row(c: Cluster, j: Jobs, q: Queue, i: int, now: float) -> JobRow:
    k = int64(j.ints[K_CLASS, i])
    done, ran, waiting, first = j.floats[J_DONE, i], j.floats[J_RAN, i], 0.0, NEVER
    if int64(j.ints[K_STARTS, i]) > 0:
        first = j.floats[J_FIRST, i]
    running = j.ints[K_STATE, i] == RUNNING
    if running:
        done, ran = progress(j, q, i, now)
    else:
        waiting = now - (j.floats[J_SINCE, i] if int64(j.ints[K_STARTS, i]) > 0 else j.submit[i])
    return JobRow(
        j.submit[i],
        j.work[i],
        estimate_of(j, q, i),
        gpu_part(c, q.classes[C_SHAPE, k]),
        j.work[i] - done,
        ran - j.floats[J_MARK, i],
        first,
        waiting,
        float(j.ints[K_PRIORITY, i]),
        float(q.classes[C_TENANT, k]),
        1.0 if running else 0.0,
    )


job_row_from_python = from_python(job_row)


@hot
def fresh_row(c: Cluster, j: Jobs, q: Queue, i: int) -> JobRow:
    """The row of a job that has just arrived: no column of its own is read."""
    k = int64(j.ints[K_CLASS, i])
    return JobRow(
        j.submit[i],
        j.work[i],
        estimate_of(j, q, i),
        gpu_part(c, q.classes[C_SHAPE, k]),
        j.work[i],
        0.0,
        NEVER,
        0.0,
        float(j.ints[K_PRIORITY, i]),
        float(q.classes[C_TENANT, k]),
        0.0,
    )


# -- waiting ------------------------------------------------------------------------------------------------------------


@hot
def enter_class(j: Jobs, q: Queue, i: int, top_reopens: bool) -> None:
    """Job i waits. Where a new best job could do what the old one could not (preemption), its class is tried again."""
    k = int64(j.ints[K_CLASS, i])
    root = q.classes[C_ROOT, k]
    new = heap_push(j, root, i)
    q.classes[C_ROOT, k] = new
    q.counter[G_WAITING] += 1
    if root < 0:
        q.classes[C_ACTIVE, k] = q.counter[G_ACTIVE]
        q.classes[C_LIST, q.counter[G_ACTIVE]] = k
        q.counter[G_ACTIVE] += 1
        q.classes[C_BLOCKED, k] = 0
        q.classes[C_LACKS, k] = 0
    elif top_reopens and new == i:
        q.classes[C_BLOCKED, k] = 0
        q.classes[C_LACKS, k] = 0
    if q.classes[C_BLOCKED, k] == 0:
        q.counter[G_READY] = 1


@hot
def leave_class(j: Jobs, q: Queue, i: int) -> None:
    """Job i waits no more."""
    k = int64(j.ints[K_CLASS, i])
    root = q.classes[C_ROOT, k]
    root = heap_pop(j, root) if root == i else heap_remove(j, root, i)
    q.classes[C_ROOT, k] = root
    q.counter[G_WAITING] -= 1
    if root < 0:
        last = q.counter[G_ACTIVE] - 1
        moved = q.classes[C_LIST, last]
        at = q.classes[C_ACTIVE, k]
        q.classes[C_LIST, at] = moved
        q.classes[C_ACTIVE, moved] = at
        q.classes[C_ACTIVE, k] = -1
        q.counter[G_ACTIVE] = last


# -- running ------------------------------------------------------------------------------------------------------------


@hot
def list_running(j: Jobs, q: Queue, i: int) -> None:
    at = q.counter[G_LISTED]
    j.ints[K_RUNLIST, at] = i
    j.ints[K_RUNPOS, i] = at
    q.counter[G_LISTED] = at + 1


@hot
def unlist_running(j: Jobs, q: Queue, i: int) -> None:
    last = q.counter[G_LISTED] - 1
    at, moved = int64(j.ints[K_RUNPOS, i]), int64(j.ints[K_RUNLIST, last])
    j.ints[K_RUNLIST, at] = moved
    j.ints[K_RUNPOS, moved] = at
    q.counter[G_LISTED] = last


@hot
def outranks(level: int, key: float, i: int, level2: int, key2: float, i2: int) -> bool:
    """Whether (level, key, i) is the better rank."""
    if level != level2:
        return level < level2
    if key != key2:
        return key < key2
    return i < i2


@hot
def outranks_row(q: Queue, level: int, key: float, i: int, r: int) -> bool:
    """Whether (level, key, i) is a better rank than that of row r, by its key when it was last looked at."""
    return outranks(level, key, i, int64(q.run_ints[r, X_LEVEL]), q.run_floats[r, X_KEY], int64(q.run_ints[r, X_JOB]))


@inner
def worst_running(q: Queue) -> int:
    """The row of the running job with the worst rank, -1 if none runs."""
    worst, level, value, job = int64(-1), int64(0), 0.0, int64(-1)
    for lane in range(q.counter[G_LANES]):
        r = worst_of(q, lane)
        if r < 0:
            continue
        key_now(q, r)
        if worst < 0 or outranks_row(q, level, value, job, r):
            worst, level, value = r, int64(q.run_ints[r, X_LEVEL]), q.run_floats[r, X_KEY]
            job = int64(q.run_ints[r, X_JOB])
    return worst


# -- tenants ------------------------------------------------------------------------------------------------------------


@inner
def bring_use_up(q: Queue, t: int, now: float) -> None:
    """Decay a tenant's use to `now` and add what it has held since."""
    dt = now - q.tenants[T_AT, t]
    if dt <= 0.0:
        return
    q.tenants[T_AT, t] = now
    half_life = q.limit[Q_HALF_LIFE]
    held = q.tenants[T_HELD, t] / WHOLE
    if half_life <= 0.0:
        q.tenants[T_USE, t] += held * dt
        return
    d = 2.0 ** (-dt / half_life)
    q.tenants[T_USE, t] = q.tenants[T_USE, t] * d + held * (1.0 - d) * half_life / LN2


@inner
def rank_tenant(q: Queue, t: int, now: float, f: Plug) -> None:
    bring_use_up(q, t, now)
    share = q.tenants[T_HELD, t] / q.limit[Q_TOTALS] if q.limit[Q_TOTALS] > 0.0 else 0.0
    if q.limit[Q_TOTALS + 1] > 0.0:
        share = max(share, q.tenants[T_CPU, t] / q.limit[Q_TOTALS + 1])
    if q.limit[Q_TOTALS + 2] > 0.0:
        share = max(share, q.tenants[T_MEM, t] / q.limit[Q_TOTALS + 2])
    guaranteed = q.tenants[T_GUARANTEE, t] / WHOLE
    row = TenantRow(q.tenants[T_HELD, t] / WHOLE, share, q.tenants[T_USE, t], q.tenants[T_WEIGHT, t], guaranteed)
    q.tenants[T_GROUP, t] = f.group(row, now, f.p)


# for callers that run seldom
enter_class_called = called(enter_class)
leave_class_called = called(leave_class)
