"""The journal as a trace that the simulator replays."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from fairlead.server.api.desk import desk_of, require, router
from fairlead.server.auth import Act
from fairlead.server.export import trace_rows

routes = router("trace")
_FAR = 1e15


@routes.get(
    "/trace",
    response_class=Response,
    summary="The journal as a canonical trace",
    responses={
        200: {
            "description": "CSV with job_id, submit_s, gpus, duration_s and more, for `fairlead sim run`",
            "content": {"text/csv": {"schema": {"type": "string"}}},
            "headers": {
                "X-Fairlead-Left-Out": {
                    "description": "jobs that never ran and so have no duration",
                    "schema": {"type": "integer"},
                },
                "X-Fairlead-Origin": {"description": "when submit_s is 0", "schema": {"type": "string"}},
            },
        }
    },
)
async def export(
    request: Request,
    since_s: Annotated[float | None, Query(ge=-_FAR, le=_FAR, description="submitted at this time or later")] = None,
    until_s: Annotated[float | None, Query(ge=-_FAR, le=_FAR, description="and before this one")] = None,
) -> Response:
    """Jobs by when they were submitted; their duration is how long they really ran, so far if they still do."""
    desk, _ = desk_of(request), require(request, Act.EXPORT)
    made = await asyncio.to_thread(trace_rows, desk.store, since_s, until_s, desk.clock())
    headers = {"X-Fairlead-Left-Out": str(made.left_out)}
    if made.origin:
        headers["X-Fairlead-Origin"] = made.origin
    return Response(made.csv, media_type="text/csv; charset=utf-8", headers=headers)
