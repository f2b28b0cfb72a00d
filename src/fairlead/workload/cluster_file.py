"""Cluster files in YAML: groups of like nodes, single nodes, tenants and speeds. docs/cluster-file.md has the form."""

from __future__ import annotations

import difflib
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fairlead.model.cell_shares import level_kind
from fairlead.model.cell_tree import GPU, NODE, cells_of
from fairlead.model.cells import CellQuota, CellsSpec, VirtualClusterSpec, check_cells
from fairlead.model.cluster import ClusterSpec, NodeSpec, TenantSpec
from fairlead.model.errors import InputError
from fairlead.model.job import MOST_GPUS
from fairlead.workload.cell_pins import pin_cells
from fairlead.workload.hived_config import is_hived_config, read_hived_config
from fairlead.workload.yaml_text import Loc, YamlText

Count = Annotated[int, Field(ge=1)]
Amount = Annotated[int, Field(ge=0)]
Factor = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Machine(BaseModel):
    """What groups and single nodes have in common. Any other key is the name of a level, with the domain's name."""

    model_config = ConfigDict(extra="allow")
    gpus: Amount
    gpu_type: str = ""
    gpu_memory_mib: Count | None = None
    cpus: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    memory_mib: Amount | None = None

    def node(self, name: str, path: tuple[str, ...]) -> NodeSpec:
        cpu_milli = None if self.cpus is None else round(self.cpus * 1000)
        return NodeSpec(name, self.gpus, self.gpu_type, cpu_milli, self.memory_mib, self.gpu_memory_mib, path)


class _Group(_Machine):
    count: Count
    name: str = "node"
    per: dict[str, Count] = Field(default_factory=dict)


class _Node(_Machine):
    name: str


class _Tenant(BaseModel):
    model_config = ConfigDict(extra="forbid")
    quota_gpus: Amount | None = None
    weight: Factor = 1.0
    cells: dict[str, Amount | dict[str, Amount]] = Field(default_factory=dict)
    pinned: list[str] = Field(default_factory=list)


class _Cells(BaseModel):
    model_config = ConfigDict(extra="forbid")
    inside: dict[str, dict[str, Count]] = Field(default_factory=dict)
    above: list[str] = Field(default_factory=list)
    pinned: dict[str, dict[str, str | int]] = Field(default_factory=dict)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")
    levels: list[str] = Field(default_factory=list)
    groups: list[_Group] = Field(default_factory=list)
    nodes: list[_Node] = Field(default_factory=list)
    tenants: dict[str, _Tenant] = Field(default_factory=dict)
    speeds: dict[str, Factor] = Field(default_factory=dict)
    cells: _Cells | None = None


def read_cluster_file(path: Path) -> ClusterSpec:
    """A file of this form, or HiveD's own configuration, told by what is in it."""
    file = YamlText.read(path)
    return read_hived_config(file) if is_hived_config(file.data) else _Reader(file).cluster()


class _Reader:
    def __init__(self, file: YamlText) -> None:
        self.file, self._error, data = file.file, file.error, file.data
        if not isinstance(data, dict):
            raise InputError("this is no cluster file", file=self.file, accepts="keys such as groups or nodes")
        try:
            self.content = _File.model_validate(data)
        except ValidationError as error:
            first = error.errors()[0]
            raise self._wrong(first["loc"], _lowered(first["msg"]), first.get("input"), data) from None

    def cluster(self) -> ClusterSpec:
        levels = tuple(self.content.levels)
        for number, level in enumerate(levels):
            if level in levels[:number] or level in _Group.model_fields or level in _Node.model_fields:
                raise self._error(("levels", number), "this can't name a level", level, "a name used once")
        nodes: list[NodeSpec] = []
        domains = dict.fromkeys(levels, 0)
        self._check_size()
        for number, group in enumerate(self.content.groups):
            nodes += self._group(number, group, levels, domains, len(nodes))
        for number, node in enumerate(self.content.nodes):
            self._check_levels(("nodes", number), node, levels)
            extra = node.model_extra or {}
            for level in levels:
                if level not in extra:
                    raise self._error(("nodes", number), f"the node has no {level}", node.name, f"{level}: NAME")
            nodes.append(node.node(node.name, tuple(str(extra[level]) for level in levels)))
        self._check_names(nodes)
        if not nodes:
            raise InputError("the cluster has no nodes", file=self.file, accepts="groups or nodes")
        tenants = {
            name: TenantSpec(name, tenant.quota_gpus, tenant.weight) for name, tenant in self.content.tenants.items()
        }
        return ClusterSpec(tuple(nodes), levels, tenants, dict(self.content.speeds), self._cells(nodes, levels))

    def _cells(self, nodes: list[NodeSpec], levels: tuple[str, ...]) -> CellsSpec | None:
        """How the nodes are made of cells, and who owns which: None where the file says nothing of either."""
        asked, owners = self.content.cells, self.content.tenants
        if asked is None and not any(tenant.cells or tenant.pinned for tenant in owners.values()):
            return None
        asked = asked or _Cells()
        for number, level in enumerate(asked.above):
            if level not in levels or asked.above != sorted(asked.above, key=list(levels).index):
                raise self._error(
                    ("cells", "above", number), "this is no level, or not in order", level, _one_of(levels)
                )
        types = {node.gpu_type for node in nodes}
        for name, splits in asked.inside.items():
            if name not in types:
                raise self._error(("cells", "inside", name), "no node has such GPUs", name, _one_of(sorted(types)))
            for level in splits:
                if level in (NODE, GPU, *asked.above):
                    raise self._error(("cells", "inside", name), "this name is taken", level, "another name")
        where: Loc = ("cells",)
        try:
            spec = cells_of(nodes, levels, asked.inside, tuple(asked.above))
            spec = pin_cells(spec, asked.pinned)
            virtual = {}
            for name, tenant in owners.items():
                where = ("tenants", name)
                if tenant.cells or tenant.pinned:
                    virtual[name] = VirtualClusterSpec(name, _quotas(spec, tenant), tuple(tenant.pinned))
            spec = replace(spec, virtual=virtual)
            where = ("tenants",)
            check_cells(spec)
        except InputError as error:
            raise self._error(where, error.what, error.value, error.accepts) from None
        return spec

    def _group(
        self, number: int, group: _Group, levels: tuple[str, ...], domains: dict[str, int], first: int
    ) -> list[NodeSpec]:
        """Each level of the group begins new domains; a level that `per` leaves out is one domain for all."""
        where = ("groups", number)
        self._check_levels(where, group, levels)
        for level in group.per:
            if level not in levels:
                raise self._error((*where, "per", level), "there is no such level", level, _one_of(levels))
        extra = group.model_extra or {}
        sizes = [group.per.get(level, group.count) for level in levels]
        for outer, inner in zip(range(len(levels)), range(1, len(levels))):
            if sizes[outer] % sizes[inner] and sizes[outer] < group.count:
                what = f"a {levels[outer]} of {sizes[outer]} nodes can't be made of whole {levels[inner]}s"
                raise self._error((*where, "per"), what, dict(group.per), f"a multiple of {sizes[inner]}")
        nodes = []
        for i in range(group.count):
            path = tuple(
                str(extra[level]) if level in extra else f"{level}-{domains[level] + i // size}"
                for level, size in zip(levels, sizes)
            )
            nodes.append(group.node(f"{group.name}-{first + i}", path))
        for level, size in zip(levels, sizes):
            domains[level] += -(-group.count // size)
        return nodes

    def _check_size(self) -> None:
        """Before anything is built: a count may have a few zeros too many."""
        size = 0
        for number, group in enumerate(self.content.groups):
            size += group.count * max(group.gpus, 1)
            if size > MOST_GPUS:
                raise self._error(("groups", number, "count"), *_too_large(group.count))
        for number, node in enumerate(self.content.nodes):
            size += max(node.gpus, 1)
            if size > MOST_GPUS:
                raise self._error(("nodes", number, "gpus"), *_too_large(node.gpus))

    def _check_levels(self, where: tuple[str | int, ...], machine: _Machine, levels: tuple[str, ...]) -> None:
        known = [*type(machine).model_fields, *levels]
        for key in machine.model_extra or {}:
            if key not in levels:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise self._error((*where, key), f"there is no such key or level{hint}", key, _one_of(known))

    def _check_names(self, nodes: list[NodeSpec]) -> None:
        seen: set[str] = set()
        for node in nodes:
            if node.name in seen:
                raise InputError(
                    "two nodes have the same name",
                    file=self.file,
                    column="name",
                    value=node.name,
                    accepts="unique names",
                )
            seen.add(node.name)

    def _wrong(self, loc: tuple[str | int, ...], message: str, value: object, data: dict[str, Any]) -> InputError:
        if message.startswith("extra inputs"):
            part = _Cells if loc[0] == "cells" else _Tenant
            known = list(_File.model_fields if len(loc) == 1 else part.model_fields)
            near = difflib.get_close_matches(str(loc[-1]), known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            return self._error(loc, f"there is no such key{hint}", loc[-1], _one_of(known))
        if message == "field required":
            return self._error(loc, "the key is missing", None, f"{loc[-1]}: ...")
        return self._error(loc, message, value, None)


def _quotas(spec: CellsSpec, tenant: _Tenant) -> tuple[CellQuota, ...]:
    """`{node: 4}` where there is one kind of hardware, `{V100: {node: 4}, T4: {gpu: 2}}` where there are more."""
    found = []
    labels = [chain.rpartition("/")[0] for chain in spec.chains]
    for name, value in tenant.cells.items():
        if isinstance(value, int) and len(labels) > 1:
            what = "there is more than one kind of hardware"
            raise InputError(what, value=name, accepts=" or ".join(f"{label}: {{{name}: {value}}}" for label in labels))
        by_level = {name: value} if isinstance(value, int) else value
        for level, count in by_level.items():
            found.append(CellQuota(*level_kind(labels[0] if isinstance(value, int) else name, level, spec), count))
    return tuple(found)


def _lowered(message: str) -> str:
    return message[:1].lower() + message[1:]


def _too_large(value: int) -> tuple[str, int, str]:
    return "no cluster has so many GPUs", value, f"up to {MOST_GPUS:,} nodes and GPUs in all"


def _one_of(names: Any) -> str:
    return "one of " + ", ".join(names) if names else "none: the cluster has no levels"
