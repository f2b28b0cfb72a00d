"""Jobs of a live run: what each asked for, where it stands, and both as the columns that the core runs on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any

import numpy as np

from fairlead.kernels.columns import (
    F8,
    I4,
    WHOLE,
)
from fairlead.model.cluster import ClusterSpec
from fairlead.state.cluster import gpu_types
from fairlead.state.jobs import NO_SUCH_TYPE, JobInput

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

    def kind(self) -> Kind:
        """Jobs of one kind wait together: everything that a class of the core can tell apart."""
        return _kind_of(self)


#: gpus, share_milli, cpu_milli, memory_mib, gpu_type, tenant, priority, min_gpus, max_gpus
Kind = tuple[int, int, int, int, str, str, int, int, int]
_kind_of: Callable[[LiveJob], Kind] = attrgetter(
    "gpus", "share_milli", "cpu_milli", "memory_mib", "gpu_type", "tenant", "priority", "min_gpus", "max_gpus"
)


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


def sort_into_kinds(jobs: Sequence[LiveJob]) -> tuple[list[Kind], I4]:
    """The kinds in order of first appearance, and the number of each job's. A queue of ten thousand has few kinds, so what
    is worked out per kind costs next to nothing."""
    number: dict[Kind, int] = {}
    codes = [number.setdefault(kind, len(number)) for kind in map(_kind_of, jobs)]
    return list(number), np.array(codes, np.int32)


def job_columns(
    jobs: Sequence[LiveJob],
    spec: ClusterSpec,
    tenants: Sequence[str],
    capacity: int,
    kinds: tuple[Sequence[Kind], I4] | None = None,
) -> JobInput:
    """The jobs as columns, with room for `capacity` of them in all: rows that are not used yet look like the first job and
    never arrive. A column that no job makes use of is left out, since the core is faster without it. `kinds`: as
    `sort_into_kinds` gives them, where that has been done already."""
    names, codes = kinds or sort_into_kinds(jobs)
    if not jobs:
        names = [LiveJob("", 0.0, 1, tenant=tenants[0]).kind()]
    gpus, shares, cpus, memory, types, owners, priorities, least, most = zip(*names, strict=True)
    kind_of = np.zeros(capacity, np.int32)
    kind_of[: len(jobs)] = codes
    number = {name: i for i, name in enumerate(gpu_types(spec))}
    of_tenant = {name: i for i, name in enumerate(tenants)}

    def column(values: Sequence[int], kind: Any, usual: int | None = None) -> Any:
        table = np.array(values, kind)
        return None if usual is not None and bool((table == usual).all()) else table[kind_of]

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
    )
