"""What a job prints: all that is kept, the end of it, or on and on while it runs."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from fairlead.server.api.desk import Desk, desk_of, one_job, require, router, still_welcome
from fairlead.server.api.jobs import JobId
from fairlead.server.api.kept_log import Astray, KeptLog
from fairlead.server.api.problems import NotFound
from fairlead.server.auth import Act, Identity
from fairlead.server.store import NoSuchJob

routes = router("logs")
_POLL_S = 0.2
_CHECKS = 25  #: polls after which we look whether the reader may still read


@routes.get(
    "/jobs/{job_id}/logs",
    response_class=Response,
    summary="What a job printed",
    responses={
        200: {
            "description": "Its output as it was written, older files that are kept first",
            "content": {"text/plain": {"schema": {"type": "string"}}},
            "headers": {
                "X-Fairlead-Log-Size": {
                    "description": "bytes that are kept when this is answered",
                    "schema": {"type": "integer"},
                }
            },
        }
    },
)
async def logs(
    request: Request,
    job_id: JobId,
    follow: Annotated[bool, Query(description="go on until the job has ended")] = False,
    tail: Annotated[int | None, Query(ge=0, le=1_000_000, description="only the last so many lines")] = None,
    since_byte: Annotated[int, Query(ge=0, le=2**62, description="skip so many bytes of what is kept")] = 0,
) -> Response:
    """A job that has not started has printed nothing; a follower waits for it."""
    desk, who = desk_of(request), require(request, Act.SEE_JOBS)
    row = await asyncio.to_thread(one_job, who, desk.store, job_id)
    who.require_of(Act.SEE_LOGS, row.user)
    if follow:
        desk.rates.may_stream(who.token_id)
    log, size = await asyncio.to_thread(_opened, desk, job_id, tail, since_byte)
    return _LogResponse(
        log,
        _stream(request, desk, who, log, job_id if follow else None),
        media_type="text/plain; charset=utf-8",
        headers={"X-Fairlead-Log-Size": str(size), "X-Accel-Buffering": "no"},
    )


class _LogResponse(StreamingResponse):
    """Its files are closed even where nobody takes the body."""

    def __init__(self, log: KeptLog, content: AsyncIterator[bytes], **options: Any) -> None:
        super().__init__(content, **options)
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._log.close()


def _opened(desk: Desk, job_id: str, tail: int | None, since_byte: int) -> tuple[KeptLog, int]:
    try:
        log = KeptLog(desk.config.logs, desk.scheduler.log_path(job_id))
    except Astray:
        raise NotFound("this job has no log that can be shown", column="job_id", value=job_id) from None
    size = log.left
    if since_byte:
        log.skip(since_byte)
    elif tail is not None:
        log.tail(tail)
    return log, size


async def _stream(
    request: Request, desk: Desk, who: Identity, log: KeptLog, following: str | None
) -> AsyncIterator[bytes]:
    """`following`: the job until whose end we wait for more. Otherwise what is there now is all, however fast it writes."""
    polls, left = 0, math.inf if following else log.left
    with desk.rates.streaming(who.token_id):
        while left > 0 and not desk.closing:
            # first whether it has ended, then what it wrote: nothing that it wrote before is missed
            more_to_come = following is not None and await _lives(desk, following)
            try:
                block = await asyncio.to_thread(log.next)
            except Astray:  # what was a log is none any more
                return
            if block:
                yield block if len(block) <= left else block[: int(left)]
                left -= len(block)
                continue
            polls += 1
            if not more_to_come or (polls % _CHECKS == 0 and not await still_welcome(request)):
                return
            await asyncio.sleep(_POLL_S)


async def _lives(desk: Desk, job_id: str) -> bool:
    """A job that came a moment ago is in the store before it is anywhere else."""
    if job_id in desk.scheduler.jobs:
        return True
    try:
        return (await asyncio.to_thread(desk.store.job, job_id)).live
    except NoSuchJob:
        return False
