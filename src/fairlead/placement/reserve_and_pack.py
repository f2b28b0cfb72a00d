"""Reserve-and-pack, as in Alibaba's PAI: high-end GPUs are kept for the jobs that make use of them.

A job is high-GPU when its profile's `utilization` reaches `threshold`; a job whose utilisation is not known is judged by its
parallelism: from `gpus` whole GPUs on. Each job has an ordered list of plans, one per GPU type: the high-end types first
for a high-GPU job, the weakest first for any other. The paper publishes neither its threshold nor its timeouts.
"""

from __future__ import annotations

from fairlead.kernels.columns import (
    F8,
    N_FREE,
    N_TYPE,
    P_CAP,
    P_COUNT,
    P_FREE,
    P_NODES,
    P_TYPE,
    S_EFFICIENCY,
    S_GPUS,
    S_MILLI,
    S_TYPE,
    U_FREE,
    U_NODE,
    WHOLE,
    Cluster,
)
from fairlead.kernels.jit import hot, inner
from fairlead.kernels.picks import enough_free
from fairlead.model.cluster import ClusterSpec
from fairlead.model.errors import InputError
from fairlead.placement.base import Placer
from fairlead.placement.scan import (
    can_take,
    cpu_only,
    first_at_level,
    gpu_usable,
    pick_gpu,
    pick_node,
    picked,
    wants,
)

# the array pp: the knobs, how many types there are and how many of them are high-end, the rank of each type (0: best)
_THRESHOLD, _GPUS, _KEEP, _WAITS, _TYPES, _HIGH, _RANKS = 0, 1, 2, 3, 4, 5, 6


@hot
def rank_of(pp: F8, kind: int) -> int:
    return int(pp[_RANKS + kind])


@inner
def is_high(c: Cluster, s: int, pp: F8) -> bool:
    if c.shape[S_EFFICIENCY, s] > 0:
        return c.shape[S_EFFICIENCY, s] >= pp[_THRESHOLD] * 1000.0
    return c.shape[S_MILLI, s] == WHOLE and c.shape[S_GPUS, s] >= pp[_GPUS]


@inner
def may_borrow(c: Cluster, s: int, pp: F8) -> bool:
    """Whether a job that is not high-GPU may take high-end GPUs: enough of them stay free, or it insists on their type."""
    if c.shape[S_TYPE, s] >= 0 or pp[_HIGH] == pp[_TYPES]:
        return True
    free, total = 0, 0
    for p in range(c.pool.shape[1]):
        if rank_of(pp, c.pool[P_TYPE, p]) < pp[_HIGH]:
            free += c.pool[P_FREE, p]
            total += c.pool[P_CAP, p] * c.pool[P_NODES, p]
    return free - c.shape[S_GPUS, s] >= pp[_KEEP] * total


@inner
def tightest_of(c: Cluster, s: int, gpus: int, low: int, high: int, pp: F8) -> int:
    """The node of ranks low..high-1 with the least free GPUs that are at least `gpus`; -1 if none."""
    best, best_level = -1, 0
    for p in range(c.pool.shape[1]):
        kind = c.pool[P_TYPE, p]
        if not wants(c, s, kind) or not low <= rank_of(pp, kind) < high:
            continue
        for level in range(gpus, c.pool[P_CAP, p] + 1):
            if best >= 0 and level > best_level:
                break
            if c.cells[c.pool[P_COUNT, p] + level] == 0:
                continue
            n = first_at_level(c, s, p, level, gpus, 0)
            if n >= 0:
                if best < 0 or level < best_level or n < best:
                    best, best_level = n, level
                break
    return best


@inner
def free_in(c: Cluster, s: int, low: int, high: int, pp: F8) -> int:
    free = 0
    for p in range(c.pool.shape[1]):
        kind = c.pool[P_TYPE, p]
        if wants(c, s, kind) and low <= rank_of(pp, kind) < high:
            free += c.pool[P_FREE, p]
    return free


@inner
def pack(c: Cluster, s: int, low: int, high: int, pp: F8) -> int:
    """On nodes whose types have ranks low..high-1: one node, the tightest; else the node that can take most, and so on."""
    gpus = c.shape[S_GPUS, s]
    if free_in(c, s, low, high, pp) < gpus:
        return -1
    n = tightest_of(c, s, gpus, low, high, pp)
    if n >= 0:
        pick_node(c, 0, n, gpus)
        return 1
    rest, rows = gpus, 0
    while rest > 0:
        best, most, least = -1, 0, 0
        for n in range(c.node.shape[1]):
            if c.node[N_FREE, n] < most or not low <= rank_of(pp, c.node[N_TYPE, n]) < high or picked(c, n, rows):
                continue
            g = can_take(c, s, n, rest)
            if g > most or (g > 0 and g == most == rest and c.node[N_FREE, n] < least):
                best, most, least = n, g, c.node[N_FREE, n]
        if best < 0:
            return -1
        pick_node(c, rows, best, most)
        rest -= most
        rows += 1
    return rows


@inner
def place_high(c: Cluster, s: int, pp: F8) -> int:
    types = int(pp[_HIGH]) if pp[_WAITS] != 0.0 and c.shape[S_TYPE, s] < 0 else int(pp[_TYPES])
    for rank in range(types):
        rows = pack(c, s, rank, rank + 1, pp)
        if rows >= 0:
            return rows
    return pack(c, s, 0, types, pp)


@inner
def place_low(c: Cluster, s: int, pp: F8) -> int:
    types, high = int(pp[_TYPES]), int(pp[_HIGH])
    for rank in range(types - 1, high - 1, -1):
        rows = pack(c, s, rank, rank + 1, pp)
        if rows >= 0:
            return rows
    rows = pack(c, s, high, types, pp)
    if rows >= 0 or not may_borrow(c, s, pp):
        return rows
    for rank in range(high - 1, -1, -1):
        rows = pack(c, s, rank, rank + 1, pp)
        if rows >= 0:
            return rows
    return pack(c, s, 0, types, pp)


@inner
def gpu_for_share(c: Cluster, s: int, pp: F8) -> int:
    """The GPU with the least free part that is enough, of the first type of its plans that has one."""
    types = int(pp[_TYPES])
    is_for_high = is_high(c, s, pp)
    first, last = 0, types
    if is_for_high and pp[_WAITS] != 0.0 and c.shape[S_TYPE, s] < 0:
        last = int(pp[_HIGH])
    if not is_for_high and not may_borrow(c, s, pp):
        first = int(pp[_HIGH])
    best, best_turn, least = -1, 0, 0
    for g in range(c.gpu.shape[1]):
        rank = rank_of(pp, c.node[N_TYPE, c.gpu[U_NODE, g]])
        if not first <= rank < last:
            continue
        turn = rank if is_for_high else types - rank
        free = c.gpu[U_FREE, g]
        if best >= 0 and (turn > best_turn or (turn == best_turn and free >= least)):
            continue
        if gpu_usable(c, s, g):
            best, best_turn, least = g, turn, free
    return best


def place(c: Cluster, s: int, seed: int, job: int, start: int, pp: F8) -> int:
    if c.shape[S_GPUS, s] == 0:
        return cpu_only(c, s)
    if c.shape[S_MILLI, s] < WHOLE:
        return pick_gpu(c, gpu_for_share(c, s, pp))
    if not enough_free(c, s):
        return -1
    return place_high(c, s, pp) if is_high(c, s, pp) else place_low(c, s, pp)


def ranked_types(cluster: ClusterSpec, high: str) -> tuple[list[str], int]:
    """The cluster's GPU types, best first, and how many of them are high-end: those named, else the fastest."""
    types = list(dict.fromkeys(node.gpu_type for node in cluster.nodes))
    named = [name for name in high.split("/") if name]
    for name in named:
        if name not in types:
            known = ", ".join(filter(None, types)) or "the cluster names no types"
            raise InputError("the cluster has no such GPU type", column="high", value=name, accepts=known)
    rest = sorted((name for name in types if name not in named), key=lambda name: -cluster.speeds.get(name, 1.0))
    fastest = max(cluster.speeds.get(name, 1.0) for name in types)
    if not named:
        named = [name for name in rest if cluster.speeds.get(name, 1.0) == fastest]
        rest = [name for name in rest if name not in named]
    return [*named, *rest], len(named)


class ReserveAndPack(Placer):
    """High-GPU jobs on high-end types first (high=A/B), others on the weakest; keep=SHARE of the high-end stays free."""

    name = "reserve-and-pack"
    parameters = {"high": "", "threshold": 0.5, "gpus": 2.0, "keep": 0.0, "waits": False}
    needs_utilization = True
    place = staticmethod(place)

    @classmethod
    def numbers(cls, values: dict[str, object], cluster: ClusterSpec) -> list[float]:
        order, high = ranked_types(cluster, str(values["high"]))
        keep = float(values["keep"])  # type: ignore[arg-type]
        if not 0 <= keep <= 1:
            raise InputError("what is kept is a share", column="keep", value=keep, accepts="0 to 1")
        knobs = [float(values[name]) for name in ("threshold", "gpus", "keep", "waits")]  # type: ignore[arg-type]
        types = dict.fromkeys(node.gpu_type for node in cluster.nodes)  # in the core's order
        return [*knobs, float(len(order)), float(high), *(float(order.index(name)) for name in types)]
