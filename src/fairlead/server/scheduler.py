"""The live scheduler: what people ask for and what machines report goes into the core; what the core decides is written down,
and then done.

One task takes turns. A turn takes everything that has come, lets the core decide, makes events and job changes durable in one
transaction, and only then answers whoever asked and lets the executor act. If the store can't be written, nothing is done,
whoever asked is told, and everything is built anew from what the store has.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from fairlead.model.cluster import ClusterSpec, TenantSpec
from fairlead.model.errors import InputError
from fairlead.model.job import JobSpec
from fairlead.runtime.live_jobs import Costs
from fairlead.runtime.protocols import Arrival, Clock, Executor, Report
from fairlead.runtime.twin import Moment, moment_of
from fairlead.runtime.warm import warm_up
from fairlead.server.declining import declining, what_became_of
from fairlead.server.floor import Floor
from fairlead.server.gate import Gate
from fairlead.server.jobs import Job, State, jobs_of
from fairlead.server.metrics import Metrics
from fairlead.server.recovery import Setting, go_on
from fairlead.server.store import Batch, GroupWriter, NodeRow, Store, StoreError, Submission, Submitted
from fairlead.server.turn import Decline, Effect, Forget, Start, Stop, Suspend, Turn
from fairlead.server.unix_user import UnixUsers
from fairlead.server.way import right_of_way
from fairlead.workload.job_document import job_to_json

log = logging.getLogger(__name__)
_T = TypeVar("_T")
#: how long until the store is tried again that could not be written
TRY_AGAIN_S = 1.0
#: a thread that reads for somebody gives way to a decision within this time; Python's own is ten times as long
GIVE_WAY_S = 0.0005


class Scheduler:
    def __init__(
        self,
        store: Store,
        executor: Executor,
        spec: ClusterSpec,
        clock: Clock,
        *,
        policy: str,
        placer: str,
        logs: Path,
        gate: Gate | None = None,
        users: UnixUsers | None = None,
        metrics: Metrics | None = None,
        costs: Costs | None = None,
    ) -> None:
        self.store, self.executor, self.clock = store, executor, clock
        self.gate = gate or Gate()
        self.metrics = metrics or Metrics()
        self.trouble = ""  #: why nothing can be decided at present, "" if it can
        self.last_event = 0
        self.started_s = clock.now()
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()  #: set when it can't go on
        self._users = users or UnixUsers()
        self._setting = Setting(
            spec, policy, placer, logs, self._users.of, self.metrics, executor.capabilities, costs or Costs()
        )
        self._writer = GroupWriter(store)
        self._inbox: asyncio.Queue[tuple[Callable[[Turn], Any], asyncio.Future[Any] | None]] = asyncio.Queue()
        self._news = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: list[asyncio.Task[None]] = []
        self._charged: dict[str, tuple[float, float]] = {}
        self._drained: dict[str, NodeRow] = {}
        self._floor: Floor

    # -- what there is ----------------------------------------------------------------------------------------------------------

    @property
    def jobs(self) -> dict[str, Job]:
        """Those that have not ended."""
        return self._floor.jobs

    @property
    def spec(self) -> ClusterSpec:
        return self._floor.core.spec

    @property
    def policy(self) -> str:
        return self._floor.core.policy

    @property
    def placer(self) -> str:
        return self._floor.core.placer

    def now(self) -> float:
        return self.clock.now()

    def log_path(self, job_id: str) -> Path:
        return self._floor.log_path(job_id)

    def drained(self) -> dict[str, NodeRow]:
        return dict(self._drained)

    def down(self) -> dict[str, str]:
        """Nodes that the executor says take no jobs, and why."""
        return dict(self._setting.down)

    def closed(self) -> frozenset[str]:
        """Nodes that take no jobs: drained, or not there at present."""
        core = self._floor.core
        return frozenset(core.spec.nodes[number].name for number in core.closed())

    def moment(self) -> Moment:
        """How everything stands, for the twin: nothing that is done with it changes anything here."""
        return moment_of(self._floor.core, self.clock.now())

    def usage(self) -> dict[str, tuple[float, float]]:
        return self._floor.core.used()

    async def after(self, seq: int, timeout_s: float) -> int:
        """Waits until the journal has a row after this one, or the time is over; its last row's number."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self._news:
                await self._news.wait_for(lambda: self.last_event > seq)
        return self.last_event

    # -- life -------------------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Go on from what the store has and from what really runs."""
        sys.setswitchinterval(min(sys.getswitchinterval(), GIVE_WAY_S))
        await self._recover()
        # which nodes are down is told to each scheduler anew: what the last one was told may have ended meanwhile
        self._inbox.put_nowait((lambda turn: turn.batch.record("scheduler-up", turn.now), None))
        self._loop = [asyncio.create_task(self._take_turns()), asyncio.create_task(self._listen())]
        for task in self._loop:
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A turn that ends in an error of our own leaves a core that nobody should trust."""
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.failure.done():
            self.failure.set_exception(error)

    async def close(self) -> None:
        """Stop deciding. Jobs run on."""
        for task in (*self._loop, *self._tasks):
            task.cancel()
        await asyncio.gather(*self._loop, *self._tasks, return_exceptions=True)
        while not self._inbox.empty():
            answer = self._inbox.get_nowait()[1]
            if answer is not None and not answer.done():
                answer.cancel()
        with contextlib.suppress(StoreError):
            await self._writer.close()
        await self.executor.close()
        if not self.failure.done():
            self.failure.cancel()

    async def _listen(self) -> None:
        async for report in self.executor.reports():
            if report.arrival is not None:
                while not await self._adopt(report.arrival):  # it is told once, and nothing else can be done meanwhile
                    await asyncio.sleep(TRY_AGAIN_S)
            else:
                self._inbox.put_nowait((_telling(self, report), None))

    async def _recover(self) -> None:
        stored = await asyncio.to_thread(self.store.recover)
        found = await self.executor.found()
        turn = Turn(self.clock.now())
        self._drained = {row.name: row for row in stored.nodes}
        self._charged = {}
        self._floor, reports = go_on(self._setting, stored, found, turn)
        self.last_event = stored.last_event
        await self._finish_turn(turn, [_telling(self, report) for report in reports], [])

    # -- turns --------------------------------------------------------------------------------------------------------------------

    async def _take_turns(self) -> None:
        while True:
            asks = await self._next_asks()
            turn = Turn(self.clock.now())
            try:
                await self._finish_turn(turn, [ask for ask, _ in asks], [answer for _, answer in asks])
            except StoreError as error:
                log.error("nothing was decided: %s", error)
                for _, answer in asks:
                    if answer is not None and not answer.done():
                        answer.set_exception(error)
                await self._come_back(error)

    async def _come_back(self, error: StoreError) -> None:
        """What the core has decided was never written, so it was never decided."""
        self.trouble = str(error)
        while self.trouble:
            await asyncio.sleep(TRY_AGAIN_S)
            try:
                await self._recover()
            except StoreError as again:
                self.trouble = str(again)
            else:
                self.trouble = ""
                log.warning("the store can be written again")

    async def _next_asks(self) -> list[tuple[Callable[[Turn], Any], asyncio.Future[Any] | None]]:
        """Everything that has come; waits for the first, or until something is due."""
        now = self.clock.now()
        wait_s = min(self._floor.core.next_wake(now), self._floor.next_due()) - now
        asks = []
        if self._inbox.empty() and wait_s > 0:
            with contextlib.suppress(TimeoutError):
                asks.append(await asyncio.wait_for(self._inbox.get(), None if wait_s == math.inf else wait_s))
        while not self._inbox.empty():
            asks.append(self._inbox.get_nowait())
        return asks

    async def _finish_turn(
        self,
        turn: Turn,
        asks: Sequence[Callable[[Turn], Any]],
        answers: Sequence[asyncio.Future[Any] | None],
    ) -> None:
        floor = self._floor
        found: list[Any] = []
        began_s = time.perf_counter()
        with right_of_way():
            decisions = floor.core.catch_up(turn.now)
            for decision in decisions:
                floor.decided(turn, decision)
            for ask in asks:
                try:
                    found.append(ask(turn))
                except InputError as error:
                    found.append(error)
            floor.do_due(turn)
            decided = floor.core.step(turn.now)
            for decision in decided:
                floor.decided(turn, decision)
        self.metrics.decided(time.perf_counter() - began_s, len(decisions) + len(decided))
        if turn.batch:
            await self._write(turn)
        for answer, value in zip(answers, found, strict=False):
            if answer is not None and not answer.done():
                if isinstance(value, Exception):
                    answer.set_exception(value)
                else:
                    answer.set_result(value)
        for effect in turn.effects:
            task = asyncio.create_task(self._act(floor, effect))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _write(self, turn: Turn) -> None:
        used = self._floor.core.used()
        for tenant, (gpu_s, as_of_s) in used.items():
            if self._charged.get(tenant) != (gpu_s, as_of_s):
                turn.batch.charge(tenant, gpu_s, as_of_s)
        began_s = time.perf_counter()
        written = await self._writer.write(turn.batch)
        self.metrics.stored(time.perf_counter() - began_s)
        self._charged = used
        await self._tell(written.last_event)

    async def _tell(self, last_event: int) -> None:
        async with self._news:
            self.last_event = max(self.last_event, last_event)
            self._news.notify_all()

    async def _act(self, floor: Floor, effect: Effect) -> None:
        try:
            if isinstance(effect, Start):
                for gone in effect.after:
                    await gone.wait()
                # another floor has taken over where the store failed meanwhile
                if floor is self._floor and floor.begin(effect.order.job, effect.order.run):
                    await self.executor.start(effect.order)
            elif isinstance(effect, Suspend):
                await self.executor.suspend(effect.job, effect.run)
            elif isinstance(effect, Stop):
                await self.executor.stop(effect.job, effect.run)
            elif isinstance(effect, Forget):
                await self.executor.forget(effect.job, effect.run)
            elif isinstance(effect, Decline):
                await self.executor.decline(effect.foreign, effect.why, cancel=effect.cancel)
        except Exception as error:  # the executor's contract is to report, not to raise
            log.exception("the executor failed at %s", type(effect).__name__.lower())
            if not self.failure.done():
                self.failure.set_exception(error)

    async def _ask(self, ask: Callable[[Turn], _T]) -> _T:
        """Have something done in the next turn; returns when it is durable."""
        if self.trouble:
            raise StoreError(self.store.where, self.trouble)
        answer: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._inbox.put_nowait((ask, answer))
        return await answer

    # -- what people ask for ----------------------------------------------------------------------------------------------------

    async def judge(self, spec: JobSpec, user: str, tenant: str) -> None:
        """What `submit` would refuse. Nothing is written."""
        self.gate.judge(spec, user, tenant, self._floor, self._known_tenants)
        self._users.of(user)

    async def submit(self, spec: JobSpec, user: str, tenant: str, key: str | None = None) -> Submitted:
        """The jobs, durable, and whether they were there already."""
        if self.trouble:
            raise StoreError(self.store.where, self.trouble)
        try:
            await self.judge(spec, user, tenant)
        except InputError:  # unless it is there already, from when there was still room for it
            found = None if key is None else await asyncio.to_thread(self.store.submitted, user, key)
            if found is None or found[0] != job_to_json(spec):
                raise
            return found[1]
        now = self.clock.now()
        state = State.BLOCKED if spec.depends_on else State.WAITING
        return await self._take_in(Submission(spec, user, tenant, now, state=state, key=key))

    async def _take_in(self, submission: Submission) -> Submitted:
        user, jobs = submission.user, len(submission.spec.array) or 1
        self.gate.coming(user, jobs)
        try:
            written = await self._writer.write(Batch(submissions=[submission]))
            submitted = written.submitted[0]
            await self._tell(written.last_event)
        except BaseException:
            self.gate.came(user, jobs)
            raise
        if submitted.duplicate:
            self.gate.came(user, jobs)
        else:  # durable already: whoever submitted need not wait for what is decided about it
            self._inbox.put_nowait((self._letting_in(submission, submitted), None))
        return submitted

    def _letting_in(self, submission: Submission, submitted: Submitted) -> Callable[[Turn], None]:
        made = jobs_of(submission, submitted)

        def admit(turn: Turn) -> None:
            self.gate.came(submission.user, len(made))
            # read in the turn, so that no end can slip in between
            waits = self.store.waits_for(made[0].seq) if submission.spec.depends_on else ()
            for job in made:
                if job.id not in self._floor.jobs:  # a floor that was built meanwhile has it from the store
                    self._floor.admit(turn, job, waits)

        return admit

    async def _adopt(self, arrival: Arrival) -> bool:
        """A job that somebody gave to the engine is as good as submitted here, once. The engine knows its users; what can't be
        let in is left to it, with the reason. False where the store can't be written at present."""
        foreign, spec = arrival.foreign, arrival.spec
        if foreign in self._floor.foreign:
            return True
        try:
            tenant = arrival.tenant or spec.tenant or await asyncio.to_thread(self._tenant_of, arrival.user)
            found = await asyncio.to_thread(self.store.submitted, arrival.user, foreign)
            if found is not None:
                over = await asyncio.to_thread(what_became_of, self.store, found[1])
                if over is not None:
                    self._inbox.put_nowait((declining(arrival, *over), None))
            else:
                self.gate.judge(spec, arrival.user, tenant, self._floor, lambda: {tenant})
                now = self.clock.now()
                await self._take_in(
                    Submission(spec, arrival.user, tenant, now, state=State.WAITING, key=foreign, foreign=foreign)
                )
        except InputError as error:
            self._inbox.put_nowait((declining(arrival, str(error)), None))
        except StoreError as error:
            log.error("%s was not taken up yet: %s", foreign, error)
            return False
        return True

    def _tenant_of(self, user: str) -> str:
        return next((one.tenant for one in self.store.accounts.users() if one.name == user), user)

    def _known_tenants(self) -> set[str]:
        return {*self.spec.tenants, *(user.tenant for user in self.store.accounts.users())}

    async def cancel(self, job_id: str, by: str) -> list[str]:
        """An array's id stands for its tasks; the ids of those that it was done to."""
        return await self._each(job_id, lambda turn, job: self._floor.cancel(turn, job, by))

    async def suspend(self, job_id: str, by: str) -> list[str]:
        """Off its GPUs, or out of the queue, until it is resumed."""
        return await self._each(job_id, lambda turn, job: self._floor.hold(turn, job, by))

    async def resume(self, job_id: str, by: str) -> list[str]:
        return await self._each(job_id, lambda turn, job: self._floor.release(turn, job, by))

    async def _each(self, job_id: str, do: Callable[[Turn, Job], None]) -> list[str]:
        def ask(turn: Turn) -> list[str]:
            found = self._floor.named(job_id)
            for job in found:
                do(turn, job)
            return [job.id for job in found]

        found = await self._ask(ask)
        if not found:
            await asyncio.to_thread(self._say_why_not, job_id)
        return found

    def _say_why_not(self, job_id: str) -> None:
        tasks = self.store.array_size(job_id)
        state = "ended" if tasks else self.store.job(job_id).state  # raises NoSuchJob
        raise InputError("the job has ended already", value=job_id, accepts=f"one that waits or runs; this is {state}")

    async def set_policy(self, policy: str | None, placer: str | None, by: str) -> None:
        """The next turn decides by it. What it needs compiled is compiled before, beside everything else."""
        await asyncio.to_thread(warm_up, self.spec, policy or self.policy, placer or self.placer)

        def ask(turn: Turn) -> None:
            core = self._floor.core
            core.change(turn.now, policy=policy, placer=placer)
            self.store.standing.put_settings({"policy": core.policy, "placer": core.placer})
            self._setting = replace(self._setting, policy=core.policy, placer=core.placer)
            self.gate.clear()
            turn.batch.record("policy", turn.now, policy=core.policy, placer=core.placer, by=by)

        await self._ask(ask)

    async def set_costs(self, costs: Costs) -> None:
        """What starting and resuming take here, once that is known."""

        def ask(turn: Turn) -> None:
            self._floor.core.change(turn.now, options=costs.options())
            self._setting = replace(self._setting, costs=costs)

        await self._ask(ask)

    async def put_tenant(self, tenant: TenantSpec, by: str) -> None:
        def ask(turn: Turn) -> None:
            self._floor.core.change(turn.now, tenants={**self.spec.tenants, tenant.name: tenant})
            self.store.standing.put_tenant(tenant)
            self.gate.clear()
            turn.batch.record(
                "tenant", turn.now, tenant=tenant.name, quota_gpus=tenant.quota_gpus, weight=tenant.weight, by=by
            )

        await self._ask(ask)

    async def remove_tenant(self, name: str, by: str) -> None:
        def ask(turn: Turn) -> None:
            alive = [job.id for job in self.jobs.values() if job.tenant == name]
            if alive:
                what = f"this tenant has {len(alive)} jobs that wait or run, which would be without a limit"
                accepts = (
                    f"a tenant without any; cancel {', '.join(alive[:5])}{' and others' if len(alive) > 5 else ''}"
                )
                raise InputError(what, value=name, accepts=accepts)
            if not self.store.standing.remove_tenant(name):
                known = ", ".join(sorted(self.spec.tenants)) or "none is set"
                raise InputError("no such tenant is set", value=name, accepts=known)
            left = {other: spec for other, spec in self.spec.tenants.items() if other != name}
            self._floor.core.change(turn.now, tenants=left)
            self.gate.clear()
            turn.batch.record("tenant", turn.now, tenant=name, by=by, removed=True)

        await self._ask(ask)

    async def drain(self, node: str, by: str, why: str = "") -> None:
        """It takes no more jobs; those that run there run on."""

        def ask(turn: Turn) -> None:
            self._floor.check_node(node)
            self.store.standing.drain(node, turn.now, by, why)
            self._drained[node] = NodeRow(node, turn.now, by, why)
            self._floor.closed.drain(node, turn.now)
            turn.batch.record("drain", turn.now, node=node, by=by, why=why)

        await self._ask(ask)

    async def undrain(self, node: str, by: str) -> None:
        def ask(turn: Turn) -> None:
            self._floor.check_node(node)
            self.store.standing.undrain(node)
            self._drained.pop(node, None)
            self._floor.closed.undrain(node, turn.now)
            turn.batch.record("undrain", turn.now, node=node, by=by)

        await self._ask(ask)


def _telling(scheduler: Scheduler, report: Report) -> Callable[[Turn], None]:
    return lambda turn: scheduler._floor.reported(turn, report)
