"""Running jobs, worst rank first: one list per speed at which keys change, so that order within a list stays.

Each lane is a skip list over rows of one cache line each: adding and taking out cost a few dozen steps however many jobs
run, and the jobs with the worst ranks can be looked at one after another without moving any.
"""

from __future__ import annotations

from fairlead.kernels.columns import (
    C_FIXED,
    C_SHAPE,
    G_PASSES,
    G_ROW_FREE,
    G_ROWS_USED,
    K_ALLOC,
    K_CLASS,
    K_ROW,
    K_SCRATCH,
    L_HEAD,
    LIMITS,
    NEVER,
    Q_FRONT_AT,
    Q_RANKS_AT,
    R_FIXED,
    R_INDEXED,
    R_OWNERS,
    S_GPUS,
    SKIP_HEIGHTS,
    U_NODE,
    U_ROW,
    X_ALLOC,
    X_FRONT,
    X_GPUS,
    X_JOB,
    X_KEY,
    X_LANE,
    X_LEVEL,
    X_NODE,
    X_ORDER,
    X_PASS,
    X_PREV,
    X_SKIP,
    Cluster,
    Jobs,
    Log,
    Queue,
)
from fairlead.kernels.jit import from_python, hot, inner, int64
from fairlead.kernels.rng import mix


@hot
def own(c: Cluster, log: Log, at: int, gpus: int, r: int) -> None:
    """The GPUs at log.gpu_ids[at:] are held by row r, or by nobody (-1)."""
    for g in range(at, at + gpus):
        c.gpu[U_ROW, log.gpu_ids[g]] = r


@inner
def take_row(c: Cluster, j: Jobs, q: Queue, log: Log, i: int) -> None:
    """Job i, whose GPUs are settled, gets a row among the running jobs; it is in no lane yet."""
    r = q.counter[G_ROW_FREE] - 1
    if r >= 0:
        q.counter[G_ROW_FREE] = int64(q.run_ints[r, X_JOB])
    else:
        r = q.counter[G_ROWS_USED]
        q.counter[G_ROWS_USED] = r + 1
    j.ints[K_ROW, i] = r
    at, gpus = int64(j.ints[K_ALLOC, i]), c.shape[S_GPUS, q.classes[C_SHAPE, int64(j.ints[K_CLASS, i])]]
    q.run_ints[r, X_JOB] = i
    q.run_ints[r, X_PASS] = q.counter[G_PASSES]
    q.run_ints[r, X_FRONT] = 0
    q.run_ints[r, X_LANE] = -1
    q.run_ints[r, X_GPUS] = gpus
    q.run_ints[r, X_ALLOC] = at
    if q.counter[R_OWNERS] != 0 and q.counter[R_INDEXED] == 0:
        own(c, log, at, gpus, r)
    node = int64(-1)
    if gpus > 0:
        node = c.gpu[U_NODE, log.gpu_ids[at]]
        for g in range(at + 1, at + gpus):
            if c.gpu[U_NODE, log.gpu_ids[g]] != node:
                node = int64(-1)
                break
    q.run_ints[r, X_NODE] = node


@hot
def free_row(j: Jobs, q: Queue, i: int) -> None:
    """Job i, which has left its lane, runs no more."""
    r = int64(j.ints[K_ROW, i])
    q.run_ints[r, X_JOB] = q.counter[G_ROW_FREE]
    q.run_ints[r, X_LANE] = -1
    q.counter[G_ROW_FREE] = r + 1


@hot
def _after(q: Queue, lane: int, r: int, height: int) -> int:
    """The row behind row r (-1: behind the head of the lane) at this height, -1 if none."""
    link = q.classes[L_HEAD + height, lane] if r < 0 else int64(q.run_ints[r, X_SKIP + height])
    return link - 1


@hot
def _link(q: Queue, lane: int, r: int, height: int, to: int) -> None:
    if r < 0:
        q.classes[L_HEAD + height, lane] = to + 1
    else:
        q.run_ints[r, X_SKIP + height] = to + 1


@hot
def worse(q: Queue, a: int, b: int) -> bool:
    """Whether row a has the worse rank of two in one lane."""
    la, lb = int64(q.run_ints[a, X_LEVEL]), int64(q.run_ints[b, X_LEVEL])
    if la != lb:
        return la > lb
    x, y = q.run_floats[a, X_ORDER], q.run_floats[b, X_ORDER]
    return x > y or (x == y and q.run_ints[a, X_JOB] > q.run_ints[b, X_JOB])


@hot
def _tower(i: int) -> int:
    """How many heights job i is linked at: a quarter of the jobs at each height go on to the next."""
    height, bits = 1, mix(i + 0x5BD1E995)
    while height < SKIP_HEIGHTS and bits & 3 == 0:
        height += 1
        bits >>= 2
    return height


@inner
def link(q: Queue, r: int, lane: int) -> None:
    """Row r takes its place in a lane."""
    q.run_ints[r, X_LANE] = lane
    tower, at = _tower(int64(q.run_ints[r, X_JOB])), int64(-1)
    for height in range(SKIP_HEIGHTS - 1, -1, -1):
        behind = _after(q, lane, at, height)
        while behind >= 0 and worse(q, behind, r):
            at = behind
            behind = _after(q, lane, at, height)
        if height < tower:
            q.run_ints[r, X_SKIP + height] = behind + 1
            _link(q, lane, at, height, r)
    q.run_ints[r, X_PREV] = at + 1
    behind = next_in_lane(q, r)
    if behind >= 0:
        q.run_ints[behind, X_PREV] = r + 1


@inner
def unlink(q: Queue, r: int, lane: int) -> None:
    """Row r is in its lane no more."""
    at = int64(q.run_ints[r, X_PREV]) - 1
    behind = next_in_lane(q, r)
    if behind >= 0:
        q.run_ints[behind, X_PREV] = at + 1
    if _tower(int64(q.run_ints[r, X_JOB])) == 1:  # as three of four are: who is before it is known without looking
        _link(q, lane, at, 0, behind)
        q.run_ints[r, X_SKIP] = 0
        return
    at = int64(-1)
    for height in range(SKIP_HEIGHTS - 1, -1, -1):
        behind = _after(q, lane, at, height)
        while behind >= 0 and worse(q, behind, r):
            at = behind
            behind = _after(q, lane, at, height)
        if behind == r:
            _link(q, lane, at, height, _after(q, lane, r, height))
            q.run_ints[r, X_SKIP + height] = 0


@hot
def is_fixed(q: Queue, k: int) -> bool:
    """Whether nobody may take their GPUs from running jobs of class k."""
    return q.counter[R_FIXED] != 0 and q.classes[C_FIXED, k] != 0


@hot
def key_now(q: Queue, r: int) -> float:
    """The key of row r at Q_RANKS_AT, and X_KEY from now on. It follows from its place in its lane, which is far cheaper than
    asking the policy and the same but for rounding."""
    key = q.run_floats[r, X_ORDER] + q.limit[LIMITS + int64(q.run_ints[r, X_LANE])] * q.limit[Q_RANKS_AT]
    q.run_floats[r, X_KEY] = key
    return key


@hot
def worst_of(q: Queue, lane: int) -> int:
    """The row with the worst rank of a lane, -1 if it is empty."""
    return _after(q, lane, int64(-1), 0)


worst_of_from_python = from_python(worst_of)


@hot
def next_in_lane(q: Queue, r: int) -> int:
    """The row with the next better rank in the lane of row r, -1 if none."""
    return int64(q.run_ints[r, X_SKIP]) - 1


next_in_lane_from_python = from_python(next_in_lane)


@inner
def empty_lane(j: Jobs, q: Queue, lane: int) -> int:
    """Take all jobs out of a lane, writing them to the scratch column: how many."""
    count, r = 0, worst_of(q, lane)
    while r >= 0:
        j.ints[K_SCRATCH, count] = q.run_ints[r, X_JOB]
        count += 1
        behind = next_in_lane(q, r)
        for height in range(SKIP_HEIGHTS):
            q.run_ints[r, X_SKIP + height] = 0
        r = behind
    for height in range(SKIP_HEIGHTS):
        q.classes[L_HEAD + height, lane] = 0
    q.limit[Q_FRONT_AT] = -NEVER
    return count
