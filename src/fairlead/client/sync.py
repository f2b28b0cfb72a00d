"""The client for ordinary programs."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
    """A call as a method: it takes what the call takes and returns what the scheduler answers."""

    def __init__(self, make: Callable[P, Call[T]]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Callable[P, Call[T]]: ...
    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, T]: ...
    def __get__(self, client: Client | None, owner: type) -> Callable[P, Any]:
        if client is None:
            return self._make
        send, make = client.send, self._make

        @functools.wraps(make)
        def verb(*args: P.args, **kwargs: P.kwargs) -> T:
            return send(make(*args, **kwargs))

        return verb


class Client:
    """Talks to a scheduler, from any number of threads.

    `url` is FAIRLEAD_SERVER or this machine's port 7878 unless given; the token is the argument, FAIRLEAD_TOKEN, or the file
    that `fairlead up` made for this user. `ca` is a file of certificates to trust beside the usual ones. A token goes over
    plain HTTP only on this machine, unless `allow_public` says that something else encrypts.
    """

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
        self._http = httpx.Client(**self._connection.http_options())

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

    def send(self, call: Call[T]) -> T:
        """One call, tried again where that can do no harm."""
        pauses = iter(PAUSES_S)
        while True:
            try:
                response = self._http.send(self._http.build_request(**self._connection.request(call)))
            except httpx.TransportError as error:
                pause_s: float | None = self._connection.pause_after(call, error, pauses)
            else:
                pause_s = self._connection.pause_asked(response, pauses)
                if pause_s is None:
                    return self._connection.answer(call, response)
            time.sleep(pause_s or 0.0)

    def all_jobs(self, **which: Any) -> Iterator[Job]:
        """Every job that `jobs` would give, page by page."""
        while True:
            page = self.jobs(**which)
            yield from page.jobs
            if page.next is None:
                return
            which["cursor"] = page.next

    def wait(self, id: str, *, timeout_s: float | None = None) -> Job:
        """The job once it has ended; TimeoutError where it has not by then. It outlasts a restart of the scheduler."""
        patience = Patience(id, timeout_s)
        while True:
            try:
                found = self.job(id)
                if found.ended:
                    return found
                patience.answered()
            except Unreachable as error:
                patience.missed(error)
            time.sleep(patience.pause_s())

    def follow(self, since: int | None = None, kinds: Sequence[str] = (), *, job: str | None = None) -> Iterator[Event]:
        """The journal as it grows, from now on or behind row `since`; it outlasts broken connections. With `job`, what happens to
        that one, until it has ended."""
        if job is not None and self.job(job).ended:
            yield from self.job_events(job, since=since).events
            return
        stream = EventStream(self._connection, since, kinds, job)
        while True:
            failed: httpx.TransportError | None = None
            try:
                with self._open(stream) as response:
                    for chunk in response.iter_bytes():
                        for event in stream.feed(chunk):
                            yield event
                            if job is not None and event.is_end:
                                return
            except httpx.TransportError as error:
                failed = error
            time.sleep(stream.pause_after(failed))

    def logs(
        self, id: str, *, follow: bool = False, tail: int | None = None, since_byte: int | None = None
    ) -> Iterator[bytes]:
        """What the job prints, in pieces: all of it, the last `tail` lines, or from a byte on; with `follow` until it ends."""
        stream = LogStream(self._connection, id, follow, tail, since_byte)
        while not stream.done:
            try:
                with self._open(stream) as response:
                    for chunk in response.iter_bytes():
                        yield stream.feed(chunk)
            except httpx.TransportError as error:
                time.sleep(stream.pause_after(error))
            else:
                stream.closed(stream.follows and self.job(id).ended)

    @contextmanager
    def _open(self, stream: Stream) -> Iterator[httpx.Response]:
        request = self._http.build_request(**stream.request())
        response = self._http.send(request, stream=True)
        try:
            if not response.is_success:
                response.read()
            self._connection.check(response)
            stream.opened(response)
            yield response
        finally:
            response.close()

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
