"""What is free: nodes, their GPUs, CPU and memory, and what each tenant holds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from fairlead.model.cluster import ClusterSpec

WHOLE = 1000  #: a whole GPU, in thousandths

#: Where a job is: for each of its nodes, the numbers of its GPUs on that node (none for a CPU job).
Placement = dict[int, list[int]]


@dataclass(frozen=True)
class Ask:
    """What a job asks for."""

    gpus: int  #: how many GPUs it has a part of: 1 for a share, 0 for a CPU job
    share_milli: int = WHOLE  #: how much of each
    cpu_milli: int = 0
    memory_mib: int = 0
    gpu_type: str | None = None
    tenant: str = ""
    num_nodes: int = 0  #: exactly so many, an equal part on each; 0: as the placer likes
    topology: str = ""  #: inside one domain of this level

    @property
    def is_share(self) -> bool:
        return self.gpus == 1 and self.share_milli < WHOLE

    @property
    def is_bound(self) -> bool:
        """Whether it says itself where it must be: what is on one node in any case need not."""
        return self.gpus > 0 and not self.is_share and (self.num_nodes > 0 or self.topology != "")

    @property
    def gpu_milli(self) -> int:
        return self.gpus * self.share_milli

    def cpu_part(self, gpus: int) -> int:
        """The CPU that a node must provide which holds `gpus` of the job's GPUs."""
        return self._part(self.cpu_milli, gpus)

    def memory_part(self, gpus: int) -> int:
        return self._part(self.memory_mib, gpus)

    def _part(self, demand: int, gpus: int) -> int:
        if self.gpus == 0:
            return demand
        return -(-demand * gpus // self.gpus)  # rounded up


@dataclass
class Node:
    index: int
    gpu_type: str
    path: tuple[str, ...]
    free_milli: list[int]  #: of each GPU
    cpu_free: float  #: infinite where the node states no capacity
    memory_free: float
    up: bool = True

    @property
    def capacity(self) -> int:
        return len(self.free_milli)

    @property
    def free_gpus(self) -> list[int]:
        """The GPUs of which nothing is taken, lowest number first."""
        return [gpu for gpu, free in enumerate(self.free_milli) if free == WHOLE]

    @property
    def free(self) -> int:
        return len(self.free_gpus)

    def copy(self) -> Node:
        return replace(self, free_milli=list(self.free_milli))

    def is_of_type(self, ask: Ask) -> bool:
        return ask.gpu_type is None or ask.gpu_type == self.gpu_type

    def has_room(self, ask: Ask, gpus: int) -> bool:
        """Whether the CPU and memory suffice for `gpus` of the job's GPUs here."""
        return ask.cpu_part(gpus) <= self.cpu_free and ask.memory_part(gpus) <= self.memory_free

    def can_take(self, ask: Ask, rest: int) -> int:
        """How many of the job's GPUs this node could hold: limited by free GPUs, rest, CPU and memory."""
        gpus = 0
        while gpus < min(self.free, rest) and self.has_room(ask, gpus + 1):
            gpus += 1
        return gpus


@dataclass
class Holdings:
    """What the running jobs of one tenant hold together."""

    gpu_milli: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0


@dataclass
class ClusterState:
    spec: ClusterSpec
    nodes: list[Node]
    holdings: dict[str, Holdings] = field(default_factory=dict)

    @classmethod
    def empty(cls, spec: ClusterSpec) -> ClusterState:
        """The cluster with nothing on it and every node up."""
        nodes = [
            Node(
                index=index,
                gpu_type=node.gpu_type,
                path=node.path,
                free_milli=[WHOLE] * node.gpus,
                cpu_free=math.inf if node.cpu_milli is None else node.cpu_milli,
                memory_free=math.inf if node.memory_mib is None else node.memory_mib,
            )
            for index, node in enumerate(spec.nodes)
        ]
        return cls(spec, nodes)

    def copy(self) -> ClusterState:
        """Another cluster to try things on."""
        nodes = [node.copy() for node in self.nodes]
        holdings = {tenant: replace(held) for tenant, held in self.holdings.items()}
        return ClusterState(self.spec, nodes, holdings)

    def held_by(self, tenant: str) -> Holdings:
        return self.holdings.setdefault(tenant, Holdings())

    def take(self, ask: Ask, placement: Placement) -> None:
        if not self.is_free(ask, placement):
            raise AssertionError(f"{ask} does not fit {placement}")
        self._change(ask, placement, -1)

    def give_back(self, ask: Ask, placement: Placement) -> None:
        self._change(ask, placement, +1)

    def _change(self, ask: Ask, placement: Placement, sign: int) -> None:
        held = self.held_by(ask.tenant)
        for index, gpus in placement.items():
            node = self.nodes[index]
            cpu, memory = ask.cpu_part(len(gpus)), ask.memory_part(len(gpus))
            for gpu in gpus:
                node.free_milli[gpu] += sign * ask.share_milli
            node.cpu_free += sign * cpu
            node.memory_free += sign * memory
        held.gpu_milli -= sign * ask.gpu_milli
        held.cpu_milli -= sign * ask.cpu_milli
        held.memory_mib -= sign * ask.memory_mib

    def is_free(self, ask: Ask, placement: Placement) -> bool:
        """Whether the job could be at exactly this place now."""
        return all(
            self.nodes[index].up
            and self.nodes[index].has_room(ask, len(gpus))
            and all(self.nodes[index].free_milli[gpu] >= ask.share_milli for gpu in gpus)
            for index, gpus in placement.items()
        )

    def quota_milli(self, tenant: str) -> float:
        spec = self.spec.tenants.get(tenant)
        return math.inf if spec is None or spec.quota_gpus is None else spec.quota_gpus * WHOLE

    def quota_allows(self, ask: Ask) -> bool:
        return self.held_by(ask.tenant).gpu_milli + ask.gpu_milli <= self.quota_milli(ask.tenant)

    def weight(self, tenant: str) -> float:
        spec = self.spec.tenants.get(tenant)
        return 1.0 if spec is None else spec.weight

    def gpu_ids(self, placement: Placement) -> tuple[int, ...]:
        """The GPUs as the journal numbers them, through all nodes; for a CPU job -1 - node."""
        ids: list[int] = []
        for index, gpus in placement.items():
            first = sum(node.capacity for node in self.nodes[:index])
            ids += [first + gpu for gpu in gpus] if gpus else [-1 - index]
        return tuple(sorted(ids))
