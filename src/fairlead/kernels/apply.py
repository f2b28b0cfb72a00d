"""Applying one action of a planner's plan. The caller has checked that it is legal; see runtime/planning.py."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from fairlead.kernels.columns import (
    C_SHAPE,
    F8,
    G_IDS,
    I4,
    K_CLASS,
    R_DEMANDS,
    R_SHARES,
    Cluster,
    JobFunction,
    Jobs,
    Log,
    PlaceFunction,
    Plug,
    Queue,
    TenantFunction,
)
from fairlead.kernels.jit import compiled_as, f8, i8, in_cache, int64, settle_types
from fairlead.kernels.moves import give_back_called, hold_called, start_called, suspend
from fairlead.kernels.nodes import change_held_called
from fairlead.kernels.ranks import leave_class_called
from fairlead.kernels.signatures import CLUSTER, FLOATS, IDS, JOB_CALL, JOBS, LOG, PLACE_CALL, QUEUE, TENANT_CALL, TYPES


def act(
    c: Cluster, j: Jobs, q: Queue, log: Log, p: F8, pp: F8,
    key: JobFunction, level: JobFunction, drift: JobFunction, wake: JobFunction, resets: JobFunction,
    group: TenantFunction, place: PlaceFunction,
    i: int, ids: I4, now: float, reason: int,
) -> int:  # fmt: skip
    """Start waiting job i on `ids`, or suspend running job i where `ids` is empty."""
    f = Plug(p, pp, key, level, drift, wake, resets, group, place)
    if ids.shape[0] == 0:
        give_back_called(c, j, q, log, i, now)
        suspend(c, j, q, log, i, now, reason, f)
        return 0
    k = int64(j.ints[K_CLASS, i])
    s = q.classes[C_SHAPE, k]
    at = q.counter[G_IDS]
    for g in range(ids.shape[0]):
        log.gpu_ids[at + g] = ids[g]
    leave_class_called(j, q, i)
    change_held_called(c, s, log.gpu_ids, at, True, q.counter[R_SHARES] != 0, q.counter[R_DEMANDS] != 0)
    hold_called(c, q, log, i, k, at, 1)
    start_called(c, j, q, log, i, now, at, ids.shape[0], f)
    return 0


ACT = i8(
    CLUSTER, JOBS, QUEUE, LOG, FLOATS, FLOATS,
    JOB_CALL, JOB_CALL, JOB_CALL, JOB_CALL, JOB_CALL, TENANT_CALL, PLACE_CALL,
    i8, IDS, f8, i8,
)  # fmt: skip


@cache
def compiled_act() -> Callable[..., int]:
    if not in_cache(act):
        settle_types(TYPES, "fairlead.kernels")
    return compiled_as(ACT)(act)
