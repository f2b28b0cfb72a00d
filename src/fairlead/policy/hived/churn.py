"""Cells taken and given back at random, very often: is everybody always given what he owns?

A request is legal when it asks for cells that its virtual cluster owns and does not use. Without bad nodes none may fail, ever.
With bad nodes one may fail only if no healthy cell is left that could be had without taking from another what he owns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.kernels.columns import I8, Table
from fairlead.kernels.jit import compiled, inner
from fairlead.kernels.rng import uniform
from fairlead.kernels.slim import slim
from fairlead.model.cells import CellsSpec
from fairlead.policy.hived.algorithm import Hived
from fairlead.policy.hived.gpus import free_gpu, take_gpu
from fairlead.policy.hived.layout import Layout
from fairlead.policy.hived.ledger import allocate, give, set_bad, set_healthy
from fairlead.policy.hived.mapping import find_physical
from fairlead.policy.hived.setup import Setup
from fairlead.policy.hived.tables import (
    CH_BASE,
    CH_TOP,
    CHAIN_SIZE,
    H_BROKEN,
    H_CHAIN_COUNT,
    H_CHAINS,
    H_GPU_LIST,
    H_NODES,
    H_WANTED,
    L_CHAIN,
    L_FAN,
    L_LEFT,
    L_NFREE,
    L_OWNED,
    LEVEL_SIZE,
    X_BAD,
    X_BOUND,
    X_GPUS,
    X_HELD,
    X_LEAF0,
    X_LEVEL,
    X_LV,
    X_MAP,
    X_PARENT,
    X_SLOT,
    X_SPLIT,
    X_VC,
)

#: what churn() counts
ASKED, GRANTED, RETURNED, TURNED, DENIED, WRONGLY_DENIED, UNSAFE = 0, 1, 2, 3, 4, 5, 6
COUNTS = 7


@inner
def _spare(x: I8, chain: int, level: int) -> int:
    """Cells of a level that all owners of this level and those above could do without."""
    spare = 0
    for at in range(x[chain + CH_TOP], level - 1, -1):
        lv = x[chain + CH_BASE] + at * LEVEL_SIZE
        above = spare * x[lv + LEVEL_SIZE + L_FAN] if at < x[chain + CH_TOP] else 0
        spare = x[lv + L_NFREE] - x[lv + L_OWNED] + above
    return spare


@inner
def _safe(x: I8) -> bool:
    for c in range(x[H_CHAIN_COUNT]):
        chain = x[H_CHAINS] + c * CHAIN_SIZE
        for level in range(1, x[chain + CH_TOP] + 1):
            lv = x[chain + CH_BASE] + level * LEVEL_SIZE
            if x[lv + L_LEFT] < x[lv + L_OWNED] or _spare(x, chain, level) < 0:
                return False
    return x[H_BROKEN] == 0


@inner
def _could_be_had(t: Table, x: I8, root: int, first: int, cells: int) -> bool:
    """Whether some free cell like this one is healthy and can be had without breaking anybody's claim."""
    lv = t[root, X_LV]
    for cell in range(first, first + cells):
        if t[cell, X_LV] != lv or t[cell, X_BAD] != 0:
            continue
        around, free = cell, t[cell, X_BOUND] < 0 and t[cell, X_SPLIT] == 0
        while t[around, X_PARENT] >= 0 and t[t[around, X_PARENT], X_SPLIT] == 0:
            around = t[around, X_PARENT]
            free = free and t[around, X_BOUND] < 0
        for level in range(t[cell, X_LEVEL] + 1, t[around, X_LEVEL] + 1):
            free = free and _spare(x, x[lv + L_CHAIN], level) > 0
        if free:
            return True
    return False


@inner
def _ask(t: Table, x: I8, root: int, gpus: int) -> bool:
    """Some GPUs of a cell that is not in use, and so the cell."""
    for g in range(gpus):
        x[x[H_GPU_LIST] + g] = x[t[root, X_LEAF0] + g]
    if not find_physical(t, x, x[t[root, X_LV] + L_CHAIN], gpus):
        return False
    new = 0
    for g in range(gpus):
        virtual = x[t[root, X_LEAF0] + g]
        bound = take_gpu(t, x, t[virtual, X_MAP], virtual, 0, 0)
        if bound >= 0:
            x[x[H_WANTED]] = bound
            new += 1
    if new > 0:
        give(t, x, t[root, X_BOUND], t[root, X_VC])
        allocate(t, x, t[root, X_BOUND])
    return True


@inner
def _give_back(t: Table, x: I8, root: int) -> None:
    for g in range(t[root, X_LEAF0], t[root, X_LEAF0] + t[root, X_GPUS]):
        if t[x[g], X_SLOT] >= 0:
            free_gpu(t, x, t[x[g], X_BOUND])


@compiled
def churn_tables(
    tables: Table, lists: I8, roots: I8, physical: int, nodes: int, failing: int, seed: int, ops: int, counts: I8
) -> None:
    """`ops` random steps: a preassigned cell in use is given back, one that is not is asked for, whole or in part; where
    `failing` is not 0, one step in that many turns a node bad or healthy instead. Cells below `physical` are physical."""
    t, x = slim(tables), slim(lists)
    for op in range(ops):
        draw = uniform(seed, op, 0, 0)
        if failing > 0 and nodes > 0 and draw * failing < 1.0:
            node = int(uniform(seed, op, 1, 0) * nodes)
            first, count = x[x[H_NODES] + 2 * node], x[x[H_NODES] + 2 * node + 1]
            turn_bad = t[x[first], X_BAD] == 0
            for g in range(first, first + count):
                if turn_bad:
                    set_bad(t, x, x[g])
                else:
                    set_healthy(t, x, x[g])
            counts[TURNED] += 1
        else:
            root = roots[int(uniform(seed, op, 2, 0) * roots.shape[0])]
            if t[root, X_HELD] > 0:
                _give_back(t, x, root)
                counts[RETURNED] += 1
            elif t[root, X_BOUND] < 0:
                gpus = t[root, X_GPUS]
                whole = uniform(seed, op, 3, 0) < 0.5
                if not whole:
                    gpus = 1 + int(uniform(seed, op, 4, 0) * gpus)
                counts[ASKED] += 1
                if _ask(t, x, root, gpus):
                    counts[GRANTED] += 1
                else:
                    counts[DENIED] += 1
                    if _could_be_had(t, x, root, 0, physical):
                        counts[WRONGLY_DENIED] += 1
        if not _safe(x):
            counts[UNSAFE] += 1


@dataclass(frozen=True)
class Churned:
    asked: int
    granted: int
    returned: int
    turned: int  #: nodes, bad or healthy
    denied: int  #: for want of healthy cells
    wrongly_denied: int
    unsafe: int  #: steps after which some level had fewer cells left than are owned

    @property
    def steps(self) -> int:
        return self.asked + self.returned + self.turned

    def __add__(self, other: Churned) -> Churned:
        return Churned(*(a + b for a, b in zip(self.__dict__.values(), other.__dict__.values())))


def churn(spec: CellsSpec, seed: int, ops: int, failing: int = 0) -> Churned:
    """`ops` random steps on fresh cells."""
    layout = tables_of(spec)
    roots = [cell.number for vc in layout.vcs for levels in vc.preassigned.values() for one in levels for cell in one]
    counts = np.zeros(COUNTS, np.int64)
    if roots:
        physical = sum(len(chain.all[level]) for chain in layout.chains for level in range(1, chain.top + 1))
        nodes = len(layout.hived.nodes())
        churn_tables(layout.t, layout.x, np.array(roots, np.int64), physical, nodes, failing, seed, ops, counts)
    return Churned(*counts.tolist())


def tables_of(spec: CellsSpec) -> Layout:
    """Tables for cells alone, without any jobs."""
    node_gpus = {chain: spec.gpus(spec.levels(chain)[spec.node_level(chain)]) for chain in spec.chains}
    ids: dict[tuple[str, int], int] = {}
    machines = []
    for top in spec.physical:
        for cell in top.walk():
            if cell.machine:
                machines.append(cell.machine)
                for gpu in cell.walk():
                    if not gpu.children:
                        ids[cell.address, int(gpu.name)] = len(ids)
    return Layout(Hived(spec, checked=True), Setup(spec, (), 1, False, node_gpus, ids), 0, machines)
