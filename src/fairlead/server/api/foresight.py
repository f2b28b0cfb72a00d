"""The twin, asked for many: it looks ahead in a thread, once at a time, and what it saw is kept for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from fairlead.model.errors import InputError
from fairlead.model.job import JobSpec
from fairlead.runtime import twin
from fairlead.runtime.planning import IllegalPlan
from fairlead.runtime.protocols import EVERYTHING
from fairlead.runtime.within import losses
from fairlead.server.api import schemas
from fairlead.server.api.fresh import Fresh
from fairlead.server.api.problems import TooMany
from fairlead.server.clock import ahead_of_utc
from fairlead.server.jobs import FINAL, asked, why_it_stays
from fairlead.server.store import JobRow

if TYPE_CHECKING:
    from fairlead.server.scheduler import Scheduler

Times = Mapping[str, tuple[float | None, float | None]]  #: when each job is expected to start and to finish
_ANOTHER = "?"  #: the id of a job that is not there, among those that are
_UNSEEN = (None, None)
#: of the time, what looking ahead may take for forecasts, and what for explanations: it competes with the scheduler's own thread
_SHARE = 0.05
_LONGEST_S = 300.0  #: an explanation is not kept for longer, however many there are
_AGAIN_S = 2.0  #: after how long it is worth asking for another what-if


@dataclass
class _Seen:
    moment: twin.Moment
    times: Times


@dataclass
class _Told:
    """What was said of a job, as long as nothing has become of it since."""

    explanation: twin.Explanation
    standing: tuple[str, int]  #: its state and run
    last_event: int
    made_s: float
    took_s: float


class Foresight:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._turn = asyncio.Lock()  #: however many ask, the twin has one core of the machine
        self._fresh = Fresh(self._look, lambda: scheduler.last_event, 1.0, 10.0, share=_SHARE)
        self._told: dict[str, _Told] = {}
        self._comparing: set[str] = set()  #: users for whom a what-if is being worked out

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
        told = self._still_told(row)
        if told is None:
            seen = await self._fresh.get(after=row.changed_seq)
            if row.id not in seen.times:  # it waits for other jobs, or came a moment ago
                return found
            told = await self._tell(row, seen.moment)
        said = told.to_json(may_see)
        reason = said.pop("reason").replace("_", "-")
        found |= {name: value for name, value in said.items() if name in found}
        return found | {"reason": row.reason if reason == "none" else reason}

    def _limits(self, job_id: str) -> list[str]:
        """What the executor can't do, where that changes what is decided of this job or of those before it."""
        scheduler, job = self._scheduler, self._scheduler.jobs.get(job_id)
        if job is None:
            return []
        name, can = scheduler.executor.name, scheduler.executor.capabilities
        told = [f"{scheduler.policy} loses something on {name}: {one}" for one in losses(scheduler.policy, can)]
        stays = why_it_stays(job.spec, can)
        if stays and not why_it_stays(job.spec, EVERYTHING):
            told.append(f"on {name} it runs to its end once it has begun: {stays}")
        if (job.spec.min_gpus or job.spec.max_gpus) and not can.resize:
            told.append(f"on {name} it keeps the {job.spec.total_gpus} GPUs that it asks for: nothing grows or shrinks")
        return told

    def _still_told(self, row: JobRow) -> twin.Explanation | None:
        """The more jobs people ask about and the dearer it is, the longer an answer is kept, so that all of them together take
        their share and no more."""
        kept, now_s = self._told.get(row.id), perf_counter()
        if kept is None or kept.standing != (row.state, row.run):
            return None
        nothing_new = kept.last_event == self._scheduler.last_event
        all_s = sum(one.took_s for one in self._told.values())
        age_s = max(10.0 if nothing_new else 1.0, min(all_s / _SHARE, _LONGEST_S))
        return kept.explanation if now_s - kept.made_s < age_s else None

    async def _tell(self, row: JobRow, moment: twin.Moment) -> twin.Explanation:
        async with self._turn:
            last_event, began_s = self._scheduler.last_event, perf_counter()
            told = await asyncio.to_thread(twin.explain, moment, row.id, ahead_of_utc=ahead_of_utc)
        now_s = perf_counter()
        self._told = {job: one for job, one in self._told.items() if now_s - one.made_s < _LONGEST_S}
        self._told[row.id] = _Told(told, (row.state, row.run), last_event, now_s, now_s - began_s)
        return told

    async def compared(
        self, user: str, choices: Sequence[twin.Choice], has_left: Callable[[], Awaitable[bool]]
    ) -> list[dict[str, Any]]:
        """What is in force now first, then each choice. Each row is a simulation, so others have their turn between two of them, a user
        has one what-if at a time, and for somebody who has left no more are worked out."""
        if user in self._comparing:
            raise TooMany("another what-if of yours is being worked out; ask again when it has been answered", _AGAIN_S)
        self._comparing.add(user)
        try:
            rows = twin.whatif_rows((await self._fresh.get()).moment, choices)
            told: list[dict[str, Any]] = []
            while not await has_left():
                async with self._turn:
                    row = await asyncio.to_thread(next, rows, None)
                if row is None:
                    break
                told.append(row.to_json())
            return told
        finally:
            self._comparing.discard(user)


def _times(moment: twin.Moment) -> Times:
    try:
        expected = twin.forecast(moment).expected
    except (InputError, IllegalPlan):  # a policy that can't be run ahead from here: nothing is known of anybody
        return {job.id: _UNSEEN for job, _ in moment.jobs}
    return {one.job: (one.start_s, one.finish_s) for one in expected.values()}
