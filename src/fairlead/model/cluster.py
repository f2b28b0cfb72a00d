"""What a cluster is made of, and the short form people type for one (`64x8`, `16x8@V100+20x4@T4`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from fairlead.model.cells import CellsSpec
from fairlead.model.errors import InputError
from fairlead.model.job import MOST_GPUS


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One machine. `cpu_milli` or `memory_mib` of None means that it is never the limit."""

    name: str
    gpus: int
    gpu_type: str = ""
    cpu_milli: int | None = None
    memory_mib: int | None = None
    gpu_memory_mib: int | None = None
    #: names of the domains around the node, outermost first, one per entry of ClusterSpec.levels
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TenantSpec:
    """Who owns a quota. A quota of None is no limit; weight is the tenant's share in fair-share policies."""

    name: str
    quota_gpus: int | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """Nodes in a fixed order (their index is their identity in the core) under a tree of named levels."""

    nodes: tuple[NodeSpec, ...]
    #: level names above the node, outermost first, e.g. ("region", "rack")
    levels: tuple[str, ...] = ()
    tenants: Mapping[str, TenantSpec] = field(default_factory=dict)
    #: relative speed of a GPU type; a type that is not named has speed 1
    speeds: Mapping[str, float] = field(default_factory=dict)
    #: how it is made of cells, and which virtual cluster owns how many; None where the file does not say
    cells: CellsSpec | None = None

    def __post_init__(self) -> None:
        if not self.nodes:
            raise InputError("a cluster needs at least one node")
        for node in self.nodes:
            if len(node.path) != len(self.levels):
                raise InputError(
                    f"node {node.name!r} names {len(node.path)} domains, the cluster has levels {self.levels!r}",
                    accepts="one domain per level",
                )

    @property
    def gpus(self) -> int:
        return sum(node.gpus for node in self.nodes)


# int() takes no more than some thousand digits, and no count needs so many
_GROUP = re.compile(r"(?P<nodes>\d{1,100})x(?P<gpus>\d{1,100})(?:@(?P<type>[\w.\-]+))?")
_SHAPE = "NODESxGPUS, NODESxGPUS@TYPE, several joined by '+', or a cluster file (.yaml, .csv)"


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """One part of a shape: so many nodes of so many GPUs each."""

    nodes: int
    gpus: int
    gpu_type: str


def read_shape(text: str) -> list[NodeGroup]:
    """What a shape says, with nothing built yet: whoever has a limit looks here first, so that limit and cluster can't differ."""
    groups: list[NodeGroup] = []
    for part in text.split("+"):
        found = _GROUP.fullmatch(part.strip())
        if found is None:
            raise InputError("this is no cluster shape", value=text, accepts=_SHAPE)
        group = NodeGroup(int(found["nodes"]), int(found["gpus"]), found["type"] or "")
        if group.nodes < 1 or group.gpus < 1:
            raise InputError("a cluster shape needs at least one node of one GPU", value=text, accepts=_SHAPE)
        groups.append(group)
    return groups


def parse_cluster_shape(text: str) -> ClusterSpec:
    """`64x8` or `16x8@V100+20x4@T4`: node names are node-0, node-1, … in the order written."""
    groups = read_shape(text)
    if sum(group.nodes * group.gpus for group in groups) > MOST_GPUS:
        raise InputError("no cluster has so many GPUs", value=text, accepts=f"up to {MOST_GPUS:,} GPUs in all")
    nodes: list[NodeSpec] = []
    for group in groups:
        first = len(nodes)
        nodes += [NodeSpec(f"node-{first + i}", group.gpus, group.gpu_type) for i in range(group.nodes)]
    return ClusterSpec(tuple(nodes))
