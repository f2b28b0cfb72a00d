"""A trace as real processes on virtual GPUs, each working for its stated time."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.backends.local.executor import LocalExecutor
from fairlead.backends.local.settings import LocalSettings
from fairlead.model.cluster import ClusterSpec
from fairlead.model.job import JobSpec
from fairlead.server.clock import WallClock
from fairlead.server.scheduler import Scheduler
from fairlead.server.store import Store, UserRow
from fairlead.server.unix_user import SELF, UnixUsers

if TYPE_CHECKING:
    from fairlead.workload.trace import Trace

USER = "rehearsal"
#: the first second is a multiple of it on the scheduler's clock, so that quanta which divide it tick as they do in simulation
ALIGNED_S = 10.0
#: works for so many seconds of its own time: while it is stopped it does not work, and time that passed meanwhile is no work
PROGRAM = """
import sys, time
left, last = float(sys.argv[1]), time.monotonic()
while left > 0:
    time.sleep(min(left, 0.02))
    now = time.monotonic()
    left -= min(now - last, 0.1)
    last = now
"""


def program(seconds: float) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", PROGRAM, f"{seconds:.3f}")


@dataclass(frozen=True)
class Lived:
    """What became of one job, in seconds since the first could be submitted."""

    submit_s: float
    first_start_s: float
    finish_s: float
    ran_s: float
    runs: int
    state: str


async def live_through(
    trace: Trace,
    cluster: ClusterSpec,
    policy: str,
    placer: str,
    folder: Path,
    progress: Callable[[int, int], None] | None = None,
) -> list[Lived]:
    """To the last job's end. Every node must have the same GPUs."""
    first = cluster.nodes[0]
    settings = LocalSettings(folder / "local", gpus=first.gpus, nodes=len(cluster.nodes), gpu_type=first.gpu_type)
    with Store(folder / "fairlead.db") as store:
        store.accounts.put_user(UserRow(USER, USER, 0.0))
        executor = await LocalExecutor.open(settings)
        scheduler = Scheduler(
            store,
            executor,
            cluster,
            WallClock(),
            policy=policy,
            placer=placer,
            logs=folder / "logs",
            users=UnixUsers(SELF),
        )
        await scheduler.open()
        try:
            return await _live(scheduler, trace, progress)
        finally:
            await scheduler.close()


async def _live(scheduler: Scheduler, trace: Trace, progress: Callable[[int, int], None] | None) -> list[Lived]:
    warm = await scheduler.submit(
        _spec(trace, 0, 0.0), USER, _tenant(trace, 0)
    )  # what is compiled late is compiled now
    await _until_ended(scheduler, lambda: not scheduler.jobs, None, 0)
    zero = ALIGNED_S * math.ceil(scheduler.now() / ALIGNED_S)
    ids: list[str] = []
    watch = asyncio.create_task(
        _until_ended(scheduler, lambda: len(ids) == len(trace) and not scheduler.jobs, progress, len(trace), ids)
    )
    for i in range(len(trace)):
        await scheduler.clock.sleep_until(zero + float(trace.submit_s[i]))
        made = await scheduler.submit(_spec(trace, i, float(trace.duration_s[i])), USER, _tenant(trace, i))
        ids.append(made.jobs[0].id)
    await watch
    assert warm.jobs[0].id not in ids
    return [_lived(scheduler, job, zero) for job in ids]


async def _until_ended(
    scheduler: Scheduler,
    holds: Callable[[], bool],
    progress: Callable[[int, int], None] | None,
    jobs: int,
    ids: list[str] | None = None,
) -> None:
    while not holds():
        await scheduler.after(scheduler.last_event, 0.5)
        if scheduler.failure.done():
            scheduler.failure.result()
        if progress is not None and ids is not None:
            progress(len(ids) - len(scheduler.jobs), jobs)


def _spec(trace: Trace, i: int, seconds: float) -> JobSpec:
    return JobSpec(
        run=program(seconds),
        gpus=int(trace.gpus[i]),
        estimate_s=float(trace.duration_s[i]),
        priority=0 if trace.priority is None else int(trace.priority[i]),
        grace_s=5.0,
    )


def _tenant(trace: Trace, i: int) -> str:
    return USER if trace.tenant is None else str(trace.tenant.values[int(trace.tenant.codes[i])])


def _lived(scheduler: Scheduler, job_id: str, zero: float) -> Lived:
    row = scheduler.store.job(job_id)
    assert row.first_start_s is not None
    assert row.finished_s is not None
    return Lived(row.submit_s - zero, row.first_start_s - zero, row.finished_s - zero, row.ran_s, row.run, row.state)
