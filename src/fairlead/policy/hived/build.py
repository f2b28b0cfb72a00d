"""From a spec to cells: the trees of the physical cluster, and those of every virtual cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from fairlead.model.cells import CellsSpec, PhysicalCellSpec
from fairlead.policy.hived.cells import Levels, PhysicalCell, VirtualCell

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
    for top in spec.physical:
        if top.kind not in chains:
            chains[top.kind] = _new_chain(spec, top.kind)
        chain = chains[top.kind]
        cell = _physical(chain, top, chain.top, [], pinned)
        chain.free.add(cell)
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


def _physical(
    chain: Chain, one: PhysicalCellSpec, level: int, node: list[str], pinned: dict[str, PhysicalCell]
) -> PhysicalCell:
    """`node`: the name of the node around it, as a list that all parts of that node have in common."""
    node_level = chain.node_level
    cell = PhysicalCell(chain.name, one.kind, level, chain.gpus[level - 1], level >= node_level, one.address)
    chain.all.at[level].append(cell)
    if level == node_level:
        node = [one.name]
    if one.pinned:
        cell.pinned = True
        pinned[one.pinned] = cell
    if level == 1:
        cell.index = int(one.name)
    for child in one.children:
        part = _physical(chain, child, level - 1, node, pinned)
        part.parent = cell
        cell.children.append(part)
    cell.nodes = node if level <= node_level else [name for child in cell.children for name in child.nodes]
    return cell


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
            for _ in range(quota.count):
                tree = vc.all.setdefault(quota.chain, [[] for _ in range(chain.top + 1)])
                root = _virtual(vc.name, chain, level, f"{name}/{number}", 0, tree, None)
                roots = vc.preassigned.setdefault(quota.chain, [[] for _ in range(chain.top + 1)])
                roots[level].append(root)
                number += 1
        for pin in asked.pinned:
            cell = pinned[pin]
            chain = chains[cell.chain]
            _own(vc, chain, cell.level, 1)
            tree = vc.pinned[pin] = [[] for _ in range(cell.level + 1)]
            _virtual(vc.name, chain, cell.level, f"{name}/{number}", 0, tree, None)
            number += 1
    return found


def _own(vc: VirtualCluster, chain: Chain, level: int, count: int) -> None:
    owned = vc.owned.setdefault(chain.name, [0] * (chain.top + 1))
    vc.doomed.setdefault(chain.name, Levels(chain.top))
    owned[level] += count
    chain.owned[level] += count


def _virtual(
    vc: str, chain: Chain, level: int, address: str, number: int, tree: ByLevel, root: VirtualCell | None
) -> VirtualCell:
    """`number` is the cell's among those of its level in its preassigned cell."""
    kind, gpus = chain.levels[level - 1], chain.gpus[level - 1]
    cell = VirtualCell(vc, chain.name, kind, level, gpus, level >= chain.node_level, address)
    tree[level].append(cell)
    cell.root = root or cell
    fan_out = chain.fan_out[level - 1]
    for i in range(number * fan_out, (number + 1) * fan_out):
        child = _virtual(vc, chain, level - 1, f"{address}/{i}", i, tree, cell.root)
        child.parent = cell
        cell.children.append(child)
    return cell
