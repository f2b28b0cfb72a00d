"""What a planner may see: the state, read-only, by the words people use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fairlead.kernels.columns import (
    C_SHAPE,
    C_TENANT,
    G_NEXT,
    K_CLASS,
    K_PREEMPTS,
    K_STATE,
    N_CAP,
    N_FREE,
    N_GPU0,
    N_UP,
    N_WORD0,
    RUNNING,
    S_GPUS,
    S_MILLI,
    S_TYPE,
    U_NODE,
    WAITING,
)
from fairlead.kernels.ranks import job_row
from fairlead.state.state import State


@dataclass(frozen=True, slots=True)
class JobView:
    job: int
    gpus: int
    share_milli: int
    gpu_type: int  #: the cluster's number of the type it needs, -1 for any
    tenant: int
    submit_s: float
    duration_s: float
    estimate_s: float
    remaining_s: float
    ran_s: float
    priority: int
    preemptions: int
    gpu_ids: tuple[int, ...]  #: what it holds, () while it waits


@dataclass(frozen=True, slots=True)
class NodeView:
    node: int
    gpus: int
    free_ids: tuple[int, ...]  #: wholly free GPUs; () while the node is down
    up: bool


class View:
    """A read-only look at the state at one moment. Jobs come in order of submission, nodes in the cluster's order."""

    def __init__(self, state: State, now: float) -> None:
        self._state = state
        self.now = now

    @property
    def cluster(self):  # type: ignore[no-untyped-def]
        return self._state.spec

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
        row = job_row(s.cluster, s.jobs, s.queue, job, self.now)
        k = int(s.jobs.ints[K_CLASS, job])
        shape = int(s.queue.classes[C_SHAPE, k])
        return JobView(
            job=job,
            gpus=int(s.cluster.shape[S_GPUS, shape]),
            share_milli=int(s.cluster.shape[S_MILLI, shape]),
            gpu_type=int(s.cluster.shape[S_TYPE, shape]),
            tenant=int(s.queue.classes[C_TENANT, k]),
            submit_s=row.submit_s,
            duration_s=row.duration_s,
            estimate_s=row.estimate_s,
            remaining_s=row.remaining_s,
            ran_s=row.ran_s,
            priority=int(row.priority),
            preemptions=int(s.jobs.ints[K_PREEMPTS, job]),
            gpu_ids=s.gpus_of(job) if s.jobs.ints[K_STATE, job] == RUNNING else (),
        )

    def nodes(self) -> Iterator[NodeView]:
        c = self._state.cluster
        first = 0
        for n in range(c.node.shape[1]):
            cap, up = int(c.node[N_CAP, n]), bool(c.node[N_UP, n])
            free = tuple(g for g in range(first, first + cap) if up and self.is_free(g))
            yield NodeView(n, cap, free, up)
            first += cap

    def is_free(self, gpu: int) -> bool:
        """Whether a GPU is wholly free."""
        c = self._state.cluster
        n = int(c.gpu[U_NODE, gpu])
        local = gpu - int(c.node[N_GPU0, n])
        return bool((int(c.cells[int(c.node[N_WORD0, n]) + (local >> 5)]) >> (local & 31)) & 1)

    def free_gpus(self) -> int:
        c = self._state.cluster
        return int((c.node[N_FREE] * c.node[N_UP]).sum())


__all__ = ["JobView", "NodeView", "View"]
