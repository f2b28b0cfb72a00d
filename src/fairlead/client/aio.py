"""The client for asyncio: the same verbs, awaited."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar, overload

import httpx

from fairlead.client import calls
from fairlead.client.calls import Call
from fairlead.client.connection import PAUSES_S, Connection, Token
from fairlead.client.errors import Unreachable
from fairlead.client.polling import Patience
from fairlead.client.streams import EventStream, LogStream, Stream
from fairlead.client.types import Event, Job

P = ParamSpec("P")
T = TypeVar("T")


class Verb(Generic[P, T]):
    """A call as a method: it takes what the call takes; what the scheduler answers is awaited."""

    def __init__(self, make: Callable[P, Call[T]]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Callable[P, Call[T]]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, client: AsyncClient | None, owner: type) -> Callable[P, Any]:
        if client is None:
            return self._make
        send, make = client.send, self._make

        @functools.wraps(make)
        async def verb(*args: P.args, **kwargs: P.kwargs) -> T:
            return await send(make(*args, **kwargs))

        return verb


class AsyncClient:
    """`Client` for asyncio; see there for the arguments. Use it with `async with`."""

    def __init__(
        self,
        url: str | None = None,
        token: str | Token | None = None,
        *,
        ca: str | Path | None = None,
        allow_public: bool = False,
        timeout_s: float = 30.0,
    ) -> None:
        self._connection = Connection(url, token, ca, allow_public, timeout_s)
        self._http = httpx.AsyncClient(**self._connection.http_options())

    submit = Verb(calls.submit)
    dry_run = Verb(calls.dry_run)
    jobs = Verb(calls.jobs)
    job = Verb(calls.job)
    explain = Verb(calls.explain)
    job_events = Verb(calls.job_events)
    cancel = Verb(calls.cancel)
    suspend = Verb(calls.suspend)
    resume = Verb(calls.resume)
    cluster = Verb(calls.cluster)
    nodes = Verb(calls.nodes)
    drain = Verb(calls.drain)
    undrain = Verb(calls.undrain)
    tenants = Verb(calls.tenants)
    put_tenant = Verb(calls.put_tenant)
    remove_tenant = Verb(calls.remove_tenant)
    policy = Verb(calls.policy)
    set_policy = Verb(calls.set_policy)
    whatif = Verb(calls.whatif)
    events = Verb(calls.events)
    trace = Verb(calls.trace)
    me = Verb(calls.me)
    tokens = Verb(calls.tokens)
    create_token = Verb(calls.create_token)
    revoke_token = Verb(calls.revoke_token)

    @property
    def url(self) -> str:
        return str(self._connection.url)

    @property
    def now_s(self) -> float | None:
        """The scheduler's clock as of its last answer, to the second: ages by it are right wherever we are."""
        return self._connection.now_s

    async def send(self, call: Call[T]) -> T:
        """One call, tried again where that can do no harm."""
        pauses = iter(PAUSES_S)
        while True:
            try:
                response = await self._http.send(self._http.build_request(**self._connection.request(call)))
            except httpx.TransportError as error:
                pause_s: float | None = self._connection.pause_after(call, error, pauses)
            else:
                pause_s = self._connection.pause_asked(response, pauses)
                if pause_s is None:
                    return self._connection.answer(call, response)
            await asyncio.sleep(pause_s or 0.0)

    async def all_jobs(self, **which: Any) -> AsyncIterator[Job]:
        """Every job that `jobs` would give, page by page."""
        while True:
            page = await self.jobs(**which)
            for one in page.jobs:
                yield one
            if page.next is None:
                return
            which["cursor"] = page.next

    async def wait(self, id: str, *, timeout_s: float | None = None) -> Job:
        """The job once it has ended; TimeoutError where it has not by then. It outlasts a restart of the scheduler."""
        patience = Patience(id, timeout_s)
        while True:
            try:
                found = await self.job(id)
                if found.ended:
                    return found
                patience.answered()
            except Unreachable as error:
                patience.missed(error)
            await asyncio.sleep(patience.pause_s())

    async def follow(
        self, since: int | None = None, kinds: Sequence[str] = (), *, job: str | None = None
    ) -> AsyncIterator[Event]:
        """The journal as it grows, from now on or behind row `since`; it outlasts broken connections. With `job`, what happens to
        that one, until it has ended."""
        if job is not None and (await self.job(job)).ended:
            for event in (await self.job_events(job, since=since)).events:
                yield event
            return
        stream = EventStream(self._connection, since, kinds, job)
        while True:
            failed: httpx.TransportError | None = None
            try:
                async with self._open(stream) as response:
                    async for chunk in response.aiter_bytes():
                        for event in stream.feed(chunk):
                            yield event
                            if job is not None and event.is_end:
                                return
            except httpx.TransportError as error:
                failed = error
            await asyncio.sleep(stream.pause_after(failed))

    async def logs(
        self, id: str, *, follow: bool = False, tail: int | None = None, since_byte: int | None = None
    ) -> AsyncIterator[bytes]:
        """What the job prints, in pieces: all of it, the last `tail` lines, or from a byte on; with `follow` until it ends."""
        stream = LogStream(self._connection, id, follow, tail, since_byte)
        while not stream.done:
            try:
                async with self._open(stream) as response:
                    async for chunk in response.aiter_bytes():
                        yield stream.feed(chunk)
            except httpx.TransportError as error:
                await asyncio.sleep(stream.pause_after(error))
            else:
                stream.closed(stream.follows and (await self.job(id)).ended)

    @asynccontextmanager
    async def _open(self, stream: Stream) -> AsyncIterator[httpx.Response]:
        request = self._http.build_request(**stream.request())
        response = await self._http.send(request, stream=True)
        try:
            if not response.is_success:
                await response.aread()
            self._connection.check(response)
            stream.opened(response)
            yield response
        finally:
            await response.aclose()

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
