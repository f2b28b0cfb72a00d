"""A local executor on a directory of its own, with its reports collected; and what to wait for."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fairlead.backends.local import procs
from fairlead.backends.local.executor import LocalExecutor
from fairlead.backends.local.rundir import RunDir
from fairlead.backends.local.runs import kill_rest
from fairlead.backends.local.settings import LocalSettings
from fairlead.runtime.protocols import Order, Place, Report, ReportKind

PATIENCE_S = 60.0
ONE = (Place("node-0", (0,)),)


class Bench:
    def __init__(self, executor: LocalExecutor) -> None:
        self.executor = executor
        self.reports = executor.reports()
        self.seen: list[Report] = []

    async def wait(self, kind: ReportKind, job: str = "job", run: int = 1, patience_s: float = PATIENCE_S) -> Report:
        """The report of that kind about that run, whether it has come already or is still to come."""
        for report in self.seen:
            if (report.kind, report.job, report.run) == (kind, job, run):
                return report
        async with asyncio.timeout(patience_s):
            while True:
                report = await anext(self.reports)
                self.seen.append(report)
                if (report.kind, report.job, report.run) == (kind, job, run):
                    return report

    async def start(
        self, *command: str, job: str = "job", run: int = 1, places: Sequence[Place] = ONE, **more: Any
    ) -> None:
        more.setdefault("grace_s", 5.0)
        await self.executor.start(Order(job, run, command, places, **more))

    async def run(self, *command: str, **more: Any) -> Report:
        """To its end."""
        await self.start(*command, **more)
        return await self.wait(ReportKind.ENDED, more.get("job", "job"), more.get("run", 1))

    async def begin(self, *command: str, **more: Any) -> Report:
        await self.start(*command, **more)
        return await self.wait(ReportKind.STARTED, more.get("job", "job"), more.get("run", 1))

    async def refused(self, *command: str, **more: Any) -> str:
        await self.start(*command, **more)
        return (await self.wait(ReportKind.FAILED_TO_START, more.get("job", "job"))).message

    def log(self, job: str = "job") -> str:
        file = self.executor.settings.state_dir / "logs" / f"{job}.log"
        return file.read_text() if file.exists() else ""

    def state(self, job: str = "job", run: int = 1) -> dict[str, Any]:
        return RunDir(f"{self.executor.settings.state_dir}/runs/{job}@{run}").state() or {}

    def supervisor(self, job: str = "job", run: int = 1) -> int:
        return int(self.state(job, run)["supervisor"][0])


@asynccontextmanager
async def local(path: Path, **settings: Any) -> AsyncIterator[Bench]:
    settings.setdefault("gpus", 8)
    executor = await LocalExecutor.open(LocalSettings(path, **settings))
    try:
        yield Bench(executor)
    finally:
        await executor.close()


async def until(true: Callable[[], object]) -> None:
    """Wait for a condition that nobody reports."""
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            await asyncio.sleep(0.005)


def python(text: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-u", "-c", text)


def is_gone(pid: int) -> bool:
    found = procs.stat(pid)
    return found is None or found[0] in "ZX"


def clean_up(path: Path) -> None:
    """End every process of every run below, whatever state a test has left it in."""
    for state_file in path.rglob("state.json"):
        state = RunDir(str(state_file.parent)).state() or {}
        pid, ticks = state.get("supervisor", (0, 0))
        if pid and procs.is_alive(pid, ticks):
            os.kill(pid, signal.SIGKILL)
        kill_rest(state)
    for order_file in path.rglob("order.json"):
        kill_rest({"token": RunDir(str(order_file.parent)).order().get("token")})
