"""Nodes: what there is, who is on it, and taking one out of use."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Annotated, Any

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from fairlead.model.cluster import NodeSpec
from fairlead.server.api import schemas
from fairlead.server.api.desk import Desk, answer, answer_rows, desk_of, read, require, router, takes
from fairlead.server.api.gpus import by_node
from fairlead.server.api.picture import Picture
from fairlead.server.api.problems import none_such
from fairlead.server.auth import Act, Identity, Scope
from fairlead.server.jobs import Job
from fairlead.server.store import NodeRow

routes = router("nodes")
NodeName = Annotated[str, Path(description="the node's name")]
_READ = ("utilization_percent", "memory_used_mib", "memory_free_mib", "power_w", "temperature_c")


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
    picture, scheduler, spec = await desk.pictures.latest(), desk.scheduler, desk.scheduler.spec
    drained, closed, down = scheduler.drained(), scheduler.closed(), scheduler.down()

    def look() -> Response:
        nodes = (_node_out(node, picture, who, drained, closed, down) for node in spec.nodes)
        return answer_rows("nodes", nodes, levels=spec.levels)

    return await asyncio.to_thread(look)


def _node_out(
    node: NodeSpec,
    picture: Picture,
    who: Identity,
    drained: Mapping[str, NodeRow],
    closed: Collection[str],
    down: Mapping[str, str],
) -> dict[str, Any]:
    here, out = picture.on_node.get(node.name, ()), drained.get(node.name)
    return {
        "name": node.name,
        "state": "drained" if out else "down" if node.name in closed else "up",
        "gpus": node.gpus,
        "gpu_type": node.gpu_type,
        "gpus_used": picture.node_milli.get(node.name, 0) / 1000,
        "gpu_memory_mib": node.gpu_memory_mib,
        "cpus": None if node.cpu_milli is None else node.cpu_milli / 1000,
        "memory_mib": node.memory_mib,
        "path": node.path,
        "running": len(here),
        "jobs": [job.id for job in here if _sees(who, job)],
        "drained_s": out.drained_s if out else None,
        "drained_by": out.drained_by if out else "",
        "drain_reason": out.drain_reason if out else "",
        "down_reason": down.get(node.name, ""),
    }


def _sees(who: Identity, job: Job) -> bool:
    scope = who.scope(Act.SEE_JOBS)
    return scope is Scope.ALL or (scope is Scope.OWN and job.user == who.user)


@routes.get("/nodes/{name}", response_model=schemas.NodeWithGpus, summary="One node, and each of its GPUs")
async def one(request: Request, name: NodeName) -> Response:
    """What GPUs say of themselves is there where somebody measures them."""
    desk, who = desk_of(request), require(request, Act.SEE_CLUSTER)
    _check_known(desk, name)
    picture, scheduler = await desk.pictures.latest(), desk.scheduler
    node = next(node for node in scheduler.spec.nodes if node.name == name)
    read = by_node(scheduler.metrics.readings).get(name, [])
    held: dict[int, list[dict[str, Any]]] = {}
    for job in picture.on_node.get(name, ()):
        for place in job.places:
            for gpu in place.gpus if place.node == name else ():
                told = {"job": job.id if _sees(who, job) else None, "tenant": job.tenant, "milli": place.milli}
                held.setdefault(gpu, []).append(told)
    each = [
        {
            "index": gpu,
            "holders": held.get(gpu, []),
            **{field: getattr(read[gpu], field) if gpu < len(read) else None for field in _READ},
        }
        for gpu in range(node.gpus)
    ]
    shown = _node_out(node, picture, who, scheduler.drained(), scheduler.closed(), scheduler.down())
    return answer({**shown, "each": each})


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
