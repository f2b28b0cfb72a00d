"""Jobs of a live run: what each asked for, where it stands, and both as the columns that the core runs on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import numpy as np

from fairlead.kernels.columns import (
    I4,
    WHOLE,
)
from fairlead.model.cluster import ClusterSpec
from fairlead.state.cluster import gpu_types
from fairlead.state.jobs import NO_SUCH_TYPE, JobInput
from fairlead.state.rules import Rates

#: how long a job is thought to run of which nobody has said anything
UNKNOWN_S = 24 * 3600.0


class Status(StrEnum):
    NEW = "new"  #: submitted, and not looked at yet
    WAITING = "waiting"
    RUNNING = "running"
    HELD = "held"


@dataclass(frozen=True, slots=True)
class LiveJob:
    """What was asked for. `duration_s` is what it is thought to take, None where nobody said."""

    id: str
    submit_s: float
    gpus: int
    duration_s: float | None = None
    share_milli: int = WHOLE
    cpu_milli: int = 0
    memory_mib: int = 0
    gpu_type: str = ""
    tenant: str = ""
    priority: int = 0
    gpu_memory_gib: float = 0.0
    min_gpus: int = 0
    max_gpus: int = 0
    profile: str = ""  #: which of the core's profiles tells how fast it runs where

    def kind(self) -> tuple[Any, ...]:
        """Jobs of one kind wait together: everything that a class of the core can tell apart."""
        return (
            self.gpus,
            self.share_milli,
            self.cpu_milli,
            self.memory_mib,
            self.gpu_type,
            self.tenant,
            self.priority,
            self.min_gpus,
            self.max_gpus,
            self.profile,
        )


#: what the planner of a policy knows that can't be told from where jobs stand: the policy's name, and numbers
Memo = tuple[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a job stands at some moment: enough to go on with it in another core."""

    status: Status = Status.NEW
    gpu_ids: tuple[int, ...] = ()  #: running: what it holds
    since_s: float = 0.0  #: running: since when, this time; waiting: since when
    first_start_s: float | None = None
    starts: int = 0  #: the present run included
    preemptions: int = 0
    ran_s: float = 0.0  #: in runs before this one
    done_s: float = 0.0  #: of its work, in runs before this one
    held_s: float = 0.0
    milli: int = 0  #: running: of each of its GPUs; 0: what it asked for
    #: running: from when on progress counts that is not in ran_s and done_s; None: from its start, once the cost of that is over
    counted_s: float | None = None
    memo: Memo | None = None


class Profiles(Protocol):
    """How fast jobs run where, by name; `sim.profiles.Profiles` is one."""

    @property
    def by_name(self) -> Mapping[str, object]: ...

    def rates(self, spec: ClusterSpec, most_gpus: int = 1) -> Rates: ...


class NoProfiles:
    """Jobs run at the speed of their GPUs, get their even share of one that they share, and use all of it."""

    by_name: Mapping[str, object] = {}

    def rates(self, spec: ClusterSpec, most_gpus: int = 1) -> Rates:
        return Rates(
            speed=np.array([[spec.speeds.get(kind, 1.0) for kind in gpu_types(spec)]]),
            locality=np.ones((1, len(spec.levels) + 2)),
            sharing=np.ones((1, 2)),
            packed=np.array([[1.0, 0.5]]),
            scale=np.arange(1.0, most_gpus + 1.0).reshape(1, -1),
        )


def most_gpus(jobs: Sequence[LiveJob]) -> int:
    """The largest number of GPUs that a job asks for or may be given."""
    return max([1, *(max(job.gpus, job.max_gpus) for job in jobs)])


def job_columns(
    jobs: Sequence[LiveJob], spec: ClusterSpec, tenants: Sequence[str], capacity: int, profiles: Profiles
) -> JobInput:
    """The jobs as columns, with room for `capacity` of them in all: rows that are not used yet look like the first job and
    never arrive. A column that no job makes use of is left out, since the core is faster without it."""
    rows = [*jobs, *[jobs[0] if jobs else LiveJob("", 0.0, 1, tenant=tenants[0])] * (capacity - len(jobs))]
    number = {name: i for i, name in enumerate(gpu_types(spec))}
    of_profile = {name: i + 1 for i, name in enumerate(profiles.by_name)}
    of_tenant = {name: i for i, name in enumerate(tenants)}

    def column(read: Callable[[LiveJob], int | float], kind: Any, usual: float) -> Any:
        values = np.array([read(job) for job in rows], kind)
        return None if bool((values == usual).all()) else values

    submit = np.full(capacity, math.inf)
    submit[: len(jobs)] = [job.submit_s for job in jobs]
    types: I4 | None = column(lambda job: number.get(job.gpu_type, NO_SUCH_TYPE) if job.gpu_type else -1, np.int32, -1)
    return JobInput(
        submit_s=submit,
        duration_s=np.array([UNKNOWN_S if job.duration_s is None else job.duration_s for job in rows], np.float64),
        gpus=np.array([job.gpus for job in rows], np.int32),
        share_milli=column(lambda job: job.share_milli, np.int32, WHOLE),
        cpu_milli=column(lambda job: job.cpu_milli, np.int64, 0),
        memory_mib=column(lambda job: job.memory_mib, np.int64, 0),
        gpu_type=types,
        tenant=np.array([of_tenant[job.tenant] for job in rows], np.int32),
        tenant_names=tuple(tenants),
        priority=np.array([job.priority for job in rows], np.int32),
        gpu_memory_gib=column(lambda job: job.gpu_memory_gib, np.float64, 0.0),
        min_gpus=column(lambda job: job.min_gpus, np.int32, 0),
        max_gpus=column(lambda job: job.max_gpus, np.int32, 0),
        profile=column(lambda job: of_profile.get(job.profile, 0), np.int32, 0),
    )
