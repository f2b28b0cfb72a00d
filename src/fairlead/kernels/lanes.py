"""Running jobs, worst rank first: one list per speed at which keys change, so that order within a list stays.

Each lane is a skip list whose links are job columns: adding and taking out cost a few dozen steps however many jobs run,
and the jobs with the worst ranks can be looked at one after another without moving any.
"""

from __future__ import annotations

from fairlead.kernels.columns import (
    G_LANES,
    J_KEY,
    J_ORDER,
    K_LANE,
    K_LEVEL,
    K_SCRATCH,
    K_SKIP,
    L_HEAD,
    LIMITS,
    SKIP_HEIGHTS,
    Jobs,
    Queue,
)
from fairlead.kernels.jit import compiled_hot, hot, inner, int64
from fairlead.kernels.rng import mix


@hot
def _after(j: Jobs, q: Queue, lane: int, i: int, height: int) -> int:
    """The job behind job i (-1: behind the head of the lane) at this height, -1 if none."""
    link = q.classes[L_HEAD + height, lane] if i < 0 else int64(j.ints[K_SKIP + height, i])
    return link - 1


@hot
def _link(j: Jobs, q: Queue, lane: int, i: int, height: int, to: int) -> None:
    if i < 0:
        q.classes[L_HEAD + height, lane] = to + 1
    else:
        j.ints[K_SKIP + height, i] = to + 1


@hot
def _before(j: Jobs, a: int, b: int) -> bool:
    """Whether running job a has the worse rank of two in one lane."""
    la, lb = int64(j.ints[K_LEVEL, a]), int64(j.ints[K_LEVEL, b])
    if la != lb:
        return la > lb
    x, y = j.floats[J_ORDER, a], j.floats[J_ORDER, b]
    return x > y or (x == y and a > b)


@hot
def _tower(i: int) -> int:
    """How many heights job i is linked at: a quarter of the jobs at each height go on to the next."""
    height, bits = 1, mix(i + 0x5BD1E995)
    while height < SKIP_HEIGHTS and bits & 3 == 0:
        height += 1
        bits >>= 2
    return height


@inner
def join_lane(q: Queue, j: Jobs, i: int, lane: int) -> None:
    j.ints[K_LANE, i] = lane
    tower, at = _tower(i), int64(-1)
    for height in range(SKIP_HEIGHTS - 1, -1, -1):
        behind = _after(j, q, lane, at, height)
        while behind >= 0 and _before(j, behind, i):
            at = behind
            behind = _after(j, q, lane, at, height)
        if height < tower:
            j.ints[K_SKIP + height, i] = behind + 1
            _link(j, q, lane, at, height, i)


@inner
def leave_lane(q: Queue, j: Jobs, i: int) -> None:
    lane = int64(j.ints[K_LANE, i])
    at = int64(-1)
    for height in range(SKIP_HEIGHTS - 1, -1, -1):
        behind = _after(j, q, lane, at, height)
        while behind >= 0 and _before(j, behind, i):
            at = behind
            behind = _after(j, q, lane, at, height)
        if behind == i:
            _link(j, q, lane, at, height, _after(j, q, lane, i, height))
            j.ints[K_SKIP + height, i] = 0


@inner
def rejoin_lane(q: Queue, j: Jobs, i: int) -> None:
    """Back into the lane it left; level and J_ORDER are as they were."""
    join_lane(q, j, i, int64(j.ints[K_LANE, i]))


@inner
def enter_lane(q: Queue, j: Jobs, i: int, now: float, drift: float) -> None:
    """Running job i, whose key is J_KEY at `now`, joins the jobs whose keys change as fast."""
    lanes = q.counter[G_LANES]
    lane = 0
    while lane < lanes and q.limit[LIMITS + lane] != drift:
        lane += 1
    if lane == lanes:
        q.limit[LIMITS + lane] = drift
        q.counter[G_LANES] = lanes + 1
    j.floats[J_ORDER, i] = j.floats[J_KEY, i] - drift * now
    join_lane(q, j, i, lane)


@compiled_hot
def worst_of(j: Jobs, q: Queue, lane: int) -> int:
    """The job with the worst rank of a lane, -1 if it is empty."""
    return _after(j, q, lane, int64(-1), 0)


@compiled_hot
def next_in_lane(j: Jobs, i: int) -> int:
    """The job with the next better rank in the lane of job i, -1 if none."""
    return int64(j.ints[K_SKIP, i]) - 1


@inner
def empty_lane(j: Jobs, q: Queue, lane: int) -> int:
    """Take all jobs out of a lane, writing them to the scratch column: how many."""
    count, i = 0, worst_of(j, q, lane)
    while i >= 0:
        j.ints[K_SCRATCH, count] = i
        count += 1
        i = next_in_lane(j, i)
    for x in range(count):
        for height in range(SKIP_HEIGHTS):
            j.ints[K_SKIP + height, int64(j.ints[K_SCRATCH, x])] = 0
    for height in range(SKIP_HEIGHTS):
        q.classes[L_HEAD + height, lane] = 0
    return count
