"""Jobs of a live run: what each asked for, where it stands, and both as the columns that the core runs on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any, Protocol

import numpy as np

from fairlead.kernels.columns import (
    F8,
    I4,
    WHOLE,
)
from fairlead.model.cluster import ClusterSpec
from fairlead.state.cluster import gpu_types, topology_levels
from fairlead.state.jobs import NO_SUCH_LEVEL, NO_SUCH_TYPE, JobInput
from fairlead.state.rules import Options, Rates

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
    preemptible: bool = True  #: False: once it runs, no policy takes its GPUs
    num_nodes: int = 0  #: exactly so many, an equal part of `gpus` on each; 0: as the placer likes
    topology: str = ""  #: the level inside one domain of which it must be: "node" or one of the cluster's

    def kind(self) -> KindOf:
        """Jobs of one kind wait together: everything that a class of the core can tell apart."""
        return _kind_of(self)


#: gpus, share_milli, cpu_milli, memory_mib, gpu_type, tenant, priority, min_gpus, max_gpus, profile, and the last three of a job
KindOf = tuple[int, int, int, int, str, str, int, int, int, str, bool, int, str]
_KIND = ("gpus", "share_milli", "cpu_milli", "memory_mib", "gpu_type", "tenant", "priority", "min_gpus", "max_gpus")
_kind_of: Callable[[LiveJob], KindOf] = attrgetter(*_KIND, "profile", "preemptible", "num_nodes", "topology")


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


@dataclass(frozen=True)
class Costs:
    """What starting takes where jobs run for real, in seconds until their processes are there: meanwhile nobody is served."""

    start_s: float = 0.0
    resume_s: float = 0.0

    def options(self) -> Options:
        return Options(start_cost_s=self.start_s, resume_cost_s=self.resume_s)


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


def sort_into_kinds(jobs: Sequence[LiveJob]) -> tuple[list[KindOf], I4]:
    """The kinds in order of first appearance, and the number of each job's. A queue of ten thousand has few kinds, so what
    is worked out per kind costs next to nothing."""
    number: dict[KindOf, int] = {}
    codes = [number.setdefault(kind, len(number)) for kind in map(_kind_of, jobs)]
    return list(number), np.array(codes, np.int32)


def most_gpus(kinds: Sequence[KindOf]) -> int:
    """The largest number of GPUs that a job asks for or may be given."""
    return max([1, *(max(kind[0], kind[8]) for kind in kinds)])


def job_columns(
    jobs: Sequence[LiveJob],
    kinds: Sequence[KindOf],
    kind_of: I4,
    spec: ClusterSpec,
    tenants: Sequence[str],
    capacity: int,
    profiles: Profiles,
) -> JobInput:
    """The jobs as columns, with room for `capacity` of them in all: rows that are not used yet look like the first job and
    never arrive. A column that no job makes use of is left out, since the core is faster without it. `kinds` and `kind_of` as
    `sort_into_kinds` gives them."""
    kinds = kinds or [LiveJob("", 0.0, 1, tenant=tenants[0]).kind()]
    gpus, shares, cpus, memory, types, owners, priorities, least, most, names, *rest = zip(*kinds, strict=True)
    yielding, nodes, inside = rest
    codes = np.zeros(capacity, np.int32)
    codes[: len(jobs)] = kind_of
    number = {name: i for i, name in enumerate(gpu_types(spec))}
    of_profile = {name: i + 1 for i, name in enumerate(profiles.by_name)}
    levels = topology_levels(spec)
    of_tenant = {name: i for i, name in enumerate(tenants)}

    def column(values: Sequence[int], kind: Any, usual: int | None = None) -> Any:
        table = np.array(values, kind)
        return None if usual is not None and bool((table == usual).all()) else table[codes]

    def padded(values: list[float], rest: float) -> F8:
        return np.array(values + [rest] * (capacity - len(values)), np.float64)

    lengths = [UNKNOWN_S if job.duration_s is None else job.duration_s for job in jobs]
    gib = [job.gpu_memory_gib for job in jobs]
    return JobInput(
        submit_s=padded([job.submit_s for job in jobs], math.inf),
        duration_s=padded(lengths, lengths[0] if lengths else UNKNOWN_S),
        gpus=column(gpus, np.int32),
        share_milli=column(shares, np.int32, WHOLE),
        cpu_milli=column(cpus, np.int64, 0),
        memory_mib=column(memory, np.int64, 0),
        gpu_type=column([number.get(name, NO_SUCH_TYPE) if name else -1 for name in types], np.int32, -1),
        tenant=column([of_tenant[name] for name in owners], np.int32),
        tenant_names=tuple(tenants),
        priority=column(priorities, np.int32),
        gpu_memory_gib=padded(gib, gib[0]) if any(gib) else None,
        min_gpus=column(least, np.int32, 0),
        max_gpus=column(most, np.int32, 0),
        profile=column([of_profile.get(name, 0) for name in names], np.int32, 0),
        preemptible=column(yielding, np.int8, 1),
        num_nodes=column(nodes, np.int32, 0),
        topology=column([levels.get(name, NO_SUCH_LEVEL) if name else -1 for name in inside], np.int32, -1),
    )
