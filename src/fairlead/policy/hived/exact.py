"""HiveD as a planner over plain objects: every decision by algorithm.Hived. Slow, obvious, what the compiled one must equal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fairlead.kernels.columns import (
    C_LIST,
    C_ROOT,
    G_ACTIVE,
    J_KEY,
    K_CLASS,
    K_LEVEL,
)
from fairlead.model.event import EventKind
from fairlead.model.plan import Action, ActionKind, Plan
from fairlead.model.reason import Reason
from fairlead.policy.base import Planner
from fairlead.policy.hived.algorithm import Hived
from fairlead.policy.hived.cells import PhysicalCell
from fairlead.policy.hived.groups import Group, Pod
from fairlead.policy.hived.setup import PARAMETERS, ClassOfJobs, order_of, refusals, set_up
from fairlead.state.view import View

_ENDS = (EventKind.FINISH, EventKind.FAIL, EventKind.GIVE_UP, EventKind.KILL)


class HivedExact(Planner):
    """HiveD's cells, as `hived`, by the obvious version in plain Python: slow, for checking."""

    name = "hived-exact"
    parameters = PARAMETERS
    tenant_classes = True
    priority_classes = True
    own_quotas = True
    inside_nodes = True
    takes_over = False

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.row = 0  #: rows of the journal that were seen
        self.running: dict[int, Group] = {}
        self.bad: set[int] = set()  #: nodes
        #: classes that did not fit at this priority, and nothing has changed for them since
        self.blocked: dict[int, int] = {}

    @classmethod
    def order(cls, values: Mapping[str, Any]) -> str:
        return str(order_of(values).name)

    def refuses(self, view: View) -> Mapping[int, Reason]:
        self.setup = set_up(view, self.values)
        self.classes = {one.number: one for one in self.setup.classes}
        self.hived = Hived(self.setup.spec)
        machines = {node.name: number for number, node in enumerate(view.cluster.nodes)}
        addresses = {node.address: node for top in self.setup.spec.physical for node in top.nodes()}
        self.gpus_of = {
            machines[addresses[node.address].machine]: node.leaves()
            for chain in self.hived.chains.values()
            for node in chain.all[chain.node_level]
        }
        return refusals(self.setup)

    def plan(self, view: View, now: float) -> Plan:
        self._learn(view)
        for job, one in self._candidates(view):
            actions = self._start(view, job, one)
            if actions:
                return Plan(tuple(actions), again=True)
            self.blocked[one.number] = self._priority(view, job)
        return Plan()

    def _learn(self, view: View) -> None:
        """What happened since it was last asked; its own starts and suspensions it knows."""
        for kind, subject in view.happened(self.row):
            self.row += 1
            if kind in _ENDS:
                self._end(view, subject)
            elif kind == EventKind.NODE_DOWN:
                self.bad.add(subject)
                for gpu in self.gpus_of.get(subject, ()):
                    self.hived.ledger.set_bad(gpu)
                self.blocked.clear()
            elif kind == EventKind.NODE_UP:
                self.bad.remove(subject)
                for gpu in self.gpus_of.get(subject, ()):
                    self.hived.ledger.set_healthy(gpu)
                self.blocked.clear()
        for job, group in self.running.items():
            priority = self._priority(view, job)
            if priority != group.priority and not self._is_fixed(view, job):
                self.hived.set_priority(group, priority)
                self._unblock(group)

    def _end(self, view: View, job: int) -> None:
        group = self.running.pop(job)
        self.hived.end(group)
        self._unblock(group)

    def _unblock(self, group: Group) -> None:
        """Something of this group's is free: its virtual cluster's jobs may fit, and everybody's opportunistic ones; with bad
        nodes about, anybody's, since healthy ones are what they lack."""
        if self.bad:
            self.blocked.clear()
        for number in list(self.blocked):
            one = self.classes[number]
            if one.priority < 0 or (group.priority >= 0 and one.vc == group.vc):
                del self.blocked[number]

    def _priority(self, view: View, job: int) -> int:
        _, jobs, _ = view.columns()
        return self.setup.priority(self.classes[int(jobs.ints[K_CLASS, job])], int(jobs.ints[K_LEVEL, job]))

    def _is_fixed(self, view: View, job: int) -> bool:
        _, jobs, _ = view.columns()
        return self.classes[int(jobs.ints[K_CLASS, job])].fixed

    def _candidates(self, view: View) -> Iterator[tuple[int, ClassOfJobs]]:
        """The best waiting job of each class that might fit, best first. A strict order looks no further than the first of
        each virtual cluster, its opportunistic jobs being a queue of their own."""
        _, jobs, queue = view.columns()
        found = []
        for a in range(int(queue.counter[G_ACTIVE])):
            number = int(queue.classes[C_LIST, a])
            job, one = int(queue.classes[C_ROOT, number]), self.classes[number]
            rank = (-one.priority, int(jobs.ints[K_LEVEL, job]), float(jobs.floats[J_KEY, job]), job)
            found.append((rank, job, one))
        heads: set[tuple[str, bool]] = set()
        for _, job, one in sorted(found):
            queued = (one.vc, one.priority < 0)
            if queued in heads:
                continue
            if self.setup.strict:
                heads.add(queued)
            if one.number not in self.blocked or self.blocked[one.number] < self._priority(view, job):
                yield job, one

    def _start(self, view: View, job: int, one: ClassOfJobs) -> list[Action]:
        for chain in one.chains:
            members = one.members(self.setup.node_gpus[chain])
            pod = Pod(
                name=str(job),
                vc=one.vc,
                gpus=members[0][1],
                priority=self._priority(view, job),
                members=members,
                gpu_type=self.hived.chains[chain].gpu_type,
                chain=chain,
            )
            group = self.hived.claim(pod)
            if group is not None:
                return self._take(view, job, group)
        return []

    def _take(self, view: View, job: int, group: Group) -> list[Action]:
        """Stop who is in the way, then start."""
        gpus = list(group.gpus())
        victims = sorted({int(gpu.user.name) for gpu in gpus if gpu.user is not None})
        actions = []
        for victim in victims:
            self._end(view, victim)
            actions.append(Action(ActionKind.SUSPEND, victim, reason=Reason.OUTRANKED))
        self.hived.settle(group)
        if self._is_fixed(view, job):
            self.hived.set_priority(group, self.setup.top)  # so that nobody preempts it
        self.running[job] = group
        return [*actions, Action(ActionKind.START, job, tuple(sorted(self._gpu_id(gpu) for gpu in gpus)))]

    def _gpu_id(self, gpu: PhysicalCell) -> int:
        node = gpu
        while not node.has_node:
            assert node.parent is not None
            node = node.parent
        return self.setup.gpu_ids[node.address, gpu.index]
