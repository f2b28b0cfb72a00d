"""Which jobs can never run here, and why: decided once per class, on the empty cluster."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.core.plugs import Plugged
from fairlead.kernels import parts
from fairlead.kernels.columns import (
    C_REASON,
    C_SHAPE,
    C_TENANT,
    N_CAP,
    N_TYPE,
    R_QUOTAS,
    R_REACH,
    S_BOUND,
    S_CPU,
    S_GPUS,
    S_MEM,
    S_MILLI,
    S_SPLIT,
    S_TYPE,
    S_WITHIN,
    T_QUOTA,
)
from fairlead.model.reason import Reason
from fairlead.state.jobs import NO_SUCH_LEVEL, NO_SUCH_TYPE
from fairlead.state.state import State
from fairlead.state.view import View


def judge_classes(state: State, plugged: Plugged) -> None:
    """Mark the classes whose jobs are to be refused on arrival."""
    classes, shape = state.queue.classes, state.cluster.shape
    of_shape: dict[int, Reason] = {}
    for k in range(state.classes):
        s, t = int(classes[C_SHAPE, k]), int(classes[C_TENANT, k])
        if s not in of_shape:
            of_shape[s] = judge_shape(state, plugged, s)
        quota = state.queue.tenants[T_QUOTA, t] if state.queue.tenants.shape[1] > t else -1.0
        over = bool(state.counter[R_QUOTAS]) and 0 <= quota < shape[S_GPUS, s] * shape[S_MILLI, s]
        classes[C_REASON, k] = of_shape[s] or (Reason.OVER_QUOTA if over else Reason.NONE)
    if plugged.planner is not None:
        for k, reason in plugged.planner.refuses(View(state, 0.0)).items():
            classes[C_REASON, k] = classes[C_REASON, k] or reason


def capacity(state: State, kind: int) -> int:
    """GPUs of a type (-1: of any) in the cluster."""
    node = state.cluster.node
    return int(node[N_CAP][(node[N_TYPE] == kind) | (kind < 0)].sum())


def judge_shape(state: State, plugged: Plugged, s: int) -> Reason:
    c = state.cluster
    gpus, kind = int(c.shape[S_GPUS, s]), int(c.shape[S_TYPE, s])
    if kind >= NO_SUCH_TYPE:
        return Reason.NO_SUCH_GPU_TYPE
    if c.shape[S_WITHIN, s] >= NO_SUCH_LEVEL:
        return Reason.NO_SUCH_LEVEL
    if gpus % max(int(c.shape[S_SPLIT, s]), 1) or (gpus == 0 and c.shape[S_SPLIT, s] > 1):
        return Reason.TOO_FEW_NODES  # no nodes could hold equal parts
    if gpus > capacity(state, kind):
        return Reason.TOO_MANY_GPUS
    if _fits(state, plugged, s):
        return Reason.NONE
    if _fits(state, plugged, s, {S_CPU: 0, S_MEM: 0}):
        return Reason.NODE_TOO_SMALL
    if not c.shape[S_BOUND, s]:
        return Reason.TOO_MANY_GPUS
    if c.shape[S_WITHIN, s] >= 0 and _fits(state, plugged, s, {S_CPU: 0, S_MEM: 0, S_WITHIN: -1}):
        return Reason.DOMAIN_TOO_SMALL
    return Reason.TOO_FEW_NODES if c.shape[S_SPLIT, s] > 0 else Reason.DOMAIN_TOO_SMALL


def _fits(state: State, plugged: Plugged, s: int, instead: Mapping[int, int] | None = None) -> bool:
    """Whether shape s, with other values in some of its columns, has a place on the empty cluster."""
    c = state.cluster
    asked = c.shape[:, s].copy()
    for column, value in (instead or {}).items():
        c.shape[column, s] = value
    if c.shape[S_BOUND, s]:
        rows = parts.place_bound()(c, s, int(state.counter[R_REACH]))
    else:
        rows = plugged.plug.place(c, s, 0, 0, 0, plugged.plug.pp)
    c.shape[:, s] = asked
    return rows >= 0
