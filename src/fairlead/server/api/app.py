"""The application: routes, the entrance before them, and what becomes of errors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from fairlead.server.api import (
    choices,
    cluster,
    events,
    gpus,
    jobs,
    logs,
    nodes,
    overview,
    pages,
    studio,
    tenants,
    tokens,
    trace,
)
from fairlead.server.api.desk import Desk
from fairlead.server.api.entrance import Entrance, methods_at
from fairlead.server.api.foresight import Foresight
from fairlead.server.api.fresh import Fresh
from fairlead.server.api.gpus import GpuMap
from fairlead.server.api.limits import Rates
from fairlead.server.api.openapi import described
from fairlead.server.api.overview import Overviews
from fairlead.server.api.picture import Pictures
from fairlead.server.api.problems import HANDLED, handle, of_http, wrong_method
from fairlead.server.api.version import VERSION
from fairlead.server.auth import Tokens
from fairlead.server.config import Config
from fairlead.server.metrics import Metrics
from fairlead.server.studio import Limits, Studio

if TYPE_CHECKING:
    from fairlead.server.scheduler import Scheduler

_PARTS = (jobs, events, logs, nodes, gpus, tenants, cluster, overview, choices, studio, trace, tokens)


def create_app(scheduler: Scheduler, tokens: Tokens, config: Config, metrics: Metrics | None = None) -> FastAPI:
    """For an ASGI server. `metrics`: the scheduler's own, if not said otherwise."""
    # the interactive pages would load scripts from elsewhere; what they show is at /v1/openapi.json
    app = FastAPI(title="fairlead", version=VERSION, docs_url=None, redoc_url=None, openapi_url=None)
    app.router.redirect_slashes = False
    now = scheduler.now
    app.state.desk = desk = Desk(
        scheduler=scheduler,
        tokens=tokens,
        config=config,
        metrics=metrics or scheduler.metrics,
        rates=Rates(config, now),
        clock=now,
        foresight=Foresight(scheduler),
        pictures=(pictures := Pictures(scheduler)),
        gpu_map=GpuMap(scheduler),
        overviews=Overviews(scheduler, pictures),
        studio=Studio(
            config.state_dir / "studio", Limits(config.max_upload, config.studio_memory, config.studio_time), now
        ),
    )
    desk.beats = Fresh(lambda: cluster.beat(desk), lambda: scheduler.last_event, 0.9, 5.0)
    for part in _PARTS:
        app.router.routes.extend(part.routes.routes)
    app.router.routes.extend(cluster.outside.routes)
    _describe(app)
    app.router.routes.extend(pages.ROUTES)
    app.router.routes.append(studio.REPORT)
    app.add_middleware(Entrance, desk=desk, routes=app.router.routes)
    for kind in HANDLED:
        app.add_exception_handler(kind, handle)
    app.add_exception_handler(HTTPException, _of_router)
    return app


def end_streams(app: FastAPI) -> None:
    """Event streams and followed logs end within a second or so: an ASGI server that is to stop waits for them."""
    desk: Desk = app.state.desk
    desk.closing = True
    desk.studio.stop()


def _describe(app: FastAPI) -> None:
    text = json.dumps(described(app), separators=(",", ":"))

    async def description(_: Request) -> Response:
        return Response(text, media_type="application/json")

    app.router.add_route("/v1/openapi.json", description, methods=["GET"], include_in_schema=False)


async def _of_router(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        return wrong_method(request.method, methods_at(request.app.router.routes, request.scope))
    return of_http(error)
