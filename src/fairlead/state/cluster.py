"""Laying a cluster out as arrays: pools of like nodes, and per pool and free count the set of nodes at that count."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairlead.kernels.bits import add, words
from fairlead.kernels.columns import (
    I4,
    I8,
    N_CAP,
    N_CPU,
    N_FREE,
    N_GPU0,
    N_MEM,
    N_POOL,
    N_SLOT,
    N_TYPE,
    N_UP,
    N_WORD0,
    NODE_COLUMNS,
    P_BITS,
    P_CAP,
    P_COUNT,
    P_FIRST,
    P_FREE,
    P_NODES,
    P_STRIDE,
    P_TYPE,
    POOL_COLUMNS,
    WHOLE,
    Cluster,
)
from fairlead.model.cluster import ClusterSpec

#: CPU or memory of a node that does not state it: more than any job asks for
UNLIMITED = 1 << 50


def gpu_types(spec: ClusterSpec) -> tuple[str, ...]:
    """The GPU types of a cluster, in order of first appearance; a type's position is its number in the core."""
    return tuple(dict.fromkeys(node.gpu_type for node in spec.nodes))


def _domains(spec: ClusterSpec) -> I4:
    """Dense ids of the domains of each level, numbered by their first node; a domain is its whole path."""
    domain = np.zeros((len(spec.levels), len(spec.nodes)), np.int32)
    for level in range(len(spec.levels)):
        ids: dict[tuple[str, ...], int] = {}
        for n, node in enumerate(spec.nodes):
            domain[level, n] = ids.setdefault(node.path[: level + 1], len(ids))
    return domain


def _capacity_sums(node: I8, types: int) -> I8:
    """Row t + 1: the sums of the largest capacities among nodes of type t; row 0: of any type."""
    count = node.shape[1]
    sums = np.zeros((types + 1, count + 1), np.int64)
    for row in range(types + 1):
        caps = node[N_CAP] if row == 0 else node[N_CAP][node[N_TYPE] == row - 1]
        caps = np.sort(caps)[::-1]
        sums[row, 1 : len(caps) + 1] = np.cumsum(caps)
        sums[row, len(caps) + 1 :] = sums[row, len(caps)]
    return sums


def lay_out(spec: ClusterSpec, shape: I8) -> Cluster:
    """The empty cluster, every node up."""
    types = gpu_types(spec)
    number = {name: i for i, name in enumerate(types)}
    count = len(spec.nodes)
    node = np.zeros((NODE_COLUMNS, count), np.int64)
    node[N_CAP] = [n.gpus for n in spec.nodes]
    node[N_TYPE] = [number[n.gpu_type] for n in spec.nodes]
    node[N_CPU] = [UNLIMITED if n.cpu_milli is None else n.cpu_milli for n in spec.nodes]
    node[N_MEM] = [UNLIMITED if n.memory_mib is None else n.memory_mib for n in spec.nodes]
    node[N_FREE] = node[N_CAP]
    node[N_UP] = 1
    word_count = (node[N_CAP] + 31) >> 5
    node[N_GPU0] = np.cumsum(node[N_CAP]) - node[N_CAP]
    node[N_WORD0] = np.cumsum(word_count) - word_count
    gpus = int(node[N_CAP].sum())

    gpu_words = np.zeros(int(word_count.sum()) + 1, np.int64)
    for n in range(count):
        left = int(node[N_CAP, n])
        for w in range(int(word_count[n])):
            gpu_words[int(node[N_WORD0, n]) + w] = (1 << min(left, 32)) - 1
            left -= 32

    pool, pool_nodes, bits, level_count = _pools(node)
    return Cluster(
        node=node,
        pool=pool,
        shape=shape,
        pool_nodes=pool_nodes,
        bits=bits,
        level_count=level_count,
        gpu_words=gpu_words,
        gpu_node=np.repeat(np.arange(count, dtype=np.int32), node[N_CAP]),
        gpu_free=np.full(gpus, WHOLE, np.int32),
        capacity_sum=_capacity_sums(node, len(types)),
        domain=_domains(spec),
        pick=np.zeros((count + 1, 3), np.int32),
    )


def _pools(node: I8) -> tuple[I8, I4, I8, I4]:
    """Group the nodes by (type, capacity), in order of first appearance, and file each at its level."""
    kinds: dict[tuple[int, int], list[int]] = {}
    for n in range(node.shape[1]):
        kinds.setdefault((int(node[N_TYPE, n]), int(node[N_CAP, n])), []).append(n)
    pool = np.zeros((POOL_COLUMNS, len(kinds)), np.int64)
    members: list[int] = []
    bit_words = levels = 0
    for p, ((kind, cap), nodes) in enumerate(kinds.items()):
        stride = int(words(len(nodes)))
        pool[P_CAP, p], pool[P_TYPE, p], pool[P_NODES, p] = cap, kind, len(nodes)
        pool[P_FIRST, p], pool[P_BITS, p], pool[P_STRIDE, p] = len(members), bit_words, stride
        pool[P_COUNT, p], pool[P_FREE, p] = levels, cap * len(nodes)
        node[N_POOL, nodes] = p
        node[N_SLOT, nodes] = np.arange(len(nodes))
        members += nodes
        bit_words += stride * (cap + 1)
        levels += cap + 1
    bits = np.zeros(bit_words, np.int64)
    level_count = np.zeros(levels, np.int32)
    for p, ((_, cap), nodes) in enumerate(kinds.items()):
        at = int(pool[P_BITS, p]) + cap * int(pool[P_STRIDE, p])
        for slot in range(len(nodes)):
            add(bits, at, len(nodes), slot)
        level_count[int(pool[P_COUNT, p]) + cap] = len(nodes)
    return pool, np.array(members, np.int32), bits, level_count


def totals(spec: ClusterSpec) -> Sequence[float]:
    """Capacity in milli-GPUs, milli-CPUs and MiB; 0 for what some node does not state."""
    cpus = [n.cpu_milli for n in spec.nodes]
    memory = [n.memory_mib for n in spec.nodes]
    return (
        float(spec.gpus * WHOLE),
        0.0 if None in cpus else float(sum(c or 0 for c in cpus)),
        0.0 if None in memory else float(sum(m or 0 for m in memory)),
    )


def copy_of(cluster: Cluster) -> Cluster:
    """A second cluster for trials: what changes is copied, what does not is shared."""
    return cluster._replace(
        node=cluster.node.copy(),
        pool=cluster.pool.copy(),
        bits=cluster.bits.copy(),
        level_count=cluster.level_count.copy(),
        gpu_words=cluster.gpu_words.copy(),
        gpu_free=cluster.gpu_free.copy(),
    )
