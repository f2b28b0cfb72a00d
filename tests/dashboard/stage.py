"""A scheduler over a cluster that is only pretended: hours pass in seconds, thousands of GPUs need no machine. The scheduler, its
store, its API and its dashboard are the real ones."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.server.api.service import PEOPLE, Service, service

from fairlead.model.cluster import ClusterSpec, NodeSpec, TenantSpec
from fairlead.model.job import JobSpec
from fairlead.runtime.protocols import Capabilities, Found, Order, Report, ReportKind, Suspension
from fairlead.server.auth import Tokens
from fairlead.server.gate import Gate
from fairlead.server.scheduler import Scheduler
from fairlead.server.store import Store
from fairlead.server.unix_user import SELF, UnixUsers


class StagedClock:
    """Stands where it is put until it is let go; then it runs with the machine's."""

    def __init__(self, start_s: float) -> None:
        self._at_s, self._offset_s = start_s, 0.0
        self.free = False

    def now(self) -> float:
        return self._offset_s + time.monotonic() if self.free else self._at_s

    def put(self, at_s: float) -> None:
        self._at_s = max(at_s, self._at_s)

    def let_go(self) -> None:
        self._offset_s, self.free = self._at_s - time.monotonic(), True

    async def sleep_until(self, time_s: float) -> None:
        await asyncio.sleep(max(time_s - self.now(), 0.0))


class PretendExecutor:
    """Jobs run for as long as `lasts` says, wherever they are put. A suspended one has kept what it did."""

    name = "pretend"
    capabilities = Capabilities(suspend=True, frees_memory=True, migrate=True)

    def __init__(self, spec: ClusterSpec, clock: StagedClock, lasts: Callable[[str], float]) -> None:
        self._spec, self._clock, self._lasts = spec, clock, lasts
        self._reports: asyncio.Queue[Report] = asyncio.Queue()
        self._done_s: dict[str, float] = {}
        self._since: dict[tuple[str, int], float] = {}
        self._ends: list[tuple[float, str, int]] = []
        self._begins: list[tuple[float, str, int]] = []
        self.fails: set[str] = set()  #: jobs that end with an error
        self.begins_after_s: Callable[[], float] = lambda: 0.0  #: how long it takes until processes are there

    async def inventory(self) -> ClusterSpec:
        return self._spec

    async def start(self, order: Order) -> None:
        after_s = self.begins_after_s()
        if after_s:
            heapq.heappush(self._begins, (self._clock.now() + after_s, order.job, order.run))
        else:
            self._begin(order.job, order.run)

    def _begin(self, job: str, run: int) -> None:
        now = self._clock.now()
        self._since[job, run] = now
        left_s = max(self._lasts(job) - self._done_s.get(job, 0.0), 1.0)
        heapq.heappush(self._ends, (now + left_s, job, run))
        self._tell(ReportKind.STARTED, job, run)

    async def suspend(self, job: str, run: int) -> None:
        if self._leave(job, run):
            self._tell(ReportKind.SUSPENDED, job, run, method=Suspension.CHECKPOINT)

    async def stop(self, job: str, run: int) -> None:
        if self._leave(job, run):
            self._tell(ReportKind.ENDED, job, run, signal=15)

    async def found(self) -> Sequence[Found]:
        return ()

    async def forget(self, job: str, run: int) -> None: ...

    async def reports(self) -> AsyncIterator[Report]:
        while True:
            yield await self._reports.get()

    async def close(self) -> None: ...

    def _leave(self, job: str, run: int) -> bool:
        """False: it is not there any more."""
        waits = [one for one in self._begins if one[1:] == (job, run)]
        if waits:
            self._begins = sorted(one for one in self._begins if one[1:] != (job, run))
            return True
        since = self._since.pop((job, run), None)
        if since is not None:
            self._done_s[job] = self._done_s.get(job, 0.0) + self._clock.now() - since
        return since is not None

    def _tell(self, kind: ReportKind, job: str, run: int, **more: Any) -> None:
        self._reports.put_nowait(Report(kind, self._clock.now(), job=job, run=run, **more))

    # -- for whoever stages it ------------------------------------------------------------------------------------------------

    def next_s(self) -> float:
        """When something begins or ends."""
        return min(self.next_end_s(), self._begins[0][0] if self._begins else float("inf"))

    def next_end_s(self) -> float:
        while self._ends and self._ends[0][1:] not in self._since:
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else float("inf")

    def end_due(self) -> int:
        """How many have ended."""
        count = 0
        while self._begins and self._begins[0][0] <= self._clock.now():
            self._begin(*heapq.heappop(self._begins)[1:])
        while self.next_end_s() <= self._clock.now():
            _, job, run = heapq.heappop(self._ends)
            self._leave(job, run)
            self._tell(ReportKind.ENDED, job, run, exit_code=1 if job in self.fails else 0)
            count += 1
        return count

    @property
    def quiet(self) -> bool:
        return self._reports.empty()


class Stage(Service):
    """`play` is called with the stage before anybody is let in."""

    executor: PretendExecutor
    clock: StagedClock

    def __init__(
        self, path: Path, spec: ClusterSpec, play: Callable[[Stage], Any], start_s: float, policy: str = "fifo-backfill"
    ) -> None:
        super().__init__(path, policy=policy)
        self.spec, self.play = spec, play
        self.clock = StagedClock(start_s)
        self.lasts: dict[str, float] = {}

    async def serve(self, ready: Future[None], stop: asyncio.Event) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        with Store(self.config.store_url) as self.store:
            self.tokens = Tokens(self.store.accounts, self.clock.now)
            for name, (tenant, role) in PEOPLE.items():
                self.tokens.add_user(name, tenant)
                self.token[name], row = self.tokens.issue(name, role)
                self.token_id[name] = row.id
            for one in self.spec.tenants.values():
                self.store.standing.put_tenant(one)
            self.executor = PretendExecutor(self.spec, self.clock, lambda job: self.lasts.get(job, 3600.0))
            self.scheduler = Scheduler(
                self.store,
                self.executor,
                self.spec,
                self.clock,
                policy=self.config.policy,
                placer=self.config.placer,
                logs=self.config.logs,
                users=UnixUsers(SELF),
                gate=Gate(self.config.max_jobs, self.config.max_jobs_per_user, self.config.max_array),
            )
            await self.scheduler.open()
            try:
                await self.play(self)
                self.clock.let_go()
                going = asyncio.create_task(self._go_on())
                try:
                    await self._listen(ready, stop)
                finally:
                    going.cancel()
            finally:
                await self.scheduler.close()

    async def _go_on(self) -> None:
        while True:
            self.executor.end_due()
            await asyncio.sleep(0.05)

    # -- for plays ------------------------------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Until everything that was asked and reported has been decided on."""
        scheduler = self.scheduler
        scheduler._inbox.put_nowait((lambda turn: None, None))
        quiet = 0
        while quiet < 3:
            await asyncio.sleep(0)
            await scheduler._ask(lambda turn: None)
            idle = self.executor.quiet and scheduler._inbox.empty() and not scheduler._tasks
            quiet = quiet + 1 if idle else 0

    async def until(self, at_s: float, every_s: float = 120.0) -> None:  # type: ignore[override]
        """Time passes: jobs end when they are due, and the policy has its turns."""
        while self.clock.now() < at_s:
            self.clock.put(min(self.executor.next_s(), self.clock.now() + every_s, at_s))
            self.executor.end_due()
            await self.settle()

    async def come(self, lasts_s: float, user: str, tenant: str, **spec: Any) -> str:
        made = await self.scheduler.submit(JobSpec(run=("train",), **spec), user, tenant)
        self.lasts[made.jobs[0].id] = lasts_s
        return made.jobs[0].id


def regions(
    regions: int, racks: int, nodes: int, gpus: int, tenants: Sequence[TenantSpec] = (), kind: str = ""
) -> ClusterSpec:
    """So many racks in each region, so many nodes in each rack."""
    made = tuple(
        NodeSpec(
            f"{place}-{rack:02d}-{number:02d}",
            gpus,
            kind,
            gpu_memory_mib=80 * 1024,
            path=(place, f"{place}-rack-{rack:02d}"),
        )
        for place in ("north", "south", "east", "west")[:regions]
        for rack in range(racks)
        for number in range(nodes)
    )
    return ClusterSpec(made, ("region", "rack"), {one.name: one for one in tenants})


@contextmanager
def staged(stage: Stage) -> Iterator[Stage]:
    with service(stage.path, made=stage) as made:
        assert isinstance(made, Stage)
        yield made
