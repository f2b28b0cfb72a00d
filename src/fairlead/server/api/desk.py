"""What every endpoint needs at hand: the scheduler, who asks, bodies in and JSON out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from fairlead.model.errors import InputError
from fairlead.model.suggest import unknown
from fairlead.server.api.limits import Rates
from fairlead.server.api.problems import CONTENT_TYPE, KINDS, Malformed
from fairlead.server.auth import Act, Identity, NotAuthenticated, Scope, Tokens
from fairlead.server.config import Config
from fairlead.server.metrics import Metrics
from fairlead.server.store import JobFilter, JobRow, NoSuchJob, Store
from fairlead.server.way import give_way
from fairlead.workload.fields import field_error

if TYPE_CHECKING:
    from fairlead.server.api.foresight import Foresight
    from fairlead.server.api.fresh import Fresh
    from fairlead.server.api.gpus import GpuMap
    from fairlead.server.api.overview import Overviews
    from fairlead.server.api.picture import Pictures
    from fairlead.server.scheduler import Scheduler
    from fairlead.server.studio import Studio

WHO = "fairlead.who"  #: where the entrance leaves the identity in a request's scope


@dataclass
class Desk:
    scheduler: Scheduler
    tokens: Tokens
    config: Config
    metrics: Metrics
    rates: Rates
    clock: Callable[[], float]  #: the scheduler's: seconds since 1970
    foresight: Foresight
    pictures: Pictures
    gpu_map: GpuMap
    overviews: Overviews
    studio: Studio
    beats: Fresh[bytes] = field(init=False)  #: what streams of counts send, made once for all of them
    closing: bool = False  #: streams end
    #: names of the query parameters of each route, found at its first request
    parameters: dict[int, frozenset[str]] = field(default_factory=dict)

    @property
    def store(self) -> Store:
        return self.scheduler.store


def desk_of(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


def who_asks(request: Request) -> Identity:
    who: Identity = request.scope[WHO]
    return who


async def still_welcome(request: Request) -> bool:
    """Whether the token that a stream began with still counts."""
    tokens, token = desk_of(request).tokens, request.headers["authorization"].partition(" ")[2].strip()
    try:
        if tokens.remembers(token):
            tokens.authenticate(token)
        else:
            await asyncio.to_thread(tokens.authenticate, token)
    except NotAuthenticated:
        return False
    return True


def require(request: Request, act: Act) -> Identity:
    """Who asks, who may do this at all."""
    who = who_asks(request)
    who.require(act)
    return who


# -- routes ------------------------------------------------------------------------------------------------------------------------


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """As OpenAPI has them."""
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {one: {"description": KINDS[one][1], "content": {CONTENT_TYPE: schema}} for one in statuses}


def router(tag: str, prefix: str = "/v1") -> APIRouter:
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        dependencies=[Depends(only_known_parameters)],
        responses=problem_responses(400, 401, 403, 404, 409, 413, 422, 429, 500, 503),
        # what generated clients call it
        generate_unique_id_function=lambda route: f"{tag}_{route.name}",
    )


async def only_known_parameters(request: Request) -> None:
    """A parameter that is misspelt would otherwise be as good as none: a listing of everything, say."""
    if not request.scope["query_string"]:
        return
    route, known = request.scope["route"], desk_of(request).parameters
    names = known.get(id(route))
    if names is None:
        names = known[id(route)] = frozenset(one.alias for one in route.dependant.query_params)
    for name in request.query_params:
        if name not in names:
            said = unknown("parameter", name[:100], names)
            raise InputError(said.what, column=name[:100], accepts=said.accepts if names else "none")


# -- bodies ------------------------------------------------------------------------------------------------------------------------

M = TypeVar("M", bound=BaseModel)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


async def body_of(request: Request) -> object:
    """Its JSON; {} where there is none."""
    body = await request.body()
    if not body:
        return {}
    try:
        return json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"the body is no JSON: {error}"[:300]) from None


async def read(request: Request, model: type[M]) -> M:
    try:
        return model.model_validate(await body_of(request))
    except ValidationError as error:
        raise field_error(error, model) from None


def takes(
    model: type[BaseModel], *, required: bool = True, examples: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """For `openapi_extra` of an endpoint that reads its body itself. The model goes into `openapi.BODIES` too."""
    content: dict[str, Any] = {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}
    if examples:
        content["examples"] = {name: {"value": value} for name, value in examples.items()}
    return {"requestBody": {"required": required, "content": {"application/json": content}}}


def answer(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Not through FastAPI's own encoder, which would check every row of a listing once more."""
    return Response(_json(content), status, headers, "application/json")


def answer_rows(name: str, rows: Iterable[object], **more: object) -> Response:
    """`{name: rows, ...}` where rows may be many, to be made in a thread. A row by itself: nothing else in this process goes on while one
    call makes JSON, the scheduler's decisions included."""
    parts = (f"{_json(key)}:{_json(value)}" for key, value in more.items())
    body = ",".join((f"{_json(name)}:[{','.join(map(_piece, rows))}]", *parts))
    return Response(f"{{{body}}}", media_type="application/json")


#: so many numbers are JSON within half a millisecond
_PIECE = 500


def in_pieces(content: Mapping[str, object]) -> str:
    """As JSON; lists, of which some may be long, a piece at a time, for the same reason."""
    return "{" + ",".join(f"{_json(key)}:{_list(value)}" for key, value in content.items()) + "}"


def _list(value: object) -> str:
    if not isinstance(value, list) or len(value) <= _PIECE:
        return _json(value)
    return "[" + ",".join(_piece(value[i : i + _PIECE])[1:-1] for i in range(0, len(value), _PIECE)) + "]"


def _piece(content: object) -> str:
    give_way()
    return _json(content)


def _json(content: object) -> str:
    return json.dumps(content, separators=(",", ":"), allow_nan=False)


# -- jobs that somebody may see ----------------------------------------------------------------------------------------------------


def job_or_array(who: Identity, store: Store, job_id: str) -> JobRow:
    """The job, or a task of the array with this id: all of one array are one user's. Of what somebody may not see we do not say
    that it is there."""
    try:
        row = store.job(job_id)
    except NoSuchJob:
        tasks = store.jobs(JobFilter(array=job_id), descending=False, limit=1).jobs
        if not tasks:
            raise
        row = tasks[0]
    if who.require(Act.SEE_JOBS) is Scope.OWN and row.user != who.user:
        raise NoSuchJob("there is no job with this id", value=job_id)
    return row


def one_job(who: Identity, store: Store, job_id: str) -> JobRow:
    row = job_or_array(who, store, job_id)
    if row.id != job_id:
        raise NoSuchJob("this is an array, not a job", value=job_id, accepts=f"one of its tasks, such as {row.id}")
    return row
