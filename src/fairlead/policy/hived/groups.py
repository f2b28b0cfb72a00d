"""What is asked of HiveD and what it answers: pods of an affinity group, all placed or none, and where.

A group is Pending until it has cells; Preempting while who uses them is being stopped; then Allocated. One whose cells
another group is about to take is BeingPreempted. A group without its last pod is deleted, and forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from fairlead.policy.hived.cells import PhysicalCell, VirtualCell


class UserError(ValueError):
    """The request is wrong, and would be wrong at any time."""


class SafetyBroken(Exception):
    """A virtual cluster can't have a cell that it owns: a mistake in here, never in a request."""


class Phase(StrEnum):
    FILTERING = "Filtering"  #: where would it go? Nobody is stopped
    PREEMPTING = "Preempting"  #: go there, and stop who is in the way


class GroupState(StrEnum):
    PREEMPTING = "Preempting"
    ALLOCATED = "Allocated"
    BEING_PREEMPTED = "BeingPreempted"


@dataclass(frozen=True)
class Pod:
    """One pod of a group. `members` is the whole group's: (pods, GPUs of each)."""

    name: str
    vc: str
    gpus: int
    priority: int = 0  #: -1: opportunistic; 0 to 1000: guaranteed
    group: str = ""  #: the pod's own name, if it is alone
    members: tuple[tuple[int, int], ...] = ()
    gpu_type: str = ""  #: any, if empty
    pinned: str = ""  #: the pinned cell it wants to be in
    lazy: bool = False  #: who preempts it leaves it running, as opportunistic
    ignore_suggested: bool = False  #: it may go to any healthy node
    multi_chain: bool = False  #: its group may be divided over chains if none can hold it
    chain: str = ""  #: the only chain to look at

    @property
    def group_name(self) -> str:
        return self.group or self.name

    @property
    def pod_counts(self) -> dict[int, int]:
        """Pods by number of GPUs, ascending."""
        counts: dict[int, int] = {}
        for pods, gpus in sorted(self.members or ((1, self.gpus),), key=lambda member: member[1]):
            counts[gpus] = counts.get(gpus, 0) + pods
        return counts


Cells = TypeVar("Cells", PhysicalCell, VirtualCell)
Placement = dict[int, list[list[Cells]]]  #: by GPUs of a pod: for each pod, its GPUs
PhysicalPlacement = dict[int, list[list[PhysicalCell | None]]]  #: None: a GPU that the cluster no longer has
VirtualPlacement = dict[int, list[list[VirtualCell | None]]]


@dataclass(frozen=True)
class Place:
    """Where a pod of a group goes; `preassigned` has, per GPU, the type of the cell of the VC that it is in."""

    node: str
    gpus: tuple[int, ...]
    preassigned: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bind:
    node: str
    gpus: tuple[int, ...]  #: indices on the node, in the order in which they were chosen
    chain: str
    places: dict[int, tuple[Place, ...]]  #: of the whole group, by GPUs of a pod


@dataclass(frozen=True)
class Preempt:
    """Who must be stopped first: pods by node. The cells are kept for the group meanwhile."""

    victims: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Wait:
    reason: str


Answer = Bind | Preempt | Wait


@dataclass
class Group:
    name: str
    vc: str
    priority: int
    lazy: bool
    counts: dict[int, int]
    state: GroupState
    like: Pod  #: one of its pods
    physical: PhysicalPlacement = field(default_factory=dict)
    virtual: VirtualPlacement | None = None  #: None: opportunistic, or lazily preempted
    pods: dict[int, list[tuple[str, str] | None]] = field(default_factory=dict)  #: (pod, node) by GPUs of a pod
    waiting: set[str] = field(default_factory=set)  #: pods of a preempting group
    places: dict[int, tuple[Place, ...]] = field(default_factory=dict)  #: where it was started
    chain: str = ""
    preempted_by: str = ""  #: who preempted it lazily

    def gpus(self) -> Iterator[PhysicalCell]:
        """Its GPUs, pods ascending by size; those that the cluster no longer has left out."""
        for size in sorted(self.physical):
            for pod in self.physical[size]:
                yield from (cell for cell in pod if cell is not None)

    def virtual_gpu(self, cell: PhysicalCell) -> VirtualCell | None:
        """The virtual GPU that it has, or had, on a physical one."""
        if self.virtual is None:
            return None
        for size, pods in self.physical.items():
            for number, pod in enumerate(pods):
                for position, one in enumerate(pod):
                    if one is cell:
                        return self.virtual[size][number][position]
        return None


def new_group(pod: Pod, state: GroupState) -> Group:
    counts = pod.pod_counts
    return Group(
        name=pod.group_name,
        vc=pod.vc,
        priority=pod.priority,
        lazy=pod.lazy,
        counts=counts,
        state=state,
        like=pod,
        physical={size: [[None] * size for _ in range(pods)] for size, pods in counts.items()},
        virtual={size: [[None] * size for _ in range(pods)] for size, pods in counts.items()},
        pods={size: [None] * pods for size, pods in counts.items()},
    )
