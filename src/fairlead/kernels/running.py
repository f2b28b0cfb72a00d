"""Who runs, in the order of ranks: joining and leaving the lanes (lanes.py), and with them the front (front.py) or the index (guards.py)."""

from __future__ import annotations

from fairlead.kernels.columns import (
    G_LANES,
    G_ROWS_USED,
    J_KEY,
    K_CLASS,
    K_LEVEL,
    K_ROW,
    L_FINGER,
    LIMITS,
    NEVER,
    R_INDEXED,
    UNTOUCHABLE,
    X_ALLOC,
    X_GPUS,
    X_LANE,
    X_LEVEL,
    X_ORDER,
    Cluster,
    Jobs,
    Log,
    Queue,
)
from fairlead.kernels.front import join_front, leave_front
from fairlead.kernels.guards import rise, sit
from fairlead.kernels.jit import inner, int64, kept
from fairlead.kernels.lanes import is_fixed, link, own, unlink


@inner
def join_lane(c: Cluster, q: Queue, log: Log, r: int, lane: int) -> None:
    link(q, r, lane)
    join_front(c, q, log, r, lane)


@kept
def leave_lane(c: Cluster, j: Jobs, q: Queue, log: Log, i: int) -> None:
    """Who looks for jobs to displace does not find running job i any more."""
    r = int64(j.ints[K_ROW, i])
    if q.counter[R_INDEXED] != 0:
        rise(c, q, log, r)
        return
    lane = int64(q.run_ints[r, X_LANE])
    leave_front(c, q, log, r, lane)
    unlink(q, r, lane)


@kept
def rejoin_lane(c: Cluster, j: Jobs, q: Queue, log: Log, i: int) -> None:
    """Back into the lane it left; level and X_ORDER are as they were."""
    r = int64(j.ints[K_ROW, i])
    if q.counter[R_INDEXED] != 0:
        sit(c, q, log, r)
    else:
        join_lane(c, q, log, r, int64(q.run_ints[r, X_LANE]))


@inner
def leave_index(c: Cluster, q: Queue, log: Log) -> None:
    """One lane is not enough: lanes take over from guards.py."""
    q.counter[R_INDEXED] = 0
    for r in range(q.counter[G_ROWS_USED]):
        if q.run_ints[r, X_LANE] >= 0:
            own(c, log, int64(q.run_ints[r, X_ALLOC]), int64(q.run_ints[r, X_GPUS]), r)
            join_lane(c, q, log, r, int64(q.run_ints[r, X_LANE]))


@kept
def enter_lane(c: Cluster, j: Jobs, q: Queue, log: Log, i: int, now: float, drift: float) -> None:
    """Running job i, whose key is J_KEY at `now`, joins the jobs whose keys change as fast."""
    lanes = q.counter[G_LANES]
    lane = 0
    while lane < lanes and q.limit[LIMITS + lane] != drift:
        lane += 1
    if lane == lanes:
        q.limit[LIMITS + lane] = drift
        q.classes[L_FINGER, lane] = -1
        q.counter[G_LANES] = lanes + 1
    r = int64(j.ints[K_ROW, i])
    q.run_ints[r, X_LEVEL] = j.ints[K_LEVEL, i]
    q.run_floats[r, X_ORDER] = j.floats[J_KEY, i] - drift * now + 0.0  # no -0.0: guards.py compares the bits
    if is_fixed(q, int64(j.ints[K_CLASS, i])):
        # the best rank of all: whoever looks for jobs to displace stops before it
        q.run_ints[r, X_LEVEL] = UNTOUCHABLE
        q.run_floats[r, X_ORDER] = -NEVER
    if q.counter[R_INDEXED] != 0:
        q.run_ints[r, X_LANE] = lane
        if lane > 0:
            leave_index(c, q, log)
        else:
            sit(c, q, log, r)
    else:
        join_lane(c, q, log, r, lane)
