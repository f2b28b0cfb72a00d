"""Twins of a class: what its jobs may run as instead of what they asked for, where a planner asks for it.

A job waits in its own class. While it runs as something else, K_CLASS is the twin's, so that everything that looks at what it
holds sees what it really holds; when it stops, it is itself again.
"""

from __future__ import annotations

from fairlead.kernels.columns import (
    C_HALF,
    C_OTHER,
    C_SHAPE,
    K_CLASS,
    K_LEAST,
    K_MOST,
    K_OWN,
    R_RESHAPES,
    S_GPUS,
    Cluster,
    Jobs,
    Queue,
)
from fairlead.kernels.jit import hot, inner, int64


@hot
def is_itself(j: Jobs, q: Queue, i: int) -> bool:
    """Whether job i runs, or would, on what it asked for."""
    return q.counter[R_RESHAPES] == 0 or j.ints[K_CLASS, i] == j.ints[K_OWN, i]


@hot
def be_itself(j: Jobs, q: Queue, i: int) -> None:
    """Job i, which holds nothing any more, is of its own class again."""
    if q.counter[R_RESHAPES] != 0:
        j.ints[K_CLASS, i] = j.ints[K_OWN, i]


@inner
def may_run_as(c: Cluster, j: Jobs, q: Queue, i: int, k: int) -> bool:
    """Whether class k is that of waiting job i, or one of its twins that the job allows."""
    own = int64(j.ints[K_CLASS, i])
    if k == own:
        return True
    if q.counter[R_RESHAPES] == 0 or k < 0:
        return False
    gpus = c.shape[S_GPUS, q.classes[C_SHAPE, k]]
    elastic = j.ints[K_LEAST, i] <= gpus <= j.ints[K_MOST, i]
    return k == q.classes[C_HALF, own] or (elastic and k == q.classes[C_OTHER, own] + gpus)
