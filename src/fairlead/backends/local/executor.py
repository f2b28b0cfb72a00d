"""Runs jobs as processes of this machine: the local executor.

All it knows is in its state directory, one directory per run; see `rundir`. Every run has a supervisor, which outlives
this process. A supervisor's death shows as the end of the connection to it, so nothing is polled, however many runs
there are.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeVar

from fairlead.backends.local import layout, procs, rundir, wire
from fairlead.backends.local.inventory import Machine, look, used_memory_mib
from fairlead.backends.local.launch import Launcher
from fairlead.backends.local.limits import usable_cgroup
from fairlead.backends.local.rundir import FAILED, LOST, RUNNING, SUSPENDED, Doc, RunDir
from fairlead.backends.local.runs import Run, kill_rest
from fairlead.backends.local.settings import LocalSettings
from fairlead.backends.orders import Refused
from fairlead.model.cluster import ClusterSpec
from fairlead.model.errors import InputError
from fairlead.runtime.protocols import Capabilities, Found, Order, Report, ReportKind, Suspension

#: how often a supervisor is started for a run before the run is given up
LAUNCHES = 3
_T = TypeVar("_T")
_Key = tuple[str, int]


class LocalExecutor:
    """`await LocalExecutor.open(settings)`; what still ran when the last one went away is adopted then."""

    name = "local"

    def __init__(self, settings: LocalSettings, machine: Machine, lock: RunDir) -> None:
        self.settings = settings
        self.machine = machine
        self.capabilities = _capabilities(settings, machine)
        self._lock = lock
        self._boot_id = rundir.boot_id()
        self._cgroup = usable_cgroup(settings.cgroup)
        self._runs_dir = os.path.join(lock.path, "runs")
        self._runs: dict[_Key, Run] = {}
        self._reports: asyncio.Queue[Report | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(4, "fairlead-local")
        self._launcher = Launcher(lock.path)
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls, settings: LocalSettings) -> LocalExecutor:
        """InputError where another executor has this state directory, or it can't be used."""
        path = os.path.abspath(settings.state_dir)
        try:
            for part in (path, f"{path}/runs", f"{path}/logs"):
                os.makedirs(part, 0o700, exist_ok=True)
            lock = RunDir(path)
            free = lock.claim(wait_s=1.0)
        except OSError as error:
            raise InputError(f"the state directory can't be used: {error.strerror}", value=path) from None
        if not free:
            raise InputError(
                "another scheduler uses this state directory", value=path, accepts="a directory of its own"
            )
        machine = await asyncio.to_thread(look, settings)
        executor = cls(settings, machine, lock)
        await executor._adopt()
        return executor

    # -- what there is -------------------------------------------------------------------------------------------------

    async def inventory(self) -> ClusterSpec:
        return self.machine.cluster

    async def found(self) -> Sequence[Found]:
        """From here on adopted runs report like any other."""
        for run in self._runs.values():
            run.is_silent = False
        return [run.found() for _, run in sorted(self._runs.items())]

    async def reports(self) -> AsyncIterator[Report]:
        """For one listener."""
        while (report := await self._reports.get()) is not None:
            yield report

    # -- what it is told -----------------------------------------------------------------------------------------------

    async def start(self, order: Order) -> None:
        key = (order.job, order.run)
        if key in self._runs:
            return
        run = Run(order.job, order.run, RunDir(os.path.join(self._runs_dir, rundir.dir_name(*key))))
        self._runs[key] = run
        try:
            plan = layout.plan(order, self.machine, self.settings)
            plan |= {"boot_id": self._boot_id, "cgroup": self._cgroup, "continues": self._continued_by(order, plan)}
            await self._in_thread(lambda: RunDir.create(self._runs_dir, run.dir.name, plan))
        except (Refused, OSError) as error:
            del self._runs[key]
            ours = isinstance(error, OSError)
            why = f"its order can't be written down: {error}" if ours else str(error)
            self._reports.put_nowait(Report(ReportKind.FAILED_TO_START, time.time(), *key, message=why, retry=ours))
            return
        run.continues = plan["continues"]
        await self._launch(run)

    def _continued_by(self, order: Order, plan: Doc) -> int | None:
        """The run whose processes this one is to go on with. Raises Refused where they can't go on at its places, and where
        an earlier run has processes that it is not to go on with: a job is never there twice."""
        there = [
            run
            for (job, number), run in self._runs.items()
            if job == order.job and number != order.run and not run.is_over
        ]
        if not there:
            return None
        last = max(there, key=lambda run: run.run)
        if not order.resumes or last.phase != SUSPENDED or last.run > order.run or len(there) > 1:
            raise Refused(f"run {last.run} of it is still {last.phase}; it must end before run {order.run} begins")
        plan["moves"] = self._moves(last, plan)
        return last.run

    def _moves(self, last: Run, plan: Doc) -> dict[str, str]:
        old, new = last.dir.order()["gpus"], plan["gpus"]
        if sum(len(names) for _, names in old) != sum(len(names) for _, names in new):
            raise Refused("its processes were started for another number of GPUs, and must be started again")
        if self.machine.is_virtual or old == new:
            return {}
        pairs = [
            pair for (_, before), (_, after) in zip(old, new, strict=False) for pair in zip(before, after, strict=False)
        ]
        same_shape = [len(names) for _, names in old] == [len(names) for _, names in new]
        if pairs and (last.method != "driver" or not self.machine.moves or not same_shape):
            raise Refused(
                f"it was suspended by {last.method!r} on {old} and can't go on on {new}; "
                "it can go on where it was, or be stopped and started again"
            )
        return dict(pairs)

    async def suspend(self, job: str, run: int) -> None:
        """What the driver would move must fit into this machine's memory, or the kernel kills for it."""
        known = self._runs.get((job, run))
        if known is None or known.phase != RUNNING:
            return
        need_mib = 0
        if self.machine.checkpoints:
            need_mib = await self._in_thread(lambda: self._gpu_memory_mib(known))
        await self._tell(job, run, {"op": "suspend", "gpu_memory_mib": need_mib})

    def _gpu_memory_mib(self, run: Run) -> int:
        names = [name for _, own in run.dir.order().get("gpus", ()) for name in own]
        supervisor = (run.state or {}).get("supervisor", [0])[0]
        return used_memory_mib(names, set(procs.descendants(supervisor)))

    async def stop(self, job: str, run: int) -> None:
        known = self._runs.get((job, run))
        if known and not known.is_over:
            known.stopping = True
            await self._tell(job, run, {"op": "stop"})

    async def _tell(self, job: str, number: int, message: Doc) -> None:
        run = self._runs.get((job, number))
        if run and run.link and not wire.send(run.link, message):
            self._hung_up(run)

    async def forget(self, job: str, run: int) -> None:
        known = self._runs.get((job, run))
        if known and known.is_over:
            del self._runs[job, run]
            self._unlink(known)  # its supervisor may be about to hang up
            await self._in_thread(lambda: rundir.remove(known.dir.path))

    async def decline(self, foreign: str, why: str, *, cancel: bool) -> None:
        """Nobody gives jobs to this machine but through us."""

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for run in self._runs.values():
            self._unlink(run)
        self._threads.shutdown()  # first: a launch under way would begin another nursery, which nobody ends
        self._launcher.close()
        self._lock.release()
        self._reports.put_nowait(None)

    # -- supervisors ---------------------------------------------------------------------------------------------------

    async def _launch(self, run: Run) -> None:
        """A supervisor of its own, or the one that has its processes already."""
        before = self._runs.get((run.job, run.continues)) if run.continues else None
        if before is not None and before.link:
            await self._tell(before.job, before.run, {"op": "continue", "rundir": run.dir.path})
            return
        run.launches += 1
        try:
            if run.launches > LAUNCHES:
                raise OSError(f"{LAUNCHES} died at once, see {self._launcher.errors}")
            self._attach(run, await self._launched(run))
        except OSError as error:
            await self._give_up(run, FAILED, f"its supervisor could not be started: {error}")

    async def _launched(self, run: Run) -> socket.socket:
        """The connection to its supervisor. Where we are closed meanwhile nobody takes it, and it is let go of."""
        coming = self._loop.run_in_executor(self._threads, self._launcher.launch, run.dir.path)
        try:
            return await asyncio.shield(coming)
        except asyncio.CancelledError:
            coming.add_done_callback(
                lambda come: None if come.cancelled() or come.exception() else come.result().close()
            )
            raise

    def _attach(self, run: Run, link: socket.socket) -> None:
        run.link = link
        self._loop.add_reader(link.fileno(), self._hear, run)
        if run.stopping:
            wire.send(link, {"op": "stop"})

    def _unlink(self, run: Run) -> None:
        if run.link:
            self._loop.remove_reader(run.link.fileno())
            run.link.close()
            run.link = None

    def _hear(self, run: Run) -> None:
        assert run.link
        message = wire.receive(run.link)
        if message is None:
            self._hung_up(run)
        elif message:
            state = message["state"]
            about = self._runs.get((run.job, state["run"]))
            if message["serves"] != run.run and about:
                self._goes_on_as(run, about, state)
            if about:
                self._learn(about, state)

    def _goes_on_as(self, run: Run, about: Run, state: Doc) -> None:
        link, run.link = run.link, None
        assert link
        self._loop.remove_reader(link.fileno())
        run.state = {**(run.state or {}), "continued_as": state["run"]}
        self._attach(about, link)

    def _learn(self, run: Run, state: Doc) -> None:
        was = run.phase if run.state else ""
        run.state = state
        report = run.report()
        if report and run.phase != was and not run.is_silent:
            self._reports.put_nowait(report)
        if run.is_over:  # a run that was to go on with its processes and has not begun must begin by itself
            for other in self._runs.values():
                if other.job == run.job and other.continues == run.run and other.state is None and not other.link:
                    self._hung_up(other)

    def _hung_up(self, run: Run) -> None:
        self._unlink(run)
        if not run.is_over:
            task = self._loop.create_task(self._look_again(run))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _look_again(self, run: Run) -> None:
        """The connection is gone: the supervisor has finished, it has died, or it was just too busy to be told."""
        pause_s = 0.005
        while True:
            claimed = run.dir.is_claimed()
            state = run.dir.state()
            if state:
                self._learn(run, state)
            if run.is_over:
                return
            if not claimed:
                if state is None:
                    await self._launch(run)
                else:
                    killed = await self._in_thread(partial(kill_rest, state))
                    rest = f"; {killed} processes of it were killed" if killed else ""
                    await self._give_up(run, LOST, f"its supervisor died{rest}")
                return
            with contextlib.suppress(OSError):
                self._attach(run, wire.connect(run.dir.path))
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, 1.0)

    async def _give_up(self, run: Run, phase: str, why: str) -> None:
        """Write a run off that nobody looks after. Not if a supervisor turns out to have it after all."""

        def write() -> bool:
            if not run.dir.claim():
                return False
            state = {**(run.dir.state() or {}), "job": run.job, "run": run.run, "boot_id": self._boot_id}
            state |= {"phase": phase, "time_s": time.time(), "message": why}
            with contextlib.suppress(OSError):  # a full disk: the next executor will find the same
                run.dir.write_state(state, durable=True)
            run.dir.release()
            self._loop.call_soon_threadsafe(self._learn, run, state)
            return True

        if not await self._in_thread(write):
            self._hung_up(run)

    # -- adoption ------------------------------------------------------------------------------------------------------

    async def _adopt(self) -> None:
        """Whatever is in the state directory. An order that no supervisor got before the last executor died is launched
        again: if one got it after all, the second supervisor finds that out and leaves."""
        for name in sorted(os.listdir(self._runs_dir)):
            path = os.path.join(self._runs_dir, name)
            if name.startswith("."):
                await self._in_thread(partial(rundir.remove, path))
                continue
            found = RunDir(path)
            order, state = found.order(), found.state()
            job, run = order.get("job"), order.get("run")
            if job is None or run is None:
                await self._in_thread(partial(rundir.remove, path))
                continue
            self._runs[job, run] = Run(job, run, found, state, is_silent=True, continues=order.get("continues"))
        for run in sorted(self._runs.values(), key=lambda run: (run.job, run.run)):
            if run.is_over:
                continue
            if (run.state or run.dir.order()).get("boot_id") != self._boot_id:
                await self._give_up(run, LOST, "the machine was started again meanwhile")
            else:
                await self._look_again(run)

    # -- small things --------------------------------------------------------------------------------------------------

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await self._loop.run_in_executor(self._threads, work)


def _capabilities(settings: LocalSettings, machine: Machine) -> Capabilities:
    """A job with its own checkpoint signal can do more than this says; none can do less. Without any better way a job is
    killed and starts again from its last checkpoint, on whatever GPUs and however many: that is also how one is resized."""
    can = Capabilities(suspend=True, frees_memory=True, migrate=True, resize=True, share=True)
    if machine.is_virtual or not machine.cluster.gpus:
        return replace(can, ways=(Suspension.CHECKPOINT, Suspension.STOP, Suspension.REQUEUE))
    ways = [
        Suspension.CHECKPOINT,
        *[Suspension.DRIVER] * machine.checkpoints,
        *[Suspension.STOP] * settings.keep_memory,
    ]
    can = replace(can, ways=(*ways, Suspension.REQUEUE))
    if machine.checkpoints:
        return replace(can, migrate=machine.moves)
    if settings.keep_memory:
        return replace(can, frees_memory=False, migrate=False)
    return can
