"""Who goes first: the table of `docs/semantics.md`, a row at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from .cluster import WHOLE, ClusterState
from .job import Job, State

Key = Callable[[Job, float], float]


def by_submission(job: Job, now: float) -> float:
    return job.submit_s


@dataclass(frozen=True)
class Policy:
    """A queue policy: rank = (group key, level, key, index), smallest first."""

    key: Key = by_submission
    level: Key = lambda job, now: 0
    group: str | None = None  #: what tenants are compared by: "usage", "dominant share" or "guarantee"
    queues: bool = False  #: each tenant has a queue of its own
    borrows: bool = False
    strict: bool = False
    preempt: bool = False
    quantum: float | None = None
    easy: bool = False
    estimate: str = "given"
    model: str = "mean"  #: of predicted estimates
    window: int = 10
    half_life_s: float = 604800.0
    wake_s: Callable[[Job, float], float] = lambda job, now: math.inf
    """When the job's rank changes by itself, if nothing happens to it before; later than now."""
    promote: Callable[[Job, float], None] = lambda job, now: None
    has_timers: bool = False
    """What the policy does to a waiting job at an instant, before the pass."""


POLICIES: dict[str, Policy] = {
    "fifo": Policy(strict=True),
    "fifo-backfill": Policy(),
    "easy-backfill": Policy(easy=True),
    "sjf": Policy(key=lambda job, now: job.duration_s, estimate="actual"),
    "quota": Policy(queues=True, strict=True),
    "yarn-cs": Policy(queues=True, borrows=True, group="guarantee", strict=True, preempt=True),
    "srtf": Policy(key=lambda job, now: job.remaining_at(now), preempt=True),
    "srsf": Policy(key=lambda job, now: job.remaining_at(now) * job.gpus, preempt=True),
    "smallest-first": Policy(key=lambda job, now: job.gpus),
    "las": Policy(key=lambda job, now: job.ran_at(now) * job.gpus, preempt=True, quantum=3600.0),
    "priority": Policy(level=lambda job, now: -job.priority),
    "fair-share": Policy(group="usage"),
    "drf": Policy(group="dominant share"),
}


def make_policy(name: str, params: dict[str, Any]) -> Policy:
    """The policy with the parameters that any of them takes (strict, preempt, quantum) and its own."""
    if name == "sjf" and params.get("estimate") == "predicted":
        return replace(POLICIES[name], key=lambda job, now: job.estimate_s, **params)
    if name != "tiresias":
        return replace(POLICIES[name], **params)
    general = {key: value for key, value in params.items() if key in ("strict", "preempt", "quantum")}
    own = {key: value for key, value in params.items() if key not in general}
    return replace(Tiresias(**own).policy(), **general)


NEARLY = 1 - 1e-9  #: rounding must not hide that a job is there


@dataclass(frozen=True)
class Tiresias:
    """Queues by attained service (GPUs × seconds run); within one, who started first.

    A job that waits long for how much it has run goes back to the first queue and counts from 0 again.
    """

    thresholds: list[float] = field(default_factory=lambda: [3200.0])
    knob: float | None = None  #: None: no job is promoted
    gittins: bool = False

    def __post_init__(self) -> None:
        if self.gittins:
            raise NotImplementedError("the Gittins variant is checked elsewhere")

    def policy(self) -> Policy:
        return Policy(
            level=self.queue, key=first_start, preempt=True, wake_s=self.wake_s, promote=self.promote, has_timers=True
        )

    def queue(self, job: Job, now: float) -> int:
        service = (job.ran_at(now) - job.ran_at_reset_s) * job.gpus
        return sum(service >= threshold * NEARLY for threshold in self.thresholds)

    def wake_s(self, job: Job, now: float) -> float:
        return self.next_demotion_s(job, now) if job.state is State.RUNNING else self.promotion_s(job)

    def next_demotion_s(self, job: Job, now: float) -> float:
        queue = self.queue(job, now)
        if queue == len(self.thresholds) or job.gpus == 0:
            return math.inf
        service_at_start = (job.ran_s - job.ran_at_reset_s) * job.gpus
        return job.work_from_s + (sorted(self.thresholds)[queue] - service_at_start) / job.gpus

    def promotion_s(self, job: Job) -> float:
        ran = job.ran_s - job.ran_at_reset_s
        return job.waits_since_s + self.knob * ran if self.knob is not None and ran > 0 else math.inf

    def promote(self, job: Job, now: float) -> None:
        ran = job.ran_s - job.ran_at_reset_s
        if self.knob is None or ran <= 0:
            return
        if now - job.waits_since_s >= self.knob * ran * NEARLY:
            job.ran_at_reset_s = job.ran_s
            job.waits_since_s = now


def first_start(job: Job, now: float) -> float:
    return math.inf if math.isnan(job.first_start_s) else job.first_start_s


# Tenants


@dataclass
class Usage:
    """GPU-seconds of one tenant, old ones counting less: half as much after each half-life."""

    half_life_s: float
    gpu_seconds: float = 0.0
    gpus: float = 0.0  #: what the tenant has held since
    since_s: float = 0.0

    def at(self, now: float) -> float:
        decay = 2.0 ** (-(now - self.since_s) / self.half_life_s)
        return self.gpu_seconds * decay + self.gpus * (1 - decay) * self.half_life_s / math.log(2)

    def change(self, now: float, gpus: float) -> None:
        self.gpu_seconds, self.since_s, self.gpus = self.at(now), now, gpus


def dominant_share(state: ClusterState, tenant: str) -> float:
    """The largest part that the tenant holds of GPUs, or of CPU or memory where every node states them."""
    held = state.held_by(tenant)
    nodes = state.spec.nodes
    shares = [held.gpu_milli / (state.spec.gpus * WHOLE)] if state.spec.gpus else [0.0]
    cpus = [node.cpu_milli for node in nodes]
    if None not in cpus:
        shares.append(held.cpu_milli / max(1, sum(cpus)))
    memories = [node.memory_mib for node in nodes]
    if None not in memories:
        shares.append(held.memory_mib / max(1, sum(memories)))
    return max(shares)
