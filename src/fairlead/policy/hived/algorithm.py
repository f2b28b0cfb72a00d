"""HiveD (OSDI'20), the whole of it in plain objects: cells, virtual clusters, affinity groups and their preemption.

This is the obvious version. It is exact where exactness matters (the placements of HiveD's own tests), and what the compiled
one is held against. A pod is asked for with `schedule`; the answer is where it goes, who must be stopped first, or why it
must wait. Nothing is taken until `add_allocated` says that the pod was started there; a group that preempts keeps its cells
from the moment it begins to.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from fairlead.model.cells import CellsSpec, check_cells
from fairlead.policy.hived import answers
from fairlead.policy.hived.binding import Binder, what_to_bind
from fairlead.policy.hived.build import build_chains, build_virtual
from fairlead.policy.hived.cells import (
    FREE,
    HIGHEST_GUARANTEED,
    LOWEST_GUARANTEED,
    OPPORTUNISTIC,
    CellState,
    PhysicalCell,
    VirtualCell,
    bind,
    unbind,
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
    new_group,
)
from fairlead.policy.hived.health import Ledger
from fairlead.policy.hived.placing import NodeView, Suggested
from fairlead.policy.hived.recover import find_virtual

AnyCell = TypeVar("AnyCell", PhysicalCell, VirtualCell)
Found = tuple[dict[int, list[list[PhysicalCell]]], VirtualPlacement | None]


class Hived:
    """`nodes_known=False`: all nodes are bad until `set_healthy_node` says otherwise, as when HiveD starts in a cluster."""

    def __init__(self, spec: CellsSpec, nodes_known: bool = True, checked: bool = False) -> None:
        if not checked:
            check_cells(spec)
        self.spec = spec
        self.chains, pinned = build_chains(spec)
        self.clusters = build_virtual(spec, self.chains, pinned)
        self.ledger = Ledger(self.chains, self.clusters)
        self.groups: dict[str, Group] = {}
        self.bad_nodes: set[str] = set()
        self._gpus_of: dict[str, list[PhysicalCell]] = {}
        for chain in self.chains.values():
            for gpu in chain.all[1]:
                self._gpus_of.setdefault(gpu.nodes[0], []).append(gpu)
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
        for name, vc in self.clusters.items():
            for pin, levels in vc.pinned.items():
                self.ledger.allocate(pinned[pin], name)
                bind(pinned[pin], levels[-1][0])
        if not nodes_known:
            for node in self.nodes():
                self.set_bad_node(node)

    def nodes(self) -> list[str]:
        """Names of all nodes, in the order of the cells."""
        return list(
            dict.fromkeys(name for top in self.chains.values() for cell in top.all[top.top] for name in cell.nodes)
        )

    def virtual_view(self, vc: str, chain: str) -> NodeView[VirtualCell]:
        return self._views[vc][chain]

    def physical_view(self, chain: str) -> NodeView[PhysicalCell]:
        return self._physical_view[chain]

    def set_bad_node(self, node: str) -> None:
        if node in self._gpus_of and node not in self.bad_nodes:
            self.bad_nodes.add(node)
            for gpu in self._gpus_of[node]:
                self.ledger.set_bad(gpu)

    def set_healthy_node(self, node: str) -> None:
        if node in self.bad_nodes:
            self.bad_nodes.remove(node)
            for gpu in self._gpus_of[node]:
                self.ledger.set_healthy(gpu)

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

    def settle(self, group: Group) -> None:
        """Nobody else is on the group's cells any more: it runs."""
        self._end_preemption(group)

    def set_priority(self, group: Group, priority: int) -> None:
        """Of a group that runs, where it runs."""
        if group.virtual is not None:
            for gpu in group.gpus():
                if gpu.state is CellState.USED:
                    self._reprioritise(gpu, priority)
        group.priority = priority

    def end(self, group: Group) -> None:
        """A group that ran is gone; its cells are free, or wait for the rest of what their next group needs."""
        for gpu in group.gpus():
            gpu.user = None
            if gpu.state is CellState.USED:
                self._free_gpu(gpu, group.vc)
                gpu.set_state(CellState.FREE)
            else:
                gpu.set_state(CellState.RESERVED)
        del self.groups[group.name]

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

    # -- groups -----------------------------------------------------------------------------------------------------------

    def _new_allocated(self, pod: Pod, where: Bind) -> Group:
        """A group that runs as `where` says, whether or not it was planned so: what its virtual cluster has no cell for
        any more (after a reconfiguration) goes on as opportunistic."""
        group = new_group(pod, GroupState.ALLOCATED)
        demote = False
        for size, places in where.places.items():
            for number, place in enumerate(places):
                for position, index in enumerate(place.gpus):
                    gpu = self._find_gpu(where.chain, place.node, index)
                    if gpu is None:
                        continue  # no longer in the cluster; the others are, and must not be given to anybody else
                    group.physical[size][number][position] = gpu
                    virtual = None
                    if place.preassigned and not place.preassigned[position]:
                        group.virtual = None
                    elif not place.preassigned:
                        demote = True
                    elif group.virtual is not None and not demote:
                        virtual = find_virtual(self, gpu, place.preassigned[position], pod)
                        demote = virtual is None
                    if virtual is not None and group.virtual is not None:
                        group.virtual[size][number][position] = virtual
                        if gpu.is_free() and virtual.root.priority > FREE:
                            # the cell that it would be bound to is in use elsewhere: those who use it make way
                            self._demote_users(virtual.root, group.name)
                    broken = self._take_gpu(gpu, virtual, pod.priority, pod.vc)
                    gpu.user = group
                    gpu.set_state(CellState.USED)
                    demote = demote or bool(broken)
        group.places, group.chain = where.places, where.chain
        self.groups[group.name] = group
        if demote:
            self._demote(group, group.name)
        return group

    def _begin_preemption(
        self, pod: Pod, physical: dict[int, list[list[PhysicalCell]]], virtual: VirtualPlacement | None
    ) -> None:
        """The group has its cells from now on, so that nobody of its priority or a lower one preempts the same victims."""
        group = new_group(pod, GroupState.PREEMPTING)
        group.physical = {size: [list(one) for one in pods] for size, pods in physical.items()}
        group.virtual = virtual
        new: list[tuple[PhysicalCell, str]] = []
        for size, pods in physical.items():
            for number, one in enumerate(pods):
                for position, gpu in enumerate(one):
                    if gpu.user is not None:
                        gpu.user.state = GroupState.BEING_PREEMPTED
                    self._hand_over(gpu, virtual[size][number][position] if virtual else None, pod, new)
                    gpu.reserver = group
                    gpu.set_state(CellState.RESERVING if gpu.state is CellState.USED else CellState.RESERVED)
        self.ledger.allocate_all(new)
        group.waiting.add(pod.name)
        self.groups[group.name] = group

    def _hand_over(
        self, gpu: PhysicalCell, virtual: VirtualCell | None, to: Pod, new: list[tuple[PhysicalCell, str]]
    ) -> None:
        """From who has it, if anybody, to a group of another priority. Within a virtual cluster the cell stays bound."""
        if gpu.priority >= LOWEST_GUARANTEED and gpu.bound is virtual:
            self._reprioritise(gpu, to.priority)
            return
        if gpu.user is not None:
            self._free_gpu(gpu, gpu.user.vc)
        self._take_gpu(gpu, virtual, to.priority, to.vc, new)

    def _reprioritise(self, gpu: PhysicalCell, priority: int) -> None:
        assert gpu.bound is not None
        for cell in (gpu, gpu.bound):
            cell.count_used(cell.priority, -1)
            cell.count_used(priority, 1)
            cell.set_priority(priority)

    def _cancel_preemption(self, group: Group) -> None:
        """Cells go back to who still runs on them."""
        spared: list[Group] = []
        for gpu in group.gpus():
            gpu.reserver = None
            user = gpu.user
            if user is None:
                self._free_gpu(gpu, group.vc)
                gpu.set_state(CellState.FREE)
                continue
            virtual = user.virtual_gpu(gpu)
            if virtual is not None and gpu.bound is virtual:
                self._reprioritise(gpu, user.priority)
            else:
                self._free_gpu(gpu, group.vc)
                self._take_gpu(gpu, virtual, user.priority, user.vc)
            gpu.set_state(CellState.USED)
            spared.append(user)
        for user in spared:
            if all(gpu.state is CellState.USED for gpu in user.gpus()):
                user.state = GroupState.ALLOCATED
        del self.groups[group.name]

    def _end_preemption(self, group: Group) -> None:
        for gpu in group.gpus():
            gpu.reserver, gpu.user = None, group
            gpu.set_state(CellState.USED)
        group.state = GroupState.ALLOCATED
        group.waiting.clear()

    # -- lazy preemption --------------------------------------------------------------------------------------------------

    def _demote_lazy(self, gpus: list[VirtualCell], by: str) -> list[tuple[Group, VirtualPlacement]]:
        """Those in the way who allow it run on as opportunistic; with what they had, in case this comes to nothing."""
        demoted = []
        for gpu in gpus:
            there = gpu.bound
            if there is not None and there.state is CellState.USED and there.user is not None and there.user.lazy:
                before = there.user.virtual
                if before is not None:
                    demoted.append((there.user, before))
                    self._demote(there.user, by)
        return demoted

    def _demote(self, group: Group, by: str) -> None:
        """Out of its virtual cluster, but not off its GPUs."""
        for pods in (group.virtual or {}).values():
            for one in pods:
                for virtual in one:
                    if virtual is not None and virtual.bound is not None:
                        gpu = virtual.bound
                        self._free_gpu(gpu, group.vc)
                        self._take_gpu(gpu, None, OPPORTUNISTIC, group.vc)
        group.virtual = None
        group.preempted_by = by

    def _promote(self, group: Group, virtual: VirtualPlacement) -> None:
        """Undo _demote."""
        for size, pods in group.physical.items():
            for number, one in enumerate(pods):
                for position, gpu in enumerate(one):
                    if gpu is not None:
                        self._free_gpu(gpu, group.vc)
                        self._take_gpu(gpu, virtual[size][number][position], group.priority, group.vc)
        group.virtual = virtual
        group.preempted_by = ""

    def _demote_users(self, cell: VirtualCell, by: str) -> None:
        for gpu in cell.leaves():
            if gpu.bound is not None and gpu.bound.state is CellState.USED and gpu.bound.user is not None:
                self._demote(gpu.bound.user, by)

    # -- GPUs -------------------------------------------------------------------------------------------------------------

    def _take_gpu(
        self,
        gpu: PhysicalCell,
        virtual: VirtualCell | None,
        priority: int,
        vc: str,
        new: list[tuple[PhysicalCell, str]] | None = None,
    ) -> str:
        """Says what breaks safety, "" where nothing does. A cell that is bound for this goes to `new`, where there is one,
        to be allocated later."""
        if virtual is None:
            gpu.set_priority(OPPORTUNISTIC)
            gpu.count_used(OPPORTUNISTIC, 1)
            return ""
        for cell in (virtual, gpu):
            cell.set_priority(priority)
            cell.count_used(priority, 1)
        first = virtual.root.bound is None
        if gpu.bound is None:  # a bad one may be bound already
            bind(gpu, virtual)
        assert virtual.root.bound is not None
        if first and new is not None:
            new.append((virtual.root.bound, vc))
            return ""
        if first:
            return self.ledger.allocate(virtual.root.bound, vc)
        self.ledger.use(virtual.root.bound, vc)
        return ""

    def _free_gpu(self, gpu: PhysicalCell, vc: str) -> None:
        virtual = gpu.bound
        if virtual is not None and gpu.priority >= LOWEST_GUARANTEED:  # others may be bound for being bad
            virtual.count_used(virtual.priority, -1)
            virtual.set_priority(FREE)
            preassigned = virtual.root.bound
            assert preassigned is not None
            if gpu.healthy:
                unbind(gpu)  # a bad one stays bound, so that the virtual cluster sees it
            unused = virtual.root.priority < LOWEST_GUARANTEED
            if unused and not preassigned.pinned and preassigned not in self.clusters[vc].doomed[preassigned.chain]:
                self.ledger.release(preassigned, vc)
        gpu.count_used(gpu.priority, -1)
        gpu.set_priority(FREE)

    def _find_gpu(self, chain: str, node: str, index: int) -> PhysicalCell | None:
        """In its chain, or, where the node has moved to another one, there."""
        found = [gpu for gpu in self._gpus_of.get(node, ()) if gpu.index == index]
        return next((gpu for gpu in found if gpu.chain == chain), found[0] if found else None)


def check_pod(pod: Pod) -> None:
    """Raise UserError for what no cluster could do."""
    if not pod.vc:
        raise UserError(f"[{pod.name}]: it names no virtual cluster")
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
