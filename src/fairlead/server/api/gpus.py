"""Every GPU and who has it: what the map of the cluster is drawn from, worked out once for all who look."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from fairlead.model.cluster import ClusterSpec
from fairlead.server.api import schemas
from fairlead.server.api.desk import desk_of, in_pieces, require, router
from fairlead.server.api.fresh import Fresh
from fairlead.server.auth import Act, Scope
from fairlead.server.jobs import Job
from fairlead.server.metrics import GpuReading
from fairlead.server.way import giving_way

if TYPE_CHECKING:
    from fairlead.server.scheduler import Scheduler

routes = router("gpus")
_FREE = -1
_READ = ("utilization_percent", "memory_used_mib", "memory_free_mib")


@dataclass
class Holders:
    """Of one moment. `answers` has it as JSON, packed, by whose eyes it is for ("": those that see every job)."""

    common: Mapping[str, Any]  #: what everybody may see
    jobs: Sequence[Job]
    holder: Sequence[
        int
    ]  #: for each GPU in the cluster's order: which of the jobs has it, or the first of those; -1: none
    shared: Mapping[int, Sequence[int]]  #: GPUs that several jobs have: which
    answers: dict[str, bytes] = field(default_factory=dict)

    def packed(self, user: str) -> bytes:
        """Of somebody else's job only the tenant is told, and not where it ends and another of that tenant begins."""
        rows: list[dict[str, Any]] = []
        number: dict[str, int] = {}
        shown: list[int] = []
        for job in giving_way(self.jobs):
            seen = not user or job.user == user
            key = f"job {job.id}" if seen else f"tenant {job.tenant}"
            if key not in number:
                number[key] = len(rows)
                rows.append(
                    {"id": job.id if seen else None, "name": job.spec.name if seen else "", "tenant": job.tenant}
                )
            shown.append(number[key])
        content = {
            **self.common,
            "jobs": rows,
            "holder": [_FREE if one == _FREE else shown[one] for one in self.holder],
            "shared": {str(gpu): sorted({shown[one] for one in jobs}) for gpu, jobs in self.shared.items()},
        }
        return gzip.compress(in_pieces(content).encode(), 1, mtime=0)


class GpuMap:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._fresh = Fresh(self._make, lambda: scheduler.last_event, 2.0, 5.0, share=0.02)
        self._packing = asyncio.Lock()

    async def answer(self, user: str) -> bytes:
        """Packed JSON for somebody's eyes; "": for those that see every job. Of many who ask at once the first one has it made."""
        found = await self._fresh.get()
        if user not in found.answers:
            async with self._packing:
                if user not in found.answers:
                    found.answers[user] = await asyncio.to_thread(found.packed, user)
        return found.answers[user]

    async def _make(self) -> Holders:
        scheduler = self._scheduler
        running = [job for job in scheduler.jobs.values() if job.is_running]
        drained, closed = scheduler.drained(), scheduler.closed()
        states = [
            "drained" if n.name in drained else "down" if n.name in closed else "up" for n in scheduler.spec.nodes
        ]
        return await asyncio.to_thread(
            holders, scheduler.spec, running, states, scheduler.metrics.readings, scheduler.last_event
        )


def holders(
    spec: ClusterSpec, running: Sequence[Job], states: Sequence[str], readings: Sequence[GpuReading], last_event: int
) -> Holders:
    first = dict(zip((node.name for node in spec.nodes), (0, *accumulate(n.gpus for n in spec.nodes)), strict=False))
    holder, milli = [_FREE] * spec.gpus, [0] * spec.gpus
    shared: dict[int, list[int]] = {}
    for number, job in enumerate(giving_way(running)):
        for place in job.places:
            start = first.get(place.node)
            if start is None:
                continue
            for gpu in place.gpus:
                at = start + gpu
                if holder[at] == _FREE:
                    holder[at] = number
                else:
                    shared.setdefault(at, [holder[at]]).append(number)
                milli[at] += place.milli
    common: dict[str, Any] = {
        "levels": spec.levels,
        "nodes": [
            {"name": n.name, "path": n.path, "state": state, "gpus": n.gpus, "gpu_type": n.gpu_type}
            for n, state in zip(spec.nodes, states, strict=True)
        ],
        "milli": milli,
        "last_event": last_event,
    }
    common |= dict.fromkeys(_READ) if not readings else _read(spec.gpus, first, readings)
    return Holders(common, running, holder, shared)


def _read(gpus: int, first: Mapping[str, int], readings: Sequence[GpuReading]) -> dict[str, list[float | None]]:
    """In the order of each node's GPUs, which is that of what they say."""
    found: dict[str, list[float | None]] = {name: [None] * gpus for name in _READ}
    for node, own in giving_way(by_node(readings).items()):
        if node in first:
            for i, one in enumerate(own):
                for name in _READ:
                    found[name][first[node] + i] = getattr(one, name)
    return found


def by_node(readings: Sequence[GpuReading]) -> dict[str, list[GpuReading]]:
    found: dict[str, list[GpuReading]] = {}
    for one in readings:
        found.setdefault(one.node, []).append(one)
    return found


@routes.get("/gpus", response_model=schemas.GpuHolders, summary="Every GPU, who has it and what it says of itself")
async def gpus(request: Request) -> Response:
    """In flat lists, since there may be many thousands: `holder[i]` is the place in `jobs` of whoever has the i-th GPU, counted
    through `nodes` in their order, or -1. Of jobs that are not yours to see, only the tenant is told."""
    desk, who = desk_of(request), require(request, Act.SEE_CLUSTER)
    packed = await desk.gpu_map.answer("" if who.scope(Act.SEE_JOBS) is Scope.ALL else who.user)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        return Response(packed, headers=headers, media_type="application/json")
    return Response(await asyncio.to_thread(gzip.decompress, packed), media_type="application/json")
