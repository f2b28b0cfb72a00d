"""From a spec to cells: the trees of the physical cluster, and those of every virtual cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from fairlead.model.cells import CellsSpec, PhysicalCellSpec
from fairlead.policy.hived.cells import Kin, Levels, PhysicalCell, VirtualCell

ByLevel = list[list[VirtualCell]]  #: position 0 is empty: levels begin at 1


@dataclass
class Chain:
    """The physical cells of one chain, and how many are free, left or bad at each level."""

    name: str
    levels: tuple[str, ...]  #: types, from the GPU up; the type of level k is levels[k - 1]
    fan_out: tuple[int, ...]
    gpus: tuple[int, ...]  #: of a cell of each level
    node_level: int
    gpu_type: str
    all: Levels
    free: Levels  #: for buddy allocation: no cell on it is part of another
    bad: Levels  #: bad ones among those that are free or part of a free one
    left: list[int]  #: per level, how many are free or could be had by splitting
    owned: list[int]  #: per level, how many cells of all virtual clusters are not bound
    doomed: list[int]  #: per level, how many cells of virtual clusters are bound to bad ones because no others are left

    @property
    def top(self) -> int:
        return len(self.levels)

    def spare(self) -> list[int]:
        """Per level, how many free cells all owners of cells of this level and above could do without. None is below 0 as
        long as everybody can have what he owns, at once."""
        found = [0] * (self.top + 2)
        for level in range(self.top, 0, -1):
            above = found[level + 1] * self.fan_out[level] if level < self.top else 0
            found[level] = len(self.free[level]) - self.owned[level] + above
        return found


@dataclass
class VirtualCluster:
    name: str
    all: dict[str, ByLevel] = field(default_factory=dict)  #: by chain; pinned cells aside, as are the next three
    preassigned: dict[str, ByLevel] = field(default_factory=dict)
    owned: dict[str, list[int]] = field(default_factory=dict)  #: per level, cells that are not bound; pinned ones too
    doomed: dict[str, Levels] = field(default_factory=dict)
    pinned: dict[str, ByLevel] = field(default_factory=dict)  #: by pinned id


def build_chains(spec: CellsSpec) -> tuple[dict[str, Chain], dict[str, PhysicalCell]]:
    """Chains by name, and pinned cells by their id."""
    chains: dict[str, Chain] = {}
    pinned: dict[str, PhysicalCell] = {}
    tops: dict[str, list[PhysicalCellSpec]] = {}
    for top in spec.physical:
        tops.setdefault(top.kind, []).append(top)
    for kind, cells in tops.items():
        chains[kind] = _new_chain(spec, kind)
        _add_physical(chains[kind], cells, pinned)
    for chain in chains.values():
        count = len(chain.all[chain.top])
        for level in range(chain.top, 0, -1):
            chain.left[level] = count
            count *= chain.fan_out[level - 1]
    return chains, pinned


def _new_chain(spec: CellsSpec, name: str) -> Chain:
    levels = spec.levels(name)
    top = len(levels)
    return Chain(
        name=name,
        levels=levels,
        fan_out=spec.fan_out(name),
        gpus=tuple(spec.gpus(kind) for kind in levels),
        node_level=spec.node_level(name) + 1,
        gpu_type=levels[0],
        all=Levels(top),
        free=Levels(top),
        bad=Levels(top),
        left=[0] * (top + 1),
        owned=[0] * (top + 1),
        doomed=[0] * (top + 1),
    )


def _add_physical(chain: Chain, tops: list[PhysicalCellSpec], pinned: dict[str, PhysicalCell]) -> None:
    """Level by level: there may be a hundred thousand, and whoever goes through a level finds its cells side by side."""
    specs, above = tops, list[PhysicalCell]()
    for level in range(chain.top, 0, -1):
        gpus, has_node = chain.gpus[level - 1], level >= chain.node_level
        cells = [PhysicalCell(chain.name, one.kind, level, gpus, has_node, one.address) for one in specs]
        chain.all.at[level] = cells
        _join(above, cells)
        for cell, one in zip(cells, specs):
            if level == chain.node_level:
                cell.nodes = [one.name]
            elif level < chain.node_level:
                assert cell.parent is not None
                cell.nodes = cell.parent.nodes  # one list for all parts of a node
            if level == 1:
                cell.index = int(one.name)
            if one.pinned:
                cell.pinned = True
                pinned[one.pinned] = cell
        specs, above = [part for one in specs for part in one.children], cells
    for level in range(chain.node_level + 1, chain.top + 1):
        for cell in chain.all[level]:
            cell.nodes = [name for part in cell.children for name in part.nodes]
    for cell in chain.all[chain.top]:
        chain.free.add(cell)


def _join(above: list[Kin], cells: list[Kin]) -> None:
    """`cells` are the parts of those of the level above, each of which has as many."""
    fan_out = len(cells) // max(len(above), 1)
    for number, cell in enumerate(above):
        cell.children = cells[number * fan_out : (number + 1) * fan_out]
        for part in cell.children:
            part.parent = cell


def build_virtual(
    spec: CellsSpec, chains: dict[str, Chain], pinned: dict[str, PhysicalCell]
) -> dict[str, VirtualCluster]:
    """Virtual clusters by name; what they own is counted in their chains too."""
    found: dict[str, VirtualCluster] = {}
    for name, asked in spec.virtual.items():
        vc = found[name] = VirtualCluster(name)
        number = 0
        for quota in asked.cells:
            chain = chains[quota.chain]
            level = chain.levels.index(quota.kind) + 1
            _own(vc, chain, level, quota.count)
            if quota.count == 0:
                continue
            tree = vc.all.setdefault(quota.chain, [[] for _ in range(chain.top + 1)])
            roots = vc.preassigned.setdefault(quota.chain, [[] for _ in range(chain.top + 1)])
            roots[level] += _add_virtual(name, chain, level, range(number, number + quota.count), tree)
            number += quota.count
        for pin in asked.pinned:
            cell = pinned[pin]
            chain = chains[cell.chain]
            _own(vc, chain, cell.level, 1)
            tree = vc.pinned[pin] = [[] for _ in range(cell.level + 1)]
            _add_virtual(name, chain, cell.level, range(number, number + 1), tree)
            number += 1
    return found


def _own(vc: VirtualCluster, chain: Chain, level: int, count: int) -> None:
    owned = vc.owned.setdefault(chain.name, [0] * (chain.top + 1))
    vc.doomed.setdefault(chain.name, Levels(chain.top))
    owned[level] += count
    chain.owned[level] += count


def _add_virtual(vc: str, chain: Chain, top: int, numbers: range, tree: ByLevel) -> list[VirtualCell]:
    """Preassigned cells of one level, by their numbers, and all that they are made of. A part is named by its number among
    those of its level in its preassigned cell."""
    addresses, above, roots = [f"{vc}/{number}" for number in numbers], list[VirtualCell](), list[VirtualCell]()
    for level in range(top, 0, -1):
        kind, gpus, has_node = chain.levels[level - 1], chain.gpus[level - 1], level >= chain.node_level
        cells = [VirtualCell(vc, chain.name, kind, level, gpus, has_node, address) for address in addresses]
        tree[level] += cells
        _join(above, cells)
        roots = roots or cells
        each, fan_out = len(cells) // len(numbers), chain.fan_out[level - 1]
        addresses = []
        for i, cell in enumerate(cells):
            cell.root = roots[i // each]
            first = i % each * fan_out
            addresses += [f"{cell.address}/{part}" for part in range(first, first + fan_out)]
        above = cells
    return roots
