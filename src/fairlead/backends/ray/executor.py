"""Runs jobs on a Ray cluster: the Ray executor.

A run is a placement group on the nodes that it was ordered to, a detached actor in each of its bundles, and below each actor a
supervisor that starts the job's programs. What became of a run is in its directory; what there is to follow comes from the
actors as it happens, and once a poll everything is looked at afresh: nodes, actors, groups, and the directories of what runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import TypeVar

from fairlead.backends.local.rundir import FAILED, LOST, RUNNING, STARTING, SUSPENDED, Doc, RunDir, dir_name, write_file
from fairlead.backends.orders import Refused
from fairlead.backends.ray import runs, ship
from fairlead.backends.ray.bridge import Bridge
from fairlead.backends.ray.fence import Fence
from fairlead.backends.ray.nodes import Node, Nodes
from fairlead.backends.ray.plan import plan
from fairlead.backends.ray.runs import Run
from fairlead.backends.ray.settings import CAPABILITIES, RaySettings
from fairlead.backends.ray.whole import has_failed, is_over, phase_of, report_of
from fairlead.model.cluster import ClusterSpec
from fairlead.model.errors import InputError
from fairlead.runtime.protocols import Found, Order, Report, ReportKind

#: how long there may be no word from Ray before its nodes count as out of reach
SILENCE_S = 20.0
#: how long to wait before the state directory is tried again
_AGAIN_S = 1.0
log = logging.getLogger(__name__)
_T = TypeVar("_T")
_Key = tuple[str, int]


class RayExecutor:
    """`await RayExecutor.open(settings)`; what still runs from before is adopted then."""

    name = "ray"
    capabilities = CAPABILITIES

    def __init__(self, settings: RaySettings, folder: str, lock: RunDir, adopted: Iterable[Run]) -> None:
        """Whatever Ray has of ours and we don't know is let go, so everything is known before the first word comes."""
        self.settings = settings
        self._lock = lock
        self._runs_dir = os.path.join(folder, "runs")
        self._runs: dict[_Key, Run] = {}
        self._by_name: dict[str, Run] = {}
        for run in adopted:
            self._adopt(run)
        self._reports: asyncio.Queue[Report | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._deadlines: dict[_Key, asyncio.TimerHandle] = {}
        self._first_poll = asyncio.Event()
        self._heard_s = self._loop.time()
        self._is_asked = False  #: what was found has been told
        self._is_taken_up = False  #: since the last connection, everything that runs has been taken up
        self.nodes = Nodes(os.path.join(folder, "nodes.json"))
        self._namespace = _namespace(folder)
        self.bridge = Bridge(settings, self._namespace, ship.lay_down(folder), folder, self._hear)
        self._fence = Fence(self, settings.fence_s)

    @classmethod
    async def open(cls, settings: RaySettings) -> RayExecutor:
        """InputError where another executor has this state directory, or Ray can't be reached and never was."""
        folder = os.path.join(os.path.abspath(settings.state_dir), "ray")
        lock = RunDir(folder)
        try:
            for part in (f"{folder}/runs", os.path.join(settings.state_dir, "logs")):
                os.makedirs(part, 0o700, exist_ok=True)
            if not lock.claim(wait_s=1.0):
                raise InputError(
                    "another scheduler uses this state directory", value=folder, accepts="a directory of its own"
                )
            executor = cls(settings, folder, lock, await asyncio.to_thread(runs.read_all, f"{folder}/runs"))
        except OSError as error:
            lock.release()
            raise InputError(f"the state directory can't be used: {error.strerror}", value=folder) from None
        try:
            await executor._wait_for_ray()
        except BaseException:
            await executor.close()
            raise
        executor._spawn(executor._watch_silence())
        return executor

    async def _wait_for_ray(self) -> None:
        """A cluster that was seen before may be away for now: its nodes are then known, and down."""
        try:
            await asyncio.wait_for(self._first_poll.wait(), self.settings.connect_s)
        except TimeoutError:
            if not self.nodes.by_name:
                raise InputError(
                    f"no Ray cluster could be reached within {self.settings.connect_s:g} s: {self.bridge.trouble}",
                    value=self.settings.address,
                    accepts="HOST:PORT of a running head, on one of whose nodes this runs",
                ) from None
        self.nodes.forget_absent({node for run in self._runs.values() for node in run.nodes})

    # -- what there is -------------------------------------------------------------------------------------------------

    async def inventory(self) -> ClusterSpec:
        return self.nodes.cluster()

    async def found(self) -> Sequence[Found]:
        """From here on adopted runs report like any other."""
        self._is_asked = True
        for run in self._runs.values():
            run.is_silent = False
        for node in self.nodes.by_name.values():
            if not node.is_up:
                self._tell_node(ReportKind.NODE_DOWN, node)
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
        why, retry = "", False
        try:
            made = plan(order, self.nodes.gpus, self.settings, self._namespace)
            before = self._before(order, made)
            run = Run(order.job, order.run, os.path.join(self._runs_dir, dir_name(*key)), made)
            self._runs[key] = self._by_name[run.name] = run
            await self._in_thread(partial(runs.write_down, self._runs_dir, dir_name(*key), made))
            if before is not None:
                await self._in_thread(partial(runs.follow_on, run, before))
        except Refused as error:
            why = str(error)
        except OSError as error:
            why, retry = f"its order can't be written down: {error}", True
            self._drop(run)
            self._spawn(self._persist(partial(runs.take_back, run.path)))  # or it would begin when we are opened again
        if why:
            self._reports.put_nowait(Report(ReportKind.FAILED_TO_START, time.time(), *key, message=why, retry=retry))
            return
        self._begin(run)

    def _before(self, order: Order, made: Doc) -> Run | None:
        """The stopped run that this one goes on with, which is then in its plan. Raises Refused where it can't, and where an
        earlier run is still there in another way: a job is never there twice."""
        there = [
            run
            for (job, number), run in self._runs.items()
            if job == order.job and number != order.run and not run.is_over
        ]
        if not there:
            return None
        last = max(there, key=lambda run: run.run)
        phase = phase_of(last.state)
        if not order.resumes or phase != SUSPENDED or last.run > order.run or len(there) > 1:
            raise Refused(f"run {last.run} of it is still {phase}; it must end before run {order.run} begins")
        for old, new in zip(last.plan["places"], made["places"], strict=False):
            if len(last.nodes) != len(made["places"]) or any(old[key] != new[key] for key in ("node", "resources")):
                raise Refused(f"it was stopped on {', '.join(last.nodes)} and can go on there only")
        made |= {"name": last.name, "token": last.plan["token"], "continues": last.run}
        return last

    def _begin(self, run: Run) -> None:
        """Or go on following it, where it has begun."""
        create = not run.has_begun and run.continues is None
        if create:
            away = [self.nodes.by_name[node] for node in run.nodes if not self.nodes.by_name[node].is_up]
            if away and self.bridge.connected:
                self._give_up(run, f"node {away[0].name} is down: {away[0].message}")
                return
        is_starting = phase_of(run.state) == STARTING and run.continues is None  # all of it, or one part still is
        if is_starting and (run.job, run.run) not in self._deadlines:
            late = f"Ray did not give it its GPUs on {', '.join(run.nodes)} within {self.settings.start_s:g} s"
            timer = self._loop.call_later(self.settings.start_s, self._give_up, run, late)
            self._deadlines[run.job, run.run] = timer
        self._let_go_on(run)
        places = [
            {
                **place,
                "path": run.part(number).path,
                "node_id": self.nodes.by_name[place["node"]].id if create else "",
            }
            for number, place in enumerate(run.plan["places"])
        ]
        self.bridge.tell(op="start", name=run.name, create=create, places=places, pass_env=list(self.settings.pass_env))

    def _let_go_on(self, run: Run) -> None:
        """With the processes of the run before it, on the nodes where it has not done so yet."""
        for number, part in enumerate(run.parts if run.continues is not None else ()):
            if not part:
                message = {"op": "continue", "run": run.run, "rundir": run.part(number).path}
                self.bridge.tell(op="tell", name=run.name, parts=[number], message=message)

    async def suspend(self, job: str, run: int) -> None:
        known = self._runs.get((job, run))
        if known and phase_of(known.state) == RUNNING and not known.asked:
            known.asked = "suspend"
            self._ask(known)

    async def stop(self, job: str, run: int) -> None:
        known = self._runs.get((job, run))
        if known and not known.is_over:
            known.asked = "stop"
            self._ask(known)
            if not known.has_begun:
                self._give_up(known, "it was stopped before it began")

    def _ask(self, run: Run) -> None:
        """The parts that have not done it. A run that goes on has the name of the one before, and is not to hear what was asked of
        that."""
        parts = run.alive
        if run.asked == "suspend":
            parts = [number for number in parts if phase_of(run.parts[number]) == RUNNING]
        if run.asked and parts:
            self.bridge.tell(op="tell", name=run.name, parts=parts, message={"op": run.asked, "run": run.run})

    async def forget(self, job: str, run: int) -> None:
        known = self._runs.get((job, run))
        if known and known.is_over:
            self._drop(known)
            await self._in_thread(partial(runs.remove, known.path))

    async def decline(self, foreign: str, why: str, *, cancel: bool) -> None:
        """Nobody gives jobs to a Ray cluster for us to order: its own scheduler takes them at once."""

    async def close(self) -> None:
        for timer in self._deadlines.values():
            timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.bridge.close()
        self._lock.release()
        self._reports.put_nowait(None)

    # -- what Ray says -------------------------------------------------------------------------------------------------

    def _hear(self, message: Doc) -> None:
        event = message["event"]
        if event == "poll":
            self._polled(message)
            return
        if event == "connected":
            self._is_taken_up = False
            return
        run = self._by_name.get(message.get("name", ""))
        if run is None:
            return
        if event == "part":
            state = message["state"]
            about = self._runs.get((run.job, state.get("run", run.run)), run)
            self._learn(about, message["part"], state)
            before = self._runs.get((run.job, about.continues or 0))
            if before is not None and phase_of(state) == RUNNING:
                self._continued(before, message["part"], about.run)
        elif event == "gone":
            self._part_gone(run, message["part"], message["message"])
        elif event == "failed":
            if run.has_begun or run.continues is not None:
                run.is_unfollowed = True
            else:
                self._give_up(run, f"Ray could not start it: {message['message']}")
        elif event == "swept":
            self._fence.swept(run, message["part"], message.get("error", ""))

    def _polled(self, message: Doc) -> None:
        self._heard_s = now = self._loop.time()
        came, gone = self.nodes.update(message["nodes"], now)
        self._first_poll.set()
        for kind, nodes in ((ReportKind.NODE_DOWN, gone), (ReportKind.NODE_UP, came)):
            for node in nodes:
                self._tell_node(kind, node)
        for node in gone:
            for run in [one for one in self._runs.values() if node.name in one.nodes and not one.has_begun]:
                self._give_up(run, f"node {node.name} went down: {node.message}")
        if not self._is_taken_up:
            self._is_taken_up = True
            self._take_up()
        else:
            self._compare(message)
            self._say_again()
        self._let_go(message)
        self._spawn(self._read_files())

    def _take_up(self) -> None:
        """A new connection: follow what runs, say again what was asked."""
        for run in list(self._runs.values()):
            if not run.is_over:
                self._begin(run)
                self._ask(run)

    def _say_again(self) -> None:
        """What was asked and is not done: an actor that can't be reached for a moment has not heard it. Whoever has ignores it."""
        for run in [one for one in self._runs.values() if not one.is_over]:
            if run.is_unfollowed:  # what has begun runs, whether or not its actors could be asked for news
                run.is_unfollowed = False
                self._begin(run)
            elif not run.asked:
                self._let_go_on(run)
            if self._by_name.get(run.name) is run:
                self._ask(run)

    def _let_go(self, message: Doc) -> None:
        """What Ray has of ours and nobody needs: what was to be released when the connection broke, or we died."""
        actors: dict[str, list[str]] = {name: [] for name in message["groups"]}
        for actor in message["actors"]:
            actors.setdefault(actor.rpartition("#")[0], []).append(actor)
        for name, own in actors.items():
            run = self._by_name.get(name)
            if run is None or run.is_over:
                self.bridge.tell(op="release", name=name, actors=own)

    def _compare(self, message: Doc) -> None:
        """Somebody may have killed an actor or removed a group, and the news of it may have got lost."""
        actors = set(message["actors"])
        for run in self._runs.values():
            for number in run.alive if run.has_begun else ():
                if f"{run.name}#{number}" not in actors and number not in run.gone:
                    has_group = run.name in message["groups"]
                    what = "its actor was killed" if has_group else "its placement group was removed"
                    self._part_gone(run, number, f"{what} in Ray, by nobody here")

    async def _read_files(self) -> None:
        """What became of the parts, for the news that did not come: a machine's last word may be a file."""
        due = [(run, number) for run in self._runs.values() for number in run.alive]
        states = await self._in_thread(lambda: [runs.read_part(run, number) for run, number in due])
        for (run, number), state in zip(due, states, strict=True):
            if not state or is_over(run.parts[number]):
                continue
            if phase_of(state) == LOST and number not in run.gone and number not in run.waited:
                run.waited.add(number)  # why is better known to Ray, which says so within a poll
            elif phase_of(state) != phase_of(run.parts[number]):
                self._learn(run, number, state)
            elif "continued_as" in state:
                self._continued(run, number, state["continued_as"])

    async def _watch_silence(self) -> None:
        """Without its head nothing can be started anywhere. What runs is left to run: its files tell."""
        while True:
            await asyncio.sleep(min(1.0, self.settings.poll_s))
            now = self._loop.time()
            if now - self._heard_s > max(SILENCE_S, 5 * self.settings.poll_s):
                why = self.bridge.trouble or "it does not answer"
                for node in self.nodes.all_gone(f"the Ray head can't be reached: {why}", now):
                    self._tell_node(ReportKind.NODE_DOWN, node)
            if now - self._heard_s > 2 * self.settings.poll_s:
                await self._read_files()

    def _tell_node(self, kind: ReportKind, node: Node) -> None:
        """Once somebody has asked what was found; before that, it is found."""
        if self._is_asked:
            self._reports.put_nowait(Report(kind, time.time(), node=node.name, message=node.message))

    # -- what becomes of runs ------------------------------------------------------------------------------------------

    def _learn(self, run: Run, number: int, state: Doc) -> None:
        if not state or is_over(run.parts[number]):
            return
        gone, said = run.gone.get(number, ""), state.get("message", "")
        if phase_of(state) == LOST and gone and said != gone:
            state = {**state, "message": f"{gone}; {said}".rstrip("; ")}
        began = phase_of(state) == RUNNING and phase_of(run.parts[number]) != RUNNING
        run.parts[number] = {**state, "node": run.nodes[number]}
        self._judge(run)
        if began:
            self._ask(run)  # what it was told before it was there it has not heard

    def _continued(self, run: Run, number: int, as_run: int) -> None:
        run.parts[number] = {**run.parts[number], "continued_as": as_run}

    def _judge(self, run: Run) -> None:
        if not run.rest_told and any(map(has_failed, run.parts)) and run.alive:
            run.rest_told = True
            if not run.asked:
                bad = next(part for part in run.parts if has_failed(part))
                bad["message"] = bad.get("message") or f"its part on {bad['node']} failed, so the others were stopped"
            run.asked = "stop"
            self._ask(run)
            for number in run.alive:
                if not run.parts[number]:
                    self._spawn(self._write_off(run, number, "another part of it failed before it began"))
        state = run.state
        phase = phase_of(state)
        if phase != run.told:
            run.told = phase
            report = report_of(run.job, run.run, state)
            if report and not run.is_silent:
                self._reports.put_nowait(report)
        if phase in (RUNNING, SUSPENDED) or run.is_over:
            timer = self._deadlines.pop((run.job, run.run), None)
            if timer:
                timer.cancel()
        if run.is_over:
            before = self._runs.get((run.job, run.continues or 0))
            if before is not None and not before.is_over and phase == FAILED:
                self._by_name[run.name] = before  # which stays stopped, with all it has
            else:
                self.bridge.tell(op="release", name=run.name, actors=run.actors)

    def _part_gone(self, run: Run, number: int, message: str) -> None:
        if number not in run.alive:
            return
        run.gone[number] = message
        if number not in run.fencing:
            run.fencing.add(number)
            self._spawn(self._fence.part(run, number))

    def _give_up(self, run: Run, why: str) -> None:
        """It is not to begin any more. Parts that have begun all the same are stopped."""
        timer = self._deadlines.pop((run.job, run.run), None)
        if timer:
            timer.cancel()
        if run.is_over:
            return
        self._ask(run)
        for number in run.alive:
            self._spawn(self._write_off(run, number, why))

    async def _write_off(self, run: Run, number: int, why: str) -> None:
        work = partial(runs.write_off, run, number, LOST, why, retry=True)
        state = await self._persist(work) if not run.parts[number] else None
        if state is not None:
            self._learn(run, number, state)
        elif not is_over(run.parts[number]):  # it has begun after all
            run.asked = "stop"
            self._ask(run)

    def _drop(self, run: Run) -> None:
        self._runs.pop((run.job, run.run), None)
        if self._by_name.get(run.name) is run:
            del self._by_name[run.name]
            before = self._runs.get((run.job, run.continues or 0))
            if before is not None and not before.is_over:
                self._by_name[before.name] = before  # which stays stopped, with all it has

    def _adopt(self, run: Run) -> None:
        run.told = phase_of(run.state)
        self._runs[run.job, run.run] = run
        before = self._by_name.get(run.name)
        if before is None or before.run < run.run:
            self._by_name[run.name] = run

    # -- small things --------------------------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("a task of the Ray executor failed", exc_info=error)

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.to_thread(work)

    async def _persist(self, work: Callable[[], _T]) -> _T:
        """The same, for as long as the directory that the nodes share is out of reach."""
        said = ""
        while True:
            try:
                return await self._in_thread(work)
            except OSError as error:
                if said != (said := str(error)):
                    log.warning("the state directory can't be used, it is tried again: %s", error)
                await asyncio.sleep(_AGAIN_S)


def _namespace(folder: str) -> str:
    """By it this scheduler's actors and groups are told from those of another one on the same cluster."""
    path = os.path.join(folder, "namespace")
    with contextlib.suppress(FileNotFoundError), open(path, encoding="ascii") as file:
        return file.read().strip()
    name = f"fairlead-{os.urandom(4).hex()}"
    write_file(path, name.encode(), durable=True)
    return name
