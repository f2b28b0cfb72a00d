"""The cluster as a whole: counts, the policy, what another would do, who you are, and how the scheduler itself is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from fairlead.model.errors import InputError
from fairlead.runtime.twin import Choice
from fairlead.server.api import schemas
from fairlead.server.api.desk import (
    Desk,
    answer,
    desk_of,
    problem_responses,
    read,
    require,
    router,
    still_welcome,
    takes,
    who_asks,
)
from fairlead.server.api.picture import set_gauges
from fairlead.server.api.version import VERSION
from fairlead.server.auth import Act, Identity
from fairlead.server.metrics import CONTENT_TYPE

routes = router("cluster")
outside = router("scheduler", prefix="")


@routes.get("/me", response_model=schemas.Me, summary="Who you are")
async def me(request: Request) -> Response:
    who = who_asks(request)
    return answer({"user": who.user, "role": str(who.role), "tenant": who.tenant})


_AT_MOST_EVERY_S = 1.0


@routes.get(
    "/cluster",
    response_model=schemas.Cluster,
    responses={
        200: {
            "model": schemas.Cluster,
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
            "description": "The counts, or a stream of them",
        }
    },
    summary="Counts of everything",
)
async def cluster(
    request: Request,
    follow: Annotated[
        bool,
        Query(
            description="server-sent events: the counts again when something happens, once a second at most, and every few seconds"
        ),
    ] = False,
) -> Response:
    """With `follow`, `last_event` says whether there is anything new to ask for: a thousand jobs that start at once are one
    message."""
    desk, who = desk_of(request), require(request, Act.SEE_CLUSTER)
    if not follow:
        return answer(await counts(desk))
    desk.rates.may_stream(who.token_id)
    headers = {"X-Accel-Buffering": "no"}
    return StreamingResponse(_beats(request, desk, who), media_type="text/event-stream", headers=headers)


async def counts(desk: Desk, after: int = 0) -> dict[str, Any]:
    picture, scheduler = await desk.pictures.latest(after), desk.scheduler
    out = scheduler.closed()
    return {
        "gpus": scheduler.spec.gpus,
        "gpus_used": picture.used_milli / 1000,
        "nodes": len(scheduler.spec.nodes),
        "nodes_up": sum(node.name not in out for node in scheduler.spec.nodes),
        "jobs": picture.by_state(),
        "tenants": picture.by_tenant(),
        "policy": scheduler.policy,
        "placer": scheduler.placer,
        "version": VERSION,
        "started_s": scheduler.started_s,
        "now_s": desk.clock(),
        "last_event": picture.last_event,
        "trouble": scheduler.trouble,
    }


async def beat(desk: Desk) -> bytes:
    """The counts as one message of a stream."""
    found = await counts(desk, after=desk.scheduler.last_event)
    return f"id: {found['last_event']}\nevent: cluster\ndata: {json.dumps(found, separators=(',', ':'))}\n\n".encode()


async def _beats(request: Request, desk: Desk, who: Identity) -> AsyncIterator[bytes]:
    """However many look on, each message is made once (`Desk.beats`)."""
    with desk.rates.streaming(who.token_id):
        sent = b""
        yield b"retry: 2000\n\n"
        while not desk.closing:
            seen, found = desk.scheduler.last_event, await desk.beats.get()
            if found != sent:
                sent = found
                yield found
            await asyncio.sleep(_AT_MOST_EVERY_S)
            await desk.scheduler.after(seen, _AT_MOST_EVERY_S)
            if not await still_welcome(request):
                return


@routes.get("/policy", response_model=schemas.PolicyOut, summary="Who runs, and where")
async def policy(request: Request) -> Response:
    desk, _ = desk_of(request), require(request, Act.SEE_CLUSTER)
    return answer({"policy": desk.scheduler.policy, "placer": desk.scheduler.placer})


@routes.put(
    "/policy",
    response_model=schemas.PolicyOut,
    summary="Change the policy or the placer",
    openapi_extra=takes(
        schemas.PolicyBody, examples={"both": {"policy": "srtf", "placer": "consolidate"}, "one": {"policy": "las"}}
    ),
)
async def set_policy(request: Request) -> Response:
    """No job is lost, and none is stopped by this alone."""
    desk, who = desk_of(request), require(request, Act.CHANGE_POLICY)
    body = await read(request, schemas.PolicyBody)
    for field, value in (("policy", body.policy), ("placer", body.placer)):
        # an admin's token runs jobs, not code in the scheduler itself
        if value is not None and (".py" in value.partition(":")[0] or "/" in value.partition(":")[0]):
            raise InputError(
                "what is in a file is named where the scheduler is started", column=field, value=value, accepts="a name"
            )
    if body.policy is not None or body.placer is not None:
        await desk.scheduler.set_policy(body.policy, body.placer, who.user)
    return answer({"policy": desk.scheduler.policy, "placer": desk.scheduler.placer})


@routes.post(
    "/whatif",
    response_model=schemas.WhatIfRows,
    summary="What would happen under another policy, with more nodes or with fewer",
    openapi_extra=takes(
        schemas.WhatIf, examples={"a policy": {"policies": ["srtf", "las"]}, "two more nodes": {"add_nodes": "2x8"}}
    ),
)
async def whatif(request: Request) -> Response:
    """The jobs at hand run on in the simulator, once as things are (the first row) and once for each choice. One at a time for each
    user."""
    desk, who = desk_of(request), require(request, Act.ASK_TWIN)
    body = await read(request, schemas.WhatIf)
    policies: Sequence[str | None] = body.policies
    if not policies and (body.placer or body.add_nodes or body.remove_nodes):
        policies = [None]  # the present one
    gone = tuple(body.remove_nodes)
    choices = [Choice(policy, body.placer, body.add_nodes or "", gone) for policy in policies]
    return answer({"rows": await desk.foresight.compared(who.user, choices, request.is_disconnected)})


@outside.get(
    "/metrics",
    response_class=Response,
    summary="Metrics for Prometheus",
    responses={200: {"description": "Prometheus's text", "content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request) -> Response:
    desk, _ = desk_of(request), require(request, Act.SEE_METRICS)
    picture = await desk.pictures.latest()

    def told() -> bytes:
        set_gauges(desk.metrics, picture, desk.scheduler, VERSION)
        return desk.metrics.exposition()

    return Response(await asyncio.to_thread(told), media_type=CONTENT_TYPE)


@outside.get(
    "/healthz",
    response_model=schemas.Health,
    summary="Whether the scheduler can do its work",
    openapi_extra={"security": []},
    responses={
        **problem_responses(429),
        503: {"model": schemas.Health, "description": "Nothing can be decided now"},
    },
)
async def healthz(request: Request) -> Response:
    trouble = desk_of(request).scheduler.trouble
    return answer({"status": "trouble" if trouble else "ok", "trouble": trouble}, 503 if trouble else 200)
