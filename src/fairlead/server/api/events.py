"""The journal, from a number on: as a page, or as a stream of server-sent events that can be taken up again anywhere.

A stream reads the store page by page and waits until its reader has taken one before it reads the next: a slow reader costs a
page of memory, however far it falls behind.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Annotated, Any

from fastapi import Header, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from fairlead.server.api import schemas
from fairlead.server.api.desk import Desk, answer_rows, desk_of, one_job, require, router, still_welcome
from fairlead.server.api.jobs import JobId, split
from fairlead.server.auth import Act, Identity, Scope
from fairlead.server.store import NoSuchJob, Store, StoredEvent

routes = router("events")
PAGE = 500  #: rows that a stream reads at once
_LOOKED_AT = 20_000  #: rows of the journal that one query goes through to find those that are wanted
_MOST_QUERIES = 25
_BEAT_S, _BEATS = 1.0, 15  #: a stream looks up so often, and says that it is there every so many times

Reading = Callable[
    [int, int], tuple[list[StoredEvent], int]
]  #: since, limit → rows, and up to which number all was seen


def event_out(event: StoredEvent) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "time_s": event.time_s,
        "kind": event.kind,
        "job": event.job_id,
        "run": event.run,
        "args": event.args,
    }


def of_journal(store: Store, last: Callable[[], int], kinds: Sequence[str], user: str | None) -> Reading:
    """A query goes through so many rows at most, so that looking for what is rare holds nobody up."""

    def reading(since: int, limit: int) -> tuple[list[StoredEvent], int]:
        end = last()
        seen = min(since, end)
        found: list[StoredEvent] = []
        for _ in range(_MOST_QUERIES):
            if seen >= end or len(found) >= limit:
                break
            until = min(seen + _LOOKED_AT, end)
            some = store.events(seen, limit=limit - len(found), kinds=kinds, user=user, until=until)
            found += some
            seen = some[-1].seq if len(found) >= limit else until
        return found, seen

    return reading


def of_job(store: Store, last: Callable[[], int], job_id: str) -> Reading:
    def reading(since: int, limit: int) -> tuple[list[StoredEvent], int]:
        end = last()
        found = store.timeline(job_id, since=since, limit=limit)
        return found, found[-1].seq if len(found) >= limit else max(min(since, end), end)

    return reading


# -- endpoints ---------------------------------------------------------------------------------------------------------------------

Since = Annotated[
    int | None, Query(ge=0, le=2**62, description="rows after this number; a stream without it begins now")
]
Limit = Annotated[int, Query(ge=1, le=10_000)]
Follow = Annotated[bool, Query(description="server-sent events; the header `Accept: text/event-stream` says so too")]
LastEventId = Annotated[str | None, Header(description="takes up a stream where it broke off")]
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "model": schemas.Events,
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
        "description": "A page of the journal, or a stream of it: `id` is the row's number, `data` the row",
    }
}


@routes.get("/events", response_model=schemas.Events, responses=_RESPONSES, summary="What happened")
async def journal(
    request: Request,
    since: Since = None,
    kinds: Annotated[list[str] | None, Query(description="only these kinds; several, or joined by commas")] = None,
    limit: Limit = 1000,
    follow: Follow = False,
    last_event_id: LastEventId = None,
) -> Response:
    """Of everybody's jobs or of your own, as your role says, and of nodes, tenants and the policy. Where `last` is less than you
    hoped for, there is more: go on from there."""
    desk, who = desk_of(request), require(request, Act.SEE_JOBS)
    user = who.user if who.scope(Act.SEE_JOBS) is Scope.OWN else None
    reading = of_journal(desk.store, lambda: desk.scheduler.last_event, split(kinds), user)
    return await _answered(request, desk, who, reading, since, limit, follow, last_event_id)


@routes.get(
    "/jobs/{job_id}/events", response_model=schemas.Events, responses=_RESPONSES, summary="What happened to a job"
)
async def timeline(
    request: Request,
    job_id: JobId,
    since: Since = None,
    limit: Limit = 1000,
    follow: Follow = False,
    last_event_id: LastEventId = None,
) -> Response:
    """A stream ends some time after the job has."""
    desk, who = desk_of(request), require(request, Act.SEE_JOBS)
    await asyncio.to_thread(one_job, who, desk.store, job_id)
    reading = of_job(desk.store, lambda: desk.scheduler.last_event, job_id)
    return await _answered(request, desk, who, reading, since, limit, follow, last_event_id)


async def _answered(
    request: Request,
    desk: Desk,
    who: Identity,
    reading: Reading,
    since: int | None,
    limit: int,
    follow: bool,
    last_event_id: str | None,
) -> Response:
    if not follow and "text/event-stream" not in request.headers.get("accept", ""):
        return await asyncio.to_thread(_page, reading, since or 0, limit)
    desk.rates.may_stream(who.token_id)
    if last_event_id and last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 19:
        since = int(last_event_id)
    start = desk.scheduler.last_event if since is None else min(since, desk.scheduler.last_event)
    return StreamingResponse(
        _stream(request, desk, who, reading, start),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},  # a proxy in front of us passes rows on as they come
    )


def _page(reading: Reading, since: int, limit: int) -> Response:
    found, last = reading(since, limit)
    return answer_rows("events", (event_out(one) for one in found), last=last)


async def _stream(request: Request, desk: Desk, who: Identity, reading: Reading, since: int) -> AsyncIterator[bytes]:
    with desk.rates.streaming(who.token_id):
        quiet = 0
        yield b"retry: 2000\n\n"
        while not desk.closing:
            try:
                frames, found, seen = await asyncio.to_thread(_frames, reading, since)
            except NoSuchJob:  # forgotten meanwhile
                return
            if found:
                yield frames
                quiet = 0
            since = max(seen, since)
            if found < PAGE and since >= desk.scheduler.last_event:
                await desk.scheduler.after(since, _BEAT_S)
                quiet += 1
                if quiet % _BEATS == 0:
                    # no row, but where to take it up: rows that are not this reader's are not looked at again
                    yield b": still here\nid: %d\n\n" % since
                if not await still_welcome(request):
                    return


def _frames(reading: Reading, since: int) -> tuple[bytes, int, int]:
    """A page as it is sent, how many rows it has, and up to which number all was seen."""
    found, seen = reading(since, PAGE)
    return b"".join(_frame(one) for one in found), len(found), seen


def _frame(event: StoredEvent) -> bytes:
    data = json.dumps(event_out(event), separators=(",", ":"))
    return f"id: {event.seq}\nevent: {event.kind}\ndata: {data}\n\n".encode()
