"""How things went and how they stand: what the overview shows, worked out once for all who look at it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from fairlead.server.api import schemas
from fairlead.server.api.desk import answer, desk_of, require, router
from fairlead.server.api.fresh import Fresh
from fairlead.server.api.picture import Picture, Pictures
from fairlead.server.api.problems import check_known
from fairlead.server.auth import Act
from fairlead.server.history import KINDS, Floats, History
from fairlead.server.jobs import Job, State
from fairlead.server.way import giving_way

if TYPE_CHECKING:
    from fairlead.server.scheduler import Scheduler

routes = router("overview")
SPANS = {"1h": 3600.0, "6h": 6 * 3600.0, "1d": 86400.0, "7d": 7 * 86400.0}
_POINTS = 120
_AT_ONCE = 2000  #: rows of the journal that are folded before others have a turn
#: why jobs wait, as far as counts can say it; `explain` says it exactly of one job
REASONS = {
    "held": "held by a person",
    "blocked": "waits for other jobs",
    "quota-used": "its tenant's quota is used",
    "not-enough-free": "needs more GPUs than are free",
    "fragmented": "enough GPUs are free, but not on one node",
    "behind-others": "would fit; others are before it",
}


class Overviews:
    """The journal is folded row by row into one History; spans are cut out of that."""

    def __init__(self, scheduler: Scheduler, pictures: Pictures) -> None:
        self._scheduler, self._pictures = scheduler, pictures
        self._history: History | None = None
        self._turn = asyncio.Lock()
        self._fresh = {span: self._kept(span) for span in SPANS}

    def _kept(self, span: str) -> Fresh[Response]:
        return Fresh(lambda: self._make(span), lambda: self._scheduler.last_event, 3.0, 15.0, share=0.03)

    async def latest(self, span: str) -> Response:
        return await self._fresh[span].get()

    async def _make(self, span: str) -> Response:
        picture, scheduler = await self._pictures.latest(), self._scheduler
        waiting = [job for job in scheduler.jobs.values() if not job.is_running]
        closed = scheduler.closed()
        async with self._turn:
            history = await self._brought_up()
            return await asyncio.to_thread(self._told, history, picture, span, waiting, closed)

    async def _brought_up(self) -> History:
        """In pieces, so that a long journal holds nobody up."""
        last = self._scheduler.last_event
        if self._history is None:
            self._history = await asyncio.to_thread(self._begun, last)
        history = self._history
        while history.last_event < last:
            until = min(history.last_event + _AT_ONCE, last)
            await asyncio.to_thread(self._fold, history, until)
        return history

    def _begun(self, last: int) -> History:
        """With where those jobs stand that had come before the longest span began."""
        store, begin_s = self._scheduler.store, self._scheduler.now() - max(SPANS.values())
        history, first = History.of(self._scheduler.spec), store.first_since(begin_s)
        history.fold(store.history(KINDS, 0, first - 1, alive_s=begin_s))
        history.last_event = min(first - 1, last)
        history.first_s = begin_s if history.last_event else None
        return history

    def _fold(self, history: History, until: int) -> None:
        history.fold(self._scheduler.store.history(KINDS, history.last_event, until))
        history.last_event = until
        history.forget(self._scheduler.now() - 1.05 * max(SPANS.values()))

    def _told(
        self, history: History, picture: Picture, span: str, waiting: Sequence[Job], closed: frozenset[str]
    ) -> Response:
        scheduler = self._scheduler
        now = scheduler.now()
        begin = max(now - SPANS[span], min(history.first_s if history.first_s is not None else now, now - 60.0))
        edges = np.linspace(begin, now, _POINTS + 1)
        free = _free(scheduler, picture, closed)
        hours = (now - begin) / 3600
        started, suspended = len(history.starts.since(begin)), len(history.suspensions.since(begin))
        return answer(
            {
                "span": span,
                "last_event": min(picture.last_event, history.last_event),
                "from_s": begin,
                "until_s": now,
                "gpus": scheduler.spec.gpus,
                "gpus_open": sum(node.gpus for node in scheduler.spec.nodes if node.name not in closed),
                "time_s": _rounded((edges[1:] + edges[:-1]) / 2, 3),
                "allocated": _rounded(history.allocated.means(edges)),
                "computing": _rounded(history.computing.means(edges)),
                "waiting": _rounded(history.waiting.means(edges)),
                "waiting_most": round(history.waiting.most(begin)),
                "broken": _rounded(history.broken.means(edges)),
                "suspensions_per_h": _rounded(history.suspensions.counts(edges) / np.diff(edges) * 3600),
                "started": started,
                "ended": len(history.ends.since(begin)),
                "suspensions": suspended,
                "suspensions_mean_per_h": round(suspended / hours, 3),
                "pending": pending(waiting, picture, scheduler.spec.tenants, free),
                "free_gpus": free.whole,
                "free_broken": free.broken,
                "largest_free": free.largest,
                "tenants": _tenants(history, picture, np.array([begin, now])),
            }
        )


def _rounded(values: Floats, digits: int = 4) -> list[float]:
    return [round(value, digits) + 0.0 for value in values.tolist()]


@dataclass(frozen=True)
class Free:
    """On nodes that take jobs: GPUs that nobody has."""

    whole: int
    broken: int  #: of these, on nodes where somebody has others
    largest: int  #: the most on one node
    of_type: Mapping[str, int]
    largest_of: Mapping[str, int]


def _free(scheduler: Scheduler, picture: Picture, closed: frozenset[str]) -> Free:
    total: Counter[str] = Counter()
    largest: dict[str, int] = {}
    broken = 0
    for node in giving_way(scheduler.spec.nodes):
        if node.name in closed:
            continue
        used = picture.node_milli.get(node.name, 0)
        free = node.gpus - len(picture.gpus_on.get(node.name, ()))
        broken += free if used else 0
        for kind in {node.gpu_type, ""}:
            total[kind] += free
            largest[kind] = max(largest.get(kind, 0), free)
    return Free(total[""], broken, largest.get("", 0), total, largest)


def pending(waiting: Sequence[Job], picture: Picture, tenants: Mapping[str, Any], free: Free) -> dict[str, int]:
    """How many jobs wait for which of REASONS, the first that holds."""
    found: Counter[str] = Counter()
    for job in giving_way(waiting):
        found[_why(job, picture, tenants, free)] += 1
    return {name: found[name] for name in REASONS if found[name]}


def _why(job: Job, picture: Picture, tenants: Mapping[str, Any], free: Free) -> str:
    if job.state in (State.HELD, State.BLOCKED):
        return str(job.state)
    spec, tenant = job.spec, tenants.get(job.tenant)
    quota = None if tenant is None else tenant.quota_gpus
    held_milli = picture.tenant_milli.get(job.tenant, 0)
    if quota is not None and held_milli + spec.total_gpus * spec.gpu_share_milli > 1000 * quota:
        return "quota-used"
    if spec.gpu_share_milli == 1000:
        if spec.total_gpus > free.of_type.get(spec.gpu_type, 0):
            return "not-enough-free"
        if spec.total_gpus // (spec.num_nodes or 1) > free.largest_of.get(spec.gpu_type, 0) and (
            spec.num_nodes or _fits_a_node(spec.total_gpus, picture)
        ):
            return "fragmented"
    return "behind-others"


def _fits_a_node(gpus: int, picture: Picture) -> bool:
    return gpus <= picture.largest_node


def _tenants(history: History, picture: Picture, edges: Floats) -> list[dict[str, Any]]:
    """Those that hold, held or waited for anything: what each should have of the whole by its weight, and what it had."""
    span_s = float(edges[1] - edges[0])
    had = {name: float(steps.means(edges)[0]) * span_s for name, steps in history.of_tenant.items()}
    total = sum(had.values())
    by_tenant = picture.by_tenant()
    wanted = {name for name, gpu_s in had.items() if gpu_s > 0}
    for name, jobs in by_tenant.items():
        if any(jobs.get(state) for state in ("waiting", "running", "suspended")):
            wanted.add(name)
    known = {tenant.name: tenant for tenant in picture.tenants}
    weights = {name: known[name].weight if name in known else 1.0 for name in wanted}
    rows = []
    for name in sorted(wanted):
        waits = history.waits[name].since(float(edges[0])) if name in history.waits else np.array([])
        p50, p95 = (float(np.percentile(waits, q)) for q in (50, 95)) if len(waits) else (None, None)
        quota = known[name].quota_gpus if name in known else None
        rows.append(
            {
                "name": name,
                "weight": weights[name],
                "quota_gpus": quota,
                "gpus_used": picture.tenant_milli.get(name, 0) / 1000,
                "waiting": sum(by_tenant.get(name, {}).get(state, 0) for state in ("waiting", "suspended")),
                "fair_share": weights[name] / sum(weights.values()),
                "share": had.get(name, 0.0) / total if total else None,
                "gpu_h": round(had.get(name, 0.0) / 3600, 4),
                "started": len(waits),
                "wait_p50_s": p50,
                "wait_p95_s": p95,
            }
        )
    return rows


@routes.get("/overview", response_model=schemas.Overview, summary="How the cluster was used, and by whom")
async def overview(
    request: Request,
    span: Annotated[str, Query(description="how far back", json_schema_extra={"enum": [*SPANS]})] = "6h",
) -> Response:
    """From the journal: means over equal pieces of the time from `from_s` to `until_s`. Up to three seconds old, or older where a
    long journal makes it dear."""
    desk, _ = desk_of(request), require(request, Act.SEE_CLUSTER)
    check_known("span", span, SPANS)
    made = await desk.overviews.latest(span)
    return Response(made.body, media_type="application/json")
