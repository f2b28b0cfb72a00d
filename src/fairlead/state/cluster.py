"""Laying a cluster out as arrays: pools of like nodes, and per pool and free count the set of nodes at that count."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairlead.kernels.bits import add_from_python, words
from fairlead.kernels.columns import (
    I8,
    N_CAP,
    N_CPU,
    N_CPU_CAP,
    N_FREE,
    N_GPU0,
    N_MEM,
    N_MEM_CAP,
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
    S_BOUND,
    S_CPU,
    S_GPUS,
    S_MATTERS,
    S_MEM,
    S_MILLI,
    S_NODES,
    S_PLAIN,
    S_RING,
    S_SPLIT,
    S_SUMS,
    S_TYPE,
    S_WITHIN,
    U_FREE,
    U_NODE,
    U_ROW,
    U_SEATS,
    UNLIMITED,
    WHOLE,
    Cluster,
)
from fairlead.model.cluster import ClusterSpec


def gpu_types(spec: ClusterSpec) -> tuple[str, ...]:
    """The GPU types of a cluster, in order of first appearance; a type's position is its number in the core."""
    return tuple(dict.fromkeys(node.gpu_type for node in spec.nodes))


def topology_levels(spec: ClusterSpec) -> dict[str, int]:
    """What a job may name as its topology, and how many levels out from the node that is."""
    return {**{name: out for out, name in enumerate(reversed(spec.levels), 1)}, "node": 0}


def _domains(spec: ClusterSpec) -> I8:
    """Dense ids of the domains of each level, numbered by their first node; a domain is its whole path."""
    domain = np.zeros((len(spec.levels), len(spec.nodes)), np.int64)
    for level in range(len(spec.levels)):
        ids: dict[tuple[str, ...], int] = {}
        for n, node in enumerate(spec.nodes):
            domain[level, n] = ids.setdefault(node.path[: level + 1], len(ids))
    return domain


def lay_out(spec: ClusterSpec, shape: I8, seats: int) -> Cluster:
    """The empty cluster, every node up, with room for `seats` jobs to be counted on each GPU."""
    number = {name: i for i, name in enumerate(gpu_types(spec))}
    count = len(spec.nodes)
    node = np.zeros((NODE_COLUMNS + len(spec.levels), count), np.int64)
    node[N_CAP] = node[N_FREE] = [n.gpus for n in spec.nodes]
    node[N_TYPE] = [number[n.gpu_type] for n in spec.nodes]
    node[N_CPU] = [UNLIMITED if n.cpu_milli is None else n.cpu_milli for n in spec.nodes]
    node[N_MEM] = [UNLIMITED if n.memory_mib is None else n.memory_mib for n in spec.nodes]
    node[N_CPU_CAP], node[N_MEM_CAP] = node[N_CPU], node[N_MEM]
    node[N_UP] = 1
    node[N_GPU0] = np.cumsum(node[N_CAP]) - node[N_CAP]
    node[NODE_COLUMNS:] = _domains(spec)
    gpu = np.zeros((U_SEATS + seats, int(node[N_CAP].sum())), np.int64)
    gpu[U_NODE] = np.repeat(np.arange(count), node[N_CAP])
    gpu[U_FREE] = WHOLE
    gpu[U_ROW:] = -1
    cells = Cells()
    _file_gpus(node, cells)
    pool = _file_pools(node, cells)
    _judge_shapes(node, shape, cells)
    return Cluster(node, pool, shape, gpu, cells.array(), np.zeros((count + 1, 3), np.int64))


class Cells:
    """Builds Cluster.cells: each part is put behind the one before, and its offset remembered where it is needed."""

    def __init__(self) -> None:
        self.size = 0
        self._parts: list[I8] = []

    def put(self, part: I8) -> int:
        at = self.size
        self._parts.append(part)
        self.size += len(part)
        return at

    def array(self) -> I8:
        return np.concatenate([*self._parts, np.zeros(1, np.int64)])


def _file_gpus(node: I8, cells: Cells) -> None:
    """Per node, the set of its wholly free GPUs: all of them."""
    counts = (node[N_CAP] + 31) >> 5
    node[N_WORD0] = np.cumsum(counts) - counts
    free = np.full(int(counts.sum()), (1 << 32) - 1, np.int64)
    last, rest = node[N_WORD0] + counts - 1, node[N_CAP] & 31
    partial = rest > 0
    free[last[partial]] = (1 << rest[partial]) - 1
    node[N_WORD0] += cells.put(free)


def _file_pools(node: I8, cells: Cells) -> I8:
    """Group the nodes by (type, capacity), in order of first appearance, and file each at its level: wholly free."""
    kinds: dict[tuple[int, int], list[int]] = {}
    for n, (kind, cap) in enumerate(zip(node[N_TYPE].tolist(), node[N_CAP].tolist())):
        kinds.setdefault((kind, cap), []).append(n)
    pool = np.zeros((POOL_COLUMNS, len(kinds)), np.int64)
    for p, ((kind, cap), nodes) in enumerate(kinds.items()):
        stride = int(words(len(nodes)))
        pool[P_CAP, p], pool[P_TYPE, p], pool[P_NODES, p] = cap, kind, len(nodes)
        pool[P_STRIDE, p], pool[P_FREE, p] = stride, cap * len(nodes)
        node[N_POOL, nodes] = p
        node[N_SLOT, nodes] = np.arange(len(nodes))
        sets = np.zeros(stride * (cap + 1), np.int64)
        for slot in range(len(nodes)):
            add_from_python(sets, cap * stride, len(nodes), slot)
        counts = np.zeros(cap + 1, np.int64)
        counts[cap] = len(nodes)
        pool[P_FIRST, p] = cells.put(np.array(nodes, np.int64))
        pool[P_BITS, p], pool[P_COUNT, p] = cells.put(sets), cells.put(counts)
    return pool


def _judge_shapes(node: I8, shape: I8, cells: Cells) -> None:
    """Fill in what each shape means on this cluster: how few nodes could hold it, and which free counts matter to it."""
    sums_at: dict[int, int] = {}
    sums_of: dict[int, I8] = {}
    rings: dict[int, int] = {}
    for s in range(shape.shape[1]):
        gpus, kind = int(shape[S_GPUS, s]), int(shape[S_TYPE, s])
        if kind not in sums_at:
            caps = np.sort(node[N_CAP][(node[N_TYPE] == kind) | (kind < 0)])[::-1]
            sums_of[kind] = np.concatenate([[0], np.cumsum(caps), np.full(len(node[0]) - len(caps), caps.sum())])
            sums_at[kind] = cells.put(sums_of[kind].astype(np.int64))
        sums = sums_of[kind]
        shape[S_SUMS, s] = sums_at[kind]
        shape[S_NODES, s] = max(1, min(int(np.searchsorted(sums, gpus)), len(sums) - 1))
        caps = np.unique(node[N_CAP][((node[N_TYPE] == kind) | (kind < 0)) & (node[N_CAP] > 0)])
        whole = shape[S_MILLI, s] == WHOLE and gpus > 0
        demanding = shape[S_CPU, s] > 0 or shape[S_MEM, s] > 0
        # what is on one node in any case is inside one domain of any level
        shape[S_BOUND, s] = whole and (shape[S_SPLIT, s] > 0 or shape[S_WITHIN, s] >= 0)
        out = int(shape[S_WITHIN, s])
        if 1 <= out <= len(node) - NODE_COLUMNS:
            if out not in rings:
                rings[out] = cells.put(_ring(node[len(node) - out]))
            shape[S_RING, s] = rings[out]
        if (
            whole
            and not demanding
            and not shape[S_BOUND, s]
            and len(caps)
            and (shape[S_NODES, s] == 1 or len(caps) == 1)
        ):
            shape[S_PLAIN, s] = 1
            shape[S_MATTERS, s] = gpus if shape[S_NODES, s] == 1 else (gpus % int(caps[0]) or int(caps[0]))


def _ring(domain: I8) -> I8:
    """For each node the next one of its domain, for the last of a domain the first."""
    order = np.argsort(domain, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(domain[order])), len(order) - 1)
    after = np.append(order[1:], order[0])
    after[ends] = order[np.append(0, ends[:-1] + 1)]
    ring = np.empty(len(order), np.int64)
    ring[order] = after
    return ring


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
        node=cluster.node.copy(), pool=cluster.pool.copy(), gpu=cluster.gpu.copy(), cells=cluster.cells.copy()
    )
