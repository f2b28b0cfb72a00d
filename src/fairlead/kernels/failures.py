"""Nodes that fail and are repaired."""

from __future__ import annotations

import math

from fairlead.kernels.columns import (
    C_SHAPE,
    F8,
    G_LISTED,
    K_ALLOC,
    K_CLASS,
    K_RUNLIST,
    K_SCRATCH,
    N_TURNS,
    N_UP,
    Q_MTBF,
    Q_MTTR,
    R_SEED,
    S_GPUS,
    U_NODE,
    Cluster,
    JobFunction,
    Jobs,
    Log,
    PlaceFunction,
    Plug,
    Queue,
    TenantFunction,
)
from fairlead.kernels.events import NODE_DOWN, NODE_UP, code_of, push_event_called
from fairlead.kernels.jit import compiled, inner, int64
from fairlead.kernels.moves import kill
from fairlead.kernels.nodes import set_up
from fairlead.kernels.reopening import reopen
from fairlead.kernels.rng import uniform
from fairlead.kernels.rows import NODE_DOWN_ROW, NODE_UP_ROW, write_row
from fairlead.kernels.scratch import heap_scratch, pop_scratch
from fairlead.kernels.slim import by_ref


@compiled
def draw_turn(c: Cluster, q: Queue, n: int, now: float, mean: float, code: int) -> None:
    """Draw when node n fails or is repaired next, in whole seconds."""
    if mean <= 0.0:
        return
    turn = c.node[N_TURNS, n]
    c.node[N_TURNS, n] = turn + 1
    gap = -math.log(1.0 - uniform(q.counter[R_SEED], n, turn, 1000)) * mean
    push_event_called(q, now + math.floor(gap) + 1.0, code_of(code, n, 0))


@inner
def node_down(c: Cluster, j: Jobs, q: Queue, log: Log, n: int, now: float, f: Plug) -> None:
    if c.node[N_UP, n] == 0:
        return
    set_up(c, n, False)
    write_row(log, q, now, NODE_DOWN_ROW, n, 0)
    hit = 0
    for r in range(q.counter[G_LISTED]):
        i = int64(j.ints[K_RUNLIST, r])
        at = int64(j.ints[K_ALLOC, i])
        gpus = c.shape[S_GPUS, q.classes[C_SHAPE, int64(j.ints[K_CLASS, i])]]
        touched = gpus == 0 and log.gpu_ids[at] == -1 - n
        for g in range(at, at + gpus):
            touched = touched or c.gpu[U_NODE, log.gpu_ids[g]] == n
        if touched:
            j.ints[K_SCRATCH, hit] = i
            hit += 1
    heap_scratch(j, hit, now, False)
    while hit > 0:
        kill(c, j, q, log, pop_scratch(j, hit, now, False), n, now, f)
        hit -= 1
    draw_turn(c, q, n, now, q.limit[Q_MTTR], NODE_UP)


@inner
def node_up(c: Cluster, j: Jobs, q: Queue, log: Log, n: int, now: float, f: Plug) -> None:
    if c.node[N_UP, n] != 0:
        return
    set_up(c, n, True)
    write_row(log, q, now, NODE_UP_ROW, n, 0)
    reopen(c, j, q, n)
    draw_turn(c, q, n, now, q.limit[Q_MTBF], NODE_DOWN)


def node_event(
    c: Cluster, j: Jobs, q: Queue, log: Log, kind: int, n: int, now: float,
    p: F8, pp: F8,
    key: JobFunction, level: JobFunction, drift: JobFunction, wake: JobFunction, resets: JobFunction,
    group: TenantFunction, place: PlaceFunction,
) -> int:  # fmt: skip
    """Node n fails or is up again, as the kind of event says."""
    f = by_ref(Plug(p, pp, key, level, drift, wake, resets, group, place))
    if kind == NODE_DOWN:
        node_down(c, j, q, log, n, now, f)
    else:
        node_up(c, j, q, log, n, now, f)
    return 0
