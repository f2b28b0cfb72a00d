"""Asking a planner for its plan, checking the plan against the state as it is now, and applying it action by action."""

from __future__ import annotations

import numpy as np

from fairlead.core.plugs import Plugged
from fairlead.kernels.apply import compiled_act
from fairlead.kernels.columns import (
    C_SHAPE,
    G_LIVE,
    K_CLASS,
    K_STATE,
    N_TYPE,
    N_UP,
    Q_NOW,
    R_DEMANDS,
    RUNNING,
    S_GPUS,
    S_MILLI,
    S_TYPE,
    U_NODE,
    WAITING,
    WHOLE,
)
from fairlead.kernels.events import WAKE_UP, code_of, push_event
from fairlead.kernels.nodes import all_free
from fairlead.model.plan import Action, ActionKind, Plan
from fairlead.model.reason import Reason
from fairlead.state.state import State
from fairlead.state.view import View


class IllegalPlan(Exception):
    """A planner asked for what can't be done: a mistake in the planner, not in anybody's input."""


def consult(state: State, plugged: Plugged) -> Plan:
    """Let the planner decide at this instant, and carry its plan out."""
    assert plugged.planner is not None
    now = float(state.queue.limit[Q_NOW])
    plan = plugged.planner.plan(View(state, now), now)
    for action in plan.actions:
        apply(state, plugged, action, now)
    wakes = [plan.wake_s] if plan.wake_s is not None else []
    if plugged.planner.every_s > 0 and state.counter[G_LIVE] > 0:
        wakes.append((now // plugged.planner.every_s + 1) * plugged.planner.every_s)
    for at in wakes:
        if at <= now:
            raise IllegalPlan(f"{plugged.policy} wants to be woken at {at}, which is not after {now}")
        push_event(state.queue, at, code_of(WAKE_UP, 0, 0))
    return plan


def recheck(state: State, action: Action) -> str | None:
    """Why this action can't be carried out on the state as it is now; None where it can."""
    job, status = action.job, int(state.jobs.ints[K_STATE, action.job])
    if action.kind in (ActionKind.SUSPEND, ActionKind.MIGRATE) and status != RUNNING:
        return f"job {job} does not run"
    if action.kind == ActionKind.START and status != WAITING:
        return f"job {job} does not wait"
    if action.kind == ActionKind.SUSPEND:
        return None
    held = set(state.gpus_of(job)) if action.kind == ActionKind.MIGRATE else set()
    return _misfit(state, action, held)


def _misfit(state: State, action: Action, held: set[int]) -> str | None:
    c, ids = state.cluster, action.gpu_ids
    s = int(state.queue.classes[C_SHAPE, state.jobs.ints[K_CLASS, action.job]])
    need = max(int(c.shape[S_GPUS, s]), 1)
    if len(ids) != need or len(set(ids)) != need:
        return f"job {action.job} needs {need} different GPUs, the plan names {ids}"
    kind = int(c.shape[S_TYPE, s])
    if c.shape[S_GPUS, s] > 0:
        for gpu in ids:
            if not 0 <= gpu < c.gpu.shape[1]:
                return f"there is no GPU {gpu}"
            if kind >= 0 and c.node[N_TYPE, c.gpu[U_NODE, gpu]] != kind:
                return f"GPU {gpu} is not of the type job {action.job} needs"
            if not c.node[N_UP, c.gpu[U_NODE, gpu]]:
                return f"GPU {gpu} is on a node that is down"
    if held and c.shape[S_MILLI, s] == WHOLE:
        ids = tuple(g for g in ids if g not in held)
        if not ids:
            return None
    elif not all_free(c, s, np.array(ids, np.int32), 0, bool(state.counter[R_DEMANDS])):
        return f"the GPUs {ids} are not all free for job {action.job}"
    return None


def apply(state: State, plugged: Plugged, action: Action, now: float) -> None:
    """Carry one action out, or raise IllegalPlan with the reason why it can't be."""
    why = recheck(state, action)
    if why is not None:
        raise IllegalPlan(f"{plugged.policy} at {now}: {action.kind.name.lower()} is impossible: {why}")
    ids = np.array(action.gpu_ids, np.int32)
    none = np.zeros(0, np.int32)
    reason = int(action.reason or Reason.PLANNED)
    state.grow_log(4, 2 * max(len(ids), 1))
    if action.kind in (ActionKind.SUSPEND, ActionKind.MIGRATE):
        _act(state, plugged, action.job, none, now, reason)
    if action.kind in (ActionKind.START, ActionKind.MIGRATE):
        _act(state, plugged, action.job, ids, now, reason)


def _act(state: State, plugged: Plugged, job: int, ids, now: float, reason: int) -> None:  # type: ignore[no-untyped-def]
    f = plugged.plug
    compiled_act()(
        state.cluster, state.jobs, state.queue, state.log, f.p, f.pp,
        f.key, f.level, f.drift, f.wake, f.resets, f.group, f.place,
        job, ids, now, reason,
    )  # fmt: skip
