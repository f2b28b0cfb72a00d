"""HiveD's own configuration as a cluster: `physicalCluster` with its cell types and cells, and `virtualClusters`."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fairlead.model.cells import (
    CellQuota,
    CellsSpec,
    CellType,
    PhysicalCellSpec,
    VirtualClusterSpec,
    check_cells,
)
from fairlead.model.cluster import ClusterSpec, NodeSpec, TenantSpec
from fairlead.model.errors import InputError
from fairlead.workload.yaml_text import YamlText

KEY = "physicalCluster"
Address = str | int | float | None


class _Type(BaseModel):
    model_config = ConfigDict(extra="forbid")
    childCellType: str  # noqa: N815 - the file's own names
    childCellNumber: Annotated[int, Field(ge=1)]  # noqa: N815
    isNodeLevel: bool = False  # noqa: N815


class _Cell(BaseModel):
    model_config = ConfigDict(extra="forbid")
    cellType: str = ""  # noqa: N815
    cellAddress: Address = None  # noqa: N815
    pinnedCellId: str = ""  # noqa: N815
    cellChildren: list[_Cell] | None = None  # noqa: N815


class _Physical(BaseModel):
    model_config = ConfigDict(extra="forbid")
    cellTypes: dict[str, _Type]  # noqa: N815
    physicalCells: list[_Cell]  # noqa: N815


class _Owned(BaseModel):
    model_config = ConfigDict(extra="forbid")
    cellType: str  # noqa: N815
    cellNumber: Annotated[int, Field(ge=0)]  # noqa: N815


class _Pin(BaseModel):
    model_config = ConfigDict(extra="forbid")
    pinnedCellId: str  # noqa: N815


class _Virtual(BaseModel):
    model_config = ConfigDict(extra="forbid")
    virtualCells: list[_Owned] | None = None  # noqa: N815
    pinnedCells: list[_Pin] | None = None  # noqa: N815


class _File(BaseModel):
    model_config = ConfigDict(extra="ignore")  # addresses of servers and the like are no part of the cluster
    physicalCluster: _Physical  # noqa: N815
    virtualClusters: dict[str, _Virtual] = Field(default_factory=dict)  # noqa: N815


def is_hived_config(data: Any) -> bool:
    return isinstance(data, dict) and KEY in data


def read_hived_config(file: YamlText) -> ClusterSpec:
    try:
        return hived_cluster(file.data)
    except ValidationError as error:
        first = error.errors()[0]
        raise file.error(first["loc"], first["msg"][:1].lower() + first["msg"][1:], first.get("input"), None) from None
    except InputError as error:
        at = file.line((KEY,)) if error.column != "cellNumber" else file.line(("virtualClusters",))
        raise InputError(
            error.what, file=file.file, line=at, column=error.column, value=error.value, accepts=error.accepts
        ) from None


def hived_cluster(data: dict[str, Any]) -> ClusterSpec:
    """The cluster of a configuration that is in memory already."""
    content = _File.model_validate(data)
    types = {
        name: CellType(name, one.childCellType, one.childCellNumber, one.isNodeLevel)
        for name, one in content.physicalCluster.cellTypes.items()
    }
    machines = Counter[str]()
    physical = tuple(
        _cell(types, cell, cell.cellType, number, "", machines)
        for number, cell in enumerate(content.physicalCluster.physicalCells)
    )
    virtual = {name: _virtual(name, one) for name, one in content.virtualClusters.items()}
    spec = CellsSpec(types, physical, virtual)
    check_cells(spec)
    return ClusterSpec(
        nodes=_nodes(spec),
        levels=("cell",),
        tenants={name: TenantSpec(name) for name in virtual},
        cells=spec,
    )


def _cell(
    types: dict[str, CellType], cell: _Cell, kind: str, number: int, prefix: str, machines: Counter[str]
) -> PhysicalCellSpec:
    """A cell with everything in it, made up where the file leaves it out: by default a cell's address is its number among
    those of its kind in the top cell, or, below a node, in the node."""
    if not kind:
        raise InputError("a top cell has no type", column="cellType", accepts="cellType: NAME")
    own = str(number) if cell.cellAddress is None or cell.cellAddress == "" else str(cell.cellAddress)
    address = f"{prefix}{own}"
    if kind not in types:
        return PhysicalCellSpec(kind, address, (), cell.pinnedCellId)
    made = types[kind]
    machine = ""
    if made.is_node:
        number = 0
        name = address.rpartition("/")[2]
        machines[name] += 1
        machine = name if machines[name] == 1 else f"{name}/{machines[name] - 1}"  # another kind of GPU of one node
    parts = cell.cellChildren or [_Cell() for _ in range(made.count)]
    children = tuple(
        _cell(types, part, made.child, number * made.count + i, f"{address}/", machines) for i, part in enumerate(parts)
    )
    return PhysicalCellSpec(kind, address, children, cell.pinnedCellId, machine)


def _virtual(name: str, one: _Virtual) -> VirtualClusterSpec:
    """The type of an owned cell is written with all types above it, joined by dots, the chain's first."""
    cells = []
    for owned in one.virtualCells or ():
        path = owned.cellType.split(".")
        cells.append(CellQuota(path[0], path[-1], owned.cellNumber))
    return VirtualClusterSpec(name, tuple(cells), tuple(pin.pinnedCellId for pin in one.pinnedCells or ()))


def _nodes(spec: CellsSpec) -> tuple[NodeSpec, ...]:
    return tuple(
        NodeSpec(cell.machine, spec.gpus(cell.kind), spec.leaf(cell.kind), path=(top.address,))
        for top in spec.physical
        for cell in top.walk()
        if cell.kind in spec.types and spec.types[cell.kind].is_node
    )
