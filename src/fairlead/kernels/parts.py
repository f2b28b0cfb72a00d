"""Parts of the core that few runs use, each compiled by itself when a run first needs it.

They are handed to the loop as function values, so that nobody waits for the compilation of what they do not use: without
failing nodes, EASY's reservations and compiled planners the core compiles in three quarters of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from fairlead.kernels import apply, bound, easy, failures, forecast, live, queues
from fairlead.kernels.columns import (
    F8,
    Cluster,
    Desk,
    JobFunction,
    Jobs,
    Log,
    PlaceFunction,
    PlanFunction,
    Queue,
    TenantFunction,
)
from fairlead.kernels.jit import compiled_as, f8, i8, one_compiles, settle_types
from fairlead.kernels.signatures import (
    BACKFILL_FUNCTION,
    CLUSTER,
    CONSULT_FUNCTION,
    FORESEE_FUNCTION,
    IDS,
    JOBS,
    LOG,
    NODE_EVENT_FUNCTION,
    PLUGGED,
    QUEUE,
    TYPES,
    WALK_QUEUES_FUNCTION,
)

INTERVENE = i8(CLUSTER, JOBS, QUEUE, LOG, *PLUGGED, i8, i8, f8, i8)
PLACE_BOUND = i8(CLUSTER, i8, i8)
ACT = i8(CLUSTER, JOBS, QUEUE, LOG, *PLUGGED, i8, i8, IDS, f8, i8)


def _no_node_event(
    c: Cluster, j: Jobs, q: Queue, log: Log, kind: int, n: int, now: float,
    p: F8, pp: F8,
    key: JobFunction, level: JobFunction, drift: JobFunction, wake: JobFunction, resets: JobFunction,
    group: TenantFunction, place: PlaceFunction,
) -> int:  # fmt: skip
    return 0


def _no_backfill(
    c: Cluster, shadow: Cluster, j: Jobs, q: Queue, log: Log, head: int, now: float,
    p: F8, pp: F8,
    key: JobFunction, level: JobFunction, drift: JobFunction, wake: JobFunction, resets: JobFunction,
    group: TenantFunction, place: PlaceFunction,
) -> int:  # fmt: skip
    return 0


def _no_consult(
    c: Cluster, j: Jobs, q: Queue, log: Log, desk: Desk, now: float, plan: PlanFunction, afresh: int,
    p: F8, pp: F8,
    key: JobFunction, level: JobFunction, drift: JobFunction, wake: JobFunction, resets: JobFunction,
    group: TenantFunction, place: PlaceFunction,
) -> int:  # fmt: skip
    return 0


def _no_walk_queues(
    c: Cluster, j: Jobs, q: Queue, log: Log, now: float,
    p: F8, pp: F8,
    key: JobFunction, level: JobFunction, drift: JobFunction, wake: JobFunction, resets: JobFunction,
    group: TenantFunction, place: PlaceFunction,
) -> int:  # fmt: skip
    return 0


def _no_foresee(c: Cluster, j: Jobs, q: Queue, desk: Desk, i: int, ended: int, now: float) -> int:
    return 0


@cache
def _part(function: Callable[..., int], signature: Any, for_python: bool = False) -> Callable[..., int]:
    with one_compiles(function) as missing:
        if missing:
            settle_types(TYPES, function)
        return compiled_as(signature, for_python=for_python)(function)


def node_event(fails: bool) -> Callable[..., int]:
    return _part(failures.node_event if fails else _no_node_event, NODE_EVENT_FUNCTION)


def backfill(easy_: bool) -> Callable[..., int]:
    return _part(easy.backfill if easy_ else _no_backfill, BACKFILL_FUNCTION)


def consult(compiled_planner: bool) -> Callable[..., int]:
    return _part(apply.consult if compiled_planner else _no_consult, CONSULT_FUNCTION)


def walk_queues(per_tenant: bool) -> Callable[..., int]:
    return _part(queues.walk_queues if per_tenant else _no_walk_queues, WALK_QUEUES_FUNCTION)


def foresee(forecasts: bool) -> Callable[..., int]:
    return _part(forecast.foresee if forecasts else _no_foresee, FORESEE_FUNCTION)


def act() -> Callable[..., int]:
    """One action of a planner written in Python."""
    return _part(apply.act, ACT, for_python=True)


def place_bound() -> Callable[..., int]:
    """Where a job goes that says itself where it must be."""
    return _part(bound.place_alone, PLACE_BOUND, for_python=True)


def intervene() -> Callable[..., int]:
    """Something that people or machines do to one job of a live run."""
    return _part(live.intervene, INTERVENE, for_python=True)
