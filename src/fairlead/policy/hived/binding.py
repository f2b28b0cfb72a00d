"""Finding physical cells for virtual ones: buddy allocation for preassigned cells, and the same shape inside them.

Free cells are kept per level. A preassigned cell gets a free cell of its level, the one with the fewest opportunistic GPUs;
where there is none, a cell of the lowest level above that has one is split. That alone is safe: what every virtual cluster
owns can always be had. Only when cells are bad, or not on suggested nodes, others must be tried, and as a last resort more is
split than would be needed, but never more than the owners of the larger cells can spare.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fairlead.policy.hived.cells import OPPORTUNISTIC, Levels, PhysicalCell, VirtualCell
from fairlead.policy.hived.groups import SafetyBroken
from fairlead.policy.hived.placing import Suggested

Bindings = dict[VirtualCell, PhysicalCell]  #: of GPUs


@dataclass(eq=False, slots=True)
class Wanted:
    """A virtual cell to be bound, with those of its parts that must be too."""

    cell: VirtualCell
    parts: list[Wanted] = field(default_factory=list)


def what_to_bind(gpus: list[VirtualCell], found: Bindings) -> tuple[list[Wanted], list[list[Wanted]]]:
    """The cells that must be bound for these GPUs: preassigned ones, and parts of bound cells, by cell. What is bound
    already goes to `found`."""
    preassigned: list[Wanted] = []
    inside: dict[VirtualCell, list[Wanted]] = {}
    known: dict[VirtualCell, Wanted] = {}
    for gpu in gpus:
        if gpu.bound is not None:
            found[gpu] = gpu.bound
            continue
        cell: VirtualCell | None = gpu
        below: Wanted | None = None
        while cell is not None and cell.bound is None and cell not in known:
            wanted = known[cell] = Wanted(cell, [] if below is None else [below])
            below, cell = wanted, cell.parent
        assert below is not None
        if cell is None:
            preassigned.append(below)
        elif cell.bound is not None:
            inside.setdefault(cell, []).append(below)
        else:
            known[cell].parts.append(below)
    return preassigned, list(inside.values())


class Binder:
    """One search, on a copy of a chain's free lists and of the numbers of free cells that the virtual clusters own."""

    def __init__(self, free: Levels, owned: list[int], suggested: Suggested) -> None:
        self.free = free.copy()
        self.owned = list(owned)
        self.suggested = suggested
        self.found: Bindings = {}

    def bind(self, preassigned: list[Wanted], inside: list[list[Wanted]]) -> bool:
        for wanted in preassigned:
            level = wanted.cell.level
            if not self._split_down(wanted, self._lowest_from(level)) and not self._split_more(wanted):
                return False
            self.owned[level] -= 1
        for parts in inside:
            parent = parts[0].cell.parent
            assert parent is not None
            assert parent.bound is not None
            if self._map(parts, parent.bound.children) is None:
                return False
        return True

    def _lowest_from(self, level: int) -> int:
        for at in range(level, self.free.top + 1):
            if self.free[at]:
                return at
        raise SafetyBroken(f"no free cell at level {level} or above")

    def _split_down(self, wanted: Wanted, level: int) -> bool:
        """Bind to a free cell of this level, or to a part of one."""
        if level == wanted.cell.level:
            picked = self._map([wanted], self.free[level])
            for cell in picked or ():
                self.free.remove(cell)
            return picked is not None
        for cell in self._usable(self.free[level]):
            self.free.at[level - 1] += cell.children
            if self._split_down(wanted, level - 1):
                self.free.remove(cell)
                return True
            self.free.at[level - 1] = []
        return False

    def _split_more(self, wanted: Wanted) -> bool:
        """No cell that buddy allocation would take is usable: split others above, as many as can be spared."""
        level, top, before = wanted.cell.level, self.free.top, self.free.copy()
        spare = [0] * (top + 2)
        sample: PhysicalCell | None = None  # any cell of the level: they are all alike
        for at in range(top, level, -1):
            spare[at] = len(self.free[at]) - self.owned[at]
            if sample is not None:
                spare[at] += spare[at + 1] * len(sample.children)
            if spare[at] < 0:
                raise SafetyBroken(f"{-spare[at]} cells are missing at level {at}")
            if self.free[at]:
                sample = self.free[at][0]
            elif sample is not None:
                sample = sample.children[0]
        for at in range(level + 1, top + 1):
            enough = min(spare[level + 1 : at + 1])
            if enough <= 0:
                continue
            # as many at first as the original splits at once; any other one can be spared as well
            for count in (min(len(self.free[at]), enough), max(len(self.free[at]) - enough, 0)):
                if not count:
                    continue
                self._put_parts_first(at, level, count)
                picked = self._map([wanted], self.free[level])
                if picked is not None:
                    # of all that was split for a try, only what is around the chosen one really is
                    self.free = before
                    self._carve(picked[0])
                    return True
        return False

    def _put_parts_first(self, at: int, level: int, count: int) -> None:
        """Split the first cells of a list, all the way down."""
        parts = []
        for _ in range(count):
            cell = self.free[at][0]
            self.free.remove(cell)
            parts.append(cell)
        for _ in range(at - level):
            parts = [child for cell in parts for child in cell.children]
        self.free.at[level] = parts + self.free[level]

    def _carve(self, cell: PhysicalCell) -> None:
        path = [cell]
        while path[-1] not in self.free:
            parent = path[-1].parent
            assert parent is not None
            path.append(parent)
        for around in reversed(path):
            self.free.remove(around)
            if around is not cell:
                self.free.at[around.level - 1] += around.children

    def _usable(self, cells: list[PhysicalCell]) -> list[PhysicalCell]:
        """Those not bound, not on a bad node and with a suggested node, fewest opportunistic GPUs first."""
        usable = [
            cell
            for cell in cells
            if cell.bound is None
            and (cell.healthy or len(cell.nodes) > 1)
            and any(self.suggested(node) for node in cell.nodes)
        ]
        return sorted(usable, key=lambda cell: cell.used.get(OPPORTUNISTIC, 0))

    def _map(self, wanted: list[Wanted], cells: list[PhysicalCell]) -> list[PhysicalCell] | None:
        """A different one of `cells` for each of `wanted`, part by part down to the GPUs; None if that can't be.

        After a step back the later ones go on from where they had got to. Choices are missed by that, as in the original.
        """
        usable = self._usable(cells)
        if len(usable) < len(wanted):
            return None
        at = [0] * len(wanted)
        taken: set[int] = set()
        number = 0
        while number >= 0:
            choice = at[number]
            while choice < len(usable) and (choice in taken or not self._fits(wanted[number], usable[choice])):
                choice += 1
            if choice < len(usable):
                at[number] = choice
                taken.add(choice)
                number += 1
                if number == len(wanted):
                    return [usable[one] for one in at]
            else:
                number -= 1
                if number >= 0:
                    taken.discard(at[number])
                    at[number] += 1
        return None

    def _fits(self, wanted: Wanted, cell: PhysicalCell) -> bool:
        if cell.level > 1:
            return self._map(wanted.parts, cell.children) is not None
        self.found[wanted.cell] = cell
        return True
