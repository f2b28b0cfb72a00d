"""What there is to choose from: policies and placers."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from fairlead.runtime.choices import choices
from fairlead.server.api import studio_schemas
from fairlead.server.api.desk import answer, require, router
from fairlead.server.auth import Act

routes = router("policies")


@routes.get("/policies", response_model=studio_schemas.Choices, summary="Policies and placers by name")
async def policies(request: Request) -> Response:
    require(request, Act.SEE_CLUSTER)
    return answer(await asyncio.to_thread(choices))
