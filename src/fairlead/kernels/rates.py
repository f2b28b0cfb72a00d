"""How fast a job runs: speed of its GPU type × locality of its nodes × sharing with its neighbours.

A job that runs on another number of GPUs than it asked for is faster or slower by its scale there over its scale at what it
asked for; one that asked for a whole GPU and runs on a part of it has factors by co-tenants of its own.

Only runs whose workload has profiles, whose cluster has speeds or whose planner reshapes jobs come here (R_RATES);
everywhere else every rate is 1.
"""

from __future__ import annotations

from fairlead.kernels.columns import (
    C_SHAPE,
    I4,
    J_DONE,
    J_DUE,
    J_FAILS,
    J_RAN,
    J_RATE,
    J_SINCE,
    K_ALLOC,
    K_CLASS,
    K_OWN,
    K_PROFILE,
    K_STAMP,
    K_STATE,
    N_TYPE,
    NODE_COLUMNS,
    Q_FAILURES,
    R_LIVE,
    R_PACKED,
    R_RATES,
    R_RESHAPES,
    R_SCALES,
    R_SEAT_COUNT,
    R_SEATS,
    R_SPANS,
    RUNNING,
    S_GPUS,
    S_MILLI,
    U_NODE,
    U_SEATS,
    WHOLE,
    Cluster,
    Jobs,
    Log,
    Queue,
)
from fairlead.kernels.events import END, code_of, outdate_end, push_event
from fairlead.kernels.jit import hot, inner, int64


@hot
def set_due(j: Jobs, q: Queue, i: int, since: float, first: bool) -> None:
    """When the present run ends, from `since`, at its present rate. `first`: it has never run before, so nothing is done and no
    end was due."""
    left = j.work[i] if first else j.work[i] - j.floats[J_DONE, i]
    if q.limit[Q_FAILURES] > 0.0 and j.floats[J_FAILS, i] >= 0.0:
        left -= j.floats[J_FAILS, i]
    if q.counter[R_RATES] != 0:
        left /= j.floats[J_RATE, i]
    due = since + left
    j.floats[J_DUE, i] = due
    if q.counter[R_LIVE] != 0:
        return
    push_event(q, due, code_of(END, i, 0 if first else int64(j.ints[K_STAMP, i])))


@inner
def seat(c: Cluster, g: int, i: int, comes: bool) -> None:
    """Job i joins or leaves those who share GPU g."""
    old, new = (-1, i) if comes else (i, -1)
    for s in range(U_SEATS, c.gpu.shape[0]):
        if c.gpu[s, g] == old:
            c.gpu[s, g] = new
            return


@inner
def span_of(c: Cluster, ids: I4, at: int, gpus: int) -> int:
    """0: one node; 1: one domain of the innermost level; …; levels + 1: nothing in common but the cluster."""
    first = c.gpu[U_NODE, ids[at]]
    levels = c.node.shape[0] - NODE_COLUMNS
    span = 0
    for g in range(at + 1, at + gpus):
        n = c.gpu[U_NODE, ids[g]]
        if n == first:
            continue
        wide = 1
        while wide <= levels and c.node[NODE_COLUMNS + levels - wide, n] != c.node[NODE_COLUMNS + levels - wide, first]:
            wide += 1
        span = max(span, wide)
    return span


@inner
def rate_of(c: Cluster, j: Jobs, q: Queue, log: Log, i: int) -> float:
    s = q.classes[C_SHAPE, int64(j.ints[K_CLASS, i])]
    gpus, at, profile = c.shape[S_GPUS, s], int64(j.ints[K_ALLOC, i]), int64(j.ints[K_PROFILE, i])
    if gpus == 0:
        return 1.0
    speed = q.rates[profile, c.node[N_TYPE, c.gpu[U_NODE, log.gpu_ids[at]]]]
    for g in range(at + 1, at + gpus):
        speed = min(speed, q.rates[profile, c.node[N_TYPE, c.gpu[U_NODE, log.gpu_ids[g]]]])
    rate = speed * q.rates[profile, q.counter[R_SPANS] + span_of(c, log.gpu_ids, at, gpus)]
    asked = s
    if q.counter[R_RESHAPES] != 0:
        asked = q.classes[C_SHAPE, int64(j.ints[K_OWN, i])]
        scales = q.counter[R_SCALES] - 1
        if c.shape[S_GPUS, asked] != gpus:
            rate *= q.rates[profile, scales + gpus] / q.rates[profile, scales + c.shape[S_GPUS, asked]]
    if c.shape[S_MILLI, s] < WHOLE:
        others = -1
        for u in range(U_SEATS, c.gpu.shape[0]):
            if c.gpu[u, log.gpu_ids[at]] >= 0:
                others += 1
        first = q.counter[R_SEATS] if c.shape[S_MILLI, asked] < WHOLE else q.counter[R_PACKED]
        rate *= q.rates[profile, first + min(others, q.counter[R_SEAT_COUNT] - 1)]
    return rate


@inner
def rerate_neighbours(c: Cluster, j: Jobs, q: Queue, log: Log, i: int, now: float) -> None:
    """Job i came to its GPU or left it: those who share it run at other rates from now on, and end at other times."""
    s = q.classes[C_SHAPE, int64(j.ints[K_CLASS, i])]
    if c.shape[S_MILLI, s] >= WHOLE:
        return
    g = log.gpu_ids[int64(j.ints[K_ALLOC, i])]
    for s in range(U_SEATS, c.gpu.shape[0]):
        v = c.gpu[s, g]
        if v < 0 or v == i or j.ints[K_STATE, v] != RUNNING:
            continue
        rate = rate_of(c, j, q, log, v)
        if rate == j.floats[J_RATE, v]:
            continue
        dt = now - j.floats[J_SINCE, v]
        if dt > 0.0:
            j.floats[J_DONE, v] += dt * j.floats[J_RATE, v]
            j.floats[J_RAN, v] += dt
            j.floats[J_SINCE, v] = now
        j.floats[J_RATE, v] = rate
        if q.counter[R_LIVE] == 0:  # live, what was reported of it still holds
            outdate_end(j, q, v)
        set_due(j, q, v, j.floats[J_SINCE, v], False)
