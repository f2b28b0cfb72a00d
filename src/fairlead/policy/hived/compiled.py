"""HiveD inside the compiled loop: what happened, who is next, where he goes. exact.py is the same in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.kernels.columns import (
    AGAIN,
    C_LIST,
    C_REASON,
    C_ROOT,
    G_ACTIVE,
    G_REKEYED,
    G_ROWS,
    I8,
    J_KEY,
    K_CLASS,
    K_LEVEL,
    K_LINK,
    K_OWN,
    K_STATE,
    NEVER,
    R_RESHAPES,
    RUNNING,
    Cluster,
    Desk,
    Jobs,
    Log,
    Queue,
    Table,
)
from fairlead.kernels.desk import ask_start, ask_suspend
from fairlead.kernels.jit import inner, int64
from fairlead.kernels.lanes import is_fixed
from fairlead.kernels.ranks import outranks
from fairlead.kernels.rows import FINISH_ROW, KILL_ROW, NODE_DOWN_ROW, NODE_UP_ROW, WITHDRAW_ROW
from fairlead.model.reason import Reason
from fairlead.policy.base import CompiledPlanner, Memo
from fairlead.policy.hived.gpus import change_slot, free_gpu, hand_over
from fairlead.policy.hived.handover import recall, take_over
from fairlead.policy.hived.layout import lay_out
from fairlead.policy.hived.ledger import allocate, give, set_bad, set_healthy
from fairlead.policy.hived.mapping import find_physical
from fairlead.policy.hived.order import choose_gpus, choose_nodes, lower_held, sort_nodes
from fairlead.policy.hived.setup import PARAMETERS, order_of, refusals, set_up
from fairlead.policy.hived.tables import (
    CH_NODE_GPUS,
    CH_NUMBER,
    CH_VIEW,
    CLASS_SIZE,
    H_BAD_NODES,
    H_BROKEN,
    H_CHAIN_COUNT,
    H_CLASSES,
    H_EPOCH,
    H_GPU_LIST,
    H_HEADS,
    H_JOBS,
    H_LEVEL_SLOTS,
    H_NODE_LIST,
    H_NODES,
    H_REST,
    H_ROW,
    H_SLOTS,
    H_STAMP,
    H_STRICT,
    H_VC_COUNT,
    H_VCS,
    H_VICTIMS,
    H_VIEWS,
    H_WANTED,
    K_BLOCKED,
    K_CHAIN0,
    K_CHAINS,
    K_EPOCH,
    K_GPUS,
    K_PRIO,
    K_VC,
    OPPORTUNIST,
    VC_EPOCH,
    VC_SIZE,
    X_ALSO,
    X_BOUND,
    X_LINK,
    X_MAP,
    X_MARK,
    X_OWNER,
    X_SLOT,
    X_VC,
)
from fairlead.state.view import View

OUTRANKED = int(Reason.OUTRANKED)


@inner
def _class(x: I8, k: int) -> int:
    return x[H_CLASSES] + k * CLASS_SIZE


@inner
def _slot(x: I8, j: Jobs, i: int, kind: int) -> int:
    """The priority of job i, whose class has this record."""
    if x[kind + K_PRIO] < 0:
        return OPPORTUNIST
    levels = x[H_LEVEL_SLOTS]
    return x[kind + K_PRIO] * levels + levels - 1 - max(0, min(int64(j.ints[K_LEVEL, i]), levels - 1))


@inner
def _unblock_all(x: I8) -> None:
    x[H_EPOCH] += 1
    for vc in range(x[H_VC_COUNT]):
        x[x[H_VCS] + vc * VC_SIZE + VC_EPOCH] += 1


@inner
def _unblock(x: I8, kind: int) -> None:
    """Something of a job of this class is free: its virtual cluster's jobs may fit, and everybody's opportunistic ones; with
    bad nodes about, anybody's."""
    if x[H_BAD_NODES] > 0:
        _unblock_all(x)
        return
    if x[kind + K_PRIO] >= 0:
        x[x[H_VCS] + x[kind + K_VC] * VC_SIZE + VC_EPOCH] += 1
    x[H_EPOCH] += 1


@inner
def _epoch(x: I8, kind: int) -> int:
    return x[H_EPOCH] if x[kind + K_PRIO] < 0 else x[x[H_VCS] + x[kind + K_VC] * VC_SIZE + VC_EPOCH]


@inner
def _kind(x: I8, j: Jobs, q: Queue, i: int) -> int:
    """The record of what job i asked for, whatever it runs as: somebody else may have given it more or less."""
    return _class(x, int64(j.ints[K_OWN if q.counter[R_RESHAPES] != 0 else K_CLASS, i]))


@inner
def _end(t: Table, x: I8, j: Jobs, q: Queue, i: int) -> None:
    gpu = x[x[H_JOBS] + i]
    if gpu >= 0 and t[gpu, X_SLOT] == OPPORTUNIST and is_fixed(q, int64(j.ints[K_CLASS, i])):
        _unblock_all(x)  # it was in somebody's way, see _is_in_the_way
    while gpu >= 0:
        after, other = t[gpu, X_LINK], t[gpu, X_ALSO]
        if other >= 0:
            t[gpu, X_OWNER] = other if t[gpu, X_OWNER] == i else t[gpu, X_OWNER]
            t[gpu, X_ALSO] = -1
        else:
            free_gpu(t, x, gpu)
        gpu = after
    _unblock(x, _kind(x, j, q, i))


@inner
def _has_gpus(t: Table, x: I8, i: int) -> bool:
    gpu = x[x[H_JOBS] + i]
    return gpu >= 0 and (t[gpu, X_OWNER] == i or t[gpu, X_ALSO] == i)


@inner
def _node_turns(t: Table, x: I8, node: int, bad: bool) -> None:
    first, count = x[x[H_NODES] + 2 * node], x[x[H_NODES] + 2 * node + 1]
    x[H_BAD_NODES] += 1 if bad else -1
    for g in range(first, first + count):
        if bad:
            set_bad(t, x, x[g])
        else:
            set_healthy(t, x, x[g])
    _unblock_all(x)


@inner
def _learn(t: Table, x: I8, j: Jobs, q: Queue, log: Log) -> None:
    """What happened since it was last asked; its own starts and suspensions it knows."""
    for row in range(x[H_ROW], q.counter[G_ROWS]):
        kind, subject = int64(log.what[0, row]), int64(log.what[1, row])
        if FINISH_ROW <= kind <= KILL_ROW:  # the ways to end are numbered in a row
            _end(t, x, j, q, subject)
        elif kind == WITHDRAW_ROW:
            if _has_gpus(t, x, subject):
                _end(t, x, j, q, subject)
        elif kind == NODE_DOWN_ROW or kind == NODE_UP_ROW:
            _node_turns(t, x, subject, kind == NODE_DOWN_ROW)
    x[H_ROW] = q.counter[G_ROWS]
    link = q.counter[G_REKEYED]
    q.counter[G_REKEYED] = 0
    while link > 0:
        i = link - 1
        link = int64(j.ints[K_LINK, i])
        kind = _kind(x, j, q, i)
        slot, gpu = _slot(x, j, i, kind), x[x[H_JOBS] + i]
        stays = is_fixed(q, int64(j.ints[K_CLASS, i]))
        # one that runs on as opportunistic, since it was started where its cells are not, has no priority among them
        is_moved = slot >= 0 and t[gpu, X_SLOT] >= 0 and t[gpu, X_SLOT] != slot
        if j.ints[K_STATE, i] == RUNNING and not stays and is_moved:
            while gpu >= 0:
                change_slot(t, x, gpu, slot)
                gpu = t[gpu, X_LINK]
            _unblock(x, kind)


@inner
def _before(x: I8, j: Jobs, a: int, kind_a: int, b: int, kind_b: int) -> bool:
    """Whether waiting job a goes before job b."""
    if x[kind_a + K_PRIO] != x[kind_b + K_PRIO]:
        return x[kind_a + K_PRIO] > x[kind_b + K_PRIO]
    return outranks(int64(j.ints[K_LEVEL, a]), j.floats[J_KEY, a], a, int64(j.ints[K_LEVEL, b]), j.floats[J_KEY, b], b)


@inner
def _blocked(x: I8, j: Jobs, i: int, kind: int) -> bool:
    return x[kind + K_EPOCH] == _epoch(x, kind) and _slot(x, j, i, kind) <= x[kind + K_BLOCKED]


@inner
def _next_class(x: I8, j: Jobs, q: Queue) -> int:
    """The class of the job to try next, -1 if there is nobody. A strict order looks no further than the first of each
    virtual cluster, its opportunistic jobs being a queue of their own."""
    best = -1
    strict = x[H_STRICT] != 0
    heads = x[H_HEADS]
    if strict:
        for h in range(2 * x[H_VC_COUNT]):
            x[heads + h] = -1
    for a in range(q.counter[G_ACTIVE]):
        k = q.classes[C_LIST, a]
        kind, i = _class(x, k), q.classes[C_ROOT, k]
        if q.classes[C_REASON, k] != 0:  # live, it ran before under other rules; here it never will
            continue
        if strict:
            h = heads + 2 * x[kind + K_VC] + (1 if x[kind + K_PRIO] < 0 else 0)
            if x[h] < 0 or _before(x, j, i, kind, q.classes[C_ROOT, x[h]], _class(x, x[h])):
                x[h] = k
        elif not _blocked(x, j, i, kind) and (
            best < 0 or _before(x, j, i, kind, q.classes[C_ROOT, best], _class(x, best))
        ):
            best = k
    if strict:
        for h in range(2 * x[H_VC_COUNT]):
            k = x[heads + h]
            if k < 0 or _blocked(x, j, q.classes[C_ROOT, k], _class(x, k)):
                continue
            if best < 0 or _before(x, j, q.classes[C_ROOT, k], _class(x, k), q.classes[C_ROOT, best], _class(x, best)):
                best = k
    return best


@inner
def _find(t: Table, x: I8, chain: int, kind: int, slot: int) -> bool:
    """GPUs for a job onto the list of GPUs; for a guaranteed job virtual ones, with the physical ones in X_MAP."""
    each, gpus = x[chain + CH_NODE_GPUS], x[kind + K_GPUS]
    whole, rest = gpus // each, gpus % each
    view = x[chain + CH_VIEW]
    if slot >= 0:
        view = x[x[H_VIEWS] + x[kind + K_VC] * x[H_CHAIN_COUNT] + x[chain + CH_NUMBER]]
    sort_nodes(t, x, view)
    at = OPPORTUNIST
    if not choose_nodes(t, x, view, whole, each, rest, at):
        if slot < 0 or not lower_held(x, view, slot):
            return False
        at = slot
        if not choose_nodes(t, x, view, whole, each, rest, at):
            return False
    written, number = 0, 0
    if rest > 0:
        choose_gpus(t, x, x[x[H_NODE_LIST]], rest, at, 0)
        written, number = rest, 1
    for _ in range(whole):
        choose_gpus(t, x, x[x[H_NODE_LIST] + number], each, at, written)
        written += each
        number += 1
    return slot < 0 or find_physical(t, x, chain, gpus)


@inner
def _sort(x: I8, at: int, count: int) -> None:
    for a in range(1, count):
        value, b = x[at + a], a
        while b > 0 and x[at + b - 1] > value:
            x[at + b] = x[at + b - 1]
            b -= 1
        x[at + b] = value


@inner
def _set_aside(t: Table, x: I8, gpus: int, physical: bool) -> tuple[int, int]:
    """Who is in the way: jobs, by index, onto the list of victims, and their GPUs that the new job does not want onto the
    list of the rest. How many of each."""
    x[H_STAMP] += 1
    stamp, victims, rest = x[H_STAMP], 0, 0
    for g in range(gpus):
        gpu = x[x[H_GPU_LIST] + g] if physical else t[x[x[H_GPU_LIST] + g], X_MAP]
        t[gpu, X_MARK] = stamp
        for owner in (t[gpu, X_OWNER], t[gpu, X_ALSO]):
            known = owner < 0
            for v in range(victims):
                known = known or x[x[H_VICTIMS] + v] == owner
            if not known:
                x[x[H_VICTIMS] + victims] = owner
                victims += 1
    _sort(x, x[H_VICTIMS], victims)
    for v in range(victims):
        gpu = x[x[H_JOBS] + x[x[H_VICTIMS] + v]]
        while gpu >= 0:
            if t[gpu, X_MARK] != stamp:
                x[x[H_REST] + rest] = gpu
                rest += 1
            gpu = t[gpu, X_LINK]
    return victims, rest


@inner
def _is_in_the_way(t: Table, x: I8, j: Jobs, q: Queue, gpus: int, physical: bool) -> bool:
    """Whether one of the chosen GPUs is held by a job that may not be preempted. HiveD starts none where it could be in the way:
    this one ran already, and elsewhere than in its cells."""
    for g in range(gpus):
        gpu = x[x[H_GPU_LIST] + g] if physical else t[x[x[H_GPU_LIST] + g], X_MAP]
        for owner in (t[gpu, X_OWNER], t[gpu, X_ALSO]):
            if owner >= 0 and is_fixed(q, int64(j.ints[K_CLASS, owner])):
                return True
    return False


@inner
def _take(t: Table, x: I8, j: Jobs, q: Queue, desk: Desk, i: int, kind: int, slot: int) -> None:
    """The job has its GPUs from now on; write down who stops for it, and its start."""
    gpus = x[kind + K_GPUS]
    # nobody has a higher priority than one who is not to be preempted
    held = x[H_SLOTS] - 1 if is_fixed(q, int64(j.ints[K_CLASS, i])) else slot
    victims, rest = _set_aside(t, x, gpus, slot < 0)
    for v in range(victims):
        ask_suspend(q, desk, x[x[H_VICTIMS] + v], OUTRANKED)
    last, new = -1, 0
    for g in range(gpus):
        chosen = x[x[H_GPU_LIST] + g]
        gpu = chosen if slot < 0 else t[chosen, X_MAP]
        root = hand_over(t, x, gpu, -1 if slot < 0 else chosen, held, i)
        if root >= 0:
            x[x[H_WANTED] + new] = root
            new += 1
        if last < 0:
            x[x[H_JOBS] + i] = gpu
        else:
            t[last, X_LINK] = gpu
        t[gpu, X_LINK] = -1
        last = gpu
        x[x[H_GPU_LIST] + g] = gpu
    for n in range(new):
        root = x[x[H_WANTED] + n]
        give(t, x, t[root, X_BOUND], t[root, X_VC])
    for n in range(new):
        allocate(t, x, t[x[x[H_WANTED] + n], X_BOUND])
    for r in range(rest):
        free_gpu(t, x, x[x[H_REST] + r])
    for v in range(victims):
        _unblock(x, _kind(x, j, q, x[x[H_VICTIMS] + v]))
    _sort(x, x[H_GPU_LIST], gpus)
    for g in range(gpus):
        desk.ids[g] = x[x[H_GPU_LIST] + g]
    ask_start(q, desk, i, 0)


def plan(c: Cluster, j: Jobs, q: Queue, log: Log, desk: Desk, now: float) -> float:
    t, x = desk.ints, desk.cells
    _learn(t, x, j, q, log)
    while True:
        k = _next_class(x, j, q)
        if k < 0:
            return now if x[H_BROKEN] != 0 else NEVER
        kind, i = _class(x, k), q.classes[C_ROOT, k]
        slot = _slot(x, j, i, kind)
        for n in range(x[kind + K_CHAINS]):
            found = _find(t, x, x[x[kind + K_CHAIN0] + n], kind, slot)
            if found and not _is_in_the_way(t, x, j, q, x[kind + K_GPUS], slot < 0):
                _take(t, x, j, q, desk, i, kind, slot)
                return AGAIN
        x[kind + K_BLOCKED] = slot
        x[kind + K_EPOCH] = _epoch(x, kind)


class Hived(CompiledPlanner):
    """HiveD: each tenant owns cells of the cluster, placed and preempted in; order=POLICY within a tenant, vcs=even|demand."""

    name = "hived"
    parameters = PARAMETERS
    tenant_classes = True
    priority_classes = True
    own_quotas = True
    inside_nodes = True
    takes_over = True
    plan = staticmethod(plan)

    @classmethod
    def order(cls, values: Mapping[str, Any]) -> str:
        return str(order_of(values).name)

    def refuses(self, view: View) -> Mapping[int, Reason]:
        self.setup = set_up(view, self.values)
        return refusals(self.setup)

    def desk(self, view: View) -> Desk:
        return lay_out(view, self.setup)

    def take_over(self, view: View, memos: Mapping[int, Memo]) -> Desk:
        return take_over(view, self.setup, memos)

    def recall(self, view: View, desk: Desk) -> Mapping[int, Memo]:
        return recall(view, desk)
