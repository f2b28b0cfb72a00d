"""A scheduler over a real store and real processes, and what to wait for."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fairlead.backends.local.executor import LocalExecutor
from fairlead.backends.local.settings import LocalSettings
from fairlead.model.cluster import TenantSpec
from fairlead.model.job import JobSpec
from fairlead.server.clock import WallClock
from fairlead.server.gate import Gate
from fairlead.server.scheduler import Scheduler
from fairlead.server.store import JobRow, Store
from fairlead.server.store.accounts import UserRow
from fairlead.server.unix_user import SELF, UnixUsers

PATIENCE_S = 60.0
#: works for so many seconds of its own time: being stopped is not working
WORK = """
import sys, time
left = float(sys.argv[1])
while left > 0:
    time.sleep(min(left, 0.02))
    left -= 0.02
"""


def work(seconds: float) -> tuple[str, ...]:
    return (sys.executable, "-S", "-c", WORK, str(seconds))


class World:
    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.store = scheduler.store

    async def submit(
        self, *run: str, user: str = "ann", tenant: str = "vision", key: str | None = None, **spec: Any
    ) -> str:
        """The id of the job, or of the array."""
        spec.setdefault("grace_s", 5.0)
        made = await self.scheduler.submit(JobSpec(run=run, **spec), user, tenant, key)
        return made.array_id or made.jobs[0].id

    def job(self, job_id: str) -> JobRow:
        return self.store.job(job_id)

    async def until(self, holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
        """Looks again whenever the journal has grown."""
        async with asyncio.timeout(patience_s):
            while not holds():
                await self.scheduler.after(self.scheduler.last_event, 0.2)

    async def state(self, job_id: str, *states: str) -> JobRow:
        await self.until(lambda: self.job(job_id).state in states)
        return self.job(job_id)

    async def ended(self, *ids: str) -> list[JobRow]:
        await self.until(lambda: all(self.job(one).finished_s is not None for one in ids))
        return [self.job(one) for one in ids]

    def kinds(self, job_id: str) -> list[str]:
        return [event.kind for event in self.store.timeline(job_id)]

    def output(self, job_id: str) -> str:
        path = self.scheduler.log_path(job_id)
        return path.read_text() if path.exists() else ""


@asynccontextmanager
async def world(
    path: Path,
    *,
    gpus: int = 8,
    nodes: int = 1,
    policy: str = "fifo-backfill",
    placer: str = "consolidate",
    tenants: tuple[TenantSpec, ...] = (),
    gate: Gate | None = None,
    store: str | Path | None = None,
    engine: Callable[[LocalExecutor], LocalExecutor] | None = None,
    **local: Any,
) -> AsyncIterator[World]:
    path.mkdir(parents=True, exist_ok=True)
    with Store(store or path / "fairlead.db") as opened:
        for name, tenant in (("ann", "vision"), ("bob", "speech")):
            opened.accounts.put_user(UserRow(name, tenant, 0.0))
        for one in tenants:
            opened.standing.put_tenant(one)
        executor = await LocalExecutor.open(LocalSettings(path / "local", gpus=gpus, nodes=nodes, **local))
        if engine is not None:
            executor = engine(executor)
        scheduler = Scheduler(
            opened,
            executor,
            await executor.inventory(),
            WallClock(opened.last_time_s()),
            policy=policy,
            placer=placer,
            logs=path / "logs",
            gate=gate,
            users=UnixUsers(SELF),
        )
        await scheduler.open()
        try:
            yield World(scheduler)
        finally:
            failure = scheduler.failure
            await scheduler.close()
            if not failure.cancelled() and failure.exception() is not None:
                raise AssertionError("the scheduler failed") from failure.exception()
