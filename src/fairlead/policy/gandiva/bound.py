"""Jobs that say themselves where they must be: on so many nodes with an equal part on each, inside one domain, or both.

The lowest level at which a domain has the room, there the domain with the least of it; in it the nodes with the least room
that can take a part, or, where the number of nodes is not said, those with most. Where jobs take turns, the least loaded
domain and nodes instead.
"""

from __future__ import annotations

from fairlead.kernels.columns import Desk
from fairlead.kernels.jit import hot, inner
from fairlead.policy.gandiva.hosting import has_cpu, pick
from fairlead.policy.gandiva.tables import (
    A_SPLIT,
    A_TYPE,
    A_WITHIN,
    D_NODE,
    P_COUNT,
    SCALARS,
    V_CAP,
    V_DOMAIN,
    V_LOAD,
    V_TYPE,
    V_UP,
    X_LEVELS,
    X_NODES,
    X_PARTS,
)


@hot
def is_bound(d: Desk, i: int) -> bool:
    return d.ints[A_SPLIT, i] > 0 or d.ints[A_WITHIN, i] >= 0


@inner
def _takes(d: Desk, i: int, n: int, most: int, taking_turns: bool) -> int:
    """How many GPUs of job i, at most `most`, node n has room for beside what it hosts, or when its turn comes."""
    t = d.ints
    if t[V_UP, n] == 0 or not (t[A_TYPE, i] < 0 or t[A_TYPE, i] == t[V_TYPE, n]):
        return 0
    gpus = min(t[V_CAP, n] - (0 if taking_turns else t[V_LOAD, n]), most)
    while gpus > 0 and not has_cpu(d, i, n, gpus, taking_turns):
        gpus -= 1
    return max(gpus, 0)


@inner
def _domain(d: Desk, level: int, n: int) -> int:
    """The domain of node n at a level, -1 being the whole cluster."""
    return d.ints[V_DOMAIN + level, n] if level >= 0 else 0


@inner
def _best_domain(d: Desk, i: int, gpus: int, level: int, taking_turns: bool) -> int:
    """The domain of a level that can host the job and has the least room, or load; -1 if there is none."""
    t, split = d.ints, d.ints[A_SPLIT, i]
    part = gpus // max(split, 1)
    nodes = t[SCALARS, X_NODES]
    for k in range(nodes):
        t[D_NODE, k] = 0
        t[P_COUNT, k] = 0
    for n in range(nodes):
        k = _domain(d, level, n)
        takes = _takes(d, i, n, part, taking_turns)
        t[D_NODE, k] += takes if split == 0 else takes // part
        t[P_COUNT, k] += t[V_LOAD, n] if taking_turns else _takes(d, i, n, t[V_CAP, n], False)
    needs, best = split if split > 0 else gpus, -1
    for k in range(nodes):
        if t[D_NODE, k] >= needs and (best < 0 or t[P_COUNT, k] < t[P_COUNT, best]):
            best = k
    return best


@inner
def _cost(d: Desk, i: int, n: int, taking_turns: bool) -> int:
    """Nodes of a domain are taken in this order, smallest first."""
    if taking_turns:
        return d.ints[V_LOAD, n]
    room = d.ints[V_CAP, n] - d.ints[V_LOAD, n]
    return room if d.ints[A_SPLIT, i] > 0 else -room


@inner
def choose_within(d: Desk, i: int, gpus: int, taking_turns: bool) -> bool:
    """Pick nodes for so many GPUs of job i where it must be, if there are any with the room."""
    t, split, levels = d.ints, d.ints[A_SPLIT, i], d.ints[SCALARS, X_LEVELS]
    part = gpus // max(split, 1)
    widest = levels + 1 if t[A_WITHIN, i] < 0 else t[A_WITHIN, i]
    for out in range(1, widest + 1):
        level = levels - out
        domain = _best_domain(d, i, gpus, level, taking_turns)
        if domain < 0:
            continue
        t[SCALARS, X_PARTS] = 0
        left, cost, last = gpus, 0, -1
        while left > 0:
            best = -1
            for n in range(t[SCALARS, X_NODES]):
                mine = _cost(d, i, n, taking_turns)
                if last >= 0 and (mine < cost or (mine == cost and n <= last)):
                    continue  # it comes before the last one that was taken
                if best >= 0 and mine >= _cost(d, i, best, taking_turns):
                    continue
                if _domain(d, level, n) == domain and _takes(d, i, n, part, taking_turns) >= (part if split > 0 else 1):
                    best = n
            taken = _takes(d, i, best, min(part, left), taking_turns)
            pick(d, best, taken)
            left -= taken
            cost, last = _cost(d, i, best, taking_turns), best
        return True
    return False
