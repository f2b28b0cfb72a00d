"""Group commit: whoever wants to write while a write is under way goes with the next one, all of them together.

A commit costs the disk's own time, however much is in it. A hundred submissions that come at once are one commit, not a hundred.
"""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor

from fairlead.server.store.rows import Batch, Written
from fairlead.server.store.store import Store


class GroupWriter:
    """The asyncio side of `Store.write`. One thread writes; the loop never waits for the disk."""

    def __init__(self, store: Store, most: int = 1000) -> None:
        self._store = store
        self._most = most  #: batches in one transaction
        self._waiting: deque[tuple[Batch, asyncio.Future[Written]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store-writer")
        self._closed = False

    async def write(self, batch: Batch) -> Written:
        """Returns when it is durable. Batches are written in the order of these calls."""
        if self._closed:
            raise RuntimeError("the writer is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Written] = loop.create_future()
        self._waiting.append((batch, future))
        if self._task is None:
            self._task = loop.create_task(self._drain())
        # whoever stops waiting for it does not stop it from being written
        return await asyncio.shield(future)

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                group = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._most))]
                try:
                    answers = await loop.run_in_executor(self._thread, self._store.write_all, [b for b, _ in group])
                except Exception as error:
                    answers = [error] * len(group)
                for (_, future), answer in zip(group, answers, strict=True):
                    _answer(future, answer)
        finally:
            self._task = None

    async def close(self) -> None:
        """Write what waits, then stop."""
        self._closed = True
        if self._task is not None:
            await self._task
        self._thread.shutdown()


def _answer(future: asyncio.Future[Written], answer: Written | Exception) -> None:
    if future.cancelled():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
        future.exception()  # a caller that went away leaves no complaint about it
    else:
        future.set_result(answer)
