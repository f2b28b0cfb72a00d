"""Cells from nodes: how each kind of node splits, and which levels of the topology are cells above it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairlead.model.cells import CellsSpec, CellType, PhysicalCellSpec
from fairlead.model.cluster import NodeSpec
from fairlead.model.errors import InputError

NODE, GPU = "node", "gpu"
#: per GPU type, the levels inside a node, outermost first, with how many of each the level around it has
Inside = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class _Group:
    """A node, or a domain of groups that are alike."""

    shape: tuple[tuple[str, int], ...]  #: levels above the node, outermost first, with how many each has of the next
    name: str
    path: tuple[str, ...]
    parts: tuple[_Group, ...] = ()


def halves(gpus: int) -> dict[str, int]:
    """How a node splits if nobody says: in two, as long as that is even, down to single GPUs."""
    found = {}
    while gpus % 2 == 0 and gpus > 2:
        gpus //= 2
        found[f"{gpus}-gpu"] = 2
    return found


def cells_of(nodes: Sequence[NodeSpec], levels: tuple[str, ...], inside: Inside, above: tuple[str, ...]) -> CellsSpec:
    """The cells of a cluster, owned by nobody yet. Each kind of node, and each shape of cell above it, is a chain."""
    kinds: dict[tuple[str, int], list[NodeSpec]] = {}
    for node in nodes:
        if node.gpus > 0:
            kinds.setdefault((node.gpu_type, node.gpus), []).append(node)
    types: dict[str, CellType] = {}
    physical: list[PhysicalCellSpec] = []
    groups = {
        kind: _group(alike, tuple((levels.index(level), level) for level in above)) for kind, alike in kinds.items()
    }
    for (gpu_type, gpus), found in groups.items():
        shapes = list(dict.fromkeys(group.shape for group in found))
        single = len(shapes) == 1 and sum(one == gpu_type for one, _ in kinds) == 1
        splits = dict(inside[gpu_type]) if gpu_type in inside else halves(gpus)
        for shape in shapes:
            base = gpu_type or GPU
            if not single:
                wide = 1
                for _, count in shape:
                    wide *= count
                base += f"-{wide}x{gpus}"
            names = [f"{base}/{level}" for level, _ in shape] + [f"{base}/{NODE}"]
            for name, child, (_, count) in zip(names, names[1:], shape):
                types[name] = CellType(name, child, count)
            _inside(base, gpu_type, gpus, splits, types)
            physical += [_cell(group, names, types, "") for group in found if group.shape == shape]
    return CellsSpec(types, tuple(physical))


def _inside(base: str, gpu_type: str, gpus: int, splits: Mapping[str, int], types: dict[str, CellType]) -> None:
    """Enter the types of a node and of what it splits into."""
    left, name, is_node = gpus, f"{base}/{NODE}", True
    for level, count in splits.items():
        if count < 2 or left % count or left == count:
            raise InputError(
                f"a node of {gpus} GPUs can't be split so: {left} GPUs into {count} of {level}",
                column="inside",
                value=dict(splits),
                accepts="whole parts of two GPUs or more each; single GPUs are the last level by themselves",
            )
        types[name] = CellType(name, f"{base}/{level}", count, is_node)
        left, name, is_node = left // count, f"{base}/{level}", False
    types[name] = CellType(name, gpu_type or GPU, left, is_node)


def _group(nodes: Sequence[NodeSpec], above: tuple[tuple[int, str], ...]) -> list[_Group]:
    """One group per node, merged level by level from the innermost out."""
    groups = [_Group((), node.name, node.path) for node in nodes]
    for depth, level in reversed(above):
        domains: dict[tuple[str, ...], list[_Group]] = {}
        for group in groups:
            domains.setdefault(group.path[: depth + 1], []).append(group)
        groups = []
        for path, parts in domains.items():
            if len({part.shape for part in parts}) > 1:
                what = f"{level} {path[-1]!r} can't be a cell: its parts are not alike"
                raise InputError(what, column="above", value=level, accepts="levels whose domains are alike inside")
            groups.append(_Group(((level, len(parts)), *parts[0].shape), path[-1], path, tuple(parts)))
    return groups


def _cell(group: _Group, names: list[str], types: Mapping[str, CellType], prefix: str) -> PhysicalCellSpec:
    address = f"{prefix}{group.name}"
    if not group.parts:
        return PhysicalCellSpec(names[0], address, _parts(names[0], address, 0, types), machine=group.name)
    children = tuple(_cell(part, names[1:], types, f"{address}/") for part in group.parts)
    return PhysicalCellSpec(names[0], address, children)


def _parts(kind: str, address: str, number: int, types: Mapping[str, CellType]) -> tuple[PhysicalCellSpec, ...]:
    """What a cell of a node splits into; a cell's address is its number among those of its level in the node."""
    if kind not in types:
        return ()
    made = types[kind]
    found = []
    for i in range(number * made.count, (number + 1) * made.count):
        at = f"{address}/{i}"
        found.append(PhysicalCellSpec(made.child, at, _parts(made.child, at, i, types)))
    return tuple(found)
