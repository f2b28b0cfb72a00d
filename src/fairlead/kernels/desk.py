"""A compiled planner's desk: how it writes its plan down."""

from __future__ import annotations

import numpy as np

from fairlead.kernels.columns import (
    F8,
    G_TODO,
    I8,
    TODO_CLASS,
    TODO_COLUMNS,
    TODO_IDS,
    TODO_JOB,
    TODO_REASON,
    Desk,
    Queue,
)
from fairlead.kernels.jit import hot


def empty_desk(
    actions: int, ids: int, ints: I8 | None = None, floats: F8 | None = None, cells: I8 | None = None
) -> Desk:
    """Room for this many actions and GPU ids in one plan, and the planner's own tables."""
    return Desk(
        todo=np.zeros((TODO_COLUMNS, actions + 1), np.int64),
        ids=np.zeros(ids + 1, np.int32),
        ints=np.zeros((1, 1), np.int64) if ints is None else ints,
        floats=np.zeros((1, 1)) if floats is None else floats,
        cells=np.zeros(1, np.int64) if cells is None else cells,
    )


@hot
def ask_start_as(q: Queue, desk: Desk, i: int, first: int, k: int) -> None:
    """The same, as a job of class k: one of its own class's twins (C_HALF, C_OTHER), or -1 for what it asked for."""
    todo = q.counter[G_TODO]
    desk.todo[TODO_JOB, todo] = i
    desk.todo[TODO_IDS, todo] = first
    desk.todo[TODO_CLASS, todo] = k
    q.counter[G_TODO] = todo + 1


@hot
def ask_start(q: Queue, desk: Desk, i: int, first: int) -> None:
    """Job i is to start on the GPUs that the planner has written to desk.ids[first:], in ascending order."""
    ask_start_as(q, desk, i, first, -1)


@hot
def ask_suspend(q: Queue, desk: Desk, i: int, reason: int) -> None:
    todo = q.counter[G_TODO]
    desk.todo[TODO_JOB, todo] = i
    desk.todo[TODO_IDS, todo] = -1
    desk.todo[TODO_REASON, todo] = reason
    q.counter[G_TODO] = todo + 1
