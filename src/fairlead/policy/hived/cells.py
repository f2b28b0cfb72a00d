"""The cells of a cluster as objects: physical ones, and the virtual ones that virtual clusters are made of.

What holds, whenever nobody is in the middle of a change:

* a cell's priority is the highest of its GPUs', its `used` counts them by priority, and it is bad if any of them is;
* a physical and a virtual cell are bound to each other or to nobody; whoever is bound has bound ancestors, up to the
  preassigned cell on the virtual side, and a pinned cell is bound for good;
* a GPU is Free (nobody's), Used (a group runs on it), Reserving (a group runs on it, and another will when it is gone) or
  Reserved (a group will run on it, and waits for the rest of what it needs).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from fairlead.policy.hived.groups import Group

FREE = -2  #: the priority of a GPU that nobody has
OPPORTUNISTIC = -1
LOWEST_GUARANTEED, HIGHEST_GUARANTEED = 0, 1000


class CellState(StrEnum):
    FREE = "Free"
    USED = "Used"
    RESERVING = "Reserving"
    RESERVED = "Reserved"


Kin = TypeVar("Kin", bound="Cell[Any]")


class Cell(Generic[Kin]):
    """What physical and virtual cells have in common. Cells are compared by identity."""

    __slots__ = (
        "address", "chain", "children", "gpus", "has_node", "kind", "level", "number", "parent", "priority", "used",
    )  # fmt: skip

    def __init__(self, chain: str, kind: str, level: int, gpus: int, has_node: bool, address: str) -> None:
        self.chain = chain
        self.kind = kind
        self.level = level  #: 1 for a GPU
        self.gpus = gpus
        self.has_node = has_node  #: a node, or made of nodes
        self.address = address
        self.number = -1  #: its row in a compiled planner's table
        self.parent: Kin | None = None
        self.children: list[Kin] = []
        self.priority = FREE
        self.used: dict[int, int] = {}  #: GPUs by priority of who uses them

    def __repr__(self) -> str:
        return f"<{self.kind} {self.address}>"

    def leaves(self) -> list[Kin]:
        found: list[Kin] = [self]  # type: ignore[list-item]
        while found[0].children:  # cells of one level are all of GPUs, or all GPUs
            found = [child for cell in found for child in cell.children]
        return found

    def set_priority(self, priority: int) -> None:
        """Of a GPU, and of everything around it."""
        before, self.priority = self.priority, priority
        parent = self.parent
        if parent is None:
            return
        if priority > parent.priority:
            parent.set_priority(priority)
        elif before == parent.priority and priority < before:
            parent.set_priority(max(child.priority for child in parent.children))

    def count_used(self, priority: int, change: int) -> None:
        cell: Cell[Kin] | None = self
        while cell is not None:
            count = cell.used.get(priority, 0) + change
            if count:
                cell.used[priority] = count
            else:
                cell.used.pop(priority, None)
            cell = cell.parent


class PhysicalCell(Cell["PhysicalCell"]):
    __slots__ = ("bound", "healthy", "index", "nodes", "pinned", "reserver", "split", "state", "user")

    def __init__(self, chain: str, kind: str, level: int, gpus: int, has_node: bool, address: str) -> None:
        super().__init__(chain, kind, level, gpus, has_node, address)
        self.nodes: list[str] = []  #: names of the nodes it is on, or is made of
        self.index = -1  #: of a GPU, on its node
        self.bound: VirtualCell | None = None
        self.healthy = True
        self.split = False  #: its parts are free, or bound, one by one
        self.pinned = False
        self.state = CellState.FREE
        self.user: Group | None = None  #: who runs on this GPU
        self.reserver: Group | None = None  #: who is going to

    def set_state(self, state: CellState) -> None:
        """Of a GPU; a cell around it is Used if any part is, and else in a state only if all parts are."""
        self.state = state
        parent = self.parent
        if parent is not None and (state is CellState.USED or all(child.state is state for child in parent.children)):
            parent.set_state(state)

    def is_free(self) -> bool:
        """Whether it is on a free list, or part of a cell that is."""
        cell = self
        while cell.bound is None and not cell.split:
            if cell.parent is None or cell.parent.split:
                return True
            cell = cell.parent
        return False


class VirtualCell(Cell["VirtualCell"]):
    __slots__ = ("bound", "root", "vc")

    def __init__(self, vc: str, chain: str, kind: str, level: int, gpus: int, has_node: bool, address: str) -> None:
        super().__init__(chain, kind, level, gpus, has_node, address)
        self.vc = vc
        self.root: VirtualCell = self  #: the preassigned cell that it is part of
        self.bound: PhysicalCell | None = None

    @property
    def healthy(self) -> bool:
        return self.bound is None or self.bound.healthy


def tie(physical: PhysicalCell, virtual: VirtualCell) -> None:
    physical.bound, virtual.bound = virtual, physical


def untie(physical: PhysicalCell) -> None:
    assert physical.bound is not None
    physical.bound.bound = None
    physical.bound = None


def bind(physical: PhysicalCell, virtual: VirtualCell) -> None:
    """Bind a GPU, and the cells around it as far as they are not bound yet."""
    while virtual.bound is None:
        tie(physical, virtual)
        if virtual.parent is None:
            return
        assert physical.parent is not None
        virtual, physical = virtual.parent, physical.parent


def unbind(physical: PhysicalCell) -> None:
    """Undo the binding of a GPU, and of each cell around it none of whose parts is bound any more."""
    virtual = physical.bound
    while virtual is not None:
        cell = virtual.bound
        assert cell is not None
        if cell.pinned:
            return
        untie(cell)
        virtual = virtual.parent
        if virtual is None or any(child.bound is not None for child in virtual.children):
            return


def unbound_child(cells: list[VirtualCell]) -> VirtualCell:
    return next(cell for cell in cells if cell.bound is None)


class Levels:
    """A list of physical cells per level. As in a bag, taking one out moves the last one to its place."""

    def __init__(self, top: int) -> None:
        self.top = top
        self.at: list[list[PhysicalCell]] = [[] for _ in range(top + 1)]

    def __getitem__(self, level: int) -> list[PhysicalCell]:
        return self.at[level]

    def add(self, cell: PhysicalCell) -> None:
        self.at[cell.level].append(cell)

    def remove(self, cell: PhysicalCell) -> None:
        cells = self.at[cell.level]
        place = cells.index(cell)
        cells[place] = cells[-1]
        cells.pop()

    def __contains__(self, cell: PhysicalCell) -> bool:
        return cell in self.at[cell.level]

    def copy(self) -> Levels:
        twin = Levels(self.top)
        twin.at = [list(cells) for cells in self.at]
        return twin
