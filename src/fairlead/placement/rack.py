"""The lowest domain of the topology tree that can hold the whole job, and there the one that it fills best."""

from __future__ import annotations

from fairlead.kernels.columns import (
    F8,
    N_FREE,
    N_TYPE,
    N_UP,
    NODE_COLUMNS,
    S_GPUS,
    S_MILLI,
    WHOLE,
    Cluster,
)
from fairlead.kernels.jit import inner
from fairlead.kernels.picks import enough_free, relaxed
from fairlead.model.cluster import ClusterSpec
from fairlead.model.errors import InputError
from fairlead.placement.base import Placer
from fairlead.placement.scan import can_take, cpu_only, pick_gpu, pick_node, tightest, tightest_gpu, wants


@inner
def best_domain(c: Cluster, s: int, level: int) -> int:
    """The domain of this level with the least free GPUs that are enough; -1 if none has enough."""
    gpus, nodes = c.shape[S_GPUS, s], c.node.shape[1]
    best, least = -1, 0
    for first in range(nodes):
        domain = c.node[NODE_COLUMNS + level, first]
        seen = False
        for n in range(first):
            if c.node[NODE_COLUMNS + level, n] == domain:
                seen = True
                break
        if seen:
            continue
        takes, free = 0, 0
        for n in range(first, nodes):
            if c.node[NODE_COLUMNS + level, n] == domain:
                takes += can_take(c, s, n, gpus)
                if c.node[N_UP, n] != 0 and wants(c, s, c.node[N_TYPE, n]):
                    free += c.node[N_FREE, n]
        if takes >= gpus and (best < 0 or free < least):
            best, least = domain, free
    return best


def place(c: Cluster, s: int, seed: int, job: int, start: int, pp: F8) -> int:
    gpus = c.shape[S_GPUS, s]
    if gpus == 0:
        return cpu_only(c, s)
    if c.shape[S_MILLI, s] < WHOLE:
        return pick_gpu(c, tightest_gpu(c, s))
    n = tightest(c, s, gpus, 0)
    if n >= 0:
        pick_node(c, 0, n, gpus)
        return 1
    if not enough_free(c, s):
        return -1
    levels = c.node.shape[0] - NODE_COLUMNS
    widest = int(pp[0])
    for out in range(1, levels + 1):
        if out > widest:
            return -1
        domain = best_domain(c, s, levels - out)
        if domain >= 0:
            return relaxed(c, s, levels - out, domain)
    if widest <= levels:
        return -1
    return relaxed(c, s, -1, 0)


class Rack(Placer):
    """Lowest level of the topology that can hold the job; within=LEVEL waits rather than go wider."""

    name = "rack"
    parameters = {"within": ""}
    place = staticmethod(place)

    @classmethod
    def numbers(cls, values: dict[str, object], cluster: ClusterSpec) -> list[float]:
        return [float(cls.reach(values, cluster))]

    @classmethod
    def reach(cls, values: dict[str, object], cluster: ClusterSpec) -> int:
        levels, within = cluster.levels, str(values["within"])
        if not within or within == "cluster":
            return len(levels) + 1
        if within == "node":
            return 0
        if within not in levels:
            raise InputError(
                "the cluster has no such topology level",
                column="within",
                value=within,
                accepts="one of " + ", ".join(("node", *reversed(levels), "cluster")),
            )
        return len(levels) - levels.index(within)
