"""What the scheduler tells, as it is handed to callers. Times are seconds since 1970; None is not yet, or not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: a job in one of these will not change any more
ENDED = ("done", "failed", "cancelled", "refused", "lost")


@dataclass(frozen=True, slots=True)
class Place:
    """GPUs of one node. `milli` below 1000 is a share of the one GPU."""

    node: str
    gpus: tuple[int, ...] = ()
    milli: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    id: str
    name: str
    user: str
    tenant: str
    state: str  #: blocked, waiting, running, suspended, held; or one of `ENDED`
    reason: str = ""
    message: str = ""  #: why, in a sentence
    gpus: int
    priority: int = 0
    submit_s: float
    first_start_s: float | None = None
    started_s: float | None = None  #: of the present run, or the last
    finished_s: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    run: int = 0
    preemptions: int = 0
    suspension: str = ""
    places: tuple[Place, ...] = ()
    ran_s: float = 0.0  #: all its runs together, up to now
    array_id: str | None = None
    array_index: int | None = None
    expected_start_s: float | None = None  #: only where `expect` asked for it
    expected_finish_s: float | None = None
    spec: Mapping[str, Any] | None = None  #: what was submitted, where this token may see it; of one job only

    @property
    def ended(self) -> bool:
        return self.finished_s is not None or self.state in ENDED

    @property
    def ok(self) -> bool:
        return self.state == "done"

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(place.node for place in self.places)

    @property
    def shell_code(self) -> int:
        """What a shell would give for it: its own exit code, 128 and the signal that ended it, 1 where it never ran."""
        if self.ok:
            return self.exit_code or 0
        if self.signal:
            return 128 + self.signal
        return self.exit_code or 1


@dataclass(frozen=True, slots=True)
class JobPage:
    jobs: tuple[Job, ...]
    next: str | None = None  #: the cursor of the page behind it


@dataclass(frozen=True, slots=True)
class Submitted:
    jobs: tuple[str, ...]
    array_id: str | None = None
    duplicate: bool = False  #: the same key was used before: these are the jobs of then

    @property
    def id(self) -> str:
        """What stands for all of it in other calls."""
        return self.array_id or self.jobs[0]


@dataclass(frozen=True, slots=True)
class DryRun:
    """What would become of a job that was not submitted."""

    fits: bool
    reason: str = ""
    expected_start_s: float | None = None
    expected_finish_s: float | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    job: str
    state: str
    reason: str = ""
    message: str = ""
    expected_start_s: float | None = None
    expected_finish_s: float | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """A row of the journal. `seq` is its number: what comes later has a larger one."""

    seq: int
    kind: str
    time_s: float
    job: str | None = None
    run: int = 0
    args: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_end(self) -> bool:
        """The last one of its job."""
        return self.kind == "end" and self.job is not None


@dataclass(frozen=True, slots=True)
class EventPage:
    events: tuple[Event, ...]
    last: int = 0  #: the number of the journal's last row


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    name: str
    state: str = "up"  #: up, drained or down
    gpus: int
    gpu_type: str = ""
    gpus_used: float = 0.0
    gpu_memory_mib: int | None = None
    cpus: float | None = None
    memory_mib: int | None = None
    path: tuple[str, ...] = ()  #: the domains around it, outermost first
    running: int = 0  #: how many jobs have GPUs here
    jobs: tuple[str, ...] = ()  #: those of them that this token may see
    drained_s: float | None = None
    drained_by: str = ""
    drain_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    name: str
    quota_gpus: int | None = None
    weight: float = 1.0
    gpus_used: float = 0.0
    usage_gpu_s: float = 0.0
    jobs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Policy:
    policy: str
    placer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Totals: what `fairlead top` shows above its tables."""

    gpus: int
    gpus_used: float
    nodes: int
    nodes_up: int = 0
    jobs: Mapping[str, int] = field(default_factory=dict)  #: by state
    tenants: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  #: by tenant, then state
    policy: str
    placer: str
    version: str = ""
    started_s: float | None = None
    now_s: float | None = None
    last_event: int = 0
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Of the jobs at hand, seconds."""

    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfRow:
    """What would become of the jobs at hand under one policy, with more nodes or with fewer."""

    policy: str
    placer: str
    add_nodes: str = ""
    remove_nodes: tuple[str, ...] = ()
    error: str = ""  #: why this can't be tried
    jobs: int = 0  #: that wait or run; without what a person holds back
    finished: int = 0  #: of them, expected to end within a year
    never: int = 0  #: of them, can't run as things are
    assumed: int = 0  #: of them, nobody has said how long they take
    wait_s: Spread = field(default_factory=Spread)  #: from now on
    jct_s: Spread = field(default_factory=Spread)  #: from submission to end
    last_end_s: float | None = None
    gpu_utilization: float | None = None
    preemptions: int = 0
    tenant_wait_s: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What is known of a token; the token itself is nowhere."""

    id: str
    user: str
    role: str
    label: str = ""
    created_s: float
    expires_s: float | None = None
    revoked_s: float | None = None
    used_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken(Token):
    token: str = field(repr=False)  #: the token itself, which nobody sees again


@dataclass(frozen=True, slots=True)
class Me:
    user: str
    role: str
    tenant: str = ""
