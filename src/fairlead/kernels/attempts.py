"""Attempts of a job: when one fails, and what is lost."""

from __future__ import annotations

import math

from fairlead.kernels.columns import (
    C_SHAPE,
    G_LOST_MS,
    J_DONE,
    J_FAILS,
    K_ATTEMPT,
    K_CLASS,
    Q_CHECKPOINT,
    Q_FAILURES,
    R_SEED,
    Cluster,
    Jobs,
    Queue,
)
from fairlead.kernels.jit import inner, int64
from fairlead.kernels.ranks import gpu_part
from fairlead.kernels.rng import uniform


@inner
def begin_attempt(j: Jobs, q: Queue, i: int) -> None:
    """Settle whether the coming attempt fails, and at how much remaining work."""
    left, k, seed = j.work[i] - j.floats[J_DONE, i], int64(j.ints[K_ATTEMPT, i]), q.counter[R_SEED]
    j.floats[J_FAILS, i] = -1.0
    if uniform(seed, i, k, 0) < q.limit[Q_FAILURES]:
        j.floats[J_FAILS, i] = left - left * uniform(seed, i, k, 1)


@inner
def lose_work(c: Cluster, j: Jobs, q: Queue, i: int) -> None:
    """Back to the last checkpoint."""
    done = j.floats[J_DONE, i]
    kept = 0.0
    if q.limit[Q_CHECKPOINT] > 0.0:
        kept = math.floor(done / q.limit[Q_CHECKPOINT]) * q.limit[Q_CHECKPOINT]
    q.counter[G_LOST_MS] += int((done - kept) * gpu_part(c, q.classes[C_SHAPE, int64(j.ints[K_CLASS, i])]) * 1000.0)
    j.floats[J_DONE, i] = kept
