"""The twin, asked for many: it looks ahead in a thread, once at a time, and what it saw is kept for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairlead.model.errors import InputError
from fairlead.model.job import JobSpec
from fairlead.runtime import twin
from fairlead.runtime.planning import IllegalPlan
from fairlead.runtime.protocols import EVERYTHING
from fairlead.runtime.within import losses
from fairlead.server.api import schemas
from fairlead.server.api.fresh import Fresh
from fairlead.server.clock import ahead_of_utc
from fairlead.server.jobs import FINAL, asked, why_it_stays
from fairlead.server.store import JobRow

if TYPE_CHECKING:
    from fairlead.server.scheduler import Scheduler

Times = Mapping[str, tuple[float | None, float | None]]  #: when each job is expected to start and to finish
_ANOTHER = "?"  #: the id of a job that is not there, among those that are
_UNSEEN = (None, None)


@dataclass
class _Seen:
    moment: twin.Moment
    times: Times
    told: dict[str, twin.Explanation] = field(default_factory=dict)


class Foresight:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._turn = asyncio.Lock()  #: however many ask, the twin has one core of the machine
        self._fresh = Fresh(self._look, lambda: scheduler.last_event, 1.0, 10.0)

    async def _look(self) -> _Seen:
        moment = self._scheduler.moment()
        async with self._turn:
            return _Seen(moment, await asyncio.to_thread(_times, moment))

    async def times(self) -> Times:
        return (await self._fresh.get()).times

    async def of_another(self, spec: JobSpec, tenant: str) -> tuple[float | None, float | None]:
        """When a job would start and finish that were submitted now."""
        moment = (await self._fresh.get()).moment
        with_it = moment.with_job(asked(spec, _ANOTHER, tenant, moment.now, self._scheduler.executor.capabilities))
        async with self._turn:
            times = await asyncio.to_thread(_times, with_it)
        return times.get(_ANOTHER, _UNSEEN)

    async def explained(self, row: JobRow, may_see: Callable[[str], bool]) -> dict[str, Any]:
        """What is known of the job; where it waits for GPUs, what the twin says of it. Of other jobs only those that whoever
        asks may see."""
        found: dict[str, Any] = dict.fromkeys(schemas.ExplainOut.model_fields)
        found |= {"job": row.id, "state": row.state, "reason": row.reason, "message": row.message, "note": ""}
        found |= {"ahead": [], "waits_for": [], "nodes": list(row.nodes), "engine": []}
        if row.state in FINAL:
            return found
        found["engine"] = self._limits(row.id)
        seen = await self._fresh.get()
        if row.id not in seen.times:  # it waits for other jobs, or came a moment ago
            return found
        told = seen.told.get(row.id)
        if told is None:
            async with self._turn:
                told = await asyncio.to_thread(twin.explain, seen.moment, row.id, ahead_of_utc=ahead_of_utc)
            seen.told[row.id] = told
        said = told.to_json()
        for name in ("ahead", "waits_for"):
            said[name] = [job for job in said[name] if may_see(job)]
        reason = said.pop("reason").replace("_", "-")
        found |= {name: value for name, value in said.items() if name in found}
        return found | {"reason": row.reason if reason == "none" else reason}

    def _limits(self, job_id: str) -> list[str]:
        """What the executor can't do, where that changes what is decided of this job or of those before it."""
        scheduler, job = self._scheduler, self._scheduler.jobs.get(job_id)
        if job is None:
            return []
        executor = scheduler.executor
        told = [f"{scheduler.policy} loses something on {executor.name}: {one}" for one in self._losses()]
        stays, asks = why_it_stays(job.spec, executor.capabilities), why_it_stays(job.spec, EVERYTHING)
        if stays and not asks:
            told.append(f"on {executor.name} it runs to its end once it has begun: {stays}")
        if (job.spec.min_gpus or job.spec.max_gpus) and not executor.capabilities.resize:
            told.append(
                f"on {executor.name} it keeps the {job.spec.total_gpus} GPUs that it asks for: nothing grows or shrinks"
            )
        return told

    def _losses(self) -> list[str]:
        return losses(self._scheduler.policy, self._scheduler.executor.capabilities)

    async def compared(
        self, policies: Sequence[str], placer: str | None, add_nodes: str | None, remove_nodes: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """What is in force now first, then each choice."""
        wanted: Sequence[str | None] = policies or ([None] if placer or add_nodes or remove_nodes else [])
        choices = [twin.Choice(policy, placer, add_nodes or "", tuple(remove_nodes)) for policy in wanted]
        moment = (await self._fresh.get()).moment
        async with self._turn:
            rows = await asyncio.to_thread(twin.whatif, moment, choices)
        return [row.to_json() for row in rows]


def _times(moment: twin.Moment) -> Times:
    try:
        expected = twin.forecast(moment).expected
    except (InputError, IllegalPlan):  # a policy that can't be run ahead from here: nothing is known of anybody
        return {job.id: _UNSEEN for job, _ in moment.jobs}
    return {one.job: (one.start_s, one.finish_s) for one in expected.values()}
