"""Pinned cells of a cluster file: a cell is found by the names of what it is in, and gets an id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from fairlead.model.cell_tree import GPU
from fairlead.model.cells import CellsSpec, PhysicalCellSpec
from fairlead.model.errors import InputError


def pin_cells(spec: CellsSpec, pins: Mapping[str, Mapping[str, str | int]]) -> CellsSpec:
    """`{rack: rack-3}` is a domain, `{node: v100-4}` a node, `{node: v100-4, socket: 1}` a part of one, by its number."""
    for name, path in pins.items():
        found = [cell for top in spec.physical for cell in _find(spec, top, list(path.items()))]
        if len(found) != 1:
            asked = ", ".join(f"{level}: {value}" for level, value in path.items())
            what = f"pinned cell {name!r} is not one cell: {len(found)} have this place"
            raise InputError(what, value=asked, accepts="LEVEL: NAME, or node: NAME and LEVEL: NUMBER")
        spec = replace(spec, physical=tuple(_pinned(top, found[0], name) for top in spec.physical))
    return spec


def _find(spec: CellsSpec, cell: PhysicalCellSpec, path: list[tuple[str, str | int]]) -> Iterator[PhysicalCellSpec]:
    """Cells in `cell`, itself included, that a path of levels and names leads to."""
    if path:
        level, name = path[0]
        own = GPU if cell.kind not in spec.types else cell.kind.rpartition("/")[2]
        if own == level and cell.name == str(name):
            path = path[1:]
            if not path:
                yield cell
                return
    for child in cell.children:
        yield from _find(spec, child, path)


def _pinned(cell: PhysicalCellSpec, target: PhysicalCellSpec, name: str) -> PhysicalCellSpec:
    if cell is target:
        return replace(cell, pinned=name)
    if not target.address.startswith(f"{cell.address}/"):
        return cell
    return replace(cell, children=tuple(_pinned(child, target, name) for child in cell.children))
