"""The journal's rows: their kinds, and writing one."""

from __future__ import annotations

from fairlead.kernels.columns import (
    G_ROWS,
    Log,
    Queue,
)
from fairlead.kernels.jit import hot

# model.event.EventKind has the same numbers (a test holds them together)
REFUSE_ROW, START_ROW, SUSPEND_ROW, FINISH_ROW, FAIL_ROW, GIVE_UP_ROW, KILL_ROW = 1, 2, 3, 4, 5, 6, 7
NODE_DOWN_ROW, NODE_UP_ROW = 8, 9
START_AS_ROW = 10
WITHDRAW_ROW, ADMIT_ROW = 11, 12


@hot
def write_row(log: Log, q: Queue, now: float, kind: int, subject: int, arg: int) -> None:
    r = q.counter[G_ROWS]
    log.time[r] = now
    log.what[0, r] = kind
    log.what[1, r] = subject
    log.what[2, r] = arg
    q.counter[G_ROWS] = r + 1
