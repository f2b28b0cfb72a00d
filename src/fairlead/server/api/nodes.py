"""Nodes: what there is, who is on it, and taking one out of use."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from fairlead.server.api import schemas
from fairlead.server.api.desk import Desk, answer, desk_of, read, require, router, takes
from fairlead.server.api.problems import none_such
from fairlead.server.auth import Act, Scope

routes = router("nodes")
NodeName = Annotated[str, Path(description="the node's name")]


def state_of(desk: Desk, node: str) -> str:
    if node in desk.scheduler.drained():
        return "drained"
    return "down" if node in desk.scheduler.closed() else "up"


def _check_known(desk: Desk, node: str) -> None:
    known = [one.name for one in desk.scheduler.spec.nodes]
    if node not in known:
        raise none_such("node", node, known)


@routes.get("/nodes", response_model=schemas.Nodes, summary="Nodes, their GPUs and who has them")
async def listing(request: Request) -> Response:
    desk, who = desk_of(request), require(request, Act.SEE_CLUSTER)
    picture = await desk.pictures.latest()
    scope, drained, spec = who.scope(Act.SEE_JOBS), desk.scheduler.drained(), desk.scheduler.spec
    nodes: list[dict[str, Any]] = []
    for node in spec.nodes:
        here, out = picture.on_node.get(node.name, ()), drained.get(node.name)
        seen = [job.id for job in here if scope is Scope.ALL or (scope is Scope.OWN and job.user == who.user)]
        nodes.append(
            {
                "name": node.name,
                "state": state_of(desk, node.name),
                "gpus": node.gpus,
                "gpu_type": node.gpu_type,
                "gpus_used": picture.node_milli.get(node.name, 0) / 1000,
                "gpu_memory_mib": node.gpu_memory_mib,
                "cpus": None if node.cpu_milli is None else node.cpu_milli / 1000,
                "memory_mib": node.memory_mib,
                "path": node.path,
                "running": len(here),
                "jobs": seen,
                "drained_s": out.drained_s if out else None,
                "drained_by": out.drained_by if out else "",
                "drain_reason": out.drain_reason if out else "",
                "down_reason": desk.scheduler.down().get(node.name, ""),
            }
        )
    return answer({"nodes": nodes, "levels": spec.levels})


@routes.post(
    "/nodes/{name}/drain",
    response_model=schemas.NodeState,
    summary="Start nothing more on a node",
    openapi_extra=takes(schemas.Drain, required=False, examples={"why": {"reason": "a fan is broken"}}),
)
async def drain(request: Request, name: NodeName) -> Response:
    """Jobs that run there run on."""
    desk, who = desk_of(request), require(request, Act.DRAIN)
    _check_known(desk, name)
    body = await read(request, schemas.Drain)
    await desk.scheduler.drain(name, who.user, body.reason)
    return answer({"name": name, "state": state_of(desk, name)})


@routes.post("/nodes/{name}/undrain", response_model=schemas.NodeState, summary="Use a drained node again")
async def undrain(request: Request, name: NodeName) -> Response:
    desk, who = desk_of(request), require(request, Act.DRAIN)
    _check_known(desk, name)
    await desk.scheduler.undrain(name, who.user)
    return answer({"name": name, "state": state_of(desk, name)})
