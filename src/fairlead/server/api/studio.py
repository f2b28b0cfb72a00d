"""The studio: traces that people bring, workloads that are made up, and policies compared on them in a process of its own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from fairlead.model.cluster import ClusterSpec, parse_cluster_shape, read_shape
from fairlead.model.errors import InputError
from fairlead.record.report.run import describe_cluster
from fairlead.runtime.choices import check_named
from fairlead.server.api import studio_schemas as schemas
from fairlead.server.api.desk import Desk, answer, desk_of, read, require, router, takes
from fairlead.server.api.problems import NotFound, TooMany, nothing_here
from fairlead.server.auth import Act, Identity, Scope
from fairlead.server.export import trace_rows
from fairlead.server.studio import Full, KeptRun, KeptTrace

routes = router("studio", prefix="/v1/studio")
UPLOADS = "/v1/studio/traces"
REPORTS = "/studio-report/"  #: opened by a ticket, not by a token
_MOST_NODES, _MOST_GPUS = 20_000, 200_000
_FAR = 1e15
_PLAIN = re.compile(r"[^\w.+-]+")
_META_POLICY = re.compile(rb'http-equiv="Content-Security-Policy" content="([^"]*)"')
#: a report is a stranger in our house: it may run its own script and hand out files, and knows nothing of whoever looks at it
_SANDBOX = "sandbox allow-scripts allow-downloads; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

Id = Annotated[str, Path(max_length=64)]


# -- what can be had -----------------------------------------------------------------------------------------------------------


@routes.get("", response_model=schemas.StudioOut, summary="What can be simulated here")
async def studio(request: Request) -> Response:
    desk, _ = desk_of(request), require(request, Act.SEE_STUDIO)
    limits = desk.studio.limits
    found = await asyncio.to_thread(_offered)
    bounds = {"upload_bytes": limits.upload_bytes, "time_s": limits.time_s, "memory_bytes": limits.memory_bytes}
    return answer({**found, **bounds, "traces": limits.traces})


def _offered() -> dict[str, Any]:
    from fairlead.workload.generate import generators
    from fairlead.workload.readers.registry import FORMATS

    def plain(value: object) -> object:
        return value if isinstance(value, bool | int | float | str) or value is None else str(value)

    return {
        "generators": [
            {
                "name": one.name,
                "summary": one.summary,
                "parameters": {key: plain(v) for key, v in one.parameters.items()},
            }
            for one in generators()
        ],
        "formats": [{"name": one.name, "about": one.about} for one in FORMATS.values()],
    }


# -- traces --------------------------------------------------------------------------------------------------------------------


@routes.get("/traces", response_model=schemas.TraceList, summary="The traces that you keep here")
async def traces(request: Request) -> Response:
    desk, who = desk_of(request), require(request, Act.SEE_STUDIO)
    found = [one for one in desk.studio.shelf.traces.values() if _sees(who, one.user)]
    return answer({"traces": [asdict(one) for one in sorted(found, key=lambda one: (-one.made_s, one.id))]})


@routes.post(
    "/traces",
    response_model=schemas.TraceOut,
    status_code=201,
    summary="Upload a trace",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def upload(
    request: Request,
    name: Annotated[str, Query(max_length=200, description="what the file is called, for you to know it by")] = "trace",
) -> Response:
    """The body is the file itself, plain or gzipped, in any format that is told by its content. What can't be used is answered with its
    line, column, value and what would do."""
    desk, who = desk_of(request), require(request, Act.USE_STUDIO)
    return await _kept(desk, who, _PLAIN.sub("_", name.strip())[:100] or "trace", request.stream())


@routes.post(
    "/traces/lived", response_model=schemas.TraceOut, status_code=201, summary="Keep what this scheduler ran as a trace"
)
async def lived(
    request: Request,
    since_s: Annotated[float | None, Query(ge=-_FAR, le=_FAR, description="submitted at this time or later")] = None,
) -> Response:
    """Yesterday, to be run under another policy: as `GET /v1/trace`, kept here."""
    desk, who = desk_of(request), require(request, Act.EXPORT)
    made = await asyncio.to_thread(trace_rows, desk.store, since_s, None, desk.clock())

    async def body() -> AsyncIterator[bytes]:
        yield made.csv.encode()

    return await _kept(desk, who, f"lived-{(made.origin or 'nothing')[:10]}.csv", body())


async def _kept(desk: Desk, who: Identity, name: str, body: AsyncIterator[bytes]) -> Response:
    try:
        return answer(asdict(await desk.studio.add_trace(who.user, name, body)), 201)
    except Full as full:
        raise TooMany(str(full), 5.0) from None


@routes.get("/traces/{trace_id}", response_model=schemas.TraceOut, summary="One trace")
async def trace(request: Request, trace_id: Id) -> Response:
    return answer(asdict(_trace(request, trace_id, Act.SEE_STUDIO)))


@routes.delete("/traces/{trace_id}", response_model=schemas.TraceOut, summary="Delete a trace")
async def remove_trace(request: Request, trace_id: Id) -> Response:
    kept = _trace(request, trace_id, Act.USE_STUDIO)
    desk_of(request).studio.remove_trace(kept)
    return answer(asdict(kept))


# -- comparisons ---------------------------------------------------------------------------------------------------------------


@routes.get("/runs", response_model=schemas.RunList, summary="Comparisons, the latest first")
async def runs(request: Request) -> Response:
    desk, who = desk_of(request), require(request, Act.SEE_STUDIO)
    found = [one for one in desk.studio.shelf.runs.values() if _sees(who, one.user)]
    found.sort(key=lambda one: (-one.made_s, one.id))
    return answer({"runs": [_run_out(desk, one) for one in found]})


@routes.post(
    "/runs",
    response_model=schemas.RunOut,
    status_code=202,
    summary="Compare policies on a trace",
    openapi_extra=takes(
        schemas.Comparison,
        examples={
            "a made-up workload": {
                "generator": {"name": "philly-like", "jobs": 2000, "gpus": 256, "load": 0.9},
                "cluster": "32x8",
                "policies": ["fifo", "las"],
            },
            "an uploaded one, here": {"trace": "0123456789abcdef", "policies": ["fifo-backfill", "tiresias"]},
        },
    ),
)
async def start(request: Request) -> Response:
    """It waits its turn, runs beside the scheduler, and can be looked at meanwhile."""
    desk, who = desk_of(request), require(request, Act.USE_STUDIO)
    body = await read(request, schemas.Comparison)
    for policy in body.policies:
        await asyncio.to_thread(check_named, "policies", "policies", policy)
    for placer in body.placers:
        await asyncio.to_thread(check_named, "placers", "placers", placer)
    spec = desk.scheduler.spec if body.cluster is None else _shape(body.cluster)
    workload, source = _workload(request, body)
    names = [
        policy if placer == "consolidate" else f"{policy} / {placer}"
        for policy in body.policies
        for placer in body.placers
    ]
    task = {
        **source,
        "policies": body.policies,
        "placers": body.placers,
        "seed": body.seed,
        "title": body.title,
        "workload": workload,
        "cluster": _cluster_task(spec),
        "cluster_name": body.cluster or "here",
    }
    try:
        run = desk.studio.start(
            who.user, body.model_dump(), task, workload=workload, cluster=describe_cluster(spec), names=names
        )
    except Full as full:
        raise TooMany(str(full), 5.0) from None
    return answer(_run_out(desk, run), 202)


@routes.get("/runs/{run_id}", response_model=schemas.RunOut, summary="How far a comparison is, and what came of it")
async def run(request: Request, run_id: Id) -> Response:
    return answer(_run_out(desk_of(request), _run(request, run_id, Act.SEE_STUDIO)))


@routes.post("/runs/{run_id}/cancel", response_model=schemas.RunOut, summary="End a comparison")
async def cancel(request: Request, run_id: Id) -> Response:
    desk, kept = desk_of(request), _run(request, run_id, Act.USE_STUDIO)
    return answer(_run_out(desk, await desk.studio.cancel(kept)))


@routes.delete("/runs/{run_id}", response_model=schemas.RunOut, summary="Delete a comparison and its report")
async def remove_run(request: Request, run_id: Id) -> Response:
    desk, kept = desk_of(request), _run(request, run_id, Act.USE_STUDIO)
    told = _run_out(desk, kept)
    await desk.studio.remove_run(kept)
    return answer(told)


@routes.get(
    "/runs/{run_id}/report",
    response_class=Response,
    summary="A comparison's report, one HTML file",
    responses={200: {"description": "The page", "content": {"text/html": {"schema": {"type": "string"}}}}},
)
async def report(request: Request, run_id: Id) -> Response:
    return await _page(desk_of(request), _run(request, run_id, Act.SEE_STUDIO))


@routes.post("/runs/{run_id}/ticket", response_model=schemas.Ticket, summary="Open a report where no token can be sent")
async def ticket(request: Request, run_id: Id) -> Response:
    """For a frame or a new tab: whoever has the path sees this report, and nothing else, for a minute."""
    desk, kept = desk_of(request), _run(request, run_id, Act.SEE_STUDIO)
    _require_done(kept)
    return answer({"path": REPORTS + desk.studio.ticket(kept)})


async def _by_ticket(request: Request) -> Response:
    desk: Desk = request.app.state.desk
    kept = desk.studio.of_ticket(str(request.path_params["ticket"]))
    return nothing_here() if kept is None else await _page(desk, kept)


REPORT = Route(REPORTS + "{ticket}", _by_ticket, include_in_schema=False)


async def _page(desk: Desk, kept: KeptRun) -> Response:
    _require_done(kept)
    path = desk.studio.shelf.report_of(kept)

    def own_policy() -> str:
        """The report says itself which scripts are its own."""
        with path.open("rb") as file:
            found = _META_POLICY.search(file.read(4096))
        return found[1].decode().replace("&#x27;", "'") if found else "default-src 'none'"

    try:
        policy = await asyncio.to_thread(own_policy)
    except FileNotFoundError:
        raise NotFound("the report is not kept any more", value=kept.id, accepts="to run it again") from None
    headers = {
        "Content-Security-Policy": f"{policy}; {_SANDBOX}",
        "Referrer-Policy": "no-referrer",
        "Content-Disposition": f'inline; filename="fairlead-{kept.id}.html"',
        "Cache-Control": "no-store",
    }
    return FileResponse(path, media_type="text/html", headers=headers)


# -- who may see what ----------------------------------------------------------------------------------------------------------


def _sees(who: Identity, owner: str) -> bool:
    return who.scope(Act.SEE_STUDIO) is Scope.ALL or who.user == owner


def _trace(request: Request, id: str, act: Act) -> KeptTrace:
    who = require(request, act)
    kept = desk_of(request).studio.shelf.traces.get(id)
    if kept is None or not _sees(who, kept.user):
        raise NotFound("there is no trace with this id", value=id, accepts="one of GET /v1/studio/traces")
    who.require_of(act, kept.user)
    return kept


def _run(request: Request, id: str, act: Act) -> KeptRun:
    who = require(request, act)
    kept = desk_of(request).studio.shelf.runs.get(id)
    if kept is None or not _sees(who, kept.user):
        raise NotFound("there is no comparison with this id", value=id, accepts="one of GET /v1/studio/runs")
    who.require_of(act, kept.user)
    return kept


def _require_done(run: KeptRun) -> None:
    if run.state != "done":
        raise NotFound("there is no report", value=run.state, accepts="a comparison that is done")


def _run_out(desk: Desk, run: KeptRun) -> dict[str, Any]:
    return {**asdict(run), "before": desk.studio.position(run)}


# -- what is asked for ---------------------------------------------------------------------------------------------------------


def _shape(text: str) -> ClusterSpec:
    """A shape only: the name of a file would be one of ours."""
    try:
        groups = read_shape(text)
    except InputError as error:
        accepts = "NODESxGPUS, such as 32x8 or 16x8@V100+4x8@H200"
        raise InputError(error.what, column="cluster", value=text, accepts=accepts) from None
    nodes, gpus = sum(group.nodes for group in groups), sum(group.nodes * group.gpus for group in groups)
    if nodes > _MOST_NODES or gpus > _MOST_GPUS:
        raise InputError(
            "this is a larger cluster than is simulated here",
            column="cluster",
            value=text,
            accepts=f"up to {_MOST_NODES:,} nodes and {_MOST_GPUS:,} GPUs",
        )
    return parse_cluster_shape(text)


def _cluster_task(spec: ClusterSpec) -> dict[str, Any]:
    return {
        "nodes": [[node.name, node.gpus, node.gpu_type, list(node.path)] for node in spec.nodes],
        "levels": list(spec.levels),
        "tenants": [[one.name, one.quota_gpus, one.weight] for one in spec.tenants.values()],
    }


def _workload(request: Request, body: schemas.Comparison) -> tuple[str, dict[str, Any]]:
    """In words, and as the worker is told."""
    if (body.trace is None) == (body.generator is None):
        raise InputError("one workload is compared on", column="trace", accepts="either trace or generator")
    if body.trace is not None:
        kept = _trace(request, body.trace, Act.USE_STUDIO)
        return kept.name, {"path": str(desk_of(request).studio.shelf.data_of(kept)), "name": kept.name}
    from fairlead.workload.generate import generators

    assert body.generator is not None
    known = [one.name for one in generators()]
    if body.generator.name not in known:
        from fairlead.model.suggest import unknown

        said = unknown("generator", body.generator.name[:100], known)
        raise InputError(said.what, column="generator.name", value=body.generator.name, accepts=said.accepts)
    values = {key: value for key, value in body.generator.model_dump().items() if value is not None}
    told = ", ".join(
        f"{key} {value:,}" if key == "jobs" else f"{key} {value}" for key, value in values.items() if key != "name"
    )
    return f"{body.generator.name} ({told})", {"generator": values}
