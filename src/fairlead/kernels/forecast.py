"""Predicting how long a job will run from those that have ended, inside the run: nobody's future is ever looked at.

A job has a key per level, coarse to fine: its user, its user and group, its user, group and GPUs. What ends is counted to
each of its keys; what is submitted is predicted from the finest of its keys that has ended before, 0 where none has. The
tables are on the desk, policy/forecast lays them out, and trains the tree, which is walked here.
"""

from __future__ import annotations

import math

from fairlead.kernels.columns import (
    C_SHAPE,
    J_ESTIMATE,
    K_ATTEMPT,
    K_CLASS,
    K_STATE,
    R_RATES,
    Cluster,
    Desk,
    Jobs,
    Queue,
)
from fairlead.kernels.columns import DONE as ENDED_WELL
from fairlead.kernels.jit import hot, inner, int64
from fairlead.kernels.ranks import gpu_part, progress

# -- desk.cells ------------------------------------------------------------------------------------------------------------
F_LEVELS = 0  #: how many keys each job has
F_MODEL = 1
F_WINDOW = 2  #: of the moving average, in jobs
F_NODES = 3  #: of the tree, 0 before it was first trained
FORECAST_CELLS = 4

MEAN, MOVING, HARMONIC, TREE = 0, 1, 2, 3

# -- desk.ints ---------------------------------------------------------------------------------------------------------------
I_COUNT = 0  #: by key: jobs that have ended
I_FEATURE = 1  #: by node of the tree: what it asks for, -1 for a leaf
I_CHILD = 2  #: by node: where to go if that is at most its limit; one further if not
I_KEY = 3  #: this row and those after it: by job, its key of each level

# -- desk.floats -------------------------------------------------------------------------------------------------------------
D_SUM = 0  #: by key: of durations
D_INVERSE = 1  #: by key: of 1 / duration
D_RECENT = 2  #: by key: a mean of their logarithms in which each counts half as much as the next
D_LAST = 3  #: by key: the last one's logarithm
D_LIMIT = 4  #: by node of the tree: its limit, or the leaf's value
D_LEARNT = 5  #: by job that has ended: the logarithm of its duration
D_RING = 6  #: this row and those after it, F_WINDOW of them: by key, the last durations (model MOVING)
# and behind those, by job, what the tree looks at: GPUs, then by level recent mean, last and count (model TREE)
PER_LEVEL = 3
#: a larger count looks like this one: counts and means that only ever grow would tell the tree the date, and nothing else
MANY = 8


@hot
def log_of(duration_s: float) -> float:
    """The binary logarithm, straight between powers of two: exact arithmetic, so the same on every machine; 0 up to a second."""
    if duration_s <= 1.0:
        return 0.0
    mantissa, exponent = math.frexp(duration_s)
    return exponent + 2.0 * mantissa - 2.0


@hot
def from_log(value: float) -> float:
    """What log_of gives `value` for."""
    whole = math.floor(value)
    return math.ldexp(1.0 + (value - whole), int(whole))


@inner
def _known_level(desk: Desk, i: int) -> int:
    """The finest level at which a job like job i has ended, -1 if none."""
    level = desk.cells[F_LEVELS] - 1
    while level >= 0 and desk.ints[I_COUNT, desk.ints[I_KEY + level, i]] == 0:
        level -= 1
    return level


@inner
def _average(desk: Desk, i: int) -> float:
    level = _known_level(desk, i)
    if level < 0:
        return 0.0
    key, model = desk.ints[I_KEY + level, i], desk.cells[F_MODEL]
    count = desk.ints[I_COUNT, key]
    if model == HARMONIC:
        return count / desk.floats[D_INVERSE, key]
    if model == MOVING:
        window = min(count, desk.cells[F_WINDOW])
        total = 0.0
        for at in range(count - window, count):  # oldest first, wherever the ring has got to
            total += desk.floats[D_RING + at % desk.cells[F_WINDOW], key]
        return total / window
    return desk.floats[D_SUM, key] / count


@inner
def _look(desk: Desk, i: int, gpus: float) -> int:
    """Note what the tree may ask of job i, as of now; an unknown key looks like the next coarser one. Returns the first row."""
    first = D_RING + (desk.cells[F_WINDOW] if desk.cells[F_MODEL] == MOVING else 0)
    desk.floats[first, i] = gpus
    recent, last = 0.0, 0.0
    for level in range(desk.cells[F_LEVELS]):
        key = desk.ints[I_KEY + level, i]
        count = desk.ints[I_COUNT, key]
        if count > 0:
            recent, last = desk.floats[D_RECENT, key], desk.floats[D_LAST, key]
        row = first + 1 + PER_LEVEL * level
        desk.floats[row, i], desk.floats[row + 1, i], desk.floats[row + 2, i] = recent, last, float(min(count, MANY))
    return first


@inner
def _climb(desk: Desk, i: int, first: int) -> float:
    """The value of the leaf that job i belongs to."""
    node = int64(0)
    while desk.ints[I_FEATURE, node] >= 0:
        seen = desk.floats[first + desk.ints[I_FEATURE, node], i]
        node = desk.ints[I_CHILD, node] + (0 if seen <= desk.floats[D_LIMIT, node] else 1)
    return desk.floats[D_LIMIT, node]


def foresee(c: Cluster, j: Jobs, q: Queue, desk: Desk, i: int, ended: int, now: float) -> int:
    """Job i is submitted, or has ended."""
    if ended != 0:
        learn(j, q, desk, i, now)
    else:
        forecast(c, j, q, desk, i)
    return 0


@inner
def forecast(c: Cluster, j: Jobs, q: Queue, desk: Desk, i: int) -> None:
    """Job i is submitted: estimate it from what has ended so far."""
    if desk.cells[F_MODEL] == TREE:
        first = _look(desk, i, gpu_part(c, q.classes[C_SHAPE, int64(j.ints[K_CLASS, i])]))
        if desk.cells[F_NODES] > 0:
            j.floats[J_ESTIMATE, i] = from_log(_climb(desk, i, first))
            return
    j.floats[J_ESTIMATE, i] = _average(desk, i)


@inner
def learn(j: Jobs, q: Queue, desk: Desk, i: int, now: float) -> None:
    """Job i has come to an end: if it has finished, count how long it ran to each of its keys."""
    if j.ints[K_STATE, i] != ENDED_WELL:
        return
    ran = j.work[i]
    if q.counter[R_RATES] != 0 or j.ints[K_ATTEMPT, i] != 0:
        ran = progress(j, q, i, now)[1]
    log = log_of(ran)
    desk.floats[D_LEARNT, i] = log
    for level in range(desk.cells[F_LEVELS]):
        key = desk.ints[I_KEY + level, i]
        count = desk.ints[I_COUNT, key]
        desk.ints[I_COUNT, key] = count + 1
        desk.floats[D_SUM, key] += ran
        desk.floats[D_INVERSE, key] += 1.0 / max(ran, 1.0)
        desk.floats[D_LAST, key] = log
        desk.floats[D_RECENT, key] = log if count == 0 else 0.5 * (desk.floats[D_RECENT, key] + log)
        if desk.cells[F_MODEL] == MOVING:
            desk.floats[D_RING + count % desk.cells[F_WINDOW], key] = ran
