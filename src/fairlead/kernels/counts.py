"""How far along the front everybody could go without making room for the largest job of one node.

Such a job mostly asks for a whole node, and a survey (survey.py) sees a hundred running jobs before one node has lost all of
its own; the next survey would see nearly the same hundred. So they stay counted, per node the GPUs that they hold there, up
to the last place of the front at which no node has the room yet: the next survey goes on from there. Who joins or leaves the
front in that part is counted or no longer. Where a node gets the room in another way, counting begins anew with the next survey.
"""

from __future__ import annotations

from fairlead.kernels.columns import (
    F_GPUS,
    F_NODE,
    F_ROW,
    G_COUNT,
    G_COUNTED,
    G_FRONT,
    N_COUNTED,
    N_FREE,
    N_UP,
    R_LARGEST,
    U_NODE,
    X_ALLOC,
    Cluster,
    Log,
    Queue,
)
from fairlead.kernels.jit import hot, inner, int64

#: counts are numbered by this, so that one number of a node tells which count it is of and less GPUs than a node can have
COUNT = 1 << 16
#: G_COUNTED where counting is to begin anew
ANEW = -1


@hot
def count_anew(q: Queue) -> None:
    q.counter[G_COUNTED] = ANEW


@hot
def keep_count(q: Queue) -> None:
    """Begin it where it is to begin anew."""
    if q.counter[G_COUNTED] == ANEW:
        q.counter[G_COUNTED] = q.counter[G_FRONT]
        q.counter[G_COUNT] += COUNT


@hot
def counted_on(c: Cluster, q: Queue, n: int) -> int:
    """GPUs of node n that are held by those who are counted."""
    return max(c.node[N_COUNTED, n] - q.counter[G_COUNT], 0)


@hot
def has_room(c: Cluster, q: Queue, n: int) -> bool:
    """Whether node n would have the room without those who are counted, and some are."""
    held = counted_on(c, q, n)
    return held > 0 and c.node[N_FREE, n] + held >= q.counter[R_LARGEST] and c.node[N_UP, n] != 0


@hot
def note_free(c: Cluster, q: Queue, log: Log, at: int, gpus: int) -> None:
    """These GPUs, ids at log.gpu_ids[at:], are free now."""
    if q.counter[G_COUNTED] <= q.counter[G_FRONT]:
        return
    last = -1
    for g in range(at, at + gpus):
        n = c.gpu[U_NODE, log.gpu_ids[g]]
        if n != last and has_room(c, q, n):
            count_anew(q)
        last = n


@hot
def _count_on(c: Cluster, q: Queue, n: int, gpus: int) -> None:
    c.node[N_COUNTED, n] = q.counter[G_COUNT] + counted_on(c, q, n) + gpus


@inner
def count(c: Cluster, q: Queue, log: Log, x: int, sign: int) -> bool:
    """Who is at place x of the front is counted (sign 1) or no longer (sign -1): whether one of its nodes has the room now."""
    n, held = int64(q.front_ints[x, F_NODE]), int64(q.front_ints[x, F_GPUS])
    if n >= 0:
        _count_on(c, q, n, sign * held)
        return has_room(c, q, n)
    at, enough = int64(q.run_ints[int64(q.front_ints[x, F_ROW]), X_ALLOC]), False
    for g in range(at, at + held):
        _count_on(c, q, c.gpu[U_NODE, log.gpu_ids[g]], sign)
    for g in range(at, at + held):
        enough = enough or has_room(c, q, c.gpu[U_NODE, log.gpu_ids[g]])
    return enough
