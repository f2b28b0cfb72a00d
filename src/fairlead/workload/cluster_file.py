"""Cluster files in YAML: groups of like nodes, single nodes, tenants and speeds. docs/cluster-file.md has the form."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fairlead.model.cluster import ClusterSpec, NodeSpec, TenantSpec
from fairlead.model.errors import InputError
from fairlead.workload.yaml_text import YamlText

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


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")
    levels: list[str] = Field(default_factory=list)
    groups: list[_Group] = Field(default_factory=list)
    nodes: list[_Node] = Field(default_factory=list)
    tenants: dict[str, _Tenant] = Field(default_factory=dict)
    speeds: dict[str, Factor] = Field(default_factory=dict)


def read_cluster_file(path: Path) -> ClusterSpec:
    return _Reader(path).cluster()


class _Reader:
    """Keeps the text beside the values, so that an error can name the line."""

    def __init__(self, path: Path) -> None:
        self.file = str(path)
        self.text = YamlText.read(path)
        data = self.text.data
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
        return ClusterSpec(tuple(nodes), levels, tenants, dict(self.content.speeds))

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
            known = list(_File.model_fields if len(loc) == 1 else _Tenant.model_fields)
            near = difflib.get_close_matches(str(loc[-1]), known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            return self._error(loc, f"there is no such key{hint}", loc[-1], _one_of(known))
        if message == "field required":
            return self._error(loc, "the key is missing", None, f"{loc[-1]}: ...")
        return self._error(loc, message, value, None)

    def _error(self, loc: tuple[str | int, ...], what: str, value: object, accepts: str | None) -> InputError:
        column = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).lstrip(".")
        return InputError(what, file=self.file, line=self.text.line(loc), column=column, value=value, accepts=accepts)


def _lowered(message: str) -> str:
    return message[:1].lower() + message[1:]


def _one_of(names: Any) -> str:
    return "one of " + ", ".join(names) if names else "none: the cluster has no levels"
