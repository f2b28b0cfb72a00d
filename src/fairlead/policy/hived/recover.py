"""Keeping jobs running when the cells change under them: which virtual cell a running GPU belongs to now."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fairlead.model.cells import CellsSpec
from fairlead.policy.hived.answers import of_pod
from fairlead.policy.hived.build import ByLevel
from fairlead.policy.hived.cells import FREE, HIGHEST_GUARANTEED, PhysicalCell, VirtualCell
from fairlead.policy.hived.groups import GroupState, Pod

if TYPE_CHECKING:
    from fairlead.policy.hived.algorithm import Hived
    from fairlead.policy.hived.holding import Holdings


def reconfigure(hived: Hived, spec: CellsSpec) -> tuple[Hived, tuple[str, ...]]:
    """The same groups, still running where they run, under other cells and owners; and the names of those that no cell of
    their virtual cluster is left for: they go on as opportunistic. Who was about to preempt begins anew."""
    new = type(hived)(spec)
    for node in hived.bad_nodes:
        new.set_bad_node(node)
    for group in hived.groups.values():
        for size, pods in group.pods.items():
            for number, one in enumerate(pods):
                if one is not None and group.state is not GroupState.PREEMPTING:
                    pod = replace(group.like, name=one[0], gpus=size)
                    new.add_allocated(pod, of_pod(group, pod, number))
    lost = (name for name, group in new.groups.items() if group.preempted_by and hived.groups[name].virtual is not None)
    return new, tuple(lost)


def find_virtual(hived: Holdings, gpu: PhysicalCell, preassigned: str, pod: Pod) -> VirtualCell | None:
    """The virtual GPU for a pod that runs on `gpu`, in a preassigned cell of this type; None where there is none."""
    levels = hived.chains[gpu.chain].levels
    vc = hived.clusters.get(pod.vc)
    if preassigned not in levels or vc is None:
        return None
    cells = vc.pinned.get(pod.pinned) if pod.pinned else vc.preassigned.get(gpu.chain)
    if cells is None:
        return None
    return _virtual_of(gpu, cells, levels.index(preassigned) + 1, pod.priority)


def _virtual_of(cell: PhysicalCell, preassigned: ByLevel, level: int, priority: int) -> VirtualCell | None:
    if cell.bound is not None:
        return cell.bound
    if cell.level == level:
        return _weakest(preassigned[level] if level < len(preassigned) else [], priority)
    if cell.parent is None:
        return None
    parent = _virtual_of(cell.parent, preassigned, level, priority)
    return None if parent is None else _weakest(parent.children, priority)


def _weakest(cells: list[VirtualCell], priority: int) -> VirtualCell | None:
    """A free one, or else the one of the lowest priority below this: after a reconfiguration there may be too few. A free
    one that is bound is doomed to be bad, and of no use."""
    found, lowest = None, HIGHEST_GUARANTEED
    for cell in cells:
        if cell.priority == FREE:
            if cell.bound is None:
                return cell
        elif cell.priority < priority and cell.priority < lowest:
            found, lowest = cell, cell.priority
    return found
