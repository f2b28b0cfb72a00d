"""Who holds what just now, and how many jobs there are: what nodes, tenants, the cluster and the metrics are shown from."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairlead.model.cluster import TenantSpec
from fairlead.server.api.fresh import Fresh
from fairlead.server.jobs import FINAL, Job, State
from fairlead.server.metrics import Metrics, NodeGpus, TenantGpus
from fairlead.server.way import giving_way

if TYPE_CHECKING:
    from fairlead.server.scheduler import Scheduler


@dataclass(frozen=True)
class Picture:
    counts: Mapping[tuple[str, str], int]  #: by tenant and state
    on_node: Mapping[str, tuple[Job, ...]]  #: jobs that run there
    node_milli: Mapping[str, int]
    tenant_milli: Mapping[str, int]
    tenants: tuple[TenantSpec, ...]
    usage_gpu_s: Mapping[str, float]
    gpus_on: Mapping[str, frozenset[int]]  #: which of a node's GPUs somebody has
    largest_node: int  #: GPUs of the largest
    last_event: int  #: everything up to this row of the journal is in it

    @property
    def used_milli(self) -> int:
        return sum(self.node_milli.values())

    def by_state(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for (_, state), number in self.counts.items():
            found[state] += number
        return dict(sorted(found.items()))

    def by_tenant(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {tenant.name: {} for tenant in self.tenants}
        for (tenant, state), number in sorted(self.counts.items()):
            found.setdefault(tenant, {})[state] = number
        return found


class Pictures:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._fresh = Fresh(self._make, lambda: scheduler.last_event, 0.25, 2.0)

    async def latest(self, after: int = 0) -> Picture:
        """`after`: a row of the journal that it must know of."""
        return await self._fresh.get(after)

    async def _make(self) -> Picture:
        # a copy, since the scheduler goes on meanwhile
        running, last_event = (
            [job for job in self._scheduler.jobs.values() if job.is_running],
            self._scheduler.last_event,
        )
        return await asyncio.to_thread(self._drawn, running, last_event)

    def _drawn(self, running: list[Job], last_event: int) -> Picture:
        store = self._scheduler.store
        on_node: dict[str, list[Job]] = {}
        node_milli: Counter[str] = Counter()
        tenant_milli: Counter[str] = Counter()
        gpus_on: dict[str, set[int]] = {}
        for job in giving_way(running):
            for place in job.places:
                gpus_on.setdefault(place.node, set()).update(place.gpus)
                milli = len(place.gpus) * place.milli
                on_node.setdefault(place.node, []).append(job)
                node_milli[place.node] += milli
                tenant_milli[job.tenant] += milli
        known = {**self._scheduler.spec.tenants, **{one.name: one for one in store.standing.tenants()}}
        return Picture(
            counts=store.count_by_state(),
            on_node={node: tuple(jobs) for node, jobs in on_node.items()},
            node_milli=node_milli,
            tenant_milli=tenant_milli,
            tenants=tuple(known[name] for name in sorted(known)),
            usage_gpu_s={row.tenant: row.gpu_s for row in store.standing.usage()},
            gpus_on={node: frozenset(gpus) for node, gpus in gpus_on.items()},
            largest_node=max(node.gpus for node in self._scheduler.spec.nodes),
            last_event=last_event,
        )


def set_gauges(metrics: Metrics, picture: Picture, scheduler: Scheduler, version: str) -> None:
    """How things stand, for a reader who comes now."""
    pending: Counter[tuple[str, str]] = Counter()
    running: dict[str, int] = {}
    for (tenant, state), number in picture.counts.items():
        if state == State.RUNNING:
            running[tenant] = number
        elif state not in FINAL:
            pending[tenant, "active" if state in (State.WAITING, State.SUSPENDED) else "inadmissible"] += number
    metrics.queue(pending, running, running)
    quotas = {tenant.name: tenant for tenant in picture.tenants}
    metrics.tenants(
        TenantGpus(
            tenant=name,
            held=picture.tenant_milli.get(name, 0) / 1000,
            quota=quotas[name].quota_gpus if name in quotas else None,
            weight=quotas[name].weight if name in quotas else 1.0,
            usage_gpu_s=picture.usage_gpu_s.get(name, 0.0),
        )
        for name in picture.by_tenant()
    )
    drained, closed = scheduler.drained(), scheduler.closed()
    metrics.nodes(
        NodeGpus(
            node.name,
            node.gpus,
            picture.node_milli.get(node.name, 0) / 1000,
            up=node.name not in closed or node.name in drained,
            drained=node.name in drained,
        )
        for node in scheduler.spec.nodes
    )
    metrics.build(version, scheduler.policy, scheduler.placer)
