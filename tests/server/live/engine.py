"""An engine with a queue of its own, to which people give jobs: real processes of this machine under it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from fairlead.backends.local.executor import LocalExecutor
from fairlead.model.job import JobSpec
from fairlead.runtime.protocols import Arrival, Order, Report, ReportKind


class Engine(LocalExecutor):
    """Jobs in `queue` wait until an order names them."""

    name = "engine"
    queue: dict[str, Arrival]
    declined: dict[str, tuple[str, bool]]

    @classmethod
    def over(cls, local: LocalExecutor, queue: dict[str, Arrival] | None = None, gone: Sequence[str] = ()) -> Engine:
        """With what waits in it from before, and who was taken back while nobody listened."""
        local.__class__ = cls
        assert isinstance(local, Engine)
        local.queue, local.declined = queue if queue is not None else {}, {}
        for arrival in local.queue.values():
            local._appear(arrival)
        for foreign in gone:
            local._gone(foreign)
        return local

    def _appear(self, arrival: Arrival) -> None:
        told = Report(ReportKind.APPEARED, time.time(), foreign=arrival.foreign, arrival=arrival)
        self._reports.put_nowait(told)

    def _gone(self, foreign: str) -> None:
        told = Report(ReportKind.WITHDRAWN, time.time(), foreign=foreign, message="cancelled by its owner")
        self._reports.put_nowait(told)

    def give(self, foreign: str, *run: str, user: str = "eve", tenant: str = "", **spec: object) -> None:
        """As a person does, to the engine itself."""
        spec.setdefault("grace_s", 5.0)
        arrival = Arrival(foreign, JobSpec(run=run, **spec), user, tenant, time.time())  # type: ignore[arg-type]
        self.queue[foreign] = arrival
        self._appear(arrival)

    def take_back(self, foreign: str) -> None:
        del self.queue[foreign]
        self._gone(foreign)

    def tell(self, kind: ReportKind, node: str, why: str = "") -> None:
        self._reports.put_nowait(Report(kind, time.time(), node=node, message=why))

    async def decline(self, foreign: str, why: str, *, cancel: bool) -> None:
        self.declined[foreign] = why, cancel
        if cancel:
            self.queue.pop(foreign, None)

    async def start(self, order: Order) -> None:
        if order.foreign:
            own = self.queue[order.foreign]
            order = replace(order, command=own.spec.command)
        await super().start(order)
