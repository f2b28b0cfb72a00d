"""Giving GPUs to jobs and taking them back, on tables: bindings, counts by priority, and the cells they imply."""

from __future__ import annotations

from fairlead.kernels.columns import I8, Table
from fairlead.kernels.jit import inner
from fairlead.policy.hived.freelist import change_opportunists
from fairlead.policy.hived.ledger import release, tie, untie, use
from fairlead.policy.hived.order import touch
from fairlead.policy.hived.tables import (
    H_OPPORTUNISM,
    NOBODY,
    OPPORTUNIST,
    V_SLOTS,
    X_ALSO,
    X_BAD,
    X_BOUND,
    X_DPOS,
    X_HELD,
    X_KIDS,
    X_NKIDS,
    X_NODE,
    X_OWNER,
    X_PARENT,
    X_PIN,
    X_ROOT,
    X_SLOT,
    X_SLOTS,
    X_USED,
    X_VC,
    X_VIEW,
)


@inner
def _count(t: Table, x: I8, virtual: int, slot: int, change: int) -> None:
    """A virtual GPU is held, or no longer is, at a priority."""
    node = t[virtual, X_NODE]
    t[t[virtual, X_ROOT], X_HELD] += change
    if node >= 0:
        t[node, X_USED] += change
        x[t[node, X_SLOTS] + slot] += change
        x[x[t[node, X_VIEW] + V_SLOTS] + slot] += change
        touch(t, x, node)


@inner
def _count_physical(t: Table, x: I8, gpu: int, slot: int, change: int) -> None:
    """Where nobody is opportunistic, nobody asks."""
    if x[H_OPPORTUNISM] == 0:
        return
    cell = gpu
    if slot == OPPORTUNIST:
        while cell >= 0:
            change_opportunists(t, x, cell, change)
            cell = t[cell, X_PARENT]
    else:
        t[t[gpu, X_NODE], X_USED] += change
    touch(t, x, t[gpu, X_NODE])


@inner
def take_gpu(t: Table, x: I8, gpu: int, virtual: int, slot: int, job: int) -> int:
    """`virtual` is -1 for an opportunistic job. The preassigned cell that is bound for this and must be allocated, or -1."""
    t[gpu, X_SLOT] = slot
    t[gpu, X_OWNER] = job
    _count_physical(t, x, gpu, slot, 1)
    if virtual < 0:
        return -1
    t[virtual, X_SLOT] = slot
    _count(t, x, virtual, slot, 1)
    root = t[virtual, X_ROOT]
    first = t[root, X_BOUND] < 0
    if t[gpu, X_BOUND] < 0:
        physical = gpu
        while virtual >= 0 and t[virtual, X_BOUND] < 0:
            tie(t, x, physical, virtual)
            virtual = t[virtual, X_PARENT]
            physical = t[physical, X_PARENT]
    if first:
        return root
    use(t, x, t[root, X_BOUND], t[root, X_VC])
    return -1


@inner
def _unbind(t: Table, x: I8, gpu: int) -> None:
    virtual = t[gpu, X_BOUND]
    while virtual >= 0:
        cell = t[virtual, X_BOUND]
        if t[cell, X_PIN] != 0:
            return
        untie(t, x, cell)
        virtual = t[virtual, X_PARENT]
        if virtual < 0:
            return
        for k in range(t[virtual, X_NKIDS]):
            if t[x[t[virtual, X_KIDS] + k], X_BOUND] >= 0:
                return


@inner
def free_gpu(t: Table, x: I8, gpu: int) -> None:
    virtual, slot = t[gpu, X_BOUND], t[gpu, X_SLOT]
    if slot != OPPORTUNIST:
        root = t[virtual, X_ROOT]
        _count(t, x, virtual, slot, -1)
        t[virtual, X_SLOT] = NOBODY
        preassigned = t[root, X_BOUND]
        if t[gpu, X_BAD] == 0:
            _unbind(t, x, gpu)
        if t[root, X_HELD] == 0 and t[preassigned, X_PIN] == 0 and t[preassigned, X_DPOS] < 0:
            release(t, x, preassigned, t[root, X_VC], False)
    _count_physical(t, x, gpu, slot, -1)
    t[gpu, X_SLOT] = NOBODY
    t[gpu, X_OWNER] = -1
    t[gpu, X_ALSO] = -1


@inner
def change_slot(t: Table, x: I8, gpu: int, slot: int) -> None:
    """Of a guaranteed job that runs."""
    virtual = t[gpu, X_BOUND]
    _count(t, x, virtual, t[gpu, X_SLOT], -1)
    t[gpu, X_SLOT] = slot
    t[virtual, X_SLOT] = slot
    _count(t, x, virtual, slot, 1)


@inner
def hand_over(t: Table, x: I8, gpu: int, virtual: int, slot: int, job: int) -> int:
    """From who has it, if anybody, to a job. As take_gpu; within a virtual cluster the cell stays bound."""
    if virtual >= 0 and t[gpu, X_SLOT] >= 0 and t[gpu, X_BOUND] == virtual:
        change_slot(t, x, gpu, slot)
        t[gpu, X_OWNER] = job
        return -1
    if t[gpu, X_SLOT] != NOBODY:
        free_gpu(t, x, gpu)
    return take_gpu(t, x, gpu, virtual, slot, job)
