"""What a planner may see: the state, read-only, by the words people use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fairlead.kernels.columns import (
    C_FIXED,
    C_SHAPE,
    C_TENANT,
    G_NEXT,
    G_ROWS,
    K_CLASS,
    K_LEAST,
    K_MOST,
    K_PREEMPTS,
    K_STATE,
    N_CAP,
    N_CPU,
    N_FREE,
    N_GPU0,
    N_MEM,
    N_TYPE,
    N_UP,
    N_WORD0,
    R_QUOTAS,
    R_SHARES,
    RUNNING,
    S_CPU,
    S_GPUS,
    S_MEM,
    S_MILLI,
    S_SPLIT,
    S_TYPE,
    S_WITHIN,
    T_HELD,
    T_QUOTA,
    U_FREE,
    U_NODE,
    WAITING,
    WHOLE,
    Cluster,
    Jobs,
    Queue,
)
from fairlead.kernels.ranks import job_row_from_python
from fairlead.model.cluster import ClusterSpec
from fairlead.state.state import State


@dataclass(frozen=True, slots=True)
class JobView:
    job: int
    gpus: int  #: 0 for a CPU job, which is placed on a node n as the id -1 - n
    share_milli: int  #: of each GPU; below 1000 for a share
    cpu_milli: int  #: of the whole job, as is memory
    memory_mib: int
    gpu_type: int  #: the cluster's number of the type it needs (NodeView.gpu_type), -1 for any
    tenant: str  #: "" for nobody's
    submit_s: float
    duration_s: float
    estimate_s: float
    remaining_s: float
    ran_s: float
    priority: int
    preemptions: int
    gpu_ids: tuple[int, ...]  #: what it holds, () while it waits
    held_milli: int  #: of each of them, 0 while it waits; below share_milli where a planner packed it
    min_gpus: int  #: it may be given this many to max_gpus; both are `gpus` where it is not elastic
    max_gpus: int
    preemptible: bool  #: False: once it runs, it may neither be suspended nor moved
    num_nodes: int  #: exactly so many, an equal part on each; 0: as the planner likes
    topology: str  #: the level inside one domain of which it must be, "" for none


@dataclass(frozen=True, slots=True)
class NodeView:
    node: int
    gpus: int
    gpu_type: int
    up: bool
    free_ids: tuple[int, ...]  #: wholly free GPUs; () while the node is down
    free_cpu_milli: int  #: a very large number where the node does not state its CPU, as is memory
    free_memory_mib: int


class View:
    """A read-only look at the state at one moment. Jobs come in order of submission, nodes in the cluster's order."""

    def __init__(self, state: State, now: float) -> None:
        self._state = state
        self.now = now

    @property
    def cluster(self) -> ClusterSpec:
        return self._state.spec

    @property
    def jobs_in_all(self) -> int:
        return len(self._state.input)

    @property
    def tenant_names(self) -> tuple[str, ...]:
        """By the number that classes and tenants' columns know them by."""
        return self._state.input.tenant_names or ("",)

    def columns(self) -> tuple[Cluster, Jobs, Queue]:
        """The state as compiled planners see it, to be read only."""
        return self._state.cluster, self._state.jobs, self._state.queue

    def own_class(self, job: int) -> int:
        """The class of what the job asked for, whatever it runs as."""
        return self._state.own_class(job)

    def happened(self, since: int) -> Iterator[tuple[int, int]]:
        """(kind, job or node) of each row of the journal from row `since` on; kinds are EventKind's."""
        what = self._state.log.what
        for row in range(since, int(self._state.counter[G_ROWS])):
            yield int(what[0, row]), int(what[1, row])

    def waiting(self) -> Iterator[JobView]:
        return self._jobs(WAITING)

    def running(self) -> Iterator[JobView]:
        return self._jobs(RUNNING)

    def _jobs(self, status: int) -> Iterator[JobView]:
        states = self._state.jobs.ints[K_STATE, : self._state.counter[G_NEXT]]
        for job in (states == status).nonzero()[0].tolist():
            yield self.job(job)

    def job(self, job: int) -> JobView:
        s = self._state
        row = job_row_from_python(s.cluster, s.jobs, s.queue, job, self.now)
        running = s.jobs.ints[K_STATE, job] == RUNNING
        asks, has = (
            s.cluster.shape[:, s.queue.classes[C_SHAPE, k]] for k in (s.own_class(job), s.jobs.ints[K_CLASS, job])
        )
        least, most = (int(s.jobs.ints[bound, job]) or int(asks[S_GPUS]) for bound in (K_LEAST, K_MOST))
        return JobView(
            job=job,
            gpus=int(asks[S_GPUS]),
            share_milli=int(asks[S_MILLI]),
            cpu_milli=int(asks[S_CPU]),
            memory_mib=int(asks[S_MEM]),
            gpu_type=int(asks[S_TYPE]),
            tenant="" if s.input.tenant is None else s.input.tenant_names[s.input.tenant[job]],
            submit_s=float(row.submit_s),
            duration_s=float(row.duration_s),
            estimate_s=float(row.estimate_s),
            remaining_s=float(row.remaining_s),
            ran_s=float(row.ran_s),
            priority=int(row.priority),
            preemptions=int(s.jobs.ints[K_PREEMPTS, job]),
            gpu_ids=s.gpus_of(job) if running else (),
            held_milli=int(has[S_MILLI]) if running and asks[S_GPUS] else 0,
            min_gpus=least,
            max_gpus=most,
            preemptible=not s.queue.classes[C_FIXED, s.own_class(job)],
            num_nodes=int(asks[S_SPLIT]),
            topology=self._level(int(asks[S_WITHIN])),
        )

    def _level(self, out: int) -> str:
        """The name of the level that is so far out from the node."""
        names = ("node", *reversed(self._state.spec.levels))
        return names[out] if 0 <= out < len(names) else ""

    def nodes(self) -> Iterator[NodeView]:
        c = self._state.cluster
        for n in range(c.node.shape[1]):
            first, cap, up = int(c.node[N_GPU0, n]), int(c.node[N_CAP, n]), bool(c.node[N_UP, n])
            yield NodeView(
                node=n,
                gpus=cap,
                gpu_type=int(c.node[N_TYPE, n]),
                up=up,
                free_ids=tuple(g for g in range(first, first + cap) if up and self.is_free(g)),
                free_cpu_milli=int(c.node[N_CPU, n]),
                free_memory_mib=int(c.node[N_MEM, n]),
            )

    def is_free(self, gpu: int) -> bool:
        """Whether nobody holds any of a GPU."""
        c = self._state.cluster
        n = int(c.gpu[U_NODE, gpu])
        local = gpu - int(c.node[N_GPU0, n])
        return bool((int(c.cells[int(c.node[N_WORD0, n]) + (local >> 5)]) >> (local & 31)) & 1)

    def free_milli(self, gpu: int) -> int:
        """How much of a GPU is free, whether its node is up or not."""
        if self._state.counter[R_SHARES]:
            return int(self._state.cluster.gpu[U_FREE, gpu])
        return WHOLE if self.is_free(gpu) else 0

    def free_gpus(self) -> int:
        c = self._state.cluster
        return int((c.node[N_FREE] * c.node[N_UP]).sum())

    def within_quota(self, job: int, as_class: int = -1) -> bool:
        """Whether the job's tenant may hold what the job asks for (or a job of `as_class` does) beside what it holds now."""
        s = self._state
        if not s.counter[R_QUOTAS]:
            return True
        k = s.own_class(job) if as_class < 0 else as_class
        shape, tenant = int(s.queue.classes[C_SHAPE, k]), int(s.queue.classes[C_TENANT, k])
        held, quota = s.queue.tenants[[T_HELD, T_QUOTA], tenant].tolist()
        return bool(quota < 0 or held + s.cluster.shape[S_GPUS, shape] * s.cluster.shape[S_MILLI, shape] <= quota)


__all__ = ["JobView", "NodeView", "View"]
