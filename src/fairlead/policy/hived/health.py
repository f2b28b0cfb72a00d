"""Who owns what of the free cells, split and merged; and what becomes of it when nodes turn bad.

Bad free cells are counted per level. When a virtual cluster's free cells outnumber the healthy free cells of a level, some of
its cells are doomed to be bad: they are bound to bad cells at once, so that its scheduler sees them and keeps away. As soon as
enough healthy ones are there again, they are let go.
"""

from __future__ import annotations

from fairlead.policy.hived.build import Chain, VirtualCluster
from fairlead.policy.hived.cells import LOWEST_GUARANTEED, PhysicalCell, tie, unbound_child, untie


class Ledger:
    """The free cells of all chains. After every change, `left >= owned` at every level of every chain: that is safety."""

    def __init__(self, chains: dict[str, Chain], clusters: dict[str, VirtualCluster]) -> None:
        self.chains = chains
        self.clusters = clusters

    # -- preassigned cells ----------------------------------------------------------------------------------------------

    def allocate_all(self, cells: list[tuple[PhysicalCell, str]]) -> None:
        """Cells that a group gets at once: none of them counts as free when the others are dealt with."""
        for cell, vc in cells:
            self._count_owned(cell, vc, -1)
        for cell, _ in cells:
            self._allocate(cell)

    def allocate(self, cell: PhysicalCell, vc: str, doomed: bool = False) -> str:
        """`cell` is bound to a preassigned cell of `vc`: take it off the free list, splitting what is around it. Says what
        breaks safety; "" where nothing does."""
        self._count_owned(cell, vc, -1)
        return self._allocate(cell, doomed)

    def _count_owned(self, cell: PhysicalCell, vc: str, change: int) -> None:
        self.clusters[vc].owned[cell.chain][cell.level] += change
        self.chains[cell.chain].owned[cell.level] += change

    def _allocate(self, cell: PhysicalCell, doomed: bool = False) -> str:
        chain, level = self.chains[cell.chain], cell.level
        chain.left[level] -= 1
        broken = ""
        around = cell.parent
        for at in range(level + 1, self._take_off(chain, cell) + 1):
            assert around is not None
            chain.left[at] -= 1
            broken = self._unsafe(chain, at) or broken
            if around.healthy:
                self._doom(chain, at)
            else:
                chain.bad.remove(around)
            around = around.parent
        if cell.healthy:
            self._doom(chain, level)
        else:
            self._bind_bad(cell)
            if not doomed:
                self._spare(chain, level)
        parts = len(cell.children)
        for at in range(level - 1, 0, -1):
            chain.left[at] -= parts
            broken = self._unsafe(chain, at) or broken
            if not doomed:
                self._doom(chain, at)
            parts *= chain.fan_out[at - 1]
        return broken

    def release(self, cell: PhysicalCell, vc: str, doomed: bool = False) -> None:
        """The inverse: `cell` is free again and merges with its buddies."""
        chain, level = self.chains[cell.chain], cell.level
        self._count_owned(cell, vc, 1)
        chain.left[level] += 1
        around = cell.parent
        for at in range(level + 1, self._put_on(chain, cell) + 1):
            assert around is not None
            chain.left[at] += 1
            if around.healthy:
                self._spare(chain, at)
            else:
                chain.bad.add(around)
            around = around.parent
        if cell.healthy:
            self._spare(chain, level)
        else:
            self._unbind_bad(cell)
            if not doomed:
                self._doom(chain, level)
        parts = len(cell.children)
        for at in range(level - 1, 0, -1):
            chain.left[at] += parts
            if not doomed:
                self._spare(chain, at)
            parts *= chain.fan_out[at - 1]

    def _unsafe(self, chain: Chain, level: int) -> str:
        if chain.left[level] >= chain.owned[level]:
            return ""
        kind = chain.levels[level - 1]
        return f"safety would break: {chain.left[level]} of {kind} left for {chain.owned[level]} that are owned"

    def _take_off(self, chain: Chain, cell: PhysicalCell) -> int:
        """Off the free list, splitting what it is part of: the highest level that was touched."""
        while True:
            parent = cell.parent
            whole = parent is not None and not parent.split
            if parent is not None and whole:
                chain.free.at[cell.level] += parent.children
                parent.split = True
            chain.free.remove(cell)
            if parent is None or not whole:
                return cell.level
            cell = parent

    def _put_on(self, chain: Chain, cell: PhysicalCell) -> int:
        """Onto the free list, merged with its buddies as far as they are free: the level at which it ends up."""
        while True:
            parent = cell.parent
            if parent is None or not all(buddy is cell or buddy in chain.free for buddy in parent.children):
                chain.free.add(cell)
                return cell.level
            for buddy in parent.children:
                if buddy is not cell:
                    chain.free.remove(buddy)
            parent.split = False
            cell = parent

    # -- bad and healthy ------------------------------------------------------------------------------------------------

    def set_bad(self, cell: PhysicalCell) -> None:
        """A GPU, and every cell around it."""
        if not cell.healthy:
            return
        cell.healthy = False
        if cell.parent is not None:
            self.set_bad(cell.parent)
        if cell.is_free():
            self._add_bad(cell)
        elif cell.bound is None and not cell.split:
            # a cell around it is bound: bind this one too, so that the virtual cluster's scheduler sees it
            assert cell.parent is not None
            assert cell.parent.bound is not None
            tie(cell, unbound_child(cell.parent.bound.children))

    def set_healthy(self, cell: PhysicalCell) -> None:
        """A GPU, and each cell around it that has no bad part left."""
        if cell.healthy:
            return
        cell.healthy = True
        if cell.is_free():
            self._remove_bad(cell)
        elif cell.bound is not None and not cell.pinned and cell.priority < LOWEST_GUARANTEED:
            # nobody uses it: it was bound only for being bad
            virtual = cell.bound
            untie(cell)
            if virtual.parent is None:
                self.clusters[virtual.vc].doomed[cell.chain].remove(cell)
                self.chains[cell.chain].doomed[cell.level] -= 1
                self.release(cell, virtual.vc, doomed=True)
        if cell.parent is not None and all(buddy.healthy for buddy in cell.parent.children):
            self.set_healthy(cell.parent)

    def _add_bad(self, cell: PhysicalCell) -> None:
        chain, level = self.chains[cell.chain], cell.level
        chain.bad.add(cell)
        if chain.owned[level] > chain.left[level] - len(chain.bad[level]):
            self._doom(chain, level)

    def _remove_bad(self, cell: PhysicalCell) -> None:
        chain = self.chains[cell.chain]
        chain.bad.remove(cell)
        self._spare(chain, cell.level)

    def _doom(self, chain: Chain, level: int) -> None:
        """Bind cells to bad ones, in every virtual cluster that has more free ones than there are healthy ones."""
        for vc in self.clusters.values():
            owned = vc.owned.get(chain.name)
            while owned is not None and owned[level] > chain.left[level] - len(chain.bad[level]):
                cell = self._to_doom(chain, level)
                if cell is None:
                    break
                tie(cell, unbound_child(vc.preassigned[chain.name][level]))
                vc.doomed[chain.name].add(cell)
                chain.doomed[level] += 1
                self.allocate(cell, vc.name, doomed=True)

    def _to_doom(self, chain: Chain, level: int) -> PhysicalCell | None:
        """A bad cell that can be taken without splitting what its owners may want whole. There may be none: then it is only
        found out when a place is looked for that the cell is bad."""
        spare = chain.spare()
        for cell in chain.bad[level]:
            around, bound = cell, cell.bound is not None
            while around.parent is not None and not around.parent.split:
                around = around.parent
                bound = bound or around.bound is not None  # about to be allocated
            if not bound and all(spare[at] > 0 for at in range(level + 1, around.level + 1)):
                return cell
        return None

    def use(self, cell: PhysicalCell, vc: str) -> None:
        """A preassigned cell is used; if it was doomed, it is now bound for a better reason: its healthy parts."""
        doomed = self.clusters[vc].doomed[cell.chain]
        if not cell.pinned and cell in doomed:
            doomed.remove(cell)
            self.chains[cell.chain].doomed[cell.level] -= 1

    def _spare(self, chain: Chain, level: int) -> None:
        """Let doomed cells go, in every virtual cluster that healthy ones are there for."""
        for vc in self.clusters.values():
            owned = vc.owned.get(chain.name)
            if owned is None:
                continue
            doomed = vc.doomed[chain.name]
            while doomed[level] and owned[level] < chain.left[level] - len(chain.bad[level]):
                cell = doomed[level][0]
                untie(cell)
                doomed.remove(cell)
                chain.doomed[level] -= 1
                self.release(cell, vc.name, doomed=True)

    def _bind_bad(self, cell: PhysicalCell) -> None:
        """A bad cell that is no longer free, and its bad parts, are bound so that the virtual cluster sees them."""
        chain = self.chains[cell.chain]
        if cell in chain.bad:
            chain.bad.remove(cell)
        if cell.bound is None:
            assert cell.parent is not None
            assert cell.parent.bound is not None
            tie(cell, unbound_child(cell.parent.bound.children))
        for part in cell.children:
            if not part.healthy:
                self._bind_bad(part)

    def _unbind_bad(self, cell: PhysicalCell) -> None:
        self.chains[cell.chain].bad.add(cell)
        if cell.bound is not None:
            untie(cell)
        for part in cell.children:
            if not part.healthy:
                self._unbind_bad(part)
