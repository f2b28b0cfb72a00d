"""Which nodes a job is to be at home on, in five steps:

1. a node of its affinity with enough GPUs that nobody is hosted for, the least loaded;
2. nodes that host nothing;
3. any free GPUs: one node, the fullest that has enough; else, for elastic jobs, one node after others have shrunk or with
   fewer GPUs than asked for; else spread over as few nodes as it takes;
4. nodes of its affinity although they are full, the least loaded: jobs there take turns;
5. none: it is queued.

Ties go to the lowest index. A job that says itself where it must be takes several nodes as bound.py has it, in steps 3 and 4.
"""

from __future__ import annotations

from fairlead.kernels.columns import T_QUOTA, Desk, Queue
from fairlead.kernels.jit import hot, inner
from fairlead.policy.gandiva.bound import choose_within, is_bound
from fairlead.policy.gandiva.hosting import has_cpu, is_local, pick
from fairlead.policy.gandiva.shelf import affinity_of, count_at, load_for, node_at
from fairlead.policy.gandiva.tables import (
    A_ASK,
    A_GPUS,
    A_LEAST,
    A_MILLI,
    A_MOST,
    A_PRIORITY,
    A_SPLIT,
    A_TENANT,
    A_TYPE,
    B_CAP,
    B_FREE,
    B_LEVELS,
    B_TYPE,
    E_JOB,
    E_NEXT,
    H_HOSTED,
    SCALARS,
    V_CAP,
    V_HEAD,
    V_LOAD,
    V_SLACK,
    V_TYPE,
    V_UP,
    X_AFFINITIES,
    X_GROWS,
    X_NODES,
    X_PARTS,
    X_POOLS,
    X_QUOTAS,
    X_SLACK,
    X_SPARE,
)

NOBODY = -1


@hot
def may_use(d: Desk, i: int, p: int) -> bool:
    """Whether the nodes of pool p are of the type that job i needs."""
    return d.ints[A_TYPE, i] < 0 or d.ints[A_TYPE, i] == d.ints[B_TYPE, p]


@inner
def first_at(d: Desk, i: int, gpus: int, p: int, a: int, level: int, but: int, taking_turns: bool) -> int:
    """The lowest node on a shelf that has the CPU and memory for so many GPUs of job i, other than `but`."""
    n = node_at(d, p, a, level, -1)
    while n >= 0 and (n == but or not has_cpu(d, i, n, gpus, taking_turns)):
        n = node_at(d, p, a, level, n)
    return n


@inner
def least_loaded(d: Desk, i: int, gpus: int, full: bool) -> int:
    """Of the nodes of job i's affinity, the one whose load is the smallest part of its capacity: with enough free GPUs, or
    any that could hold the job."""
    t, a = d.ints, affinity_of(d.ints[A_ASK, i])
    best, level_of_best, cap_of_best = -1, 0, 1
    for p in range(t[SCALARS, X_POOLS]):
        cap = t[B_CAP, p]
        if cap < gpus or not may_use(d, i, p) or (not full and t[B_FREE, p] < gpus):
            continue
        last = t[B_LEVELS, p] - 1 if full else cap - gpus
        for level in range(last + 1):
            if best >= 0 and level * cap_of_best > level_of_best * cap:
                break
            n = first_at(d, i, gpus, p, a, level, NOBODY, full)
            if n < 0:
                continue
            if best < 0 or level * cap_of_best < level_of_best * cap or n < best:
                best, level_of_best, cap_of_best = n, level, cap
            break
    return best


@inner
def empty_node(d: Desk, i: int, gpus: int) -> int:
    """Of the nodes that host nothing, the smallest that is large enough."""
    t, best = d.ints, -1
    for p in range(t[SCALARS, X_POOLS]):
        if t[B_CAP, p] < gpus or not may_use(d, i, p) or count_at(d, p, 0, 0) == 0:
            continue
        n = first_at(d, i, gpus, p, 0, 0, NOBODY, False)
        if n >= 0 and (best < 0 or t[V_CAP, n] < t[V_CAP, best] or (t[V_CAP, n] == t[V_CAP, best] and n < best)):
            best = n
    return best


@inner
def fullest(d: Desk, i: int, gpus: int, above: int, but: int) -> int:
    """The node with the least free GPUs that are enough and fewer than `above`, whatever its affinity."""
    t = d.ints
    room = 0
    for p in range(t[SCALARS, X_POOLS]):
        if may_use(d, i, p) and t[B_FREE, p] >= gpus:
            room = max(room, t[B_CAP, p])
    for free in range(gpus, min(room + 1, above)):
        best = -1
        for p in range(t[SCALARS, X_POOLS]):
            if free > t[B_CAP, p] or not may_use(d, i, p):
                continue
            for a in range(t[SCALARS, X_AFFINITIES]):
                n = first_at(d, i, gpus, p, a, load_for(d, p, free), but, False)
                if n >= 0 and (best < 0 or n < best):
                    best = n
        if best >= 0:
            return best
    return -1


@inner
def _next_with(d: Desk, i: int, a: int, free: int, level: int, after: int) -> int:
    """The lowest node above `after` that has so many free GPUs, whatever its affinity; or, where a > 0, of that affinity and
    load."""
    t, best = d.ints, -1
    for p in range(t[SCALARS, X_POOLS]):
        if not may_use(d, i, p) or (a == 0 and free > t[B_CAP, p]):
            continue
        if a > 0:
            n = node_at(d, p, a, level, after) if level < t[B_LEVELS, p] else -1
            if n >= 0 and (best < 0 or n < best):
                best = n
            continue
        for b in range(t[SCALARS, X_AFFINITIES]):
            n = node_at(d, p, b, load_for(d, p, free), after)
            if n >= 0 and (best < 0 or n < best):
                best = n
    return best


@inner
def _take(d: Desk, i: int, n: int, most: int, taking_turns: bool) -> int:
    """Pick node n for as many of job i's GPUs as it has the CPU and memory for; how many?"""
    gpus = most
    while gpus > 0 and not has_cpu(d, i, n, gpus, taking_turns):
        gpus -= 1
    if gpus > 0:
        pick(d, n, gpus)
    return gpus


@inner
def _widest(d: Desk, i: int) -> int:
    """GPUs of the largest node that job i may use."""
    widest = 0
    for p in range(d.ints[SCALARS, X_POOLS]):
        if may_use(d, i, p):
            widest = max(widest, d.ints[B_CAP, p])
    return widest


@inner
def _spread(d: Desk, i: int, gpus: int) -> bool:
    """Free GPUs of several nodes, those with most first."""
    t, left = d.ints, gpus
    free_in_all = 0
    for p in range(t[SCALARS, X_POOLS]):
        if may_use(d, i, p):
            free_in_all += t[B_FREE, p]
    if free_in_all < gpus:
        return False
    for free in range(_widest(d, i), 0, -1):
        n = _next_with(d, i, 0, free, 0, -1)
        while n >= 0 and left > 0:
            left -= _take(d, i, n, min(free, left), False)
            n = _next_with(d, i, 0, free, 0, n)
        if left == 0:
            return True
    t[SCALARS, X_PARTS] = 0
    return False


@inner
def _empty_nodes(d: Desk, i: int, gpus: int) -> bool:
    """Several nodes of one pool that host nothing."""
    t = d.ints
    for p in range(t[SCALARS, X_POOLS]):
        cap = t[B_CAP, p]
        if not may_use(d, i, p) or cap == 0 or cap * count_at(d, p, 0, 0) < gpus:
            continue
        left = gpus
        n = node_at(d, p, 0, 0, -1)
        while n >= 0 and left > 0:
            if has_cpu(d, i, n, min(cap, left), False):
                pick(d, n, min(cap, left))
                left -= min(cap, left)
            n = node_at(d, p, 0, 0, n)
        if left == 0:
            return True
        t[SCALARS, X_PARTS] = 0
    return False


@inner
def _full_nodes(d: Desk, i: int, gpus: int) -> bool:
    """Several nodes of job i's affinity, the least loaded first."""
    t, left, a = d.ints, gpus, affinity_of(d.ints[A_ASK, i])
    levels = 0
    for p in range(t[SCALARS, X_POOLS]):
        levels = max(levels, t[B_LEVELS, p])
    for level in range(levels):
        n = _next_with(d, i, a, 0, level, -1)
        while n >= 0 and left > 0:
            left -= _take(d, i, n, min(t[V_CAP, n], left), True)
            n = _next_with(d, i, a, 0, level, n)
        if left == 0:
            return True
    t[SCALARS, X_PARTS] = 0
    return False


@inner
def slack_for(d: Desk, i: int, n: int) -> int:
    """GPUs that elastic jobs of node n could do without for job i: nobody shrinks for a lower priority."""
    t, slack = d.ints, 0
    e = t[V_HEAD, n]
    while e != 0:
        other = t[E_JOB, e - 1]
        if t[A_MOST, other] > 0 and is_local(d, other) and t[A_PRIORITY, other] <= t[A_PRIORITY, i]:
            slack += t[A_GPUS, other] - t[A_LEAST, other]
        e = t[E_NEXT, e - 1]
    return slack


@inner
def can_shrink(d: Desk, i: int, gpus: int) -> int:
    """The first node whose elastic jobs could make room for job i by shrinking, -1 if there is none."""
    t = d.ints
    if t[SCALARS, X_SLACK] == 0:
        return -1
    for n in range(t[SCALARS, X_NODES]):
        if t[V_SLACK, n] == 0 or t[V_UP, n] == 0 or not (t[A_TYPE, i] < 0 or t[A_TYPE, i] == t[V_TYPE, n]):
            continue
        free = t[V_CAP, n] - t[V_LOAD, n]
        if free + t[V_SLACK, n] >= gpus and free + slack_for(d, i, n) >= gpus and has_cpu(d, i, n, gpus, False):
            return n
    return -1


@inner
def within_quota(d: Desk, q: Queue, i: int, gpus: int) -> bool:
    """Whether the tenant of job i may be hosted with so many GPUs more."""
    if d.ints[SCALARS, X_QUOTAS] == 0:
        return True
    tenant = d.ints[A_TENANT, i]
    quota = q.tenants[T_QUOTA, tenant]
    return quota < 0.0 or d.ints[H_HOSTED, tenant] + gpus * d.ints[A_MILLI, i] <= quota


@inner
def choose(d: Desk, i: int, gpus: int, free_only: bool) -> int:
    """Pick nodes for so many GPUs of job i by steps 1 to 4, or 1 to 3: how many it is to have there, 0 if it must queue. Below
    0: on the one node that is picked, others must shrink first."""
    t = d.ints
    t[SCALARS, X_PARTS] = 0
    widest, bound = _widest(d, i), is_bound(d, i)
    if t[A_SPLIT, i] > 1:
        found = choose_within(d, i, gpus, False) or (not free_only and choose_within(d, i, gpus, True))
        return gpus if found and _noted(d) else 0
    if gpus <= widest:
        n = least_loaded(d, i, gpus, False)
        if n < 0:
            n = empty_node(d, i, gpus)
        if n < 0:
            n = fullest(d, i, gpus, gpus + widest + 1, NOBODY)
        if n >= 0:
            pick(d, n, gpus)
            return gpus
        if t[SCALARS, X_GROWS] != 0 and not free_only:
            n = can_shrink(d, i, gpus)
            if n >= 0:
                pick(d, n, gpus)
                return -gpus
            if t[A_LEAST, i] > 0:
                for fewer in range(gpus - 1, t[A_LEAST, i] - 1, -1):
                    n = fullest(d, i, fewer, fewer + 1, NOBODY)
                    if n >= 0:
                        pick(d, n, fewer)
                        return fewer
    elif not bound and _empty_nodes(d, i, gpus):
        return gpus if _noted(d) else 0
    if gpus > 1 and (choose_within(d, i, gpus, False) if bound else _spread(d, i, gpus)):
        return gpus if _noted(d) else 0
    if free_only:
        return 0
    if gpus <= widest:
        n = least_loaded(d, i, gpus, True)
        if n < 0:
            return 0
        pick(d, n, gpus)
        return gpus
    if choose_within(d, i, gpus, True) if bound else _full_nodes(d, i, gpus):
        return gpus if _noted(d) else 0
    return 0


@inner
def _noted(d: Desk) -> bool:
    """Whether there are entries left for all parts but the first."""
    spare = d.ints[SCALARS, X_SPARE]
    for _ in range(d.ints[SCALARS, X_PARTS] - 1):
        if spare == 0:
            return False
        spare = d.ints[E_NEXT, spare - 1]
    return True
