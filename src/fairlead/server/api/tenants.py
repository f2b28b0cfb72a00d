"""Tenants: their quotas and weights, and what they have."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from fairlead.model.cluster import TenantSpec
from fairlead.model.errors import InputError
from fairlead.model.job import LONGEST_NAME
from fairlead.server.api import schemas
from fairlead.server.api.desk import answer, desk_of, read, require, router, takes
from fairlead.server.api.problems import none_such
from fairlead.server.auth import Act

routes = router("tenants")
TenantName = Annotated[str, Path(description="the tenant's name")]


@routes.get("/tenants", response_model=schemas.Tenants, summary="Tenants, their quotas and what they use")
async def listing(request: Request) -> Response:
    desk, _ = desk_of(request), require(request, Act.SEE_CLUSTER)
    picture = await desk.pictures.latest()
    known = {tenant.name: tenant for tenant in picture.tenants}
    rows = []
    for name, jobs in sorted(picture.by_tenant().items()):
        tenant = known.get(name) or TenantSpec(name)
        rows.append(
            {
                "name": name,
                "quota_gpus": tenant.quota_gpus,
                "weight": tenant.weight,
                "gpus_used": picture.tenant_milli.get(name, 0) / 1000,
                "usage_gpu_s": picture.usage_gpu_s.get(name, 0.0),
                "jobs": jobs,
            }
        )
    return answer({"tenants": rows})


@routes.put(
    "/tenants/{name}",
    response_model=schemas.TenantNow,
    summary="Add a tenant, or change its quota and weight",
    openapi_extra=takes(schemas.TenantBody, examples={"eight GPUs": {"quota_gpus": 8, "weight": 2.0}}),
)
async def put(request: Request, name: TenantName) -> Response:
    desk, who = desk_of(request), require(request, Act.CHANGE_TENANTS)
    if len(name) > LONGEST_NAME or not name.isprintable() or name != name.strip():
        accepts = f"up to {LONGEST_NAME} printable characters"
        raise InputError("this can't name a tenant", column="name", value=name, accepts=accepts)
    body = await read(request, schemas.TenantBody)
    tenant = TenantSpec(name, body.quota_gpus, body.weight)
    await desk.scheduler.put_tenant(tenant, who.user)
    return answer({"name": name, "quota_gpus": tenant.quota_gpus, "weight": tenant.weight})


@routes.delete("/tenants/{name}", status_code=204, response_class=Response, summary="Remove a tenant")
async def remove(request: Request, name: TenantName) -> Response:
    desk, who = desk_of(request), require(request, Act.CHANGE_TENANTS)
    if name not in desk.scheduler.spec.tenants:
        raise none_such("tenant", name, desk.scheduler.spec.tenants)
    await desk.scheduler.remove_tenant(name, who.user)
    return Response(status_code=204)
