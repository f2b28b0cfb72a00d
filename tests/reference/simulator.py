"""The run: instants, jobs that start and stop, and the pass that decides. See `docs/semantics.md`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from fairlead.kernels.rng import uniform
from fairlead.model.cluster import ClusterSpec
from fairlead.model.event import EventKind
from fairlead.model.reason import Reason
from fairlead.workload.trace import Trace

from .cluster import WHOLE, Ask, ClusterState, Placement
from .forecasts import History, labels_of
from .job import Job, State, jobs_of
from .placers import place
from .policies import Policy, Usage, dominant_share, make_policy
from .queues import decide_by_queues, guarantees

#: (time_s, kind, job or node, detail). The detail of a START is the tuple of GPU ids.
Row = tuple[float, EventKind, int, Any]
Rank = tuple[float, float, float, int]

#: A policy that displaces a job at every tick before the cost of its start is over never gets anything done.
MOST_INSTANTS = 20_000


@dataclass(frozen=True)
class Options:
    seed: int = 0
    start_cost_s: float = 0.0
    resume_cost_s: float = 0.0
    job_failures: float = 0.0  #: probability that an attempt fails
    retries: int = 0
    checkpoint_s: float | None = None  #: work between checkpoints; None: there are none
    node_events: list[tuple[float, int, bool]] = field(default_factory=list)  #: (time_s, node, up)


@dataclass(frozen=True)
class Result:
    """Lists are by job. Times are nan where the job never started, or never finished."""

    rows: list[Row]
    start_s: list[float]
    finish_s: list[float]
    preemptions: list[int]
    refused: list[int]  #: Reason, 0 if it was not refused
    ran_s: list[float]


def simulate(
    trace: Trace,
    cluster: ClusterSpec,
    policy: str,
    policy_params: dict[str, Any],
    placer: str,
    placer_params: dict[str, Any],
    options: Options | None = None,
) -> Result:
    options = options or Options()
    run = Run(trace, cluster, make_policy(policy, policy_params), placer, placer_params, options)
    return run.to_the_end()


@dataclass
class Reservation:
    """What EASY backfilling keeps free for the first job that does not fit."""

    head: Job
    shadow_s: float  #: when it is expected to fit
    shadow: ClusterState  #: what is free then


class Run:
    def __init__(
        self,
        trace: Trace,
        cluster: ClusterSpec,
        policy: Policy,
        placer: str,
        placer_params: dict[str, Any],
        options: Options,
    ) -> None:
        self.cluster = cluster
        self.policy = policy
        self.placer = placer
        self.placer_params = placer_params
        self.options = options
        self.jobs = jobs_of(trace)
        self.node_events = list(options.node_events)
        self.state = ClusterState.empty(cluster)
        self.usage: dict[str, Usage] = {}
        self.rows: list[Row] = []
        self.now = 0.0
        self.ranks: dict[int, tuple[float, float]] = {}  #: (level, key) by job, as of this pass
        self.started_in_pass: set[int] = set()
        self.guarantees = guarantees(trace, self.state, policy.borrows) if policy.queues else {}
        self.history = History(policy.model, policy.window) if policy.estimate == "predicted" else None
        self.labels = [labels_of(trace, job.index) for job in self.jobs]

    def to_the_end(self) -> Result:
        instants = 0
        while any(job.state is not State.OVER for job in self.jobs):
            instants += 1
            if instants > MOST_INSTANTS:
                raise RuntimeError(f"no end in sight after {MOST_INSTANTS} instants, at {self.now} s")
            moment = self.next_instant()
            if moment is None:
                self.refuse_all_that_wait()
                break
            self.now = moment
            self.handle_events()
            self.decide()
        return Result(
            rows=self.rows,
            start_s=[job.first_start_s for job in self.jobs],
            finish_s=[job.finish_s for job in self.jobs],
            preemptions=[job.preemptions for job in self.jobs],
            refused=[job.refused for job in self.jobs],
            ran_s=[job.ran_s for job in self.jobs],
        )

    def in_state(self, state: State) -> list[Job]:
        return [job for job in self.jobs if job.state is state]

    # Time and instants

    def next_instant(self) -> float | None:
        """When something happens next; None when nothing can happen any more. Ticks alone change nothing."""
        times = [job.submit_s for job in self.in_state(State.TO_COME)]
        times += [job.end_s for job in self.in_state(State.RUNNING)]
        times += [time_s for time_s, _, _ in self.node_events]
        times += [self.policy.wake_s(job, self.now) for job in self.in_state(State.RUNNING)]
        times += [self.policy.wake_s(job, self.now) for job in self.in_state(State.WAITING)]
        times = [time_s for time_s in times if time_s < math.inf]
        if not times:
            return None
        if self.policy.quantum and self.in_state(State.WAITING):
            times.append(self.next_tick(self.policy.quantum))
        return min(times)

    def next_tick(self, quantum: float) -> float:
        k = math.floor(self.now / quantum) + 1
        while k * quantum <= self.now:
            k += 1
        return k * quantum

    def handle_events(self) -> None:
        for job in self.in_state(State.RUNNING):
            if job.end_s == self.now:
                self.end(job)

        due = sorted(event[1:] for event in self.node_events if event[0] == self.now)
        self.node_events = [event for event in self.node_events if event[0] != self.now]
        for node, up in due:
            if not up:
                self.node_down(node)
        for node, up in due:
            if up:
                self.node_up(node)

        for job in self.in_state(State.TO_COME):
            if job.submit_s == self.now:
                self.arrive(job)

        for job in self.in_state(State.WAITING):
            self.policy.promote(job, self.now)

    def record(self, kind: EventKind, job_or_node: int, detail: Any) -> None:
        self.rows.append((self.now, kind, job_or_node, detail))

    # Jobs

    def arrive(self, job: Job) -> None:
        reason = self.why_never(job, ClusterState.empty(self.cluster))
        if reason is not None:
            self.refuse(job, reason)
        else:
            if self.history is not None:
                job.estimate_s = self.history.predict(self.labels[job.index])
            self.wait(job)

    def why_never(self, job: Job, cluster: ClusterState) -> Reason | None:
        """Why the job can't run even with this whole cluster to itself; None where it can."""
        ask = job.ask
        suitable = [node for node in cluster.nodes if node.is_of_type(ask)]
        if not suitable:
            return Reason.NO_SUCH_GPU_TYPE
        if ask.topology not in ("", "node", *self.cluster.levels):
            return Reason.NO_SUCH_LEVEL
        if ask.num_nodes > 1 and (ask.gpus == 0 or ask.gpus % ask.num_nodes):
            return Reason.TOO_FEW_NODES
        if self.find_place(cluster, job, ask) is None:
            if sum(node.capacity for node in suitable) < ask.gpus:
                return Reason.TOO_MANY_GPUS
            gpus_only = replace(ask, cpu_milli=0, memory_mib=0)
            if self.find_place(cluster, job, gpus_only) is not None:
                return Reason.NODE_TOO_SMALL
            if not ask.is_bound:
                return Reason.TOO_MANY_GPUS
            if ask.num_nodes and self.find_place(cluster, job, replace(gpus_only, topology="")) is None:
                return Reason.TOO_FEW_NODES
            return Reason.DOMAIN_TOO_SMALL
        if ask.gpu_milli > cluster.quota_milli(ask.tenant) and not self.policy.borrows:
            return Reason.OVER_QUOTA
        return None

    def refuse(self, job: Job, reason: Reason) -> None:
        job.state = State.OVER
        job.refused = int(reason)
        self.record(EventKind.REFUSE, job.index, reason)

    def refuse_all_that_wait(self) -> None:
        """Nothing can happen any more: what still waits will never run on the nodes that are left."""
        for job in self.in_state(State.WAITING):
            self.refuse(job, Reason.NOT_ENOUGH_FREE)

    def wait(self, job: Job) -> None:
        job.state = State.WAITING
        job.waits_since_s = self.now

    def start_cost(self, job: Job) -> float:
        return self.options.resume_cost_s if job.suspended else self.options.start_cost_s

    def rate_at(self, placement: Placement) -> float:
        """A gang goes at the speed of its slowest GPU; a CPU job at speed 1."""
        types = [self.cluster.nodes[node].gpu_type for node, gpus in placement.items() if gpus]
        return min((self.cluster.speeds.get(gpu_type, 1.0) for gpu_type in types), default=1.0)

    def start(self, job: Job, placement: Placement) -> None:
        if not job.attempt_open:
            self.begin_attempt(job)
        job.rate = self.rate_at(placement)
        job.work_from_s = self.now + self.start_cost(job)
        job.end_s = job.work_from_s + min(job.remaining_s, job.until_failure_s) / job.rate
        if job.starts == 0:
            job.first_start_s = self.now
        job.starts += 1
        job.state = State.RUNNING
        job.placement = placement
        self.state.take(job.ask, placement)
        self.note_usage(job.ask.tenant)
        self.started_in_pass.add(job.index)
        self.record(EventKind.START, job.index, self.state.gpu_ids(placement))

    def begin_attempt(self, job: Job) -> None:
        job.attempt += 1
        job.attempt_open = True
        fails = self.draw(job, job.attempt, 0) < self.options.job_failures
        job.until_failure_s = self.draw(job, job.attempt, 1) * job.remaining_s if fails else math.inf

    def draw(self, job: Job, b: int, c: int) -> float:
        return float(uniform(self.options.seed, job.index, b, c))

    def stop(self, job: Job) -> None:
        """Take the job off its GPUs and write down what it has done. The caller says what becomes of it."""
        worked_s = job.worked_s(self.now)
        job.ran_s += worked_s
        job.remaining_s -= job.rate * worked_s
        job.until_failure_s -= job.rate * worked_s
        assert job.placement is not None
        self.state.give_back(job.ask, job.placement)
        self.note_usage(job.ask.tenant)
        job.placement = None
        job.end_s = math.inf

    def suspend(self, job: Job, reason: Reason = Reason.OUTRANKED) -> None:
        self.stop(job)
        job.suspended = True
        job.preemptions += 1
        self.wait(job)
        self.ranks[job.index] = (self.policy.level(job, self.now), self.policy.key(job, self.now))
        self.record(EventKind.SUSPEND, job.index, reason)

    def end(self, job: Job) -> None:
        fails = job.until_failure_s < math.inf
        self.stop(job)
        if not fails:
            job.remaining_s = 0.0
            job.finish_s = self.now
            if self.history is not None:
                self.history.end(self.labels[job.index], job.ran_s)
            job.state = State.OVER
            self.record(EventKind.FINISH, job.index, 0)
            return
        job.failed_attempts += 1
        if job.failed_attempts > self.options.retries:
            job.state = State.OVER
            self.record(EventKind.GIVE_UP, job.index, job.failed_attempts)
        else:
            self.lose_work(job)
            job.attempt_open = False
            self.wait(job)
            self.record(EventKind.FAIL, job.index, job.failed_attempts)

    def lose_work(self, job: Job) -> None:
        """What was done since the last checkpoint is lost. An attempt that was to fail still fails at the same work."""
        before_s = job.remaining_s
        kept_s = 0.0
        if self.options.checkpoint_s:
            done_s = job.duration_s - job.remaining_s
            kept_s = math.floor(done_s / self.options.checkpoint_s) * self.options.checkpoint_s
        job.remaining_s = job.duration_s - kept_s
        job.until_failure_s += job.remaining_s - before_s
        job.suspended = False

    # Nodes

    def node_down(self, node: int) -> None:
        self.state.nodes[node].up = False
        self.record(EventKind.NODE_DOWN, node, 0)
        for job in self.in_state(State.RUNNING):
            assert job.placement is not None
            if node in job.placement:
                self.stop(job)
                self.lose_work(job)
                self.wait(job)
                self.record(EventKind.KILL, job.index, node)

    def node_up(self, node: int) -> None:
        self.state.nodes[node].up = True
        self.record(EventKind.NODE_UP, node, 0)

    # Rank

    def rank(self, job: Job) -> Rank:
        """Level and key as they were when the pass began; the group key as it is now."""
        level, key = self.ranks[job.index]
        return (self.group_key(job.ask.tenant), level, key, job.index)

    def group_key(self, tenant: str) -> float:
        if self.policy.group == "usage":
            usage = self.usage.get(tenant)
            return 0.0 if usage is None else usage.at(self.now) / self.state.weight(tenant)
        if self.policy.group == "guarantee":
            guarantee = self.guarantees[tenant]
            return self.state.held_by(tenant).gpu_milli / guarantee if guarantee else math.inf
        if self.policy.group == "dominant share":
            return dominant_share(self.state, tenant) / self.state.weight(tenant)
        return 0.0

    def note_usage(self, tenant: str) -> None:
        usage = self.usage.setdefault(tenant, Usage(self.policy.half_life_s, since_s=self.now))
        usage.change(self.now, self.state.held_by(tenant).gpu_milli / WHOLE)

    # The pass

    def decide(self) -> None:
        """Walk the jobs that wait, in rank order, including those that this walk suspends."""
        self.started_in_pass = set()
        self.ranks = {
            job.index: (self.policy.level(job, self.rank_time()), self.policy.key(job, self.rank_time()))
            for job in [*self.in_state(State.WAITING), *self.in_state(State.RUNNING)]
        }
        if self.policy.queues:
            decide_by_queues(self)
            return
        walked: set[int] = set()
        reservation: Reservation | None = None
        while ahead := [job for job in self.in_state(State.WAITING) if job.index not in walked]:
            job = min(ahead, key=self.rank)
            walked.add(job.index)
            if reservation is not None:
                self.backfill(job, reservation)
                continue
            placement = self.fit(self.state, job)
            if placement is not None:
                self.start(job, placement)
            elif self.policy.preempt and self.displace_for(job):
                pass
            elif self.policy.strict:
                return
            elif self.policy.easy:
                reservation = self.reserve(job)

    def rank_time(self) -> float:
        """With a quantum, ranks are those of its last tick, unless the policy itself says when they change."""
        quantum = self.policy.quantum
        if not quantum or not self.policy.preempt or self.policy.has_timers:
            return self.now
        return math.floor(self.now / quantum) * quantum

    def fit(self, state: ClusterState, job: Job) -> Placement | None:
        if not state.quota_allows(job.ask):
            return None
        return self.find_place(state, job, job.ask)

    def find_place(self, state: ClusterState, job: Job, ask: Ask) -> Placement | None:
        def draw(i: int, count: int) -> int:
            return math.floor(self.draw(job, job.starts, 2 + i) * count)

        asks = [other.ask for other in self.jobs]
        return place(self.placer, self.placer_params, state, ask, asks, draw)

    def displace_for(self, job: Job) -> bool:
        """Release the running jobs that rank below this one, lowest first, until it fits; did it start?"""
        trial = self.state.copy()
        released: list[Job] = []
        for victim in self.lowest_first(self.running_below(job)):
            assert victim.placement is not None
            trial.give_back(victim.ask, victim.placement)
            released.append(victim)
            placement = self.fit(trial, job)
            if placement is not None:
                trial.take(job.ask, placement)
                for loser in self.losers(trial, released):
                    self.suspend(loser)
                self.start(job, placement)
                return True
        return False

    def running_below(self, job: Job) -> list[Job]:
        """What this pass started stays: only group keys, which each start changes, could rank it lower."""
        mine = self.rank(job)
        return [
            other
            for other in self.in_state(State.RUNNING)
            if self.rank(other) > mine and other.preemptible and other.index not in self.started_in_pass
        ]

    def lowest_first(self, jobs: Iterable[Job]) -> list[Job]:
        return sorted(jobs, key=self.rank, reverse=True)

    def losers(self, trial: ClusterState, released: list[Job]) -> list[Job]:
        """Of the released jobs, best rank first, those whose place is not free any more. The rest return."""
        losers = []
        for job in sorted(released, key=self.rank):
            assert job.placement is not None
            if trial.quota_allows(job.ask) and trial.is_free(job.ask, job.placement):
                trial.take(job.ask, job.placement)
            else:
                losers.append(job)
        return losers

    # EASY backfilling

    def reserve(self, head: Job) -> Reservation:
        """When the first job that does not fit is expected to fit, and what is free then."""
        shadow = self.state.copy()
        ends = sorted((self.expected_end(job), job.index) for job in self.in_state(State.RUNNING))
        for end_s, index in ends:
            job = self.jobs[index]
            assert job.placement is not None
            shadow.give_back(job.ask, job.placement)
            if self.fit(shadow, head) is not None:
                return Reservation(head, end_s, shadow)
        return Reservation(head, math.inf, shadow)

    def expected_end(self, job: Job) -> float:
        return max(self.now, job.work_from_s + self.expected_run(job, job.rate))

    def expected_run(self, job: Job, rate: float) -> float:
        """How long the job, as it stood at its start, is thought to run from there."""
        if self.policy.estimate in ("given", "predicted") and job.estimate_s is not None:
            return job.estimate_s
        return job.remaining_s

    def backfill(self, job: Job, reservation: Reservation) -> None:
        """Start the job if it fits now and does not delay the reserved start."""
        placement = self.fit(self.state, job)
        if placement is None:
            return
        end_s = self.now + self.start_cost(job) + self.expected_run(job, self.rate_at(placement))
        if end_s <= reservation.shadow_s:
            self.start(job, placement)
            return
        shadow = reservation.shadow.copy()
        shadow.take(job.ask, placement)
        if self.fit(shadow, reservation.head) is not None:
            reservation.shadow = shadow
            self.start(job, placement)
