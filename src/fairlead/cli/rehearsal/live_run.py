"""A trace as real processes, each working for its stated time: on virtual GPUs of this machine, or wherever an engine puts them."""

from __future__ import annotations

import asyncio
import contextlib
import math
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.backends.local.executor import LocalExecutor
from fairlead.backends.local.settings import LocalSettings
from fairlead.cli.rehearsal.workload import alike
from fairlead.model.cluster import ClusterSpec
from fairlead.model.errors import InputError
from fairlead.model.job import JobSpec
from fairlead.runtime.live_jobs import Costs
from fairlead.runtime.protocols import Executor
from fairlead.server.clock import WallClock
from fairlead.server.scheduler import Scheduler
from fairlead.server.store import Store, UserRow
from fairlead.server.unix_user import SELF, UnixUsers
from fairlead.state.rules import Options

if TYPE_CHECKING:
    from fairlead.workload.trace import Trace

USER = "rehearsal"
#: the first second is a multiple of it on the scheduler's clock, so that quanta which divide it tick as they do in simulation
ALIGNED_S = 10.0
#: jobs that tell how long an engine takes to suspend one, how many of them only warm it up, and what each works
MEASURED, WARMING, MEASURED_S = 7, 3, 15.0
APART_S = 1.37  #: and how far apart they start
#: jobs like those of the workload, that come as fast, and how many of them only fill the GPUs: an engine takes longer to start one
#: while it ends and starts others
ALIKE, FILLING = 45, 15
#: works for so many seconds of its own time: while it is stopped it does not work, and time that passed meanwhile is no work. What it
#: takes to begin is not its work either, so it imports little
PROGRAM = """
import sys, time
left, last = float(sys.argv[1]), time.monotonic()
while left > 0:
    time.sleep(min(left, 0.02))
    now = time.monotonic()
    left -= min(now - last, 0.1)
    last = now
"""
#: before it, where a file is to keep what is left: that is written down when it is asked to, and it goes on from there
KEEPING = """
import os, signal, sys
def save(*_):
    with open(sys.argv[2] + '.new', 'w') as file:
        file.write(repr(left))
    os.replace(sys.argv[2] + '.new', sys.argv[2])
    os._exit(0)
if os.path.exists(sys.argv[2]):
    sys.argv[1] = open(sys.argv[2]).read()
left = float(sys.argv[1])
signal.signal(signal.SIGUSR1, save)
"""


def program(seconds: float, kept: Path | None = None) -> tuple[str, ...]:
    python = (sys.executable, "-I", "-S", "-c")
    if kept is None:
        return (*python, PROGRAM, f"{seconds:.3f}")
    return (*python, KEEPING + PROGRAM, f"{seconds:.3f}", str(kept))


@dataclass(frozen=True)
class Lived:
    """What became of one job, in seconds since the first could be submitted."""

    submit_s: float
    first_start_s: float
    finish_s: float
    ran_s: float
    runs: int
    state: str


@dataclass(frozen=True)
class Latencies:
    """What an engine takes on average, in seconds."""

    start_s: float = 0.0  #: from a decision until the job's processes are there
    end_s: float = 0.0  #: from their end until that is known
    suspend_s: float = 0.0  #: from the decision until the GPUs are free

    def costs(self) -> Options:
        """For a simulation of that engine. GPUs are held while a job starts and until its end is known."""
        return Options(start_cost_s=self.start_s + self.end_s, resume_cost_s=self.suspend_s + self.start_s)

    def starting(self) -> Costs:
        """For a scheduler on that engine, which sees by itself when jobs have left and ended."""
        return Costs(self.start_s, self.start_s)


@dataclass(frozen=True)
class Stage:
    """Where a workload is lived through."""

    open: Callable[[Path], Awaitable[Executor]]
    engine: bool = False  #: whose jobs keep what is left of them in files, and whose latencies are measured


def own_stage(cluster: ClusterSpec) -> Stage:
    """This machine. Every node must have the same GPUs."""
    first = cluster.nodes[0]

    async def open_local(folder: Path) -> Executor:
        return await LocalExecutor.open(
            LocalSettings(folder / "local", gpus=first.gpus, nodes=len(cluster.nodes), gpu_type=first.gpu_type)
        )

    return Stage(open_local)


async def live_through(
    trace: Trace,
    cluster: ClusterSpec,
    policy: str,
    placer: str,
    folder: Path,
    stage: Stage,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[Lived], Latencies]:
    """To the last job's end. What the engine took meanwhile is told too."""
    with Store(folder / "fairlead.db") as store:
        store.accounts.put_user(UserRow(USER, USER, 0.0))
        executor = await stage.open(folder)
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
            return await _live(scheduler, trace, folder if stage.engine else None, progress)
        finally:
            await scheduler.close()


async def _live(
    scheduler: Scheduler, trace: Trace, kept: Path | None, progress: Callable[[int, int], None] | None
) -> tuple[list[Lived], Latencies]:
    warm = await scheduler.submit(
        _spec(trace, 0, 0.0, None), USER, _tenant(trace, 0)
    )  # what is compiled late is compiled now
    await _until(scheduler, _has(scheduler, warm.jobs[0].id, "end"))
    before = None if kept is None else await _measure(scheduler, trace, kept)
    if before is not None:
        await scheduler.set_costs(before.starting())
    zero = ALIGNED_S * math.ceil(scheduler.now() / ALIGNED_S)
    ids: list[str] = []
    watch = asyncio.create_task(
        _until_ended(scheduler, lambda: len(ids) == len(trace) and not scheduler.jobs, progress, len(trace), ids)
    )
    for i in range(len(trace)):
        await scheduler.clock.sleep_until(zero + float(trace.submit_s[i]))
        made = await scheduler.submit(_spec(trace, i, float(trace.duration_s[i]), kept), USER, _tenant(trace, i))
        ids.append(made.jobs[0].id)
    await watch
    assert warm.jobs[0].id not in ids
    found = Latencies() if before is None else _seen(scheduler, ids, [before.suspend_s])
    return [_lived(scheduler, job, zero) for job in ids], found


async def _measure(scheduler: Scheduler, trace: Trace, kept: Path) -> Latencies:
    """Beforehand, for the scheduler: a policy that counts service must know how much of a run was only its start."""
    suspends = await _suspend_some(scheduler, kept, _tenant(trace, 0))
    some, own = alike(trace, ALIKE), kept / "alike"
    own.mkdir()
    began_s, ids = scheduler.now(), []
    for i in range(len(some)):
        await scheduler.clock.sleep_until(began_s + float(some.submit_s[i]))
        spec = _spec(some, i, float(some.duration_s[i]), own)
        ids.append((await scheduler.submit(spec, USER, _tenant(some, i))).jobs[0].id)
    for job in ids:
        await _ended(scheduler, job)
    return _seen(scheduler, ids[FILLING:], suspends)


def _seen(scheduler: Scheduler, ids: Sequence[str], suspends: Sequence[float]) -> Latencies:
    """What it took with these jobs. `suspends`: what counts where none of them was suspended."""
    starts, ends, own = [], [], []
    for job in ids:
        starts += _between(scheduler, job, "start", "started") + _between(scheduler, job, "start", "resumed")
        own += _between(scheduler, job, "suspend", "suspended")
        finished_s = scheduler.store.job(job).finished_s
        assert finished_s is not None
        ends.append(_times(scheduler, job)["end"][0] - finished_s)  # by our clock, and by its supervisor's
    return Latencies(*(sum(one) / len(one) if one else 0.0 for one in (starts, ends, own or suspends)))


async def _suspend_some(scheduler: Scheduler, kept: Path, tenant: str) -> list[float]:
    """A few jobs by themselves, each suspended once on its way: how long that takes."""
    ids = []
    for i in range(MEASURED):
        spec = JobSpec(
            run=program(MEASURED_S, kept / f"measured-{i}"), gpus=1, estimate_s=MEASURED_S,
            grace_s=5.0, checkpoint_signal="SIGUSR1",
        )  # fmt: skip
        made = await scheduler.submit(spec, USER, tenant)
        ids.append(made.jobs[0].id)
        await asyncio.sleep(APART_S)  # not in step with whoever asks the engine how things stand
    for job in ids:
        await _until(scheduler, _has(scheduler, job, "started", "end"))
        await asyncio.sleep(0.5)
        with contextlib.suppress(InputError):  # one that has ended is told of below
            await scheduler.suspend(job, USER)
    for job in ids:
        await _until(scheduler, _has(scheduler, job, "suspended", "end"))
        with contextlib.suppress(InputError):
            await scheduler.resume(job, USER)
        await asyncio.sleep(APART_S)
    found = []
    for job in ids:
        await _ended(scheduler, job)
        found.append(_between(scheduler, job, "hold", "suspended"))
    return [one for some in found[WARMING:] for one in some]


def _between(scheduler: Scheduler, job: str, first: str, then: str) -> list[float]:
    """Seconds from the one to the other, of each of its runs that saw both: one may be suspended before its processes are there."""
    began: dict[int, float] = {}
    found = []
    for event in scheduler.store.timeline(job):
        if event.kind == first and event.run is not None:
            began[event.run] = event.time_s
        elif event.kind == then and event.run in began:
            found.append(event.time_s - began.pop(event.run))
    return found


async def _ended(scheduler: Scheduler, job: str) -> None:
    """Once that is known."""
    await _until(scheduler, _has(scheduler, job, "end"))
    row = scheduler.store.job(job)
    if row.state != "done":
        raise InputError(f"a job that was to measure the engine is {row.state}: {row.message}", value=job)


def _times(scheduler: Scheduler, job: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for event in scheduler.store.timeline(job):
        found.setdefault(event.kind, []).append(event.time_s)
    return found


def _has(scheduler: Scheduler, job: str, *kinds: str) -> Callable[[], bool]:
    """Whether anything of the kind has happened to it."""
    return lambda: not _times(scheduler, job).keys().isdisjoint(kinds)


async def _until(scheduler: Scheduler, holds: Callable[[], bool]) -> None:
    await _until_ended(scheduler, holds, None, 0)


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


def _spec(trace: Trace, i: int, seconds: float, kept: Path | None) -> JobSpec:
    return JobSpec(
        run=program(seconds, None if kept is None else kept / f"left-{i}"),
        gpus=int(trace.gpus[i]),
        estimate_s=float(trace.duration_s[i]),
        priority=0 if trace.priority is None else int(trace.priority[i]),
        grace_s=5.0,
        checkpoint_signal="" if kept is None else "SIGUSR1",
    )


def _tenant(trace: Trace, i: int) -> str:
    return USER if trace.tenant is None else str(trace.tenant.values[int(trace.tenant.codes[i])])


def _lived(scheduler: Scheduler, job_id: str, zero: float) -> Lived:
    row = scheduler.store.job(job_id)
    assert row.first_start_s is not None
    assert row.finished_s is not None
    return Lived(row.submit_s - zero, row.first_start_s - zero, row.finished_s - zero, row.ran_s, row.run, row.state)
