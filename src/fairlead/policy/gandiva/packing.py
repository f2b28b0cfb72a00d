"""Packing: two jobs of one GPU each on a single GPU, where they get more done together than by taking turns.

Only while the cluster is overloaded. Jobs run alone first, so that their rate and utilisation are known. Then, on each crowded
node, the two with the lowest utilisation whose memory fits are tried for a quantum. The pair is kept if what it does in all,
each job's rate over its rate alone, is surely more than 1, which is what taking turns would do; otherwise it is undone and the
next are tried.
"""

from __future__ import annotations

from fairlead.kernels.bits import following
from fairlead.kernels.columns import C_HALF, Desk, Jobs, Queue
from fairlead.kernels.jit import inner
from fairlead.kernels.profiler import error, seen_gib, seen_rate, seen_use
from fairlead.policy.gandiva.hosting import keep_pair, pair_up, part_ways
from fairlead.policy.gandiva.running import leads, start, stop
from fairlead.policy.gandiva.tables import (
    A_BAD,
    A_CLASS,
    A_CPU,
    A_FIXED,
    A_GPUS,
    A_MATE,
    A_MEM,
    A_PAIR,
    A_PARTS,
    A_PRIORITY,
    A_STATE,
    A_TRIAL,
    A_TRIES,
    E_JOB,
    E_NEXT,
    F_GIB,
    F_SOLO,
    F_START,
    F_USE,
    RUNS,
    SCALARS,
    TRIAL,
    V_CAP,
    V_CPU_CAP,
    V_FREE,
    V_HEAD,
    V_LOAD,
    V_MEM_CAP,
    V_PAIRS,
    V_READY,
    V_UP,
    X_CAPACITY,
    X_DEMANDS,
    X_DUE,
    X_LOAD,
    X_NODES,
    X_TRIALS,
    Y_QUANTUM,
    Y_TRIES,
)


@inner
def has_run_a_turn(d: Desk, i: int, now: float) -> bool:
    """Whether job i has been running for a quantum, as far as times can be told apart."""
    return d.ints[A_STATE, i] == RUNS and now - d.floats[F_START, i] >= 0.999 * d.floats[0, Y_QUANTUM]


@inner
def judge_pairs(j: Jobs, q: Queue, d: Desk, now: float) -> None:
    """Keep or undo the pairs that have been tried for a quantum."""
    t = d.ints
    for k in range(t[SCALARS, X_TRIALS] - 1, -1, -1):
        leader = t[A_TRIAL, k]
        other = t[A_MATE, leader] - 1
        if not has_run_a_turn(d, leader, now) or not has_run_a_turn(d, other, now):
            continue
        if pays(j, q, d, leader, other, now):
            keep_pair(d, leader)
            continue
        stop(q, d, leader)
        part_ways(d, leader)
        for i, mate in ((leader, other), (other, leader)):
            t[A_TRIES, i] += 1
            t[A_BAD, i] = mate + 1


@inner
def pays(j: Jobs, q: Queue, d: Desk, a: int, b: int, now: float) -> bool:
    """Whether the pair does more than taking turns would, even if every observation was off by as much as it can be."""
    together = seen_rate(j, q, a, now) / d.floats[F_SOLO, a] + seen_rate(j, q, b, now) / d.floats[F_SOLO, b]
    return together * (1.0 - error(q)) > 1.0 + error(q)


@inner
def watch_alone(j: Jobs, q: Queue, d: Desk, n: int, now: float) -> None:
    """Note how fast those go on node n that have a GPU to themselves, and how much of it they use."""
    t, f = d.ints, d.floats
    e = t[V_HEAD, n]
    while e != 0:
        i = t[E_JOB, e - 1]
        if f[F_SOLO, i] == 0.0 and t[A_GPUS, i] == 1 and t[A_MATE, i] == 0 and has_run_a_turn(d, i, now):
            f[F_SOLO, i] = seen_rate(j, q, i, now)
            f[F_USE, i] = seen_use(j, q, i, now)
        e = t[E_NEXT, e - 1]


@inner
def _could_pair(q: Queue, d: Desk, i: int) -> bool:
    t, f = d.ints, d.floats
    if t[A_FIXED, i] != 0 or t[A_MATE, i] != 0 or t[A_PARTS, i] != 1 or t[A_GPUS, i] != 1 or f[F_SOLO, i] == 0.0:
        return False
    return f[F_USE, i] < 1.0 and t[A_TRIES, i] < f[0, Y_TRIES] and q.classes[C_HALF, t[A_CLASS, i]] >= 0


@inner
def _fit_together(j: Jobs, d: Desk, n: int, a: int, b: int) -> bool:
    """Whether a GPU of node n has the memory for both, and the node the CPU and memory."""
    t, f = d.ints, d.floats
    if f[F_GIB, n] > 0.0 and seen_gib(j, a) + seen_gib(j, b) > f[F_GIB, n]:
        return False
    if t[SCALARS, X_DEMANDS] == 0:
        return True
    return t[A_CPU, a] + t[A_CPU, b] <= t[V_CPU_CAP, n] and t[A_MEM, a] + t[A_MEM, b] <= t[V_MEM_CAP, n]


@inner
def _lowest(j: Jobs, q: Queue, d: Desk, n: int, mate: int) -> int:
    """The job of node n with the lowest utilisation that could be packed, with `mate` where that is one; -1 for none."""
    t, f, best = d.ints, d.floats, -1
    e = t[V_HEAD, n]
    while e != 0:
        i = t[E_JOB, e - 1]
        e = t[E_NEXT, e - 1]
        if i == mate or not _could_pair(q, d, i):
            continue
        if mate >= 0:
            if t[A_PRIORITY, i] != t[A_PRIORITY, mate] or t[A_BAD, i] == mate + 1 or t[A_BAD, mate] == i + 1:
                continue
            if not _fit_together(j, d, n, i, mate):
                continue
        if best < 0 or f[F_USE, i] < f[F_USE, best] or (f[F_USE, i] == f[F_USE, best] and i < best):
            best = i
    return best


@inner
def try_pairs(j: Jobs, q: Queue, d: Desk, now: float) -> None:
    """On each node where jobs take turns, try the next two together, as long as the cluster is overloaded."""
    t = d.ints
    n = following(d.cells, t[SCALARS, X_DUE], t[SCALARS, X_NODES], 0)
    while n >= 0:
        watch_alone(j, q, d, n, now)
        if t[SCALARS, X_LOAD] > t[SCALARS, X_CAPACITY]:
            a = _lowest(j, q, d, n, -1)
            b = _lowest(j, q, d, n, a) if a >= 0 else -1
            if b >= 0:
                stop(q, d, a)
                stop(q, d, b)
                pair_up(d, min(a, b), max(a, b))
        n = following(d.cells, t[SCALARS, X_DUE], t[SCALARS, X_NODES], n + 1)


@inner
def unpack(q: Queue, d: Desk, n: int, now: float) -> None:
    """Node n has GPUs that nobody waits for: those who share one get one each."""
    t = d.ints
    while t[V_PAIRS, n] > 0 and t[V_READY, n] == 0 and t[V_FREE, n] > 0 and t[V_UP, n] != 0:
        best = -1
        e = t[V_HEAD, n]
        while e != 0:
            i = t[E_JOB, e - 1]
            e = t[E_NEXT, e - 1]
            if t[A_MATE, i] == 0 or not leads(d, i) or t[A_STATE, i] != RUNS or d.floats[F_START, i] == now:
                continue
            full = t[A_PAIR, i] != TRIAL and t[V_LOAD, n] >= t[V_CAP, n]
            if not full and (best < 0 or i < best):
                best = i
        if best < 0:
            return
        other = t[A_MATE, best] - 1
        part_ways(d, best)
        stop(q, d, other)
        start(q, d, other)
