"""HiveD (OSDI'20), the whole of it in plain objects: cells, virtual clusters, affinity groups and their preemption.

This is the obvious version. It is exact where exactness matters (the placements of HiveD's own tests), and what the compiled
one is held against. A pod is asked for with `schedule`; the answer is where it goes, who must be stopped first, or why it
must wait. Nothing is taken until `add_allocated` says that the pod was started there; a group that preempts keeps its cells
from the moment it begins to.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from fairlead.model.cells import CellsSpec
from fairlead.policy.hived import answers
from fairlead.policy.hived.binding import Binder, what_to_bind
from fairlead.policy.hived.cells import (
    HIGHEST_GUARANTEED,
    LOWEST_GUARANTEED,
    OPPORTUNISTIC,
    CellState,
    PhysicalCell,
    VirtualCell,
)
from fairlead.policy.hived.groups import (
    Answer,
    Bind,
    Group,
    GroupState,
    Phase,
    Pod,
    UserError,
    VirtualPlacement,
    Wait,
)
from fairlead.policy.hived.holding import Holdings
from fairlead.policy.hived.placing import NodeView, Suggested

AnyCell = TypeVar("AnyCell", PhysicalCell, VirtualCell)
Found = tuple[dict[int, list[list[PhysicalCell]]], VirtualPlacement | None]


class Hived(Holdings):
    """All of HiveD."""

    def __init__(self, spec: CellsSpec, nodes_known: bool = True, checked: bool = False) -> None:
        super().__init__(spec, nodes_known, checked)
        self._physical_view = {name: NodeView(chain.all.at, False) for name, chain in self.chains.items()}
        self._views = {
            name: {chain: NodeView(levels, True) for chain, levels in vc.all.items()}
            for name, vc in self.clusters.items()
        }
        self._pinned_views = {
            name: {pin: NodeView(levels, True) for pin, levels in vc.pinned.items()}
            for name, vc in self.clusters.items()
        }
        #: chains of a GPU type, in the order in which they are searched: any fixed one would do, this is its tests'
        self.chains_of: dict[str, list[str]] = {}
        for name in sorted(self.chains, reverse=True):
            self.chains_of.setdefault(self.chains[name].gpu_type, []).append(name)

    def virtual_view(self, vc: str, chain: str) -> NodeView[VirtualCell]:
        return self._views[vc][chain]

    def physical_view(self, chain: str) -> NodeView[PhysicalCell]:
        return self._physical_view[chain]

    # -- pods -------------------------------------------------------------------------------------------------------------

    def schedule(self, pod: Pod, suggested: Iterable[str] | None = None, phase: Phase = Phase.PREEMPTING) -> Answer:
        """Where the pod goes. `suggested` are the nodes that would do for other reasons; None: all."""
        check_pod(pod)
        names = None if suggested is None or pod.ignore_suggested else frozenset(suggested)
        good: Suggested = (lambda node: True) if names is None else names.__contains__
        group = self.groups.get(pod.group_name)
        if group is not None and group.state is not GroupState.PREEMPTING:
            return answers.of_allocated(group, pod)
        if group is not None:
            moved = any(not gpu.healthy or not good(gpu.nodes[0]) for gpu in group.gpus())
            if not (phase is Phase.PREEMPTING and moved):
                group.waiting.add(pod.name)
                return answers.of_placement(pod, group.physical, group.virtual)
            self._cancel_preemption(group)
        found, why = self._place_group(pod, good)
        if found is None:
            return Wait(why)
        physical, virtual = found
        gpus = [gpu for size in physical for one in physical[size] for gpu in one]
        victims = any(gpu.state in (CellState.USED, CellState.RESERVING) for gpu in gpus)
        if phase is Phase.PREEMPTING:
            for gpu in gpus:
                if gpu.reserver is not None:
                    self._cancel_preemption(gpu.reserver)
        answer = answers.of_placement(pod, physical, virtual)
        if phase is Phase.PREEMPTING and victims:
            self._begin_preemption(pod, physical, virtual)
        return answer

    def delete_unallocated(self, pod: Pod) -> None:
        """A pod that was never started is gone; a preempting group without pods gives its cells back."""
        group = self.groups.get(pod.group_name)
        if group is not None and group.state is GroupState.PREEMPTING:
            group.waiting.discard(pod.name)
            if not group.waiting:
                self._cancel_preemption(group)

    def add_allocated(self, pod: Pod, where: Bind) -> None:
        """The pod was started there."""
        group = self.groups.get(pod.group_name)
        if group is None:
            group = self._new_allocated(pod, where)
        elif group.state is GroupState.PREEMPTING:
            self._end_preemption(group)
        group.pods[pod.gpus][answers.pod_number(where, pod.gpus)] = (pod.name, where.node)

    def delete_allocated(self, pod: Pod, where: Bind) -> None:
        """The pod has ended; with its last pod, a group's cells are free."""
        group = self.groups[pod.group_name]
        group.pods[pod.gpus][answers.pod_number(where, pod.gpus)] = None
        if all(one is None for pods in group.pods.values() for one in pods):
            self.end(group)

    # -- whole groups -----------------------------------------------------------------------------------------------------

    def claim(self, pod: Pod) -> Group | None:
        """A place for the pod's whole group, which it has from now on; None if there is none. Who else is on it must be
        ended before the group is `settled`."""
        check_pod(pod)
        found, _ = self._place_group(pod, lambda node: True)
        if found is None:
            return None
        self._begin_preemption(pod, *found)
        return self.groups[pod.group_name]

    # -- finding a place ------------------------------------------------------------------------------------------------

    def _place_group(self, pod: Pod, good: Suggested) -> tuple[Found | None, str]:
        vc = self.clusters.get(pod.vc)
        if vc is None:
            raise UserError(f"[{pod.name}]: there is no virtual cluster {pod.vc!r}")
        sizes = [size for size, pods in pod.pod_counts.items() for _ in range(pods)]
        if pod.pinned:
            if pod.pinned not in vc.pinned:
                raise UserError(f"[{pod.name}]: virtual cluster {pod.vc!r} has no pinned cell {pod.pinned!r}")
            if pod.priority < LOWEST_GUARANTEED:
                raise UserError(f"[{pod.name}]: opportunistic pods can't use pinned cells ({pod.pinned!r})")
            chain = vc.pinned[pod.pinned][1][0].chain
            return self._place_guaranteed(pod, sizes, chain, self._pinned_views[pod.vc][pod.pinned], good)
        if pod.gpu_type and pod.gpu_type not in self.chains_of:
            raise UserError(f"[{pod.name}]: the cluster has no {pod.gpu_type!r}")
        found, why = None, "no GPUs for it"
        for gpu_type in [pod.gpu_type] if pod.gpu_type else self.chains_of:
            chains = [chain for chain in self.chains_of[gpu_type] if pod.chain in ("", chain)]
            if pod.priority >= LOWEST_GUARANTEED:
                chains = [chain for chain in chains if chain in vc.all]
                if not chains and pod.gpu_type:
                    raise UserError(f"[{pod.name}]: virtual cluster {pod.vc!r} has no {pod.gpu_type!r}")
            for chain in chains:
                found, why = self._place_in(pod, sizes, chain, good)
                if found is not None:
                    return found, ""
            if pod.multi_chain and len(chains) > 1:
                found, why = self._place_over(pod, sizes, chains, good)
                if found is not None:
                    return found, ""
        return None, why

    def _place_in(self, pod: Pod, sizes: list[int], chain: str, good: Suggested) -> tuple[Found | None, str]:
        if pod.priority >= LOWEST_GUARANTEED:
            return self._place_guaranteed(pod, sizes, chain, self._views[pod.vc][chain], good)
        placed, why = self._physical_view[chain].place(sizes, OPPORTUNISTIC, good)
        if placed is None:
            return None, f"{why} in the physical cluster, chain {chain}"
        return (_by_size(sizes, placed), None), ""

    def _place_guaranteed(
        self, pod: Pod, sizes: list[int], chain: str, view: NodeView[VirtualCell], good: Suggested
    ) -> tuple[Found | None, str]:
        """Inside the virtual cluster first, then from there to physical cells."""
        placed, why = view.place(sizes, pod.priority, good)
        if placed is None:
            return None, f"{why} in virtual cluster {pod.vc}, chain {chain}"
        gpus = [gpu for one in placed for gpu in one]
        demoted = self._demote_lazy(gpus, pod.group_name)
        binder = Binder(self.chains[chain].free, self.chains[chain].owned, good)
        if binder.bind(*what_to_bind(gpus, binder.found)):
            physical = [[binder.found[gpu] for gpu in one] for one in placed]
            virtual: VirtualPlacement = {size: list(map(list, pods)) for size, pods in _by_size(sizes, placed).items()}
            return (_by_size(sizes, physical), virtual), ""
        for group, before in demoted:
            self._promote(group, before)
        return None, f"chain {chain}: the place in virtual cluster {pod.vc} needs a node that is bad or not suggested"

    def _place_over(self, pod: Pod, sizes: list[int], chains: list[str], good: Suggested) -> tuple[Found | None, str]:
        """Divide a group over chains: each takes as many of the remaining pods as it can, the smallest first."""
        physical: dict[int, list[list[PhysicalCell]]] = {}
        virtual: VirtualPlacement = {}
        rest = sizes
        for chain in chains:
            for count in range(len(rest), 0, -1):
                found, _ = self._place_in(pod, rest[:count], chain, good)
                if found is None:
                    continue
                for size, pods in found[0].items():
                    physical.setdefault(size, []).extend(pods)
                for size, others in (found[1] or {}).items():
                    virtual.setdefault(size, []).extend(others)
                rest = rest[count:]
                break
            if not rest:
                return (physical, virtual or None), ""
        return None, f"{len(rest)} of its {len(sizes)} pods fit no chain"


def check_pod(pod: Pod) -> None:
    """Raise UserError for what no cluster could do."""
    if not OPPORTUNISTIC <= pod.priority <= HIGHEST_GUARANTEED:
        raise UserError(f"[{pod.name}]: priority {pod.priority} is not within {OPPORTUNISTIC} to {HIGHEST_GUARANTEED}")
    if pod.gpus <= 0 or any(pods <= 0 or gpus <= 0 for pods, gpus in pod.members):
        raise UserError(f"[{pod.name}]: pods and GPUs are counted from 1")
    if pod.gpus not in pod.pod_counts:
        raise UserError(f"[{pod.name}]: group {pod.group_name!r} has no pod of {pod.gpus} GPUs")


def _by_size(sizes: list[int], placed: list[list[AnyCell]]) -> dict[int, list[list[AnyCell]]]:
    found: dict[int, list[list[AnyCell]]] = {}
    for size, gpus in zip(sizes, placed):
        found.setdefault(size, []).append(gpus)
    return found
