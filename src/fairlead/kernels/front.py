"""The front: the running jobs with the worst ranks, in order, as one list that surveys go along.

Lanes have the same jobs, but in each a row leads to the next one through memory, and a survey sees a hundred of them. Ranks stay
as they are until Q_RANKS_AT moves on, so the list is begun anew then; it grows as far as somebody looks, a finger on each lane
tells where it goes on, and whoever joins or leaves a lane in its reach joins or leaves it too.
"""

from __future__ import annotations

from fairlead.kernels.columns import (
    F_GPUS,
    F_JOB,
    F_KEY,
    F_LEVEL,
    F_NODE,
    F_PASS,
    F_ROW,
    G_COUNTED,
    G_FINGER,
    G_FRESH,
    G_FRESH_ROW,
    G_FRONT,
    G_FRONT_END,
    G_FRONTS,
    G_LANES,
    G_PASSES,
    G_RIVAL,
    G_ROWS_USED,
    L_FINGER,
    NEVER,
    Q_FRONT_AT,
    Q_RANKS_AT,
    X_FRONT,
    X_GPUS,
    X_JOB,
    X_KEY,
    X_LEVEL,
    X_NODE,
    X_PASS,
    Cluster,
    Log,
    Queue,
)
from fairlead.kernels.counts import count, count_anew
from fairlead.kernels.jit import hot, inner, int64
from fairlead.kernels.lanes import key_now, next_in_lane, worst_of
from fairlead.kernels.ranks import outranks, outranks_row


@hot
def _is_kept(q: Queue) -> bool:
    """Whether the front is of the ranks that count, and so must hear of every change."""
    return q.counter[G_FRONTS] > 0 and q.limit[Q_FRONT_AT] == q.limit[Q_RANKS_AT]


@inner
def keep_front(q: Queue) -> None:
    """Begin it anew where its ranks no longer count, or where it has come near the end of its room."""
    room = q.front_floats.shape[0]
    if _is_kept(q) and q.counter[G_FRONT_END] + q.counter[G_ROWS_USED] <= room:
        return
    q.counter[G_FRONT] = room >> 1
    q.counter[G_FRONT_END] = room >> 1
    q.counter[G_FRONTS] += 1
    q.limit[Q_FRONT_AT] = q.limit[Q_RANKS_AT]
    count_anew(q)
    for lane in range(q.counter[G_LANES]):
        _point(q, lane, worst_of(q, lane))
    _choose_lane(q)


@hot
def _point(q: Queue, lane: int, r: int) -> None:
    """Put the finger of a lane on row r, or on none (-1)."""
    q.classes[L_FINGER, lane] = r
    if r >= 0:
        key_now(q, r)


@hot
def _below(q: Queue, a: int, b: int) -> bool:
    """Whether row b ranks below row a, by the keys when they were last looked at."""
    return outranks_row(q, int64(q.run_ints[a, X_LEVEL]), q.run_floats[a, X_KEY], int64(q.run_ints[a, X_JOB]), b)


@inner
def _choose_lane(q: Queue) -> None:
    """Find the finger on the worst row, and the worst that any other is on: until that one's turn comes, the others need not be
    looked at."""
    worst, rival, at = int64(-1), int64(-1), int64(-1)
    for lane in range(q.counter[G_LANES]):
        r = q.classes[L_FINGER, lane]
        if r < 0:
            continue
        if worst < 0 or _below(q, worst, r):
            worst, rival, at = r, worst, lane
        elif rival < 0 or _below(q, rival, r):
            rival = r
    q.counter[G_FINGER] = at
    q.counter[G_RIVAL] = rival


@hot
def _write(q: Queue, x: int, r: int) -> None:
    q.front_ints[x, F_ROW] = r
    q.front_ints[x, F_NODE] = q.run_ints[r, X_NODE]
    q.front_ints[x, F_GPUS] = q.run_ints[r, X_GPUS]
    q.front_ints[x, F_PASS] = q.run_ints[r, X_PASS]
    q.front_ints[x, F_LEVEL] = q.run_ints[r, X_LEVEL]
    q.front_ints[x, F_JOB] = q.run_ints[r, X_JOB]
    q.front_floats[x, F_KEY] = q.run_floats[r, X_KEY]
    q.run_ints[r, X_FRONT] = q.counter[G_FRONTS]
    if q.run_ints[r, X_PASS] == q.counter[G_PASSES]:
        if q.counter[G_FRESH] != q.counter[G_PASSES] or _below(q, q.counter[G_FRESH_ROW], r):
            q.counter[G_FRESH_ROW] = r
        q.counter[G_FRESH] = q.counter[G_PASSES]


@inner
def lengthen(q: Queue) -> bool:
    """Add the row with the next better rank; False where no running job is left."""
    while True:
        lane = q.counter[G_FINGER]
        if lane < 0:
            return False
        r = q.classes[L_FINGER, lane]
        behind = next_in_lane(q, r)
        _point(q, lane, behind)
        rival = q.counter[G_RIVAL]
        if behind < 0 or (rival >= 0 and _below(q, behind, rival)):
            _choose_lane(q)
        if not _has(q, r):
            _write(q, q.counter[G_FRONT_END], r)
            q.counter[G_FRONT_END] += 1
            return True


@hot
def _has(q: Queue, r: int) -> bool:
    return q.run_ints[r, X_FRONT] == q.counter[G_FRONTS]


@hot
def below_place(q: Queue, level: int, key: float, i: int, x: int) -> bool:
    """Whether place x of the front ranks below (level, key, i)."""
    return outranks(
        level, key, i, int64(q.front_ints[x, F_LEVEL]), q.front_floats[x, F_KEY], int64(q.front_ints[x, F_JOB])
    )


@hot
def spares(q: Queue, level: int, key: float, i: int) -> bool:
    """Whether (level, key, i) outranks somebody in the front whom this pass has started."""
    return q.counter[G_FRESH] == q.counter[G_PASSES] and outranks_row(q, level, key, i, q.counter[G_FRESH_ROW])


@inner
def _place_of(q: Queue, r: int) -> int:
    """Where row r belongs, or is: behind all that rank below it."""
    level, key, i = int64(q.run_ints[r, X_LEVEL]), q.run_floats[r, X_KEY], int64(q.run_ints[r, X_JOB])
    low, high = q.counter[G_FRONT], q.counter[G_FRONT_END]
    while low < high:
        middle = (low + high) >> 1
        if below_place(q, level, key, i, middle):
            low = middle + 1
        else:
            high = middle
    return low


@hot
def _copy(q: Queue, x: int, y: int) -> None:
    """Place y becomes what place x is."""
    for column in range(F_JOB + 1):
        q.front_ints[y, column] = q.front_ints[x, column]
    q.front_floats[y, F_KEY] = q.front_floats[x, F_KEY]


@inner
def _insert(c: Cluster, q: Queue, log: Log, r: int) -> None:
    first, end, x = q.counter[G_FRONT], q.counter[G_FRONT_END], _place_of(q, r)
    counted = x < q.counter[G_COUNTED]
    if x - first < end - x and first > 0:
        for y in range(first, x):
            _copy(q, y, y - 1)
        x -= 1
        q.counter[G_FRONT] = first - 1
        q.counter[G_COUNTED] -= not counted and q.counter[G_COUNTED] >= first
    elif end < q.front_floats.shape[0]:
        for y in range(end, x, -1):
            _copy(q, y - 1, y)
        q.counter[G_FRONT_END] = end + 1
        q.counter[G_COUNTED] += counted
    else:
        q.limit[Q_FRONT_AT] = -NEVER
        return
    _write(q, x, r)
    if counted and count(c, q, log, x, 1):
        count_anew(q)


@inner
def _remove(c: Cluster, q: Queue, log: Log, r: int) -> None:
    first, end, x = q.counter[G_FRONT], q.counter[G_FRONT_END], _place_of(q, r)
    if x == end:
        x = first
    while q.front_ints[x, F_ROW] != r:  # two keys of a lane that round to one may be in the other order there
        x = x + 1 if x + 1 < end else first
    counted = x < q.counter[G_COUNTED]
    if counted:
        count(c, q, log, x, -1)
    if x - first < end - x:
        for y in range(x, first, -1):
            _copy(q, y - 1, y)
        q.counter[G_FRONT] = first + 1
        q.counter[G_COUNTED] += not counted and q.counter[G_COUNTED] >= first
    else:
        for y in range(x + 1, end):
            _copy(q, y, y - 1)
        q.counter[G_FRONT_END] = end - 1
        q.counter[G_COUNTED] -= counted
    q.run_ints[r, X_FRONT] = 0


@inner
def join_front(c: Cluster, q: Queue, log: Log, r: int, lane: int) -> None:
    """Row r has joined its lane."""
    if not _is_kept(q):
        return
    key_now(q, r)
    last, behind = q.counter[G_FRONT_END] - 1, next_in_lane(q, r)
    inside = behind >= 0 and _has(q, behind)
    if not inside and last >= q.counter[G_FRONT]:
        level, job = int64(q.front_ints[last, F_LEVEL]), int64(q.front_ints[last, F_JOB])
        inside = outranks_row(q, level, q.front_floats[last, F_KEY], job, r)
    if inside:
        _insert(c, q, log, r)
    elif behind == q.classes[L_FINGER, lane]:
        q.classes[L_FINGER, lane] = r
        _choose_lane(q)


@inner
def leave_front(c: Cluster, q: Queue, log: Log, r: int, lane: int) -> None:
    """Row r is about to leave its lane."""
    if not _is_kept(q):
        return
    if _has(q, r):
        _remove(c, q, log, r)
    elif q.classes[L_FINGER, lane] == r:
        _point(q, lane, next_in_lane(q, r))
        _choose_lane(q)
