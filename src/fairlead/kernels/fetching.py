"""What the next events will ask for, brought near while this one is dealt with. What is known of a job that came long ago is far
away by the time it ends, and waiting for it took some five per cent of a simple run. Nothing depends on it."""

from __future__ import annotations

from fairlead.kernels.columns import (
    K_ALLOC,
    K_CLASS,
    K_ROW,
    R_PREEMPTS,
    X_SKIP,
    Jobs,
    Log,
    Queue,
)
from fairlead.kernels.events import END, FIRST_FEW, id_of, kind_of
from fairlead.kernels.jit import hot, int64
from fairlead.kernels.slim import fetch


@hot
def fetch_next(j: Jobs, q: Queue, log: Log) -> None:
    """For the next event and those that may be the one after it, where to look; for the next, what is to be found there."""
    preempts = q.counter[R_PREEMPTS] != 0
    for x in range(FIRST_FEW):
        i = id_of(q.event_code[x])  # of whatever kind, and be it no entry at all: what is fetched need not exist
        fetch(j.ints, (K_CLASS, i))
        fetch(j.ints, (K_ALLOC, i))
        if preempts:
            fetch(j.ints, (K_ROW, i))
    code = q.event_code[0]
    if kind_of(code) == END:
        i = id_of(code)
        fetch(log.gpu_ids, int64(j.ints[K_ALLOC, i]))
        if preempts:
            fetch(q.run_ints, (int64(j.ints[K_ROW, i]), X_SKIP))
