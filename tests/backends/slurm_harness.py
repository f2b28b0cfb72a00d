"""A Slurm executor on a directory of its own, with its reports collected; and programs that say when they ran."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fairlead.backends.slurm import SlurmExecutor, SlurmSettings
from fairlead.runtime.protocols import Order, Place, Report, ReportKind
from servers.slurm import SlurmCluster, slurm_cluster

__all__ = ["slurm_cluster"]
PATIENCE_S = 60.0
ONE = (Place("node1", (0,)),)


class SlurmBench:
    def __init__(self, executor: SlurmExecutor) -> None:
        self.executor = executor
        self.reports = executor.reports()
        self.seen: list[Report] = []

    async def until(self, wanted: Callable[[Report], bool], patience_s: float = PATIENCE_S) -> Report:
        """The first such report, whether it has come already or is still to come."""
        for report in self.seen:
            if wanted(report):
                return report
        async with asyncio.timeout(patience_s):
            while True:
                report = await anext(self.reports)
                self.seen.append(report)
                if wanted(report):
                    return report

    async def wait(self, kind: ReportKind, job: str = "job", run: int = 1) -> Report:
        return await self.until(lambda report: (report.kind, report.job, report.run) == (kind, job, run))

    async def appeared(self, number: str) -> Report:
        return await self.until(
            lambda report: report.kind == ReportKind.APPEARED and report.foreign.split(":")[2] == number
        )

    async def start(
        self, *command: str, job: str = "job", run: int = 1, places: Sequence[Place] = ONE, **more: Any
    ) -> None:
        more.setdefault("grace_s", 5.0)
        await self.executor.start(Order(job, run, command, places, **more))

    async def begin(self, *command: str, **more: Any) -> Report:
        await self.start(*command, **more)
        return await self.wait(ReportKind.STARTED, more.get("job", "job"), more.get("run", 1))

    async def run(self, *command: str, **more: Any) -> Report:
        await self.start(*command, **more)
        return await self.wait(ReportKind.ENDED, more.get("job", "job"), more.get("run", 1))

    def log(self, job: str = "job") -> str:
        return (self.executor.settings.state_dir / "logs" / f"{job}.log").read_text()

    def kinds(self, job: str) -> list[ReportKind]:
        return [report.kind for report in self.seen if report.job == job]


@pytest.fixture
def shared(slurm_cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that every user can go through, with a Slurm that has nothing to do."""
    monkeypatch.setenv("SLURM_CONF", str(slurm_cluster.conf))
    folder = Path(tempfile.mkdtemp(prefix="fairlead-slurm-test-"))
    folder.chmod(0o777)
    yield folder
    slurm_cluster.clear()
    shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def slurm(folder: Path, **settings: Any) -> AsyncIterator[SlurmBench]:
    settings.setdefault("poll_s", 0.5)
    settings.setdefault("lease_s", 6.0)
    settings.setdefault("calls_per_s", 50.0)
    executor = await SlurmExecutor.open(SlurmSettings(folder / "state", **settings))
    try:
        yield SlurmBench(executor)
    finally:
        await executor.close()


async def until(true: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Wait for a condition that nobody reports."""
    async with asyncio.timeout(patience_s):
        while not true():
            await asyncio.sleep(0.05)


def witness(folder: Path, name: str, then: str) -> tuple[str, ...]:
    """A program that leaves a line for each time that it is started, and one when it goes."""
    return ("/bin/bash", "-c", f"{witness_script(folder, name)}\n{then}")


def witness_script(folder: Path, name: str) -> str:
    file = folder / f"{name}.witness"
    file.touch()
    file.chmod(0o666)
    return f'echo "start ${{FAIRLEAD_RUN:-0}} $(date +%s.%N) $$" >> {file}\ntrap \'echo "end $(date +%s.%N)" >> {file}\' EXIT'


def starts(folder: Path, name: str) -> int:
    return sum(line.startswith("start") for line in (folder / f"{name}.witness").read_text().splitlines())


def pids(folder: Path, name: str) -> list[int]:
    lines = (folder / f"{name}.witness").read_text().splitlines()
    return [int(line.split()[3]) for line in lines if line.startswith("start")]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wall() -> float:
    return time.time()


def rm(path: Path) -> None:
    os.unlink(path)
