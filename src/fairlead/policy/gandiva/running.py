"""Starting and stopping jobs where they are at home: who sits on which GPU, and the actions of the plan."""

from __future__ import annotations

from fairlead.kernels.columns import C_HALF, C_OTHER, Desk, Queue
from fairlead.kernels.desk import ask_start_as, ask_suspend
from fairlead.kernels.jit import hot, inner
from fairlead.policy.gandiva.hosting import cpu_of, mem_of, settle
from fairlead.policy.gandiva.shelf import touch
from fairlead.policy.gandiva.tables import (
    A_ASK,
    A_BESIDE,
    A_CLASS,
    A_FOLLOWS,
    A_GPUS,
    A_MATE,
    A_STATE,
    E_COUNT,
    E_MORE,
    E_NODE,
    F_SINCE,
    F_START,
    O_FIRST,
    READY,
    RUNS,
    SCALARS,
    V_CAP,
    V_CPU,
    V_FREE,
    V_GPU0,
    V_MEM,
    V_READY,
    V_UP,
    X_DEMANDS,
    X_IDS,
    Y_NOW,
)

PLANNED = 21  # model.reason.Reason.PLANNED


@inner
def _change_demands(d: Desk, i: int, sign: int) -> None:
    """CPU and memory of job i's nodes are taken (sign -1) or given back."""
    t = d.ints
    e = i
    while True:
        n = t[E_NODE, e]
        t[V_CPU, n] += sign * cpu_of(d, i, t[E_COUNT, e])
        t[V_MEM, n] += sign * mem_of(d, i, t[E_COUNT, e])
        if t[E_MORE, e] == 0:
            return
        e = t[E_MORE, e] - 1


@inner
def leave_gpus(d: Desk, i: int) -> None:
    """Job i sits on no GPU any more, and is ready to start again."""
    t = d.ints
    settle(d, i, d.floats[0, Y_NOW])
    e = i
    while True:
        n = t[E_NODE, e]
        for g in range(t[V_GPU0, n], t[V_GPU0, n] + t[V_CAP, n]):
            at = t[O_FIRST, g]
            if at == i + 1:
                t[O_FIRST, g] = t[A_BESIDE, i]
                if t[A_BESIDE, i] == 0:
                    t[V_FREE, n] += 1
                continue
            while at != 0 and t[A_BESIDE, at - 1] != i + 1:
                at = t[A_BESIDE, at - 1]
            if at != 0:
                t[A_BESIDE, at - 1] = t[A_BESIDE, i]
        t[V_READY, n] += 1
        touch(d, n)
        if t[E_MORE, e] == 0:
            break
        e = t[E_MORE, e] - 1
    t[A_BESIDE, i] = 0
    if t[SCALARS, X_DEMANDS] != 0:
        _change_demands(d, i, 1)
    t[A_STATE, i] = READY


@inner
def stop(q: Queue, d: Desk, i: int) -> None:
    """Suspend job i; a pair is suspended as one."""
    if d.ints[A_STATE, i] == RUNS:
        ask_suspend(q, d, i, PLANNED)
        leave_gpus(d, i)
    mate = d.ints[A_MATE, i] - 1
    if mate >= 0 and d.ints[A_STATE, mate] == RUNS:
        ask_suspend(q, d, mate, PLANNED)
        leave_gpus(d, mate)


@inner
def fits(d: Desk, i: int) -> bool:
    """Whether job i, or the pair that it leads, could start at home now."""
    t = d.ints
    mate = t[A_MATE, i] - 1
    e = i
    while True:
        n = t[E_NODE, e]
        if t[V_UP, n] == 0 or t[V_FREE, n] < t[E_COUNT, e]:
            return False
        if t[SCALARS, X_DEMANDS] != 0:
            cpu, mem = cpu_of(d, i, t[E_COUNT, e]), mem_of(d, i, t[E_COUNT, e])
            if mate >= 0:
                cpu += cpu_of(d, mate, 1)
                mem += mem_of(d, mate, 1)
            if t[V_CPU, n] < cpu or t[V_MEM, n] < mem:
                return False
        if t[E_MORE, e] == 0:
            return True
        e = t[E_MORE, e] - 1


@inner
def _begin(q: Queue, d: Desk, i: int, first: int) -> None:
    """Job i, whose GPUs are on the desk, is to start as what it is to be."""
    t, f = d.ints, d.floats
    k = -1
    if t[A_MATE, i] != 0:
        k = q.classes[C_HALF, t[A_CLASS, i]]
    elif t[A_GPUS, i] != t[A_ASK, i]:
        k = q.classes[C_OTHER, t[A_CLASS, i]] + t[A_GPUS, i]
    ask_start_as(q, d, i, first, k)
    t[A_STATE, i] = RUNS
    f[F_START, i] = f[0, Y_NOW]
    f[F_SINCE, i] = f[0, Y_NOW]
    if t[SCALARS, X_DEMANDS] != 0:
        _change_demands(d, i, -1)
    e = i
    while True:
        t[V_READY, t[E_NODE, e]] -= 1
        if t[E_MORE, e] == 0:
            return
        e = t[E_MORE, e] - 1


@inner
def start(q: Queue, d: Desk, i: int) -> None:
    """Start job i, or the pair that it leads, at home; fits() has said that it can. Lowest free GPUs first."""
    t = d.ints
    mate = t[A_MATE, i]
    first = t[SCALARS, X_IDS]
    at = first
    e = i
    while True:
        n, left = t[E_NODE, e], t[E_COUNT, e]
        t[V_FREE, n] -= left
        g = t[V_GPU0, n]
        while left > 0:
            if t[O_FIRST, g] == 0:
                t[O_FIRST, g] = i + 1
                d.ids[at] = g
                at += 1
                left -= 1
            g += 1
        if t[E_MORE, e] == 0:
            break
        e = t[E_MORE, e] - 1
    t[SCALARS, X_IDS] = at
    t[A_BESIDE, i] = mate
    _begin(q, d, i, first)
    if mate != 0:
        _begin(q, d, mate - 1, first)


@hot
def leads(d: Desk, i: int) -> bool:
    """Whether job i is scheduled for itself: alone, or as the leader of a pair."""
    return d.ints[A_FOLLOWS, i] == 0
