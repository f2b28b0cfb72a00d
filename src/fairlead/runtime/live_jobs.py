"""Jobs of a live run: what each asked for, where it stands, and both as the columns that the core runs on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from fairlead.kernels.columns import (
    I4,
    WHOLE,
)
from fairlead.model.cluster import ClusterSpec
from fairlead.state.cluster import gpu_types, topology_levels
from fairlead.state.jobs import NO_SUCH_LEVEL, NO_SUCH_TYPE, JobInput

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
    preemptible: bool = True  #: False: once it runs, no policy takes its GPUs
    num_nodes: int = 0  #: exactly so many, an equal part of `gpus` on each; 0: as the placer likes
    topology: str = ""  #: the level inside one domain of which it must be: "node" or one of the cluster's

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
            self.preemptible,
            self.num_nodes,
            self.topology,
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


def job_columns(jobs: Sequence[LiveJob], spec: ClusterSpec, tenants: Sequence[str], capacity: int) -> JobInput:
    """The jobs as columns, with room for `capacity` of them in all: rows that are not used yet look like the first job and
    never arrive. A column that no job makes use of is left out, since the core is faster without it."""
    rows = [*jobs, *[jobs[0] if jobs else LiveJob("", 0.0, 1, tenant=tenants[0])] * (capacity - len(jobs))]
    number = {name: i for i, name in enumerate(gpu_types(spec))}
    levels = topology_levels(spec)
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
        preemptible=column(lambda job: job.preemptible, np.int8, 1),
        num_nodes=column(lambda job: job.num_nodes, np.int32, 0),
        topology=column(lambda job: levels.get(job.topology, NO_SUCH_LEVEL) if job.topology else -1, np.int32, -1),
    )
