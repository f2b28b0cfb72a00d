"""Runs jobs through Slurm: the Slurm executor.

All it knows is in its state directory and in Slurm: a directory per run (see `runfiles`), and a Slurm job that names the run in its
comment. A run becomes a held Slurm job, pinned to the nodes that were chosen; its number is written down, then it is released. So
one that was submitted twice, since nobody knows what a killed scheduler had sent off, runs once.

What happens on the nodes is told by the agents' files, which are looked at a few times a second without asking Slurm for anything.
What Slurm itself says about all jobs and nodes is asked for once every `poll_s`, in two calls.

Everything about runs happens in one thread, the desk, so that no slow filesystem keeps the event loop waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from fairlead.backends.local.rundir import RunDir, dir_name
from fairlead.backends.orders import Refused, unix_user
from fairlead.backends.slurm import judge, plan, runfiles
from fairlead.backends.slurm.chores import Chores
from fairlead.backends.slurm.commands import Slurm, SlurmAway, SlurmError
from fairlead.backends.slurm.deploy import deploy, instance_name, make_log, open_up
from fairlead.backends.slurm.guests import Guests
from fairlead.backends.slurm.inventory import Site, survey
from fairlead.backends.slurm.matching import Matching
from fairlead.backends.slurm.pilots import Pilots, check_that_it_can_follow
from fairlead.backends.slurm.rows import Row, all_jobs, excluded_nodes, node_states
from fairlead.backends.slurm.runs import Run
from fairlead.backends.slurm.settings import PILOT, SlurmSettings, capabilities
from fairlead.model.cluster import ClusterSpec
from fairlead.model.errors import InputError
from fairlead.runtime.protocols import Found, Order, Report, ReportKind, Suspension

log = logging.getLogger(__name__)
_T = TypeVar("_T")
_Key = tuple[str, int]
#: how often the agents' files are looked at; more runs, less often
SCAN_S, SCAN_PER_RUN_S = 0.2, 0.001
#: chores that come together are told together
GATHER_S = 0.02


class SlurmExecutor:
    """`await SlurmExecutor.open(settings)`; what still ran when the last one went away is adopted then."""

    name = "slurm"

    def __init__(self, settings: SlurmSettings, slurm: Slurm, site: Site, lock: RunDir) -> None:
        self.settings, self.slurm, self.site = settings, slurm, site
        self.capabilities = capabilities(settings.mode)
        self.runs: dict[_Key, Run] = {}
        self.rows: Mapping[str, Row] = {}
        self.rows_s = -1.0  #: when they were asked for, by the clock that never falls back
        self.instance = instance_name(lock.path)
        self.is_away = False
        self._lock = lock
        self._runs_dir = os.path.join(lock.path, "runs")
        self._library = deploy(lock.path)
        self._reports: asyncio.Queue[Report | BaseException | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._desk = ThreadPoolExecutor(1, "fairlead-slurm")
        self._tasks: set[asyncio.Task[None]] = set()
        self._todo = asyncio.Event()
        self._poll_now = asyncio.Event()
        self._polled = asyncio.Condition()
        self._down: dict[str, str] = {}
        self._submitting: set[_Key] = set()
        self._unasked: dict[tuple[str, int, str], None] = {}  #: what could not be written, to be tried again
        self.chores = Chores(slurm, self._have_it_done)
        self.matching = Matching(self.instance, self.chores)
        self.guests = Guests(lock.path, site, self.chores, self._emit)
        self.pilots = Pilots(lock.path, site, settings, slurm, self._library, self.instance)

    @classmethod
    async def open(cls, settings: SlurmSettings) -> SlurmExecutor:
        """InputError where another executor has this state directory, where it can't be used, and where Slurm can't."""
        top = os.path.abspath(settings.state_dir)
        path = os.path.join(top, "slurm")
        try:
            for part in (path, os.path.join(path, "runs"), os.path.join(top, "logs")):
                os.makedirs(part, 0o700, exist_ok=True)
            for part in (top, path, os.path.join(path, "runs"), os.path.join(top, "logs")):
                open_up(part)
            lock = RunDir(path)
            free = lock.claim(wait_s=1.0)
        except OSError as error:
            raise InputError(f"the state directory can't be used: {error.strerror}", value=top) from None
        if not free:
            raise InputError("another scheduler uses this state directory", value=top, accepts="a directory of its own")
        try:
            slurm = Slurm(settings)
            site = await survey(slurm, settings.partition)
            if settings.mode == PILOT:  # where all nodes are ours, Slurm could not run anything else there
                site = replace(site, adopts=False)
            executor = cls(settings, slurm, site, lock)
            await executor._take_up()
            executor._follow()
        except SlurmError as error:
            lock.release()
            raise InputError(f"Slurm can't be asked: {error}", accepts="a Slurm that answers") from None
        except BaseException:
            lock.release()
            raise
        return executor

    # -- what there is -------------------------------------------------------------------------------------------------

    async def inventory(self) -> ClusterSpec:
        return self.site.spec

    async def found(self) -> Sequence[Found]:
        """From here on adopted runs report like any other."""

        def list_them() -> list[Found]:
            for run in self.runs.values():
                run.is_silent = False
            return [run.found() for _, run in sorted(self.runs.items())]

        return await self._at_desk(list_them)

    async def reports(self) -> AsyncIterator[Report]:
        """For one listener. Raises what ended one of the loops that all of them come from: nothing would be told any more."""
        while (report := await self._reports.get()) is not None:
            if isinstance(report, BaseException):
                raise report
            yield report

    # -- what it is told -----------------------------------------------------------------------------------------------

    async def start(self, order: Order) -> None:
        run = await self._at_desk(lambda: self._begin(order))
        if run is not None and not run.is_over and not run.foreign and self.settings.mode != PILOT:
            self._go(self._submit(run))

    def _begin(self, order: Order) -> Run | None:
        """Written down before anything is done. None where that was before, or can't be done."""
        if (order.job, order.run) in self.runs:
            return None
        try:
            user = None if order.foreign else unix_user(order.user)
            owner = (user["uid"], user["gid"]) if user else None
            doc = plan.plan(order, self.site, self.settings)
            before = self.runs.get((order.job, order.run - 1)) if self.settings.mode == PILOT else None
            if before is not None and not before.is_over:
                check_that_it_can_follow(order, before, doc)
            if not order.foreign:
                doc["log"] = self._log(order)
                make_log(doc["log"], owner)
            notes = self._first_notes(order, doc, before)
            run = Run.create(self._runs_dir, doc, None if self.settings.mode == PILOT else owner, notes)
        except (Refused, OSError) as error:
            ours = isinstance(error, OSError)
            why = f"its order can't be written down: {error}" if ours else str(error)
            self._emit(Report(ReportKind.FAILED_TO_START, time.time(), order.job, order.run, message=why, retry=ours))
            return None
        self.runs[run.key] = run
        if order.foreign or self.settings.mode == PILOT:
            run.known_s = time.monotonic()
        if order.foreign:
            self.guests.order(run, self.rows.get(run.slurm_id))
        elif self.settings.mode == PILOT:
            self._judge(run)  # which delivers it
        return run

    def _first_notes(self, order: Order, doc: runfiles.Doc, before: Run | None) -> runfiles.Doc:
        """All that must be known to go on with it, written down with it: there is no moment at which half of it is there."""
        if order.foreign:
            return self.guests.notes(order.foreign, self.rows)
        if self.settings.mode == PILOT:
            return self.pilots.notes([place.node for place in order.places], before)
        path = os.path.join(self._runs_dir, dir_name(order.job, order.run))
        words = plan.submission(order, doc, self.site, self.settings, self.instance)
        return {"words": words, "script": plan.script(path, self._library, order, self.settings)}

    def _log(self, order: Order) -> str:
        name = order.log or dir_name(order.job, order.run).rpartition("@")[0] + ".log"
        return os.path.join(os.path.abspath(self.settings.state_dir), "logs", name)

    async def suspend(self, job: str, run: int) -> None:
        await self._at_desk(lambda: self._ask(job, run, runfiles.SUSPEND))

    async def stop(self, job: str, run: int) -> None:
        await self._at_desk(lambda: self._ask(job, run, runfiles.STOP))

    def _ask(self, job: str, number: int, word: str) -> None:
        try:
            self._ask_now(job, number, word)
        except OSError as error:
            log.warning("run %d of %s can't be asked to leave yet: %s", number, job, error)
            self._unasked[job, number, word] = None

    def _ask_now(self, job: str, number: int, word: str) -> None:
        run = self.runs.get((job, number))
        if run is None or run.is_over:
            return
        if word == runfiles.SUSPEND and not run.order["methods"]:
            return
        if not run.ask(word):
            return
        if run.foreign:
            self.guests.ask(run, self.rows.get(run.slurm_id))
        elif self.settings.mode == PILOT:
            if not run.has_begun() and self.pilots.call_off(run):
                self._conclude(run, run.called_off())
        elif run.slurm_id and not run.has_begun():
            self.chores.call_off(run.slurm_id)
            self._loop.call_soon_threadsafe(self._poll_now.set)

    async def forget(self, job: str, run: int) -> None:
        def drop() -> None:
            known = self.runs.get((job, run))
            if known is not None and known.is_over:
                del self.runs[job, run]
                known.remove()

        await self._at_desk(drop)

    async def decline(self, foreign: str, why: str, *, cancel: bool) -> None:
        await self._at_desk(lambda: self.guests.decline(foreign, why, cancel))

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._desk.shutdown()
        self._lock.release()
        self._reports.put_nowait(None)

    # -- submitting ----------------------------------------------------------------------------------------------------

    async def _submit(self, run: Run) -> None:
        """Until Slurm has it, or says that it won't. Where nobody knows whether it has, the next look at Slurm tells."""
        self._submitting.add(run.key)
        try:
            while not run.slurm_id and not run.is_over:
                if run.asked:
                    await self._written(lambda: self._conclude(run, run.called_off()))
                    return
                try:
                    said = await self.slurm.call(*run.notes["words"], stdin=run.notes["script"], patient=True)
                except SlurmAway as error:
                    log.warning("a job could not be submitted: %s", error)
                    self._submitting.discard(run.key)
                    await self._next_poll()
                    self._submitting.add(run.key)
                except SlurmError as error:
                    report = run.report(
                        ReportKind.FAILED_TO_START, time_s=time.time(), message=str(error), retry=_may_work_later(error)
                    )
                    await self._written(lambda report=report: self._conclude(run, report))  # type: ignore[misc]
                else:
                    number = said.strip().split(";")[0]
                    await self._written(lambda number=number: self._submitted(run, number))  # type: ignore[misc]
        finally:
            self._submitting.discard(run.key)

    def _submitted(self, run: Run, number: str) -> None:
        run.note(slurm_id=number)
        run.known_s = time.monotonic()
        if run.asked:
            self.chores.call_off(number)
        else:
            self.chores.release(number)

    async def _written(self, work: Callable[[], None]) -> None:
        """Tried until the disk takes it: Slurm has done its part, and must not be told again."""
        while True:
            try:
                return await self._at_desk(work)
            except OSError as error:
                log.warning("what became of a submission could not be written down: %s", error)
                await asyncio.sleep(self.settings.poll_s)

    async def _next_poll(self) -> None:
        async with self._polled:
            await self._polled.wait()

    # -- following -----------------------------------------------------------------------------------------------------

    async def _take_up(self) -> None:
        """Whatever is in the state directory, then whatever Slurm has to say about it."""

        def load() -> None:
            for name in sorted(os.listdir(self._runs_dir)):
                path = os.path.join(self._runs_dir, name)
                run = None if name.startswith(".") else Run.load(path)
                if run is None:
                    Run.clear_away(path)
                    continue
                self.runs[run.key] = run
                self._recall(run)
            self.guests.load(self.runs.values())

        await self._at_desk(load)
        await self._poll()

    def _recall(self, run: Run) -> None:
        """What was told of it before."""
        try:
            run.read()
            told = judge.by_agents(run)
            run.told = str(told.kind) if told else ""
            if run.foreign and "started_s" in run.notes:
                run.told = str(ReportKind.STARTED)
        except Exception:
            log.exception("run %d of %s can't be read", run.run, run.job)

    def _follow(self) -> None:
        for run in self.runs.values():
            if not (run.is_over or run.foreign or run.slurm_id or "words" not in run.notes):
                self._go(self._submit(run))
        for work in (self._poll_for_ever(), self._scan_for_ever(), self._do_for_ever()):
            self._go(work)

    async def _poll_for_ever(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._poll_now.wait(), self.settings.poll_s)
            self._poll_now.clear()
            try:
                await self._poll()
            except SlurmError as error:
                if not self.is_away:
                    log.warning("Slurm can't be asked, its jobs run on: %s", error)
                self.is_away = True
            except OSError as error:
                log.warning("what Slurm said could not be written down: %s", error)

    async def _poll(self) -> None:
        began_s = time.monotonic()
        submitting = set(self._submitting)
        rows = await all_jobs(self.slurm)
        down = await node_states(self.slurm, self.site.runs_in)
        excluded = await excluded_nodes(self.slurm) if self.guests.has_news(rows) else {}
        self.is_away = False
        closed = dict(down)
        if self.settings.mode == PILOT:
            closed = self.pilots.learn(rows) | {node: why for node, why in down.items() if why}
            closed |= {node: "" for node in self.site.nodes if node not in closed}
        await self._at_desk(lambda: self._learn(began_s, rows, closed, submitting, excluded))
        if self.settings.mode == PILOT:
            await self.pilots.keep(rows, {name for name, why in down.items() if why})
        async with self._polled:
            self._polled.notify_all()

    def _learn(
        self,
        began_s: float,
        rows: Mapping[str, Row],
        down: Mapping[str, str],
        submitting: set[_Key],
        excluded: Mapping[str, str],
    ) -> None:
        self.rows, self.rows_s = rows, began_s
        for node, why in down.items():
            if node in self.site.nodes and why != self._down.get(node, ""):
                if bool(why) != bool(self._down.get(node, "")):
                    kind = ReportKind.NODE_DOWN if why else ReportKind.NODE_UP
                    self._emit(Report(kind, time.time(), node=node, message=why))
                self._down[node] = why
        self.matching.look(rows, self.runs.values(), submitting | self._submitting, self._submitted)
        for run in list(self.runs.values()):
            self._judge(run)
        self.guests.look(rows, excluded, {run.slurm_id for run in self.runs.values() if not run.foreign})

    async def _scan_for_ever(self) -> None:
        while True:
            await asyncio.sleep(max(SCAN_S, SCAN_PER_RUN_S * len(self.runs)))
            try:
                await self._at_desk(self._scan)
            except OSError as error:
                log.warning("what became of runs could not be written down: %s", error)

    def _scan(self) -> None:
        unasked, self._unasked = self._unasked, {}
        for ask in unasked:
            self._ask(*ask)
        for run in list(self.runs.values()):
            if not run.is_over and not run.foreign:
                self._judge(run)

    async def _do_for_ever(self) -> None:
        while True:
            await self._todo.wait()
            await asyncio.sleep(GATHER_S)
            self._todo.clear()
            try:
                await self.chores.do()
            except SlurmAway:
                await self._next_poll()
                self._todo.set()

    # -- judging -------------------------------------------------------------------------------------------------------

    def _judge(self, run: Run) -> None:
        """One run's trouble is no other's: what its files hold is its user's, and the disk may be full."""
        if run.is_over:
            return
        try:
            self._judge_by_all(run)
            run.trouble = ""
        except Exception as error:
            if run.trouble != str(error):  # else it was said already, and will be tried again
                run.trouble = str(error)
                known = isinstance(error, OSError)
                log.error("run %d of %s can't be judged: %s", run.run, run.job, error, exc_info=not known)

    def _judge_by_all(self, run: Run) -> None:
        row = self.rows.get(run.slurm_id)
        if row is not None and not run.foreign and row["comment"] != self._name_of(run):
            row = None  # a controller that was killed may give a number twice
        is_fresh = bool(run.slurm_id) and self.rows_s > run.known_s
        if run.foreign:
            report = self.guests.judge(run, row, self._down) if is_fresh else None
        else:
            if self.settings.mode == PILOT and not run.is_delivered:
                self.pilots.deliver(run, self.runs.get((run.job, run.run - 1)))
            run.read()
            report = judge.by_agents(run)
            if (report is None or not judge.is_end(report)) and is_fresh and self.settings.mode == PILOT:
                before = self.runs.get((run.job, run.notes.get("continues", 0)))
                report = self.pilots.judge(run, before, self.rows, self.rows_s) or report
            elif (report is None or not judge.is_end(report)) and is_fresh:
                down = "; ".join(why for node in run.nodes if (why := self._down.get(node)))
                report = judge.by_slurm(run, row, self.rows_s, down, self.settings.lease_s, self.chores) or report
        if report is None:
            return
        if judge.is_end(report):
            self._conclude(run, report)
        elif run.told != str(report.kind):
            if report.kind == ReportKind.RESUMED:
                before = self.runs.get((run.job, run.run - 1))
                if before is not None and not before.is_over:
                    before.keep(before.report(ReportKind.SUSPENDED, method=Suspension.STOP, message="it went on"))
            run.told = str(report.kind)
            self._tell(run, report)

    def _name_of(self, run: Run) -> str:
        return plan.identity(self.instance, run.job, run.run)

    def _conclude(self, run: Run, report: Report) -> None:
        """Written down first: where that fails it is as if nobody had noticed yet, and nothing was told."""
        started = run.unseen_start()
        run.keep(report)
        if started is not None:
            self._tell(run, started)
        if run.foreign:
            self.guests.concluded(run, report)
        elif self.settings.mode == PILOT:
            self.pilots.concluded(run)
        self._tell(run, report)

    def _have_it_done(self) -> None:
        self._loop.call_soon_threadsafe(self._todo.set)

    def _tell(self, run: Run, report: Report) -> None:
        if not run.is_silent:
            self._emit(report)

    def _emit(self, report: Report) -> None:
        self._loop.call_soon_threadsafe(self._reports.put_nowait, report)

    # -- small things --------------------------------------------------------------------------------------------------

    async def _at_desk(self, work: Callable[[], _T]) -> _T:
        return await self._loop.run_in_executor(self._desk, work)

    def _go(self, work: object) -> None:
        task: asyncio.Task[None] = self._loop.create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("something that should go on has ended", exc_info=error)
            self._reports.put_nowait(error)


def _may_work_later(error: SlurmError) -> bool:
    """Whether it is Slurm's trouble rather than the job's own."""
    own = ("invalid user", "invalid account", "node configuration is not available", "memory specification", "uid")
    return not any(sign in str(error).lower() for sign in own)
