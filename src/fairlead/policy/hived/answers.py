"""Writing answers: a placement as names and indices, or as the pods that are in its way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairlead.policy.hived.cells import CellState, PhysicalCell, VirtualCell
from fairlead.policy.hived.groups import Answer, Bind, Group, Place, Pod, Preempt, UserError

Physical = Mapping[int, Sequence[Sequence[PhysicalCell | None]]]
Virtual = Mapping[int, Sequence[Sequence[VirtualCell | None]]]


def of_placement(pod: Pod, physical: Physical, virtual: Virtual | None, number: int = 0) -> Answer:
    """Who is in the way, if anybody is: all pods of a group whose GPU is wanted, since it stops as a whole."""
    victims: dict[str, set[str]] = {}
    for pods in physical.values():
        for one in pods:
            for gpu in one:
                if gpu is not None and gpu.state in (CellState.USED, CellState.RESERVING) and gpu.user is not None:
                    for names in gpu.user.pods.values():
                        for name, node in filter(None, names):
                            victims.setdefault(node, set()).add(name)
    if victims:
        return Preempt({node: tuple(sorted(names)) for node, names in sorted(victims.items())})
    return _bind(pod, physical, virtual, number)


def of_allocated(group: Group, pod: Pod) -> Bind:
    """The next place of a group that has its places."""
    free = [number for number, one in enumerate(group.pods.get(pod.gpus, ())) if one is None]
    if not free:
        count = group.counts.get(pod.gpus, 0)
        raise UserError(f"[{pod.name}]: group {group.name!r} has only {count} pods of {pod.gpus} GPUs")
    return of_pod(group, pod, free[0])


def of_pod(group: Group, pod: Pod, number: int) -> Bind:
    """Where the number-th pod of its size is, of a group that has its places."""
    if group.places:  # as it was started: the cluster may have changed since
        place = group.places[pod.gpus][number]
        return Bind(place.node, place.gpus, group.chain, group.places)
    return _bind(pod, group.physical, group.virtual, number)


def _bind(pod: Pod, physical: Physical, virtual: Virtual | None, number: int) -> Bind:
    places: dict[int, tuple[Place, ...]] = {}
    for size, pods in physical.items():
        places[size] = tuple(_place(gpus, None if virtual is None else virtual[size][i]) for i, gpus in enumerate(pods))
    chosen = places[pod.gpus][number]
    first = next((gpu for gpu in physical[pod.gpus][number] if gpu is not None), None)
    return Bind(chosen.node, chosen.gpus, "" if first is None else first.chain, places)


def _place(gpus: Sequence[PhysicalCell | None], virtual: Sequence[VirtualCell | None] | None) -> Place:
    there = [gpu for gpu in gpus if gpu is not None]
    roots = ["" if cell is None else cell.root.kind for cell in virtual or [None] * len(gpus)]
    return Place(there[0].nodes[0] if there else "", tuple(gpu.index for gpu in there), tuple(roots))


def pod_number(where: Bind, gpus: int) -> int:
    """Which of the group's pods of this size is meant, from where it is."""
    for number, place in enumerate(where.places[gpus]):
        if place.node == where.node and where.gpus[0] in place.gpus:
            return number
    raise UserError(f"no pod of {gpus} GPUs is on node {where.node!r}, GPU {where.gpus[0]}")
