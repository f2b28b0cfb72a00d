"""Plain runs: whole GPUs in one queue, nobody fails, nothing costs. Most simulations are, and a loop that is compiled for nothing
else is an eighth faster: what it asks for at every turn, compiled code knows beforehand.
"""

from __future__ import annotations

from fairlead.kernels.columns import (
    PASS,
    Q_CHECKPOINT,
    Q_FAILURES,
    Q_RESUME_COST,
    Q_RESUME_PER_GIB,
    Q_START_COST,
    R_BORROWS,
    R_DEMANDS,
    R_EASY,
    R_ESTIMATES,
    R_FIXED,
    R_FORECASTS,
    R_GATED,
    R_GROUPED,
    R_LISTED,
    R_LIVE,
    R_NODES_FAIL,
    R_PLANNED,
    R_QUEUES,
    R_QUOTAS,
    R_RATES,
    R_RESHAPES,
    R_SHARES,
    R_SIMPLE,
    R_STRICT,
    Queue,
)

#: what Queue.counter holds in every plain run, and Queue.limit
KNOWN_RULES = {
    R_BORROWS: 0,
    R_DEMANDS: 0,
    R_EASY: 0,
    R_ESTIMATES: 0,
    R_FIXED: 0,
    R_FORECASTS: 0,
    R_GATED: 1,
    R_GROUPED: 0,
    R_LISTED: 0,
    R_LIVE: 0,
    R_NODES_FAIL: 0,
    R_PLANNED: PASS,
    R_QUEUES: 0,
    R_QUOTAS: 0,
    R_RATES: 0,
    R_RESHAPES: 0,
    R_SHARES: 0,
    R_SIMPLE: 1,
    R_STRICT: 0,
}
KNOWN_LIMITS = {Q_CHECKPOINT: 0.0, Q_FAILURES: 0.0, Q_RESUME_COST: 0.0, Q_RESUME_PER_GIB: 0.0, Q_START_COST: 0.0}


def is_plain(q: Queue) -> bool:
    return all(q.counter[x] == value for x, value in KNOWN_RULES.items()) and all(
        q.limit[x] == value for x, value in KNOWN_LIMITS.items()
    )
