"""What placers share: jobs without a GPU and shares of one, and from kernels.picks what a node can take of a job."""

from __future__ import annotations

from fairlead.kernels.columns import (
    N_TYPE,
    N_UP,
    S_MILLI,
    U_FREE,
    U_NODE,
    WHOLE,
    Cluster,
)
from fairlead.kernels.jit import hot, inner
from fairlead.kernels.picks import can_take, first_at_level, pick_node, picked, room, tightest, wants


@hot
def cpu_only(c: Cluster, s: int) -> int:
    """A job of 0 GPUs goes to the first node with room."""
    for n in range(c.node.shape[1]):
        if c.node[N_UP, n] != 0 and wants(c, s, c.node[N_TYPE, n]) and room(c, s, n, 0):
            pick_node(c, 0, n, 0)
            return 1
    return -1


@inner
def gpu_usable(c: Cluster, s: int, g: int) -> bool:
    """Whether GPU g can take a share of shape s."""
    n = c.gpu[U_NODE, g]
    return (
        c.gpu[U_FREE, g] >= c.shape[S_MILLI, s]
        and c.node[N_UP, n] != 0
        and wants(c, s, c.node[N_TYPE, n])
        and room(c, s, n, 1)
    )  # fmt: skip


@inner
def pick_gpu(c: Cluster, g: int) -> int:
    """Pick GPU g for a share; -1 picks nothing."""
    if g < 0:
        return -1
    c.pick[0, 0] = c.gpu[U_NODE, g]
    c.pick[0, 1] = 1
    c.pick[0, 2] = g
    return 1


@inner
def tightest_gpu(c: Cluster, s: int) -> int:
    """The GPU with the least free part that is enough for a share; -1 if none."""
    best, least = -1, WHOLE + 1
    for g in range(c.gpu.shape[1]):
        if c.gpu[U_FREE, g] < least and gpu_usable(c, s, g):
            best, least = g, c.gpu[U_FREE, g]
    return best


__all__ = [
    "can_take",
    "cpu_only",
    "first_at_level",
    "gpu_usable",
    "pick_gpu",
    "pick_node",
    "picked",
    "room",
    "tightest",
    "tightest_gpu",
    "wants",
]
