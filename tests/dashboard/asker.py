"""Asks a scheduler what open pages of the dashboard ask, as often: `asker.py URL ADDRESS...`, until it is ended.

Each address stands for a tab: one stream of counts, and the page's own questions again whenever something has happened or the answers are
old, no sooner than the page would ask them. tests/dashboard/load.py has what it costs the scheduler.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from contextlib import suppress

import httpx

EXPLAIN_EVERY_S = 30.0
OLD_S = 10.0


class Tab:
    def __init__(self, client: httpx.AsyncClient, address: str) -> None:
        self._client, self._address = client, address
        self._last_event = -1
        self._news = asyncio.Event()
        self._explained_s = -EXPLAIN_EVERY_S

    async def open(self) -> None:
        await asyncio.gather(self._follow(), self._ask_again())

    async def _follow(self) -> None:
        async with self._client.stream("GET", "/v1/cluster", params={"follow": "true"}) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    last = json.loads(line[6:])["last_event"]
                    if last != self._last_event:
                        self._last_event = last
                        self._news.set()

    async def _ask_again(self) -> None:
        while True:
            began_s = time.monotonic()
            self._news.clear()
            every_s = await self._ask()
            await asyncio.sleep(max(every_s - (time.monotonic() - began_s), 0.0))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), max(began_s + OLD_S - time.monotonic(), 0.0))

    async def _ask(self) -> float:
        """And how soon the page asks again."""
        if self._address == "/":
            await self._get("/v1/overview?span=6h")
            return 4.0
        if self._address == "/cluster":
            await self._get("/v1/gpus")
            return 2.5
        if self._address == "/jobs":
            await self._get("/v1/jobs?sort=submitted&descending=true&limit=50")
            return 2.0
        await self._get(f"/v1{self._address}")
        await self._get(f"/v1{self._address}/events?since=0")
        if time.monotonic() - self._explained_s >= EXPLAIN_EVERY_S:
            self._explained_s = time.monotonic()
            await self._get(f"/v1{self._address}/explain")
        return 2.5

    async def _get(self, path: str) -> None:
        (await self._client.get(path)).raise_for_status()


async def main() -> None:
    url, *addresses = sys.argv[1:]
    headers = {"Authorization": f"Bearer {os.environ['FAIRLEAD_TOKEN']}"}
    # sooner than the server lets go of an idle connection: a browser asks again by itself where that crosses, this does not
    limits = httpx.Limits(max_connections=None, keepalive_expiry=2.0)
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=120.0, limits=limits, trust_env=False
    ) as client:
        await asyncio.gather(*(Tab(client, address).open() for address in addresses))


if __name__ == "__main__":
    asyncio.run(main())
