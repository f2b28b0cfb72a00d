"""Placing pods on the nodes of one chain, or of one virtual cluster's part of it, close together and away from others.

Pods go smallest first to nodes in one order: healthy ones, suggested ones, those with more GPUs in use (packing), those with
fewer in use by higher priorities. Inside a virtual cluster any use counts as use; in the physical cluster, where only
opportunistic pods are placed, only opportunistic use does, so that they keep away from guaranteed ones. Ties keep the order
of the last time, so that the order of nodes that look alike depends on what happened before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from fairlead.policy.hived.cells import FREE, OPPORTUNISTIC, PhysicalCell, VirtualCell

AnyCell = TypeVar("AnyCell", PhysicalCell, VirtualCell)
#: whether a node may be chosen, by its name
Suggested = Callable[[str], bool]


@dataclass(eq=False, slots=True)
class _Node(Generic[AnyCell]):
    cell: AnyCell
    free: int = 0  #: GPUs that are free, or used by lower priorities than the present one
    used: int = 0
    used_above: int = 0
    healthy: bool = True
    suggested: bool = True


class NodeView(Generic[AnyCell]):
    """`levels[k]` has the cells of level k, level 0 being empty. A preassigned cell below a node is a node here."""

    def __init__(self, levels: Sequence[Sequence[AnyCell]], across_priorities: bool) -> None:
        self.across_priorities = across_priorities
        top = next((k for k, cells in enumerate(levels) if cells and cells[0].has_node), len(levels) - 1)
        self.nodes: list[_Node[AnyCell]] = [
            _Node(cell) for level in range(top, 0, -1) for cell in levels[level] if level == top or cell.parent is None
        ]

    def place(self, sizes: list[int], priority: int, suggested: Suggested) -> tuple[list[list[AnyCell]] | None, str]:
        """GPUs for each of the pods, whose sizes ascend, or why there are none. Nobody is preempted if it can be helped."""
        at = OPPORTUNISTIC
        chosen, why = self._choose_nodes(sizes, at, suggested)
        if chosen is None and priority > OPPORTUNISTIC:
            at = priority
            chosen, why = self._choose_nodes(sizes, at, suggested)
        if chosen is None:
            return None, why
        left: dict[AnyCell, list[AnyCell]] = {}
        placed = []
        for size, node in zip(sizes, chosen):
            gpus = left[node] if node in left else _available(node, at)
            picked = closest(gpus, size)
            left[node] = [gpu for gpu in gpus if gpu not in picked]
            placed.append(picked)
        return placed, ""

    def _choose_nodes(self, sizes: list[int], priority: int, suggested: Suggested) -> tuple[list[AnyCell] | None, str]:
        """A node for each pod: nodes are filled one after another, and never come back to."""
        for node in self.nodes:
            self._look_at(node, priority, suggested)
        self.nodes.sort(key=lambda node: (not node.healthy, not node.suggested, -node.used, node.used_above))
        chosen: list[AnyCell] = []
        taken, place = 0, 0
        while place < len(self.nodes):
            node = self.nodes[place]
            if node.free - taken < sizes[len(chosen)]:
                taken = 0
                place += 1
                continue
            if not node.healthy:
                return None, f"have to use at least one bad node {node.cell.address}"
            if not node.suggested:
                return None, f"have to use at least one node that is not suggested: {node.cell.address}"
            taken += sizes[len(chosen)]
            chosen.append(node.cell)
            if len(chosen) == len(sizes):
                return chosen, ""
        return None, "insufficient capacity"

    def _look_at(self, node: _Node[AnyCell], priority: int, suggested: Suggested) -> None:
        used = node.cell.used
        node.free = node.cell.gpus - sum(count for at, count in used.items() if at >= priority)
        if self.across_priorities:
            node.used, node.used_above = sum(used.values()), 0
        else:
            node.used = used.get(priority, 0)
            node.used_above = sum(count for at, count in used.items() if at > priority)
        there = node.cell if isinstance(node.cell, PhysicalCell) else node.cell.bound
        node.healthy = there is None or there.healthy
        node.suggested = there is None or suggested(there.nodes[0])


def _available(node: AnyCell, priority: int) -> list[AnyCell]:
    """Free GPUs first, then those that could be had by preempting."""
    gpus = node.leaves()
    return [gpu for gpu in gpus if gpu.priority == FREE] + [gpu for gpu in gpus if FREE < gpu.priority < priority]


def closest(gpus: list[AnyCell], count: int) -> list[AnyCell]:
    """The GPUs with the lowest common ancestor; among such choices the one that comes first in the given order."""
    level = 0
    while True:
        level += 1
        groups: dict[AnyCell, list[AnyCell]] = {}
        for gpu in gpus:
            above: AnyCell = gpu
            while above.level < level:
                assert above.parent is not None, f"{count} GPUs were promised, there are {len(gpus)}"
                above = above.parent
            groups.setdefault(above, []).append(gpu)
        for group in groups.values():
            if len(group) >= count:
                return group[:count]
