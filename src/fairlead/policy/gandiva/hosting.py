"""Giving a job a home and taking it away: lists of parts, loads, affinities, who waits where."""

from __future__ import annotations

from fairlead.kernels.bits import add, remove
from fairlead.kernels.columns import Desk
from fairlead.kernels.jit import hot, inner
from fairlead.kernels.nodes import part
from fairlead.policy.gandiva.shelf import affinity_of, change_load, touch
from fairlead.policy.gandiva.tables import (
    A_ASK,
    A_CPU,
    A_FOLLOWS,
    A_GPUS,
    A_GROWN,
    A_LEAST,
    A_MATE,
    A_MEM,
    A_MILLI,
    A_MOST,
    A_PAIR,
    A_PARTS,
    A_SPLIT_NEXT,
    A_SPLIT_PREV,
    A_STATE,
    A_TENANT,
    A_TRIAL,
    A_TRIAL_AT,
    E_COUNT,
    E_JOB,
    E_MORE,
    E_NEXT,
    E_NODE,
    E_PREV,
    F_SERVED,
    F_SINCE,
    F_SOLO,
    F_WEIGHT,
    H_HOSTED,
    KEPT,
    NOT_HERE,
    P_COUNT,
    P_NODE,
    READY,
    RUNS,
    SCALARS,
    STUBBORN,
    TRIAL,
    V_AFFINITY,
    V_CAP,
    V_CPU_CAP,
    V_CPU_LOAD,
    V_GROWERS,
    V_HEAD,
    V_IS_DUE,
    V_LOAD,
    V_MEM_CAP,
    V_MEM_LOAD,
    V_PAIRS,
    V_PARTS,
    V_READY,
    V_SLACK,
    V_SPANS,
    WATCHED,
    X_DEMANDS,
    X_DUE,
    X_DUE_COUNT,
    X_FREED,
    X_GROWER_COUNT,
    X_GROWERS,
    X_NODES,
    X_PARTS,
    X_SLACK,
    X_SPARE,
    X_SPLIT,
    X_TRIALS,
    Y_NOW,
)


@hot
def is_local(d: Desk, i: int) -> bool:
    """Whether one node hosts all of job i."""
    return d.ints[A_PARTS, i] == 1


@hot
def cpu_of(d: Desk, i: int, gpus: int) -> int:
    """Milli-CPUs that a node must have for so many GPUs of job i. A follower counts for no GPU, but its processes are there."""
    return part(d.ints[A_CPU, i], max(gpus, 1), d.ints[A_ASK, i])


@hot
def mem_of(d: Desk, i: int, gpus: int) -> int:
    return part(d.ints[A_MEM, i], max(gpus, 1), d.ints[A_ASK, i])


@inner
def has_cpu(d: Desk, i: int, n: int, gpus: int, taking_turns: bool) -> bool:
    """Whether node n has the CPU and memory for so many GPUs of job i, beside all it hosts or when its turn comes."""
    t = d.ints
    if t[SCALARS, X_DEMANDS] == 0:
        return True
    cpu, mem = (0, 0) if taking_turns else (t[V_CPU_LOAD, n], t[V_MEM_LOAD, n])
    return cpu + cpu_of(d, i, gpus) <= t[V_CPU_CAP, n] and mem + mem_of(d, i, gpus) <= t[V_MEM_CAP, n]


@inner
def pick(d: Desk, n: int, gpus: int) -> None:
    """Note a part of what was chosen, in order of the nodes' index."""
    t = d.ints
    k = t[SCALARS, X_PARTS]
    while k > 0 and t[P_NODE, k - 1] > n:
        t[P_NODE, k] = t[P_NODE, k - 1]
        t[P_COUNT, k] = t[P_COUNT, k - 1]
        k -= 1
    t[P_NODE, k] = n
    t[P_COUNT, k] = gpus
    t[SCALARS, X_PARTS] += 1


@hot
def settle(d: Desk, i: int, now: float) -> None:
    """Count the time that running job i has had."""
    if d.ints[A_STATE, i] == RUNS:
        d.floats[F_SERVED, i] += (now - d.floats[F_SINCE, i]) / d.floats[F_WEIGHT, i]
        d.floats[F_SINCE, i] = now


@inner
def _least_served(d: Desk, n: int, but: int) -> float:
    """What the job has had that has had least on node n."""
    t, least = d.ints, -1.0
    e = t[V_HEAD, n]
    while e != 0:
        i = t[E_JOB, e - 1]
        if i != but and (least < 0.0 or d.floats[F_SERVED, i] < least):
            least = d.floats[F_SERVED, i]
        e = t[E_NEXT, e - 1]
    return max(least, 0.0)


@inner
def _note_elastic(d: Desk, n: int, i: int, sign: int) -> None:
    """Count (or stop counting) what elastic job i of node n could give, and whether it could take more."""
    t = d.ints
    if t[A_MOST, i] == 0:
        return
    t[V_SLACK, n] += sign * (t[A_GPUS, i] - t[A_LEAST, i])
    t[SCALARS, X_SLACK] += sign * (t[A_GPUS, i] - t[A_LEAST, i])
    if t[A_GROWN, i] == WATCHED or (t[A_GPUS, i] < t[A_MOST, i] and t[A_GROWN, i] != STUBBORN):
        before = t[V_GROWERS, n]
        t[V_GROWERS, n] = before + sign
        if before == 0:
            add(d.cells, t[SCALARS, X_GROWERS], t[SCALARS, X_NODES], n)
            t[SCALARS, X_GROWER_COUNT] += 1
        elif t[V_GROWERS, n] == 0:
            remove(d.cells, t[SCALARS, X_GROWERS], t[SCALARS, X_NODES], n)
            t[SCALARS, X_GROWER_COUNT] -= 1


@inner
def link(d: Desk, e: int, i: int, n: int, count: int) -> None:
    """Part e of job i, so many GPUs, is on node n."""
    t = d.ints
    t[E_JOB, e] = i
    t[E_NODE, e] = n
    t[E_COUNT, e] = count
    head = t[V_HEAD, n]
    t[E_NEXT, e] = head
    t[E_PREV, e] = 0
    if head != 0:
        t[E_PREV, head - 1] = e + 1
    t[V_HEAD, n] = e + 1
    t[V_PARTS, n] += 1
    t[V_READY, n] += 1
    a = t[V_AFFINITY, n] if t[V_AFFINITY, n] != 0 else affinity_of(t[A_ASK, i])
    change_load(d, n, count, a)
    if t[SCALARS, X_DEMANDS] != 0:
        t[V_CPU_LOAD, n] += cpu_of(d, i, count)
        t[V_MEM_LOAD, n] += mem_of(d, i, count)
    touch(d, n)


@inner
def _affinity_without(d: Desk, n: int, i: int) -> int:
    """The affinity of node n once job i has left: the same while it hosts a job of that size, else that of the one which has
    been there longest."""
    t = d.ints
    a = t[V_AFFINITY, n]
    if affinity_of(t[A_ASK, i]) != a:
        return a
    left = 0
    e = t[V_HEAD, n]
    while e != 0:
        left = affinity_of(t[A_ASK, t[E_JOB, e - 1]])
        if left == a:
            return a
        e = t[E_NEXT, e - 1]  # the newest stands first
    return left


@inner
def unlink(d: Desk, e: int) -> None:
    t = d.ints
    n, i, count = t[E_NODE, e], t[E_JOB, e], t[E_COUNT, e]
    before, after = t[E_PREV, e], t[E_NEXT, e]
    if before != 0:
        t[E_NEXT, before - 1] = after
    else:
        t[V_HEAD, n] = after
    if after != 0:
        t[E_PREV, after - 1] = before
    t[V_PARTS, n] -= 1
    if t[A_STATE, i] == READY:
        t[V_READY, n] -= 1
    change_load(d, n, -count, _affinity_without(d, n, i))
    if t[SCALARS, X_DEMANDS] != 0:
        t[V_CPU_LOAD, n] -= cpu_of(d, i, count)
        t[V_MEM_LOAD, n] -= mem_of(d, i, count)
    touch(d, n)


@inner
def host(d: Desk, i: int, gpus: int) -> None:
    """The nodes that choose() picked, in order of their index, are job i's home from now on; it waits there to start."""
    t, f = d.ints, d.floats
    t[A_GPUS, i] = gpus
    t[A_STATE, i] = READY
    parts = t[SCALARS, X_PARTS]
    t[A_PARTS, i] = parts
    f[F_SOLO, i] = 0.0
    served, crowded = 0.0, False
    e = i
    for k in range(parts):
        n = t[P_NODE, k]
        link(d, e, i, n, t[P_COUNT, k])
        if t[V_IS_DUE, n] != 0:
            had = _least_served(d, n, i)
            served = min(served, had) if crowded else had
            crowded = True
        t[E_MORE, e] = 0
        if parts > 1:
            t[V_SPANS, n] += 1
        if k + 1 < parts:
            more = t[SCALARS, X_SPARE]
            t[SCALARS, X_SPARE] = t[E_NEXT, more - 1]
            t[E_MORE, e] = more
            e = more - 1
    f[F_SERVED, i] = served
    t[H_HOSTED, t[A_TENANT, i]] += gpus * t[A_MILLI, i]
    if parts == 1:
        _note_elastic(d, t[E_NODE, i], i, 1)
    else:
        head = t[SCALARS, X_SPLIT]
        t[A_SPLIT_NEXT, i] = head
        t[A_SPLIT_PREV, i] = 0
        if head != 0:
            t[A_SPLIT_PREV, head - 1] = i + 1
        t[SCALARS, X_SPLIT] = i + 1


@inner
def _unsplit(d: Desk, i: int) -> None:
    """Take job i off the list of those with parts on several nodes."""
    t = d.ints
    before, after = t[A_SPLIT_PREV, i], t[A_SPLIT_NEXT, i]
    if before != 0:
        t[A_SPLIT_NEXT, before - 1] = after
    else:
        t[SCALARS, X_SPLIT] = after
    if after != 0:
        t[A_SPLIT_PREV, after - 1] = before
    t[A_SPLIT_NEXT, i] = 0
    t[A_SPLIT_PREV, i] = 0


@inner
def unhost(d: Desk, i: int) -> None:
    """Job i, which does not run any more, has no home. A pair that it was part of is one no more."""
    t = d.ints
    part_ways(d, i)
    if t[A_PARTS, i] == 1:
        _note_elastic(d, t[E_NODE, i], i, -1)
    else:
        _unsplit(d, i)
    e = i
    while True:
        more = t[E_MORE, e]
        if t[A_PARTS, i] > 1:
            t[V_SPANS, t[E_NODE, e]] -= 1
        unlink(d, e)
        if e != i:
            t[E_NEXT, e] = t[SCALARS, X_SPARE]
            t[SCALARS, X_SPARE] = e + 1
        if more == 0:
            break
        e = more - 1
    t[H_HOSTED, t[A_TENANT, i]] -= t[A_GPUS, i] * t[A_MILLI, i]
    t[A_STATE, i] = NOT_HERE
    t[A_PARTS, i] = 0
    t[SCALARS, X_FREED] = 1


@inner
def resize(d: Desk, i: int, gpus: int) -> None:
    """Local job i, which does not run just now, is to have so many GPUs."""
    t = d.ints
    n, by = t[E_NODE, i], gpus - t[A_GPUS, i]
    _note_elastic(d, n, i, -1)
    if t[SCALARS, X_DEMANDS] != 0:
        t[V_CPU_LOAD, n] += cpu_of(d, i, gpus) - cpu_of(d, i, t[A_GPUS, i])
        t[V_MEM_LOAD, n] += mem_of(d, i, gpus) - mem_of(d, i, t[A_GPUS, i])
    t[A_GPUS, i] = gpus
    t[E_COUNT, i] = gpus
    t[H_HOSTED, t[A_TENANT, i]] += by * t[A_MILLI, i]
    change_load(d, n, by, t[V_AFFINITY, n])
    _note_elastic(d, n, i, 1)
    touch(d, n)


@inner
def set_grown(d: Desk, i: int, grown: int) -> None:
    """What is known of local job i's growing: nothing (0), that it is WATCHED, that it is STUBBORN."""
    n = d.ints[E_NODE, i]
    _note_elastic(d, n, i, -1)
    d.ints[A_GROWN, i] = grown
    _note_elastic(d, n, i, 1)


# -- pairs -------------------------------------------------------------------------------------------------------------------


@inner
def count_for(d: Desk, i: int, gpus: int) -> None:
    """From now on local job i counts for so many GPUs of its node."""
    t = d.ints
    n = t[E_NODE, i]
    change_load(d, n, gpus - t[E_COUNT, i], t[V_AFFINITY, n])
    t[E_COUNT, i] = gpus


@inner
def pair_up(d: Desk, leader: int, other: int) -> None:
    """Two jobs of one node, neither of which runs just now, are tried on one GPU."""
    t, f = d.ints, d.floats
    t[A_MATE, leader] = other + 1
    t[A_MATE, other] = leader + 1
    t[A_FOLLOWS, other] = 1
    t[A_PAIR, leader] = TRIAL
    served = min(f[F_SERVED, leader], f[F_SERVED, other])
    f[F_SERVED, leader] = served
    f[F_SERVED, other] = served
    t[V_PAIRS, t[E_NODE, leader]] += 1
    t[A_TRIAL, t[SCALARS, X_TRIALS]] = leader
    t[A_TRIAL_AT, leader] = t[SCALARS, X_TRIALS]
    t[SCALARS, X_TRIALS] += 1


@inner
def end_trial(d: Desk, leader: int) -> None:
    t = d.ints
    last = t[SCALARS, X_TRIALS] - 1
    at, moved = t[A_TRIAL_AT, leader], t[A_TRIAL, last]
    t[A_TRIAL, at] = moved
    t[A_TRIAL_AT, moved] = at
    t[SCALARS, X_TRIALS] = last


@inner
def keep_pair(d: Desk, leader: int) -> None:
    """The pair pays: it counts as one GPU."""
    end_trial(d, leader)
    d.ints[A_PAIR, leader] = KEPT
    count_for(d, d.ints[A_MATE, leader] - 1, 0)
    d.ints[SCALARS, X_FREED] = 1
    touch(d, d.ints[E_NODE, leader])


@inner
def part_ways(d: Desk, i: int) -> None:
    """The pair of job i, if it is in one, is none any more: each counts for itself."""
    t = d.ints
    if t[A_MATE, i] == 0:
        return
    mate = t[A_MATE, i] - 1
    leader, other = (mate, i) if t[A_FOLLOWS, i] != 0 else (i, mate)
    if t[A_PAIR, leader] == TRIAL:
        end_trial(d, leader)
    else:
        count_for(d, other, 1)
    t[A_PAIR, leader] = 0
    t[A_MATE, leader] = 0
    t[A_MATE, other] = 0
    t[A_FOLLOWS, other] = 0
    t[V_PAIRS, t[E_NODE, leader]] -= 1
    touch(d, t[E_NODE, leader])


# -- who takes turns -----------------------------------------------------------------------------------------------------------


@inner
def _level(d: Desk, n: int, now: float) -> None:
    """Node n begins to be crowded: its jobs are on a par, whatever they had before. Those with parts elsewhere may be in the
    midst of taking turns there, so the others fall in with them."""
    t, f = d.ints, d.floats
    par = 0.0
    e = t[V_HEAD, n]
    while e != 0:
        i = t[E_JOB, e - 1]
        if t[A_PARTS, i] > 1:
            settle(d, i, now)
            par = max(par, f[F_SERVED, i])
        e = t[E_NEXT, e - 1]
    e = t[V_HEAD, n]
    while e != 0:
        i = t[E_JOB, e - 1]
        if t[A_PARTS, i] == 1:
            f[F_SERVED, i] = par
            f[F_SINCE, i] = now
        e = t[E_NEXT, e - 1]


@inner
def see_if_due(d: Desk, n: int) -> None:
    """Jobs of a node take turns as long as one of them waits."""
    t = d.ints
    crowded = t[V_READY, n] > 0
    if crowded == (t[V_IS_DUE, n] != 0):
        return
    if crowded:
        _level(d, n, d.floats[0, Y_NOW])
        add(d.cells, t[SCALARS, X_DUE], t[SCALARS, X_NODES], n)
        t[SCALARS, X_DUE_COUNT] += 1
        t[V_IS_DUE, n] = 1
    else:
        remove(d.cells, t[SCALARS, X_DUE], t[SCALARS, X_NODES], n)
        t[SCALARS, X_DUE_COUNT] -= 1
        t[V_IS_DUE, n] = 0


@hot
def is_crowded(d: Desk, n: int) -> bool:
    return d.ints[V_LOAD, n] > d.ints[V_CAP, n]
