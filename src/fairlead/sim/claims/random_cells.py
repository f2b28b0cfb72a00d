"""Random clusters of cells, with owners for some of them: always feasible, never twice the same shape."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairlead.model.cell_tree import cells_of
from fairlead.model.cells import CellQuota, CellsSpec, PhysicalCellSpec, VirtualClusterSpec, check_cells
from fairlead.model.cluster import ClusterSpec, NodeSpec
from fairlead.model.errors import InputError

#: how nodes of so many GPUs may split
_INSIDE: dict[int, list[dict[str, int]]] = {
    2: [{}],
    4: [{}, {"half": 2}],
    6: [{"half": 2}, {}],
    8: [{"half": 2, "quarter": 2}, {"half": 2}, {"quarter": 4}],
}
_ABOVE: list[tuple[str, ...]] = [(), ("rack",), ("row", "rack")]


def random_spec(rng: np.random.Generator, vcs: tuple[str, ...]) -> ClusterSpec:
    """One or two kinds of nodes, alone, in racks, or in racks in rows; feasible owners, some cells nobody's."""
    nodes: list[NodeSpec] = []
    inside = {}
    above = _ABOVE[int(rng.integers(len(_ABOVE)))]
    for kind in range(int(rng.integers(1, 3))):
        name = f"T{kind}"
        gpus = int(rng.choice([2, 4, 8, 8, 6]))
        inside[name] = _INSIDE[gpus][int(rng.integers(len(_INSIDE[gpus])))]
        racks, each = int(rng.integers(2, 5)), int(rng.integers(1, 4))
        for rack in range(racks * 2):
            nodes += [
                NodeSpec(f"n{kind}-{rack}-{i}", gpus, name, path=(f"row{kind}-{rack // 2}", f"rack{kind}-{rack}"))
                for i in range(each)
            ]
    spec = cells_of(nodes, ("row", "rack"), inside, above)
    return ClusterSpec(tuple(nodes), ("row", "rack"), cells=random_owners(rng, spec, vcs))


def random_owners(rng: np.random.Generator, spec: CellsSpec, vcs: tuple[str, ...]) -> CellsSpec:
    """Give cells away, one after another, as long as what is given fits."""
    if rng.random() < 0.3:
        spec = _with_pin(rng, spec, vcs[0])
    owned: dict[str, list[CellQuota]] = {name: [] for name in vcs}
    pins = {name: one.pinned for name, one in spec.virtual.items()}
    for _ in range(int(rng.integers(4, 24))):
        chain = spec.chains[int(rng.integers(len(spec.chains)))]
        levels = spec.levels(chain)
        kind, vc = levels[int(rng.integers(len(levels)))], vcs[int(rng.integers(len(vcs)))]
        more = CellQuota(chain, kind, int(rng.integers(1, 3)))
        trial = {
            name: VirtualClusterSpec(name, (*quotas, *([more] if name == vc else ())), pins.get(name, ()))
            for name, quotas in owned.items()
        }
        try:
            check_cells(replace(spec, virtual=trial))
        except InputError:
            continue
        owned[vc].append(more)
    virtual = {name: VirtualClusterSpec(name, tuple(quotas), pins.get(name, ())) for name, quotas in owned.items()}
    return replace(spec, virtual=virtual)


def _with_pin(rng: np.random.Generator, spec: CellsSpec, vc: str) -> CellsSpec:
    top = int(rng.integers(len(spec.physical)))
    cells = list(spec.physical[top].walk())
    target = cells[int(rng.integers(len(cells)))]

    def pinned(cell: PhysicalCellSpec) -> PhysicalCellSpec:
        if cell is target:
            return replace(cell, pinned="pin")
        return replace(cell, children=tuple(pinned(child) for child in cell.children))

    physical = (*spec.physical[:top], pinned(spec.physical[top]), *spec.physical[top + 1 :])
    return replace(spec, physical=physical, virtual={vc: VirtualClusterSpec(vc, (), ("pin",))})
