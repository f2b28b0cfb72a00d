"""Uploads checked, comparisons queued and run one at a time, and what became of them."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairlead.model.errors import InputError
from fairlead.server.studio.shelf import KeptRun, KeptTrace, Shelf
from fairlead.server.studio.worker import WorkerFailed, work

log = logging.getLogger(__name__)

_TICKET_S = 60.0
_CHECK_S = 120.0  #: an upload that takes longer to read is no trace that anybody would wait for here


@dataclass(frozen=True)
class Limits:
    upload_bytes: int
    memory_bytes: int
    time_s: float
    queue: int = 8  #: comparisons that wait, of everybody
    at_once: int = 3  #: and of one user, with the one that runs
    traces: int = 20  #: that a user may keep
    runs: int = 20  #: that are kept of a user; the oldest go first


class Full(Exception):
    """Nothing more is taken at the moment."""


class BadTrace(InputError):
    """What was uploaded is no trace, or has a row that can't be used: its file and line are the sender's own to know."""


class Studio:
    """All of it happens in the scheduler's event loop but for what is in the worker, and none of it takes long."""

    def __init__(self, folder: Path, limits: Limits, now: Callable[[], float]) -> None:
        self.limits = limits
        self.shelf = Shelf(folder)
        self.shelf.load()
        self._now = now
        self._waiting: deque[str] = deque()
        self._tasks: dict[str, Mapping[str, Any]] = {}  #: what the worker is to be told of each that waits
        self._consumer: asyncio.Task[None] | None = None
        self._present: tuple[str, asyncio.Task[None]] | None = None
        self._coming: Counter[str] = Counter()  #: uploads of each user that are under way
        self._checking = asyncio.Lock()
        self._checks: set[asyncio.Task[Any]] = set()
        self._tickets: dict[str, tuple[str, float]] = {}
        self._closed = False

    # -- traces -----------------------------------------------------------------------------------------------------------

    async def add_trace(self, user: str, name: str, body: AsyncIterator[bytes]) -> KeptTrace:
        """InputError for what is no trace: it names the line, the column, the value and what would do."""
        kept, coming = sum(trace.user == user for trace in self.shelf.traces.values()), self._coming[user]
        # one that is coming takes room on the disk already
        if kept + coming >= self.limits.traces:
            more = f" and send {coming} more" if coming else ""
            raise Full(
                f"you keep {kept} traces{more}, and no more than {self.limits.traces} may be kept; delete one first"
            )
        self._coming[user] += 1
        try:
            return await self._take(user, name, body)
        finally:
            self._coming[user] -= 1
            if not self._coming[user]:
                del self._coming[user]

    async def _take(self, user: str, name: str, body: AsyncIterator[bytes]) -> KeptTrace:
        id = self.shelf.new_id()
        folder = self.shelf.folder_of(KeptTrace, user, id)
        try:
            await asyncio.to_thread(self.shelf.make_folder, KeptTrace, user, id)
            size = await _save(body, folder / "data")
            if not size:
                raise BadTrace("the file is empty", file=name, accepts="a trace: see GET /v1/studio")
            about = await self._check(folder, name)
            kept = KeptTrace(id, user, name, size, self._now(), about)
            self.shelf.keep(kept)
        except OSError as error:
            await asyncio.to_thread(self.shelf.remove_folder, folder)
            raise Full(f"it can't be kept here: {error.strerror}") from None
        except BaseException:
            await asyncio.to_thread(self.shelf.remove_folder, folder)
            raise
        return kept

    async def _check(self, folder: Path, name: str) -> Mapping[str, Any]:
        task = {"task": "check", "path": str(folder / "data"), "name": name}
        async with self._checking:
            running = asyncio.current_task()
            assert running is not None
            self._checks.add(running)
            try:
                return await work(
                    task, folder, memory_bytes=self.limits.memory_bytes, time_s=_CHECK_S, tell=lambda _: None
                )
            except WorkerFailed as failed:
                raise _bad_trace(failed.problem) from None
            finally:
                self._checks.discard(running)

    def remove_trace(self, trace: KeptTrace) -> None:
        for run in self.shelf.runs.values():
            if not run.ended and run.request.get("trace") == trace.id:
                raise InputError(
                    "a comparison that has not ended needs this trace", value=trace.id, accepts="to cancel it first"
                )
        self.shelf.remove(trace)

    # -- comparisons ------------------------------------------------------------------------------------------------------

    def start(
        self,
        user: str,
        request: Mapping[str, Any],
        task: Mapping[str, Any],
        *,
        workload: str,
        cluster: str,
        names: Sequence[str],
    ) -> KeptRun:
        live = [run for run in self.shelf.runs.values() if not run.ended]
        if sum(run.user == user for run in live) >= self.limits.at_once:
            raise Full(f"{self.limits.at_once} comparisons of yours wait or run already; wait for one, or cancel it")
        if len(self._waiting) >= self.limits.queue:
            raise Full(f"{len(self._waiting)} comparisons wait already; try again when some have ended")
        self._forget_oldest(user)
        run = KeptRun(
            self.shelf.new_id(), user, self._now(), dict(request), workload=workload, cluster=cluster, names=list(names)
        )
        try:
            self.shelf.make_folder(KeptRun, user, run.id)
            self.shelf.keep(run)
        except OSError as error:
            self.shelf.remove(run)
            raise Full(f"it can't be kept here: {error.strerror}") from None
        self._tasks[run.id] = dict(task)
        self._waiting.append(run.id)
        if self._consumer is None or self._consumer.done():
            self._consumer = asyncio.create_task(self._consume())
        return run

    def _forget_oldest(self, user: str) -> None:
        mine = sorted(
            (run for run in self.shelf.runs.values() if run.user == user and run.ended), key=lambda run: run.made_s
        )
        for run in mine[: max(len(mine) - self.limits.runs + 1, 0)]:
            self.shelf.remove(run)

    def position(self, run: KeptRun) -> int:
        """How many go before it; 0 where it does not wait."""
        return self._waiting.index(run.id) + bool(self._present) if run.id in self._waiting else 0

    async def _consume(self) -> None:
        while self._waiting and not self._closed:
            id = self._waiting.popleft()
            self._present = id, asyncio.create_task(self._run(id))
            with suppress(asyncio.CancelledError):
                await asyncio.shield(self._present[1])
            self._present = None

    async def _run(self, id: str) -> None:
        run = replace(self.shelf.runs[id], state="running", begun_s=self._now())
        folder = self.shelf.folder_of(KeptRun, run.user, run.id)

        def tell(said: Mapping[str, Any]) -> None:
            # in memory: how far it is need not survive anything
            self.shelf.runs[id] = replace(self.shelf.runs[id], at=int(said["at"]), part=float(said["part"]))

        limits, task = self.limits, {**self._tasks.pop(id), "task": "compare", "folder": str(folder)}
        try:
            self.shelf.keep(run)
            found = await work(task, folder, memory_bytes=limits.memory_bytes, time_s=limits.time_s, tell=tell)
            ended = replace(
                self.shelf.runs[id], state="done", at=len(run.names), part=0.0, results=list(found["results"])
            )
        except WorkerFailed as failed:
            ended = replace(self.shelf.runs[id], state="failed", problem=dict(failed.problem))
        except asyncio.CancelledError:
            self._keep_ended(replace(self.shelf.runs[id], state="cancelled"))
            raise
        except Exception as error:  # no process to be had, a full disk: the others have their turn all the same
            log.exception("comparison %s could not be run", id)
            why = getattr(error, "strerror", None) or "the scheduler's log says more"
            ended = replace(self.shelf.runs[id], state="failed", problem={"detail": f"it could not be run: {why}"})
        self._keep_ended(ended)

    def _keep_ended(self, run: KeptRun) -> None:
        ended = replace(run, ended_s=self._now())
        try:
            self.shelf.keep(ended)
        except OSError:  # it has ended all the same; after a restart it is one that was not ended
            self.shelf.runs[run.id] = ended

    async def cancel(self, run: KeptRun) -> KeptRun:
        """One that has ended stays as it is."""
        if run.id in self._waiting:
            self._waiting.remove(run.id)
            self._tasks.pop(run.id, None)
            self._keep_ended(replace(run, state="cancelled"))
        elif self._present is not None and self._present[0] == run.id:
            task = self._present[1]
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        return self.shelf.runs[run.id]

    async def remove_run(self, run: KeptRun) -> None:
        await self.cancel(run)
        self.shelf.remove(run)

    # -- reports ----------------------------------------------------------------------------------------------------------

    def ticket(self, run: KeptRun) -> str:
        """Opens this report, and nothing else, to whoever has it, for a minute: a frame or a new tab can't send a token."""
        now_s = self._now()
        self._tickets = {one: (id, until_s) for one, (id, until_s) in self._tickets.items() if until_s > now_s}
        made = secrets.token_urlsafe(32)
        self._tickets[made] = run.id, now_s + _TICKET_S
        return made

    def of_ticket(self, ticket: str) -> KeptRun | None:
        id, until_s = self._tickets.get(ticket, ("", 0.0))
        return self.shelf.runs.get(id) if until_s > self._now() else None

    def stop(self) -> None:
        """The scheduler is to stop: nothing is begun any more, and what runs here is ended."""
        self._closed = True
        for task in (*self._checks, *([self._present[1]] if self._present else [])):
            task.cancel()


async def _save(body: AsyncIterator[bytes], path: Path) -> int:
    size = 0
    with path.open("xb") as file:
        async for chunk in body:
            size += len(chunk)
            await asyncio.to_thread(file.write, chunk)
    return size


def _bad_trace(problem: Mapping[str, Any]) -> BadTrace:
    """What the worker said of its input."""
    return BadTrace(
        str(problem.get("detail", "")),
        file=problem.get("file"),
        line=problem.get("line"),
        column=problem.get("field"),
        value=problem.get("value"),
        accepts=problem.get("accepts"),
    )
