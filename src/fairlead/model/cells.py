"""Cells: a cluster as trees of equal parts, and who owns how many parts of which size.

A cell type is made of so many cells of a smaller type, down to the single GPU. A chain is a type that whole trees of the
cluster have (its top type); trees of one chain are alike. A virtual cluster owns a number of cells per chain and level, and
pinned cells, which are named ones of the physical cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairlead.model.errors import InputError


@dataclass(frozen=True, slots=True)
class CellType:
    """`count` cells of type `child`. The one that is a node holds all GPUs of its kind of one machine."""

    name: str
    child: str
    count: int
    is_node: bool = False


@dataclass(frozen=True, slots=True)
class PhysicalCellSpec:
    """A cell that is there. The last part of a node's address is its name, that of a GPU its index on the node."""

    kind: str
    address: str
    children: tuple[PhysicalCellSpec, ...] = ()
    pinned: str = ""  #: its pinned id, if it has one
    machine: str = ""  #: nodes: the NodeSpec that has its GPUs

    @property
    def name(self) -> str:
        return self.address.rpartition("/")[2]

    def walk(self) -> Iterator[PhysicalCellSpec]:
        """This cell and all in it, outer ones first."""
        left = [self]
        while left:
            cell = left.pop()
            yield cell
            left.extend(reversed(cell.children))

    def nodes(self) -> Iterator[PhysicalCellSpec]:
        """The nodes in this cell, or this one. It does not look inside them, where most of a cluster's cells are."""
        if self.machine:
            yield self
        else:
            for child in self.children:
                yield from child.nodes()

    def leaves(self) -> list[PhysicalCellSpec]:
        """The GPUs in it."""
        found = [self]
        while found[0].children:
            found = [child for cell in found for child in cell.children]
        return found


@dataclass(frozen=True, slots=True)
class CellQuota:
    chain: str
    kind: str  #: the type, on this chain, of the cells that are owned
    count: int


@dataclass(frozen=True, slots=True)
class VirtualClusterSpec:
    name: str
    cells: tuple[CellQuota, ...] = ()
    pinned: tuple[str, ...] = ()  #: pinned ids, each owned by one virtual cluster


@dataclass(frozen=True)
class CellsSpec:
    types: Mapping[str, CellType]  #: GPUs aside: what is no key here is one
    physical: tuple[PhysicalCellSpec, ...]  #: top cells
    virtual: Mapping[str, VirtualClusterSpec] = field(default_factory=dict)

    def levels(self, chain: str) -> tuple[str, ...]:
        """The types of a chain from the GPU (level 1, position 0) to the top."""
        found = [chain]
        while found[-1] in self.types:
            child = self.types[found[-1]].child
            if child in found:
                raise InputError("this cell type contains itself", column="childCellType", value=child)
            found.append(child)
        return tuple(reversed(found))

    def fan_out(self, chain: str) -> tuple[int, ...]:
        """How many cells of the level below a cell has, by level; 0 for the GPU."""
        return tuple(self.types[kind].count if kind in self.types else 0 for kind in self.levels(chain))

    def node_level(self, chain: str) -> int:
        """The position in levels(chain) of its node."""
        for position, kind in enumerate(self.levels(chain)):
            if kind in self.types and self.types[kind].is_node:
                return position
        raise InputError(
            "no cell type of this chain is a node", column="isNodeLevel", value=chain, accepts="one per chain"
        )

    def gpus(self, kind: str) -> int:
        """How many GPUs a cell of this type has."""
        return self.types[kind].count * self.gpus(self.types[kind].child) if kind in self.types else 1

    def leaf(self, kind: str) -> str:
        while kind in self.types:
            kind = self.types[kind].child
        return kind

    @property
    def chains(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.kind for cell in self.physical))

    def top_cells(self, chain: str) -> tuple[PhysicalCellSpec, ...]:
        return tuple(cell for cell in self.physical if cell.kind == chain)

    def pinned_cells(self) -> dict[str, tuple[str, PhysicalCellSpec]]:
        """By pinned id: the chain and the cell."""
        return {cell.pinned: (top.kind, cell) for top in self.physical for cell in top.walk() if cell.pinned}


def cells_from(data: Mapping[str, Any]) -> CellsSpec:
    """Cells that were written down with dataclasses.asdict."""

    def cell(one: Mapping[str, Any]) -> PhysicalCellSpec:
        return PhysicalCellSpec(**{**one, "children": tuple(map(cell, one["children"]))})

    return CellsSpec(
        types={name: CellType(**one) for name, one in data["types"].items()},
        physical=tuple(map(cell, data["physical"])),
        virtual={
            name: VirtualClusterSpec(name, tuple(CellQuota(**quota) for quota in one["cells"]), tuple(one["pinned"]))
            for name, one in data["virtual"].items()
        },
    )


def check_cells(spec: CellsSpec) -> None:
    """Raise InputError for cells that do not make sense, or virtual clusters that do not fit into the physical one."""
    check_physical(spec)
    check_virtual(spec)


def check_physical(spec: CellsSpec) -> None:
    for chain in spec.chains:
        if chain not in spec.types:
            raise InputError(
                "a top cell has an unknown type", column="cellType", value=chain, accepts=_one_of(spec.types)
            )
        spec.node_level(chain)
    for top in spec.physical:
        _check_tree(spec, top)
    _check_names(spec)


def check_virtual(spec: CellsSpec) -> None:
    known = spec.pinned_cells() if any(vc.pinned for vc in spec.virtual.values()) else {}
    for vc in spec.virtual.values():
        _check_owner(spec, vc, known)
    for chain in spec.chains:
        _check_chain(spec, chain)


def _check_tree(spec: CellsSpec, cell: PhysicalCellSpec) -> None:
    if cell.kind not in spec.types:
        if not cell.name.isdigit():
            raise InputError("a GPU is named by its index", column="cellAddress", value=cell.address, accepts="0, 1, …")
        return
    want = spec.types[cell.kind].count
    if len(cell.children) != want:
        what = f"cell {cell.address} has {len(cell.children)} children, a {cell.kind} has {want}"
        raise InputError(what, column="cellChildren", value=cell.address, accepts=f"{want}, or none to have all made")
    for child in cell.children:
        _check_tree(spec, child)


def _check_names(spec: CellsSpec) -> None:
    pinned = Counter(cell.pinned for top in spec.physical for cell in top.walk() if cell.pinned)
    gpus = Counter(
        (node.name, gpu.name)
        for top in spec.physical
        for node in top.walk()
        if node.kind in spec.types and spec.types[node.kind].is_node
        for gpu in node.walk()
        if gpu.kind not in spec.types
    )
    for name, count in pinned.items():
        if count > 1:
            raise InputError("two cells have this pinned id", column="pinnedCellId", value=name, accepts="unique ids")
    for (node, gpu), count in gpus.items():
        if count > 1:
            what = f"GPU {gpu} of node {node!r} is in {count} cells"
            raise InputError(what, column="cellAddress", value=node, accepts="each GPU once")


def _check_owner(spec: CellsSpec, vc: VirtualClusterSpec, known: Mapping[str, object]) -> None:
    for quota in vc.cells:
        if quota.chain not in spec.chains:
            what = f"virtual cluster {vc.name!r} wants cells of a chain that the cluster does not have"
            raise InputError(what, column="cellType", value=quota.chain, accepts=_one_of(spec.chains))
        if quota.kind not in spec.levels(quota.chain):
            what = f"virtual cluster {vc.name!r} wants cells of a type that chain {quota.chain!r} does not have"
            raise InputError(what, column="cellType", value=quota.kind, accepts=_one_of(spec.levels(quota.chain)))
        if quota.count < 0:
            raise InputError(f"virtual cluster {vc.name!r} wants fewer than no cells", value=quota.count)
    for name in vc.pinned:
        if name not in known:
            what = f"virtual cluster {vc.name!r} wants a pinned cell that is not there"
            raise InputError(what, column="pinnedCellId", value=name, accepts=_one_of(known))
        owners = [other.name for other in spec.virtual.values() for pin in other.pinned if pin == name]
        if len(owners) > 1:
            what = f"pinned cell {name!r} is wanted by {' and '.join(map(repr, owners))}"
            raise InputError(what, column="pinnedCellId", value=name, accepts="one owner")


def _check_chain(spec: CellsSpec, chain: str) -> None:
    """From the top down: what is left of a level after its owners have theirs is split into the level below."""
    levels, fan_out = spec.levels(chain), spec.fan_out(chain)
    owned = Counter[str]()
    for vc in spec.virtual.values():
        for quota in vc.cells:
            if quota.chain == chain:
                owned[quota.kind] += quota.count
    whole, loose = around_pins(spec, chain)
    left = 0
    for position in range(len(levels) - 1, -1, -1):
        above = fan_out[position + 1] if position + 1 < len(levels) else 0
        kind = levels[position]
        there = left * above + (whole if position == len(levels) - 1 else loose[kind])
        left = there - owned[kind]
        if left < 0:
            raise InputError(
                f"the virtual clusters do not fit: chain {chain!r} is short of {-left} at level {position + 1}"
                f" ({kind}): {owned[kind]} are owned, {there} can be had",
                column="cellNumber",
                value=owned[kind],
                accepts=f"at most {there}",
            )


def around_pins(spec: CellsSpec, chain: str) -> tuple[int, Counter[str]]:
    """Top cells without an owned pinned cell inside, and by type what is left loose around those that have one."""
    owned = {name for vc in spec.virtual.values() for name in vc.pinned}
    whole, loose = 0, Counter[str]()
    if not owned:
        return len(spec.top_cells(chain)), loose

    def split(cell: PhysicalCellSpec) -> bool:
        """Whether an owned pinned cell is in this cell, or is it; what lies around it is counted as loose."""
        if cell.pinned in owned:
            return True
        inside = [split(child) for child in cell.children]
        if any(inside):
            loose.update(child.kind for child, taken in zip(cell.children, inside) if not taken)
        return any(inside)

    for top in spec.top_cells(chain):
        whole += not split(top)
    return whole, loose


def _one_of(names: Mapping[str, object] | tuple[str, ...]) -> str:
    return "one of " + ", ".join(names) if names else "nothing: there are none"
