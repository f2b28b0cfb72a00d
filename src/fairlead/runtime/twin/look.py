"""What stands in a job's way at the present instant, in numbers, read off a twin that has just decided."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.kernels import parts
from fairlead.kernels.columns import (
    C_REASON,
    C_SHAPE,
    C_TENANT,
    I8,
    J_KEY,
    K_CLASS,
    K_LEVEL,
    K_STARTS,
    K_STATE,
    N_CAP,
    N_FREE,
    N_TYPE,
    N_UP,
    PASS,
    R_BORROWS,
    R_EASY,
    R_GATED,
    R_GROUPED,
    R_PLANNED,
    R_QUEUES,
    R_REACH,
    R_SEED,
    R_STRICT,
    RUNNING,
    S_BOUND,
    S_CPU,
    S_GPUS,
    S_MEM,
    S_MILLI,
    S_NODES,
    S_SPLIT,
    S_TYPE,
    S_WITHIN,
    T_GROUP,
    U_FREE,
    U_NODE,
    WAITING,
    WHOLE,
)
from fairlead.model.reason import Reason
from fairlead.runtime.live_jobs import LiveJob
from fairlead.runtime.twin.ahead import Ahead
from fairlead.state.state import State


@dataclass(frozen=True)
class Look:
    waits: bool  #: it does; else it has been started, or refused
    reason: Reason
    free_gpus: int  #: wholly free, of its GPU type, on nodes that take jobs
    all_gpus: int  #: of its GPU type
    most_on_a_node: int  #: of the free ones
    most_of_a_gpu: float  #: the largest free part of one
    closed_gpus: int  #: of its GPU type, on nodes that take no jobs
    fewest_nodes: int  #: that it must be on, 0 where the placer takes what it gets
    lacks_room: bool  #: it could be placed but for CPU or memory
    rank: int  #: its place in the queue, from 1; 0 where it does not wait
    queue: tuple[int, ...]  #: those that wait with it, by rank, itself included
    tenant_gpus: float  #: what its tenant holds
    limit_gpus: int | None  #: what its tenant may hold; None: no limit

    @property
    def ahead(self) -> tuple[int, ...]:
        return self.queue[: max(self.rank - 1, 0)]


def look_at(ahead: Ahead, i: int) -> Look:
    """As things are for job i after everything of the present instant has been decided."""
    state, job = ahead.state, ahead.moment.jobs[i][0]
    c = state.cluster
    s = _shape(state, i)
    node, kind = c.node, int(c.shape[S_TYPE, s])
    eligible = (node[N_TYPE] == kind) | (kind < 0)
    up = eligible & (node[N_UP] != 0)
    waits = int(state.jobs.ints[K_STATE, i]) == WAITING
    queue = _queue(state, i) if waits else ()
    held, limit = _held(state, job.tenant), _limit(ahead, job)
    free = int(node[N_FREE][up].sum())
    fits, lacks_room = _fits(ahead, i) if waits else (True, False)
    over = limit is not None and held + job.gpus * job.share_milli / WHOLE > limit
    return Look(
        waits=waits,
        reason=_reason(state, i, queue, fits=fits, over=over, enough=_enough(state, job, up, free)),
        free_gpus=free,
        all_gpus=int(node[N_CAP][eligible].sum()),
        most_on_a_node=int(node[N_FREE][up].max(initial=0)),
        most_of_a_gpu=float(c.gpu[U_FREE][up[c.gpu[U_NODE]]].max(initial=0)) / WHOLE,
        closed_gpus=int(node[N_CAP][eligible & ~up].sum()),
        fewest_nodes=_fewest_nodes(state, s, job),
        lacks_room=lacks_room,
        rank=queue.index(i) + 1 if waits else 0,
        queue=queue,
        tenant_gpus=held,
        limit_gpus=limit,
    )


def _shape(state: State, i: int) -> int:
    return int(state.queue.classes[C_SHAPE, state.own_class(i)])


def _fewest_nodes(state: State, s: int, job: LiveJob) -> int:
    """By what it says itself, else by what its placer wants."""
    c = state.cluster
    if c.shape[S_BOUND, s]:
        return 1 if c.shape[S_WITHIN, s] == 0 else int(c.shape[S_SPLIT, s])
    return int(c.shape[S_NODES, s]) if state.counter[R_GATED] and job.gpus > 1 else 0


def _queue(state: State, i: int) -> tuple[int, ...]:
    """Who waits with job i, in the order in which they are tried: all, or where each tenant has a queue, its tenant's."""
    q, ints = state.queue, state.jobs.ints
    waiting = np.flatnonzero(ints[K_STATE] == WAITING)
    tenant = q.classes[C_TENANT, ints[K_CLASS, waiting]]
    if state.counter[R_QUEUES]:
        own = tenant == q.classes[C_TENANT, ints[K_CLASS, i]]
        waiting, tenant = waiting[own], tenant[own]
    group = q.tenants[T_GROUP, tenant] if state.counter[R_GROUPED] else np.zeros(len(waiting))
    order = np.lexsort((waiting, state.jobs.floats[J_KEY, waiting], ints[K_LEVEL, waiting], group))
    return tuple(waiting[order].tolist())


def _held(state: State, tenant: str) -> float:
    """GPUs that a tenant's running jobs hold, parts as fractions."""
    jobs, ints = state.input, state.jobs.ints
    assert jobs.tenant is not None
    running = np.flatnonzero((ints[K_STATE] == RUNNING) & (jobs.tenant == jobs.tenant_names.index(tenant)))
    shape = state.cluster.shape[:, state.queue.classes[C_SHAPE, ints[K_CLASS, running]]]
    return float((shape[S_GPUS] * shape[S_MILLI]).sum()) / WHOLE


def _limit(ahead: Ahead, job: LiveJob) -> int | None:
    tenant = ahead.spec.tenants.get(job.tenant)
    if tenant is None or ahead.state.counter[R_BORROWS] or ahead.live.core.plugged.traits.own_quotas:
        return None
    return tenant.quota_gpus


def _fits(ahead: Ahead, i: int) -> tuple[bool, bool]:
    """Whether the placer finds a place for it now, and whether it would if nothing but GPUs were asked for."""
    state, plug = ahead.state, ahead.live.core.plugged.plug
    c, s = state.cluster, _shape(state, i)

    def placed() -> bool:
        if c.shape[S_BOUND, s]:
            return bool(parts.place_bound()(c, s, int(state.counter[R_REACH])) >= 0)
        return bool(plug.place(c, s, int(state.counter[R_SEED]), i, int(state.jobs.ints[K_STARTS, i]), plug.pp) >= 0)

    if placed():
        return True, False
    asked = c.shape[[S_CPU, S_MEM], s]
    c.shape[[S_CPU, S_MEM], s] = 0
    lacks_room = placed()
    c.shape[[S_CPU, S_MEM], s] = asked
    return False, lacks_room


def _enough(state: State, job: LiveJob, up: I8, free: int) -> bool:
    """Whether what it asks for is free somewhere, if not together."""
    if job.gpus == 0:
        return False
    if job.share_milli == WHOLE:
        return free >= job.gpus
    gpu = state.cluster.gpu
    return int(gpu[U_FREE][up[gpu[U_NODE]] != 0].sum()) >= job.share_milli


def _reason(state: State, i: int, queue: tuple[int, ...], *, fits: bool, over: bool, enough: bool) -> Reason:
    ever = Reason(int(state.queue.classes[C_REASON, state.own_class(i)]))
    if ever != Reason.NONE or not queue:
        return ever
    planned, strict = state.counter[R_PLANNED] != PASS, bool(state.counter[R_STRICT])
    if strict and not planned and queue[0] != i:
        return Reason.BEHIND_HEAD
    if over:
        return Reason.QUOTA_USED
    if not fits:
        return Reason.FRAGMENTED if enough else Reason.NOT_ENOUGH_FREE
    return Reason.RESERVED if state.counter[R_EASY] and not planned else Reason.PLANNED
