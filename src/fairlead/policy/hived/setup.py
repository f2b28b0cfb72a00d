"""What a run needs to know before it begins: whose cells are whose, which jobs compete, how a job becomes pods.

A job of W GPUs is, on a chain whose nodes have c GPUs, one pod of W where that fits a node, and else ⌊W/c⌋ pods of c and one
of the rest: the fewest nodes. Its tenant is its virtual cluster, its priority (from 0 on) that of its group; a negative one
makes it opportunistic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead.kernels.collecting import no_collecting
from fairlead.kernels.columns import (
    C_FIXED,
    C_SHAPE,
    C_TENANT,
    K_CLASS,
    K_PRIORITY,
    R_DEMANDS,
    S_BOUND,
    S_GPUS,
    S_MILLI,
    S_SPLIT,
    S_TYPE,
    S_WITHIN,
    WHOLE,
)
from fairlead.model.cell_shares import default_cells, even_shares, owned_cells
from fairlead.model.cells import CellQuota, CellsSpec, VirtualClusterSpec
from fairlead.model.errors import InputError
from fairlead.model.reason import Reason
from fairlead.policy.base import QueuePolicy
from fairlead.policy.hived.cells import HIGHEST_GUARANTEED, OPPORTUNISTIC
from fairlead.policy.registry import find_policy
from fairlead.state.view import View

#: levels of an order that preempts by them (tiresias' queues); those beyond count as the last
LEVELS = 8
PARAMETERS: Mapping[str, Any] = {"order": "fifo", "vcs": "file"}


@dataclass(frozen=True)
class ClassOfJobs:
    """Jobs that fit or fail together."""

    number: int  #: the core's
    vc: str
    gpus: int
    priority: int  #: -1: opportunistic; else the position of its priority among those of the trace
    chains: tuple[str, ...]  #: where they may go, in the order in which they are tried
    fixed: bool = False  #: not preemptible: once they run, they count as of the highest priority
    refused: Reason = Reason.NONE  #: why they can't be had at all

    def members(self, node_gpus: int) -> tuple[tuple[int, int], ...]:
        """(pods, GPUs of each)"""
        whole, rest = divmod(self.gpus, node_gpus)
        return ((1, rest),) * (rest > 0) + ((whole, node_gpus),) * (whole > 0)


@dataclass(frozen=True)
class Setup:
    spec: CellsSpec
    classes: tuple[ClassOfJobs, ...]
    levels: int  #: 1, or LEVELS where the order preempts by level
    strict: bool
    node_gpus: dict[str, int]  #: by chain
    gpu_ids: dict[tuple[str, int], int]  #: by address of the node's cell and index of the GPU

    @property
    def top(self) -> int:
        """The highest priority that HiveD sees of any job."""
        return max((one.priority + 1 for one in self.classes), default=1) * self.levels - 1

    def priority(self, one: ClassOfJobs, level: int) -> int:
        """What HiveD sees of a job that the order has put into this level."""
        if one.priority < 0:
            return OPPORTUNISTIC
        return one.priority * self.levels + self.levels - 1 - max(0, min(level, self.levels - 1))


def order_of(values: Mapping[str, Any]) -> type[QueuePolicy]:
    found = find_policy(str(values["order"]))
    if not issubclass(found, QueuePolicy) or found.by_tenant or found.easy:
        accepts = (
            "a queue policy that ranks jobs, such as fifo, fifo-backfill, sjf, smallest-first, srtf, las or tiresias"
        )
        raise InputError(
            "this can't order jobs in a virtual cluster", column="order", value=values["order"], accepts=accepts
        )
    return found


@no_collecting()
def set_up(view: View, values: Mapping[str, Any]) -> Setup:
    order = order_of(values)
    spec = _owners(view, str(values["vcs"]))
    levels = LEVELS if order.level is not None and order.preempts else 1
    node_gpus = {chain: spec.gpus(spec.levels(chain)[spec.node_level(chain)]) for chain in spec.chains}
    classes = _classes(view, spec, levels, node_gpus)
    return Setup(spec, classes, levels, order.strict, node_gpus, _gpu_ids(view, spec))


def refusals(setup: Setup) -> dict[int, Reason]:
    """Classes that would not fit their virtual cluster even if it were empty."""
    owned = {name: _sizes(setup, name) for name in setup.spec.virtual}
    found = {}
    for one in setup.classes:
        fits = False
        for chain in one.chains:
            node = setup.node_gpus[chain]
            whole, rest = divmod(one.gpus, node)
            sizes = owned[one.vc].get(chain, []) if one.priority >= 0 else [node] * _nodes(setup.spec, chain)
            nodes = sizes.count(node)
            # as the placer goes about it: nodes come before smaller cells, and it never goes back
            fits = fits or nodes >= whole + (rest > 0) or (whole == 0 and any(size >= rest for size in sizes))
        if one.refused or not fits:
            found[one.number] = one.refused or Reason.OVER_CELLS
    return found


def _owners(view: View, vcs: str) -> CellsSpec:
    cluster, names = view.cluster, view.tenant_names
    spec = default_cells(cluster)
    if names == ("",) and not spec.virtual and not cluster.tenants:
        # nobody is named anywhere: the cluster is one virtual cluster
        tops = tuple(CellQuota(chain, chain, len(spec.top_cells(chain))) for chain in spec.chains)
        return CellsSpec(spec.types, spec.physical, {"": VirtualClusterSpec("", tops)})
    if vcs not in ("file", "even", "demand"):
        raise InputError(
            "there is no such way to divide a cluster", column="vcs", value=vcs, accepts="file, even or demand"
        )
    shares: dict[str, int] = {}
    if vcs != "file" or not (spec.virtual or cluster.tenants):
        if spec.virtual or any(tenant.quota_gpus is not None for tenant in cluster.tenants.values()):
            what = "the cluster says itself what its tenants own"
            raise InputError(what, column="vcs", value=vcs, accepts="file, or a cluster whose tenants have no quotas")
        weights = _demand(view) if vcs == "demand" else (1.0,) * len(names)
        shares = even_shares(names, weights, cluster)
    spec = owned_cells(cluster, shares, spec)
    missing = [name or "(none)" for name in names if name not in spec.virtual]
    if missing:
        raise InputError(
            f"{len(missing)} of the trace's tenants have no virtual cluster: {', '.join(missing[:5])}"
            + (", …" if len(missing) > 5 else ""),
            column="tenants",
            accepts="cells or quota_gpus for each in the cluster file, --quota TENANT=GPUS, or hived:vcs=even or vcs=demand",
        )
    return spec


def _demand(view: View) -> tuple[float, ...]:
    """GPU-seconds that each tenant's jobs ask for."""
    cluster, jobs, queue = view.columns()
    kind = jobs.ints[K_CLASS]
    asked = cluster.shape[S_GPUS, queue.classes[C_SHAPE, kind]] * jobs.work
    sums = np.bincount(queue.classes[C_TENANT, kind], asked, minlength=len(view.tenant_names))
    return tuple(sums.tolist())


def _keeps_to(node_gpus: int, gpus: int, split: int, out: int) -> bool:
    """Whether the pods of a job are where it says that it must be, whatever cells they get: one node, or whole ones."""
    if gpus <= node_gpus:
        return split <= 1
    return out < 0 and split * node_gpus == gpus


def _classes(view: View, spec: CellsSpec, levels: int, node_gpus: Mapping[str, int]) -> tuple[ClassOfJobs, ...]:
    cluster, jobs, queue = view.columns()
    if queue.counter[R_DEMANDS]:
        what = "some jobs ask for CPU or memory, which cells do not have"
        raise InputError(what, accepts="a trace without these columns: a cell comes with its part of the node")
    numbers, firsts = np.unique(jobs.ints[K_CLASS], return_index=True)
    priorities = {int(number): int(jobs.ints[K_PRIORITY, first]) for number, first in zip(numbers, firsts)}
    ranks = {value: i for i, value in enumerate(sorted({value for value in priorities.values() if value >= 0}))}
    if len(ranks) * levels > HIGHEST_GUARANTEED:
        raise InputError(f"the trace has {len(ranks)} priorities", accepts=f"at most {HIGHEST_GUARANTEED // levels}")
    types = tuple(dict.fromkeys(node.gpu_type for node in view.cluster.nodes))
    by_type = _chains_by_type(spec)
    found = []
    for number, priority in sorted(priorities.items()):
        shape = int(queue.classes[C_SHAPE, number])
        gpus, kind = int(cluster.shape[S_GPUS, shape]), int(cluster.shape[S_TYPE, shape])
        if gpus == 0 or cluster.shape[S_MILLI, shape] < WHOLE:
            raise InputError(
                "some jobs want no GPU, or a part of one", accepts="jobs of whole GPUs: a cell has no less"
            )
        vc = view.tenant_names[int(queue.classes[C_TENANT, number])]
        wanted = by_type if kind < 0 else [types[kind] or "gpu"] if kind < len(types) else []
        chains = [chain for one in wanted for chain in by_type.get(one, ())]
        if priority >= 0:
            own = {quota.chain for quota in spec.virtual[vc].cells if quota.count}
            chains = [chain for chain in chains if chain in own]
        fixed = bool(queue.classes[C_FIXED, number])
        # an opportunistic job makes way: that is what it is
        refused = Reason.NOT_BY_POLICY if fixed and priority < 0 else Reason.NONE
        if cluster.shape[S_BOUND, shape]:
            split, out = cluster.shape[[S_SPLIT, S_WITHIN], shape].tolist()
            kept = [chain for chain in chains if _keeps_to(node_gpus[chain], gpus, split, out)]
            if chains and not kept:
                refused = Reason.NOT_BY_POLICY
            chains = kept
        found.append(ClassOfJobs(number, vc, gpus, ranks.get(priority, -1), tuple(chains), fixed, refused))
    return tuple(found)


def _chains_by_type(spec: CellsSpec) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for chain in sorted(spec.chains, reverse=True):
        found.setdefault(spec.leaf(chain), []).append(chain)
    return found


def _sizes(setup: Setup, vc: str) -> dict[str, list[int]]:
    """By chain, the sizes of what jobs see as the nodes of a virtual cluster."""
    found: dict[str, list[int]] = {}
    for quota in setup.spec.virtual[vc].cells:
        size, node = setup.spec.gpus(quota.kind), setup.node_gpus[quota.chain]
        found.setdefault(quota.chain, []).extend([min(size, node)] * (quota.count * max(size // node, 1)))
    return found


def _nodes(spec: CellsSpec, chain: str) -> int:
    node = spec.levels(chain)[spec.node_level(chain)]
    return len(spec.top_cells(chain)) * spec.gpus(chain) // spec.gpus(node)


def _gpu_ids(view: View, spec: CellsSpec) -> dict[tuple[str, int], int]:
    """A node's GPUs are numbered in the order of their indices."""
    firsts, at = {}, 0
    for machine in view.cluster.nodes:
        firsts[machine.name] = at
        at += machine.gpus
    found = {}
    for top in spec.physical:
        for node in top.nodes():
            indices = sorted(int(gpu.name) for gpu in node.leaves())
            for number, index in enumerate(indices, firsts[node.machine]):
                found[node.address, index] = number
    return found
