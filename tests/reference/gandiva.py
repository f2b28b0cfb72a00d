"""Gandiva's node choice and turns in the most obvious way: a planner that looks at every node and every job each time.

No packing, migration or resizing. `gandiva:pack=false,migrate=false,grow=false` must write the same journal.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fairlead.model.plan import Action, ActionKind, Plan
from fairlead.policy.base import Planner
from fairlead.state.view import JobView, NodeView, View


@dataclass
class Home:
    """Where a job is hosted, and how much it has had since its node got crowded."""

    parts: dict[int, int]  #: GPUs by node
    served: float = 0.0
    since: float = 0.0


@dataclass
class Node:
    spec: NodeView
    first: int
    cpu: int
    memory: int
    crowded: bool = False
    hosted: list[int] = field(default_factory=list)
    affinity: int = 0


def power_of_two(gpus: int) -> int:
    size = 1
    while size < gpus:
        size *= 2
    return size


def part(demand: int, gpus: int, of: int) -> int:
    return -(-demand * gpus // of)


class SlowGandiva(Planner):
    """Affinity and turns, looked up and sorted anew at every event."""

    name = "slow-gandiva"
    parameters = {"quantum": 60.0}

    def plan(self, view: View, now: float) -> Plan:
        if not hasattr(self, "homes"):
            self.homes: dict[int, Home] = {}
            self.asked: dict[int, int] = {}  #: GPUs of jobs that were hosted
            self.cpu_jobs: dict[int, int] = {}  #: running jobs without GPUs, and their nodes
            self.queue: list[int] = []
            self.nodes: list[Node] = []
            self.tick = float("inf")
            first = 0
            for spec in view.nodes():
                self.nodes.append(Node(spec, first, spec.free_cpu_milli, spec.free_memory_mib))
                first += spec.gpus
        self.view, self.now, self.actions = view, now, []
        self.changed: set[int] = (
            set()
        )  #: nodes where something happened; elsewhere nobody can start who could not before
        self.jobs = {job.job: job for job in [*view.waiting(), *view.running()]}
        self.held = {job.job: job.gpu_ids for job in view.running()}
        self.ended()
        self.arrived()
        if now >= self.tick:
            self.turns()
        for n in sorted(self.changed):
            self.fill(n)
        for n in range(len(self.nodes)):
            self.see_if_crowded(n)
        if not any(node.crowded for node in self.nodes):
            self.tick = float("inf")
        elif self.tick <= now or self.tick == float("inf"):
            quantum = self.values["quantum"]
            self.tick = (now // quantum + 1) * quantum
        return Plan(tuple(self.actions), None if self.tick == float("inf") else self.tick)

    # -- who leaves and who comes

    def ended(self) -> None:
        gone = [job for job in self.homes if job not in self.jobs]
        for job in gone:
            for n in self.homes.pop(job).parts:
                self.changed.add(n)
                self.nodes[n].hosted.remove(job)
                sizes = [power_of_two(self.asked[other]) for other in self.nodes[n].hosted]
                if self.nodes[n].affinity not in sizes:  # the size of whoever has been there longest
                    self.nodes[n].affinity = sizes[0] if sizes else 0
        without_gpus = [job for job in self.cpu_jobs if job not in self.jobs]
        for job in without_gpus:
            self.changed.add(self.cpu_jobs.pop(job))
        if gone or without_gpus:
            self.try_queue()

    def class_of(self, job: JobView) -> tuple[object, ...]:
        return (job.gpus, job.share_milli, job.cpu_milli, job.memory_mib, job.gpu_type, job.tenant)

    def arrived(self) -> None:
        for job in sorted(self.jobs.values(), key=lambda job: job.job):
            known = job.job in self.homes or job.job in self.queue or job.job in self.held
            if known:
                continue
            same = any(self.class_of(self.jobs[other]) == self.class_of(job) for other in self.queue)
            if same or not self.find_home(job):
                self.queue.append(job.job)

    def try_queue(self) -> None:
        """The first of each class, as long as that succeeds; a higher priority first, then the earlier submission."""
        failed: set[tuple[object, ...]] = set()
        while True:
            heads: dict[tuple[object, ...], JobView] = {}
            for number in self.queue:
                heads.setdefault(self.class_of(self.jobs[number]), self.jobs[number])
            left = [job for key, job in heads.items() if key not in failed]
            if not left:
                return
            job = min(left, key=lambda job: (-job.priority, job.job))
            if self.find_home(job):
                self.queue.remove(job.job)
            else:
                failed.add(self.class_of(job))

    # -- node choice

    def load(self, n: int) -> int:
        return sum(self.homes[job].parts[n] for job in self.nodes[n].hosted)

    def free(self, n: int) -> int:
        return max(self.nodes[n].spec.gpus - self.load(n), 0)

    def has_cpu(self, job: JobView, n: int, gpus: int, turns: bool = False) -> bool:
        cpu = memory = 0
        for other in () if turns else self.nodes[n].hosted:
            asks = self.jobs[other]
            cpu += part(asks.cpu_milli, self.homes[other].parts[n], asks.gpus)
            memory += part(asks.memory_mib, self.homes[other].parts[n], asks.gpus)
        cpu += part(job.cpu_milli, gpus, job.gpus)
        memory += part(job.memory_mib, gpus, job.gpus)
        return cpu <= self.nodes[n].cpu and memory <= self.nodes[n].memory

    def find_home(self, job: JobView) -> bool:
        if job.gpus == 0:
            return self.start_without_gpus(job)
        if not self.within_quota(job):
            return False
        parts = self.choose(job)
        if not parts:
            return False
        crowded = [n for n in sorted(parts) if self.nodes[n].crowded]
        home = Home(parts)
        if crowded:
            home.served = min(min(self.homes[other].served for other in self.nodes[n].hosted) for n in crowded)
        self.homes[job.job] = home
        self.changed |= set(parts)
        self.asked[job.job] = job.gpus
        for n in parts:
            self.nodes[n].hosted.append(job.job)
            self.nodes[n].affinity = self.nodes[n].affinity or power_of_two(job.gpus)
        return True

    def within_quota(self, job: JobView) -> bool:
        tenant = self.view.cluster.tenants.get(job.tenant)
        if tenant is None or tenant.quota_gpus is None:
            return True
        hosted = [self.jobs[other] for other in self.homes]
        used = sum(other.gpus * other.share_milli for other in hosted if other.tenant == job.tenant)
        return used + job.gpus * job.share_milli <= 1000 * tenant.quota_gpus

    def choose(self, job: JobView) -> dict[int, int]:
        usable = [n for n, node in enumerate(self.nodes) if job.gpu_type in (-1, node.spec.gpu_type)]
        size = {n: self.nodes[n].spec.gpus for n in usable}
        alike = [n for n in usable if self.nodes[n].affinity == power_of_two(job.gpus)]
        if job.gpus <= max(size.values(), default=0):
            one = [n for n in usable if self.free(n) >= job.gpus and self.has_cpu(job, n, job.gpus)]
            same = [n for n in one if n in alike]
            if same:  # 1
                return {min(same, key=lambda n: (self.load(n) / size[n], n)): job.gpus}
            empty = [n for n in one if not self.nodes[n].hosted]
            if empty:  # 2
                return {min(empty, key=lambda n: (size[n], n)): job.gpus}
            if one:  # 3, on one node
                return {min(one, key=lambda n: (self.free(n), n)): job.gpus}
        else:
            several = self.empty_nodes(job, usable)
            if several:  # 2, on several
                return several
        if job.gpus > 1:  # 3, spread
            most_free = sorted((n for n in usable if self.free(n) > 0), key=lambda n: (-self.free(n), n))
            spread = self.gather(job, {n: self.free(n) for n in most_free}, turns=False)
            if spread:
                return spread
        if job.gpus <= max(size.values(), default=0):  # 4
            one = [n for n in alike if size[n] >= job.gpus and self.has_cpu(job, n, job.gpus, turns=True)]
            return {min(one, key=lambda n: (self.load(n) / size[n], n)): job.gpus} if one else {}
        least_loaded = sorted(alike, key=lambda n: (self.load(n), n))
        return self.gather(job, {n: size[n] for n in least_loaded}, turns=True)

    def empty_nodes(self, job: JobView, usable: list[int]) -> dict[int, int]:
        pools = dict.fromkeys((self.nodes[n].spec.gpu_type, self.nodes[n].spec.gpus) for n in range(len(self.nodes)))
        for pool in pools:
            empty = [
                n
                for n in usable
                if (self.nodes[n].spec.gpu_type, self.nodes[n].spec.gpus) == pool and not self.nodes[n].hosted
            ]
            parts, left = {}, job.gpus
            for n in empty:
                take = min(pool[1], left)
                if take and self.has_cpu(job, n, take):
                    parts[n] = take
                    left -= take
            if left == 0:
                return parts
        return {}

    def gather(self, job: JobView, room: dict[int, int], turns: bool) -> dict[int, int]:
        parts, left = {}, job.gpus
        for n, most in room.items():
            take = min(most, left)
            while take and not self.has_cpu(job, n, take, turns):
                take -= 1
            if take:
                parts[n] = take
                left -= take
        return parts if left == 0 else {}

    # -- starting and stopping

    def seats(self, n: int) -> list[int]:
        """GPUs of a node that nobody sits on."""
        taken = {gpu for ids in self.held.values() for gpu in ids}
        first = self.nodes[n].first
        return [gpu for gpu in range(first, first + self.nodes[n].spec.gpus) if gpu not in taken]

    def unused(self, n: int) -> tuple[int, int]:
        """CPU and memory of a node that nobody uses."""
        cpu, memory = self.nodes[n].cpu, self.nodes[n].memory
        for number, ids in self.held.items():
            job = self.jobs[number]
            here = sum(gpu == -1 - n or 0 <= gpu - self.nodes[n].first < self.nodes[n].spec.gpus for gpu in ids)
            if here:
                cpu -= part(job.cpu_milli, here, max(job.gpus, 1))
                memory -= part(job.memory_mib, here, max(job.gpus, 1))
        return cpu, memory

    def start_without_gpus(self, job: JobView) -> bool:
        for n in range(len(self.nodes)):
            cpu, memory = self.unused(n)
            if job.cpu_milli <= cpu and job.memory_mib <= memory:
                self.held[job.job] = (-1 - n,)
                self.cpu_jobs[job.job] = n
                self.actions.append(Action(ActionKind.START, job.job, (-1 - n,)))
                return True
        return False

    def rank(self, number: int) -> tuple[int, float, int]:
        return (-self.jobs[number].priority, self.homes[number].served, number)

    def settle(self, number: int) -> None:
        home = self.homes[number]
        if number in self.held:
            tenant = self.view.cluster.tenants.get(self.jobs[number].tenant)
            home.served += (self.now - home.since) / (1.0 if tenant is None else tenant.weight)
            home.since = self.now

    def start(self, number: int) -> None:
        ids: list[int] = []
        for n, count in sorted(self.homes[number].parts.items()):
            ids += self.seats(n)[:count]
        self.held[number] = tuple(ids)
        self.homes[number].since = self.now
        self.actions.append(Action(ActionKind.START, number, tuple(ids)))

    def fits(self, number: int) -> bool:
        job = self.jobs[number]
        for n, count in self.homes[number].parts.items():
            cpu, memory = self.unused(n)
            if len(self.seats(n)) < count:
                return False
            if part(job.cpu_milli, count, job.gpus) > cpu or part(job.memory_mib, count, job.gpus) > memory:
                return False
        return True

    def fill(self, n: int) -> None:
        for number in sorted((job for job in self.nodes[n].hosted if job not in self.held), key=self.rank):
            if self.fits(number):
                self.start(number)

    def turns(self) -> None:
        """All jobs of crowded nodes in one line: each gets a turn if those before it left enough."""
        due = [n for n, node in enumerate(self.nodes) if node.crowded]
        self.changed |= set(due)
        everybody = sorted({job for n in due for job in self.nodes[n].hosted})
        for number in everybody:
            self.settle(number)
        room = {n: self.nodes[n].spec.gpus for n in due}
        spare = {n: list(self.unused(n)) for n in due}
        for number in everybody:
            for n, count in self.homes[number].parts.items():
                if number in self.held and n in due:
                    spare[n][0] += part(self.jobs[number].cpu_milli, count, self.jobs[number].gpus)
                    spare[n][1] += part(self.jobs[number].memory_mib, count, self.jobs[number].gpus)
        chosen = []
        for number in sorted(everybody, key=self.rank):
            job, parts = self.jobs[number], self.homes[number].parts
            needs = {
                n: (count, part(job.cpu_milli, count, job.gpus), part(job.memory_mib, count, job.gpus))
                for n, count in parts.items()
            }
            ok = all(
                room[n] >= gpus and spare[n][0] >= cpu and spare[n][1] >= memory
                if n in due
                else number in self.held or len(self.seats(n)) >= gpus
                for n, (gpus, cpu, memory) in needs.items()
            )
            if ok:
                chosen.append(number)
                for n, (gpus, cpu, memory) in needs.items():
                    if n in due:
                        room[n] -= gpus
                        spare[n][0] -= cpu
                        spare[n][1] -= memory
        for number in everybody:
            if number in self.held and number not in chosen:
                del self.held[number]
                self.changed |= set(self.homes[number].parts)
                self.actions.append(Action(ActionKind.SUSPEND, number))
        for number in chosen:
            if number not in self.held and self.fits(number):
                self.start(number)

    def see_if_crowded(self, n: int) -> None:
        node = self.nodes[n]
        crowded = any(job not in self.held for job in node.hosted)
        if crowded and not node.crowded:
            wide = [job for job in node.hosted if len(self.homes[job].parts) > 1]
            for job in wide:
                self.settle(job)
            par = max((self.homes[job].served for job in wide), default=0.0)
            for job in node.hosted:
                if job not in wide:
                    self.homes[job].served, self.homes[job].since = par, self.now
        node.crowded = crowded
