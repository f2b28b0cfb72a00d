"""Streams that go on where they broke off: the journal's events, a job's output. What to ask for and how far we are; the clients
do the waiting and sending."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

import httpx

from fairlead.client.connection import PAUSES_S, SILENCE_S, STREAM_PAUSES_S, Connection
from fairlead.client.errors import UnexpectedAnswer
from fairlead.client.reading import read
from fairlead.client.sse import Messages
from fairlead.client.types import Event


class Stream:
    """What the clients need of one: `request` for each connection, `pause_after` when one broke."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._pauses = iter(PAUSES_S)  # one that never answers is told soon

    def request(self) -> dict[str, Any]:
        """For `build_request`, for the first connection and every further one."""
        raise NotImplementedError

    def opened(self, response: httpx.Response) -> None:
        """It was answered: the connection is good again, and may break again."""
        self._pauses = iter(STREAM_PAUSES_S)

    def pause_after(self, error: httpx.TransportError | None) -> float:
        """Seconds before it is tried again; raises Unreachable after having tried long enough. None: it was closed in order."""
        pause_s = next(self._pauses, None)
        if pause_s is None:
            raise self.connection.unreachable(error or httpx.ReadError("it ends every stream")) from None
        return pause_s


class EventStream(Stream):
    """The journal as it grows, or what happens to one job: each row once, over any number of connections."""

    def __init__(self, connection: Connection, since: int | None, kinds: Sequence[str], job: str | None) -> None:
        super().__init__(connection)
        self._path = "/v1/events" if job is None else f"/v1/jobs/{quote(job, safe='')}/events"
        self._kinds = tuple(kinds)
        self._messages = Messages("" if since is None else str(since))

    def request(self) -> dict[str, Any]:
        last_id = self._messages.last_id
        self._messages = Messages(last_id)  # half a message that a connection left behind counts for nothing
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        params: dict[str, Any] = {"follow": "true"}
        if last_id:
            headers["Last-Event-ID"] = last_id
            params["since"] = last_id
        if self._kinds:
            params["kinds"] = self._kinds
        return {"method": "GET", "url": self._path, "params": params, "headers": headers, "timeout": SILENCE_S}

    def feed(self, chunk: bytes) -> Iterator[Event]:
        for message in self._messages.feed(chunk):
            try:
                data = json.loads(message.data)
            except ValueError:
                raise UnexpectedAnswer(f"the scheduler sent an event that is no JSON: {message.data:.80}") from None
            yield read(Event, data)


class LogStream(Stream):
    """What a job prints. With `follow` it goes on until the job has ended."""

    def __init__(self, connection: Connection, id: str, follow: bool, tail: int | None, since_byte: int | None) -> None:
        super().__init__(connection)
        self.done = False
        self._path = f"/v1/jobs/{quote(id, safe='')}/logs"
        self._follow, self._tail = follow, tail
        self._at = 0 if since_byte is None and tail is None else since_byte  #: None: not known before the tail was read
        self._size: int | None = None

    def request(self) -> dict[str, Any]:
        # the tail is read by itself: where it ends is known, and following begins there
        params: dict[str, Any] = {"tail": self._tail} if self._at is None else {"since_byte": self._at}
        if self._follow and self._at is not None:
            params["follow"] = "true"
        # a job may be silent for as long as it likes; asking again now and then finds a connection that died unseen
        return {
            "method": "GET",
            "url": self._path,
            "params": params,
            "headers": {"Accept": "text/plain"},
            "timeout": httpx.Timeout(30.0, read=SILENCE_S),
        }

    def opened(self, response: httpx.Response) -> None:
        super().opened(response)
        size = response.headers.get("X-Fairlead-Log-Size", "")
        self._size = int(size) if size.isdigit() else None

    def feed(self, chunk: bytes) -> bytes:
        if self._at is not None:
            self._at += len(chunk)
        else:
            self._tail = None  # part of it was handed on: it can't be asked for again
        return chunk

    def closed(self, ended: bool) -> None:
        """The scheduler closed it in order: `ended` says whether the job has ended, asked after that."""
        if self._at is None:
            self._at = self._size
            self.done = not self._follow or self._at is None
        elif not self._follow:
            self.done = True
        elif ended:
            self._follow = (
                False  # once more to the end, since the scheduler may have closed it while it was stopped itself
            )

    def pause_after(self, error: httpx.TransportError | None) -> float:
        if self._at is None and self._tail is None:
            raise self.connection.unreachable(error or httpx.ReadError("it ended the stream")) from None
        return super().pause_after(error)

    @property
    def follows(self) -> bool:
        return self._follow
