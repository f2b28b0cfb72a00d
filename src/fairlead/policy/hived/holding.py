"""Who holds which GPUs: groups that run, groups that wait for others to go, and what is bound for them.

The lower half of HiveD. algorithm.py decides where groups go; this takes the cells for them, hands them over, and gives them
back, and keeps the free cells in order meanwhile.
"""

from __future__ import annotations

from fairlead.model.cells import CellsSpec, check_cells
from fairlead.policy.hived.build import build_chains, build_virtual
from fairlead.policy.hived.cells import (
    FREE,
    LOWEST_GUARANTEED,
    OPPORTUNISTIC,
    CellState,
    PhysicalCell,
    VirtualCell,
    bind,
    unbind,
)
from fairlead.policy.hived.groups import Bind, Group, GroupState, Pod, VirtualPlacement, new_group
from fairlead.policy.hived.health import Ledger
from fairlead.policy.hived.recover import find_virtual

#: physical cells that a group is to get, each with its virtual cluster
New = list[tuple[PhysicalCell, str]]


class Holdings:
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
        for name, vc in self.clusters.items():
            for pin, levels in vc.pinned.items():
                self.ledger.allocate(pinned[pin], name)
                bind(pinned[pin], levels[-1][0])
        if not nodes_known:
            for node in self.nodes():
                self.set_bad_node(node)

    def nodes(self) -> list[str]:
        """Names of all nodes, in the order of the cells."""
        tops = [cell for chain in self.chains.values() for cell in chain.all[chain.top]]
        return list(dict.fromkeys(name for cell in tops for name in cell.nodes))

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

    def take(self, gpu: PhysicalCell, virtual: VirtualCell | None, priority: int, vc: str) -> str:
        """A GPU for whoever runs on it already, as this virtual one, or as nobody's: says what breaks safety, "" where nothing
        does. What broke it is to be freed again."""
        return self._take_gpu(gpu, virtual, priority, vc)

    def free(self, gpu: PhysicalCell, vc: str) -> None:
        self._free_gpu(gpu, vc)

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
        new: New = []
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

    def _hand_over(self, gpu: PhysicalCell, virtual: VirtualCell | None, to: Pod, new: New) -> None:
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
        new: New | None = None,
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
