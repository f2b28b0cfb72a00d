"""Asking a planner for its plan, checking the plan against the state as it is now, and applying it action by action."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from fairlead.core.plugs import Plugged
from fairlead.kernels import parts
from fairlead.kernels.columns import (
    C_FIXED,
    C_HALF,
    C_OTHER,
    C_SHAPE,
    C_TENANT,
    G_EVENTS,
    G_NEXT,
    G_RUNNING,
    G_STALE,
    G_TODO,
    G_TODO_DONE,
    G_WAITING,
    I4,
    K_CLASS,
    K_LEAST,
    K_MOST,
    K_STATE,
    N_CPU,
    N_MEM,
    N_TYPE,
    N_UP,
    Q_NOW,
    Q_WAKE,
    R_DEMANDS,
    R_LIVE,
    R_QUOTAS,
    R_RESHAPES,
    RUNNING,
    S_BOUND,
    S_CPU,
    S_GPUS,
    S_MEM,
    S_MILLI,
    S_SPLIT,
    S_TYPE,
    S_WITHIN,
    T_HELD,
    T_QUOTA,
    TODO_CLASS,
    TODO_IDS,
    TODO_JOB,
    U_NODE,
    WAITING,
    Desk,
)
from fairlead.kernels.events import WAKE_UP, code_of_from_python, push_event_from_python
from fairlead.kernels.nodes import part_from_python
from fairlead.model.plan import Action, ActionKind, Plan
from fairlead.model.reason import Reason
from fairlead.policy.base import Planner
from fairlead.state.state import State
from fairlead.state.view import View


class IllegalPlan(Exception):
    """A planner asked for what can't be done: a mistake in the planner, not in anybody's input."""


def consult(state: State, plugged: Plugged) -> Plan:
    """Let the planner decide at this instant, carry its plan out, and note when it wants to be asked again."""
    assert isinstance(plugged.planner, Planner)
    now = float(state.queue.limit[Q_NOW])
    asked_again = True
    while asked_again:
        plan = plugged.planner.plan(View(state, now), now)
        for action in plan.actions:
            apply(state, plugged, action, now)
        asked_again = plan.again and bool(plan.actions)
    at = math.inf
    if plan.wake_s is not None:
        if not plan.wake_s > now:
            raise IllegalPlan(f"{plugged.policy} wants to be woken at {plan.wake_s}, which is not after {now}")
        at = plan.wake_s
    # as with a queue policy's quantum, turns alone change nothing: they end where nothing else can happen
    if plugged.planner.every_s > 0 and (plan.actions or _more_to_come(state)):
        at = min(at, _next_turn(now, plugged.planner.every_s))
    _wake_at(state, at)
    return plan


def illegal(state: State, plugged: Plugged, desk: Desk) -> IllegalPlan:
    """What is wrong with the action of a compiled planner's plan at which the core stopped."""
    now = float(state.queue.limit[Q_NOW])
    todo = int(state.counter[G_TODO_DONE])
    if todo == int(state.counter[G_TODO]):
        return IllegalPlan(f"{plugged.policy} wants to be woken at {state.queue.limit[Q_WAKE]}, not after {now}")
    job, first = int(desk.todo[TODO_JOB, todo]), int(desk.todo[TODO_IDS, todo])
    action, k = Action(ActionKind.SUSPEND, job), -1
    if first >= 0:
        k = int(desk.todo[TODO_CLASS, todo])
        k = k if k >= 0 else state.own_class(job)
        count = max(int(state.cluster.shape[S_GPUS, _shape_of(state, k)]), 1)
        action = Action(_kind_of(state, job, k), job, tuple(desk.ids[first : first + count].tolist()))
    why = recheck(state, action) or f"the GPUs {action.gpu_ids} are not in ascending order"
    return IllegalPlan(f"{plugged.policy} at {now}: {action.kind.name.lower()} is impossible: {why}")


def _kind_of(state: State, job: int, k: int) -> ActionKind:
    """What starting a waiting job as one of class k is called."""
    own = state.own_class(job)
    if k == own:
        return ActionKind.START
    return ActionKind.SHARE if k == state.queue.classes[C_HALF, own] else ActionKind.RESIZE


def class_for(state: State, action: Action) -> int:
    """The class that the job runs as by this action, -1 where it can't be."""
    own, ints = state.own_class(action.job), state.jobs.ints
    if action.kind == ActionKind.SHARE:
        return int(state.queue.classes[C_HALF, own])
    if action.kind == ActionKind.RESIZE:
        if (
            not state.counter[R_RESHAPES]
            or not ints[K_LEAST, action.job] <= len(action.gpu_ids) <= ints[K_MOST, action.job]
        ):
            return -1
        return int(state.queue.classes[C_OTHER, own]) + len(action.gpu_ids)
    return own


def _next_turn(now: float, every_s: float) -> float:
    turn = now // every_s + 1
    while turn * every_s <= now:
        turn += 1
    return turn * every_s


def _wakes(state: State) -> list[int]:
    """Where in the event heap the planner's wake is: none or one."""
    codes = state.queue.event_code[: state.counter[G_EVENTS]]
    found: list[int] = np.flatnonzero(codes >= code_of_from_python(WAKE_UP, 0, 0)).tolist()
    return found


def _more_to_come(state: State) -> bool:
    """Whether anything will happen that is not the planner's own wake."""
    if state.counter[R_LIVE]:
        return bool(state.counter[G_WAITING] + state.counter[G_RUNNING])  # who runs may end at any time
    due = int(state.counter[G_EVENTS] - state.counter[G_STALE]) - len(_wakes(state))
    return due > 0 or int(state.counter[G_NEXT]) < len(state.input)


def _wake_at(state: State, at: float) -> None:
    """Wake the planner at this moment (inf: not at all) and at no other: each plan's wish replaces the one before."""
    q, pending = state.queue, _wakes(state)
    if [at] == q.event_time[pending].tolist():
        return
    if pending:
        size = int(state.counter[G_EVENTS])
        kept = np.delete(np.arange(size), pending)
        order = kept[np.lexsort((q.event_code[kept], q.event_time[kept]))]  # what is in order is a heap
        q.event_time[: len(order)], q.event_code[: len(order)] = q.event_time[order], q.event_code[order]
        state.counter[G_EVENTS] = len(order)
    if at < math.inf:
        push_event_from_python(q, at, code_of_from_python(WAKE_UP, 0, 0))


def recheck(state: State, action: Action) -> str | None:
    """Why this action can't be carried out on the state as it is now; None where it can."""
    job = action.job
    if not 0 <= job < len(state.input):
        return f"there is no job {job}"
    status = int(state.jobs.ints[K_STATE, job])
    if action.kind in (ActionKind.SUSPEND, ActionKind.MIGRATE) and status != RUNNING:
        return f"job {job} does not run"
    if action.kind == ActionKind.START and status != WAITING:
        return f"job {job} does not wait"
    if status == RUNNING and state.queue.classes[C_FIXED, state.own_class(job)]:
        return f"job {job} may not be preempted"
    if action.kind == ActionKind.SUSPEND:
        return None
    if status not in (WAITING, RUNNING):
        return f"job {job} neither waits nor runs"
    k = class_for(state, action)
    if k < 0:
        return _unchangeable(state, action)
    if _over_quota(state, job, k):
        return f"job {job} would put its tenant over its quota"
    return _misplaced(state, action, k) or _crowded(state, action, k)


def _unchangeable(state: State, action: Action) -> str:
    """Why the job can't run as the action says."""
    if action.kind == ActionKind.SHARE:
        return f"job {action.job} did not ask for one whole GPU, or the planner does not say that it packs"
    least, most = state.jobs.ints[[K_LEAST, K_MOST], action.job].tolist()
    return (
        f"job {action.job} may have {least} to {most} GPUs (none: it is not elastic), the plan names {action.gpu_ids}"
    )


def _over_quota(state: State, job: int, k: int) -> bool:
    """Whether job's tenant may not hold what class k does, counting what the job holds itself."""
    view, own = View(state, 0.0), int(state.jobs.ints[K_CLASS, job])
    if state.jobs.ints[K_STATE, job] != RUNNING:
        return not view.within_quota(job, k)
    if not state.counter[R_QUOTAS]:
        return False
    c, t = state.cluster, int(state.queue.classes[C_TENANT, k])
    now, then = (int(c.shape[S_GPUS, s] * c.shape[S_MILLI, s]) for s in (_shape_of(state, own), _shape_of(state, k)))
    held, quota = state.queue.tenants[[T_HELD, T_QUOTA], t].tolist()
    return bool(then > now and 0 <= quota < held - now + then)


def _misplaced(state: State, action: Action, k: int) -> str | None:
    """Whether the plan names the right number of places, which exist, are up and of the right type."""
    c, job, ids = state.cluster, action.job, action.gpu_ids
    s = _shape_of(state, k)
    gpus, kind = int(c.shape[S_GPUS, s]), int(c.shape[S_TYPE, s])
    if gpus == 0 and (len(ids) != 1 or not 0 <= -1 - ids[0] < c.node.shape[1]):
        return f"job {job} needs no GPU but one node n, named as -1 - n; the plan names {ids}"
    if gpus > 0 and (len(ids) != gpus or len(set(ids)) != gpus):
        return f"job {job} needs {gpus} different GPUs, the plan names {ids}"
    for gpu in ids:
        if gpus > 0 and not 0 <= gpu < c.gpu.shape[1]:
            return f"there is no GPU {gpu}"
        node = _node_of(state, gpu)
        what = f"GPU {gpu} is on node {node}, which" if gpus > 0 else f"node {node}"
        if kind >= 0 and c.node[N_TYPE, node] != kind:
            return f"{what} is not of the type job {job} needs"
        if not c.node[N_UP, node]:
            return f"{what} is down"
    return _out_of_bounds(state, action, s)


def _out_of_bounds(state: State, action: Action, s: int) -> str | None:
    """Whether the places are on as many nodes, and as close together, as the job says they must be."""
    c, job = state.cluster, action.job
    if not c.shape[S_BOUND, s]:
        return None
    split, out = int(c.shape[S_SPLIT, s]), int(c.shape[S_WITHIN, s])
    held = Counter(_node_of(state, gpu) for gpu in action.gpu_ids)
    if split and (len(held) != split or len(set(held.values())) > 1):
        return f"job {job} needs {split} nodes and the same number of GPUs on each, the plan names {action.gpu_ids}"
    paths = [(*state.spec.nodes[node].path, node) for node in held]
    if out >= 0 and len({path[: len(path) - out] for path in paths}) > 1:
        level = (*state.spec.levels, "node")[-1 - out]
        return f"job {job} must be inside one {level}, the plan names {action.gpu_ids}"
    return None


def _crowded(state: State, action: Action, k: int) -> str | None:
    """Whether the places have the room that the job needs, counting what it holds itself where it is to move."""
    c, job = state.cluster, action.job
    s, view = _shape_of(state, k), View(state, 0.0)
    was = _shape_of(state, int(state.jobs.ints[K_CLASS, job]))
    held = state.gpus_of(job) if state.jobs.ints[K_STATE, job] == RUNNING else ()
    gpus, milli = int(c.shape[S_GPUS, s]), int(c.shape[S_MILLI, s])
    for gpu in action.gpu_ids if gpus > 0 else ():
        free = view.free_milli(gpu) + (int(c.shape[S_MILLI, was]) if gpu in held else 0)
        if free < milli:
            return f"job {job} needs {milli} milli-GPUs of GPU {gpu}, {free} are free"
    if not state.counter[R_DEMANDS]:
        return None
    before = Counter(_node_of(state, gpu) for gpu in held)
    for node, count in Counter(_node_of(state, gpu) for gpu in action.gpu_ids).items():
        for unit, column, row in (("milli-CPUs", N_CPU, S_CPU), ("MiB", N_MEM, S_MEM)):
            need, free = int(part_from_python(c.shape[row, s], count, gpus)), int(c.node[column, node])
            if node in before:
                free += int(part_from_python(c.shape[row, was], before[node], int(c.shape[S_GPUS, was])))
            if free < need:
                return f"job {job} needs {need} {unit} of node {node}, {free} are free"
    return None


def _shape_of(state: State, k: int) -> int:
    return int(state.queue.classes[C_SHAPE, k])


def _node_of(state: State, gpu: int) -> int:
    """The node of a GPU id, or the node that the id of a CPU job stands for."""
    return -1 - gpu if gpu < 0 else int(state.cluster.gpu[U_NODE, gpu])


def apply(state: State, plugged: Plugged, action: Action, now: float) -> None:
    """Carry one action out, or raise IllegalPlan with the reason why it can't be."""
    why = recheck(state, action)
    if why is not None:
        raise IllegalPlan(f"{plugged.policy} at {now}: {action.kind.name.lower()} is impossible: {why}")
    # in order, so that the GPUs of a node stand together: its part of CPU and memory is rounded up once
    ids = np.array(sorted(action.gpu_ids), np.int32)
    reason = int(action.reason or Reason.PLANNED)
    state.grow_log(4, 2 * max(len(ids), 1) + 4)
    k = class_for(state, action)
    if state.jobs.ints[K_STATE, action.job] == RUNNING:
        act(state, plugged, action.job, k, np.zeros(0, np.int32), now, reason)
    if action.kind != ActionKind.SUSPEND:
        act(state, plugged, action.job, k, ids, now, reason)


def act(state: State, plugged: Plugged, job: int, k: int, ids: I4, now: float, reason: int) -> None:
    f = plugged.plug
    parts.act()(
        state.cluster, state.jobs, state.queue, state.log, f.p, f.pp,
        f.key, f.level, f.drift, f.wake, f.resets, f.group, f.place,
        job, k, ids, now, reason,
    )  # fmt: skip
