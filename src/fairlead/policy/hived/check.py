"""What must hold of HiveD's cells whenever nobody is in the middle of a change; each broken rule is a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fairlead.policy.hived.build import Chain
from fairlead.policy.hived.cells import LOWEST_GUARANTEED, CellState, PhysicalCell, VirtualCell

if TYPE_CHECKING:
    from fairlead.policy.hived.algorithm import Hived


def broken_rules(hived: Hived) -> list[str]:
    return [
        *(line for chain in hived.chains.values() for line in _chain(hived, chain)),
        *(line for chain in hived.chains.values() for cells in chain.all.at for cell in cells for line in _cell(cell)),
        *_preassigned(hived),
    ]


def _chain(hived: Hived, chain: Chain) -> Iterator[str]:
    """Free lists hold each free cell once; what is left, owned and bad is counted right; and everybody is safe."""
    left, bad = [0] * (chain.top + 1), [0] * (chain.top + 1)
    for level in range(1, chain.top + 1):
        for cell in chain.all[level]:
            on_list = cell in chain.free
            if on_list and (
                cell.bound is not None or cell.split or (cell.parent is not None and not cell.parent.split)
            ):
                yield f"{cell} is on a free list, but not free as a whole"
            if not on_list and cell.is_free() and (cell.parent is None or cell.parent.split):
                yield f"{cell} is free, but on no list"
            left[level] += cell.is_free()
            bad[level] += cell.is_free() and not cell.healthy
        owned = sum(vc.owned[chain.name][level] for vc in hived.clusters.values() if chain.name in vc.owned)
        if owned != chain.owned[level]:
            yield f"{chain.name} level {level}: {owned} owned, {chain.owned[level]} noted"
        if left[level] != chain.left[level]:
            yield f"{chain.name} level {level}: {left[level]} left, {chain.left[level]} noted"
        if bad[level] != len(chain.bad[level]) or any(cell.healthy or not cell.is_free() for cell in chain.bad[level]):
            yield f"{chain.name} level {level}: {bad[level]} bad ones, {len(chain.bad[level])} noted"
        if chain.left[level] < chain.owned[level]:
            yield f"unsafe: {chain.name} level {level}: {chain.left[level]} left for {chain.owned[level]}"
    for level, spare in enumerate(chain.spare()):
        if spare < 0:
            yield f"unsafe: {chain.name} is short of {-spare} at level {level}"


def _cell(cell: PhysicalCell) -> Iterator[str]:
    if cell.children:
        if cell.priority != max(child.priority for child in cell.children):
            yield f"{cell} has priority {cell.priority}, not the highest of its parts"
        if cell.healthy != all(child.healthy for child in cell.children):
            yield f"{cell} is {'healthy' if cell.healthy else 'bad'}, not as its parts are"
        for priority in {*cell.used, *(one for child in cell.children for one in child.used)}:
            if cell.used.get(priority, 0) != sum(child.used.get(priority, 0) for child in cell.children):
                yield f"{cell} counts its GPUs at priority {priority} wrongly"
    else:
        if (cell.state is CellState.FREE) != (cell.user is None and cell.reserver is None):
            yield f"{cell} is {cell.state}"
        if cell.priority >= LOWEST_GUARANTEED and cell.bound is None:
            yield f"{cell} is held by a guaranteed group, but not bound"
    if cell.bound is not None:
        if cell.bound.bound is not cell:
            yield f"{cell} is bound to {cell.bound}, which is not bound to it"
        above = cell.bound.parent
        if above is not None and (cell.parent is None or above.bound is not cell.parent):
            yield f"{cell} and {cell.bound} are bound, but not what is around them"


def _preassigned(hived: Hived) -> Iterator[str]:
    for vc in hived.clusters.values():
        for chain, levels in vc.preassigned.items():
            for level, cells in enumerate(levels):
                yield from (line for cell in cells for line in _root(hived, vc.name, cell))
                free = sum(cell.bound is None for cell in cells)
                if free != vc.owned[chain][level]:
                    yield f"{vc.name} owns {vc.owned[chain][level]} of {chain} level {level}, {free} are not bound"


def _root(hived: Hived, vc: str, cell: VirtualCell) -> Iterator[str]:
    used = cell.priority >= LOWEST_GUARANTEED
    doomed = cell.bound is not None and cell.bound in hived.clusters[vc].doomed[cell.chain]
    if (cell.bound is not None) != (used or doomed):
        yield f"{cell} is {'bound' if cell.bound else 'not bound'}; used: {used}, doomed: {doomed}"
    if used and doomed:
        yield f"{cell} is used and doomed"
