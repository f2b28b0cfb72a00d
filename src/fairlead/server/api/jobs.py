"""Jobs: submitting, listing, looking at one, and what may be done to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

from fastapi import Header, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from fairlead.model.errors import InputError
from fairlead.model.job import JobSpec
from fairlead.server.api import schemas
from fairlead.server.api.desk import (
    Desk,
    answer,
    answer_rows,
    body_of,
    desk_of,
    job_or_array,
    one_job,
    require,
    router,
    takes,
)
from fairlead.server.api.foresight import Times
from fairlead.server.api.problems import check_known
from fairlead.server.auth import Act, Identity, Scope
from fairlead.server.jobs import State
from fairlead.server.store import SORTS, JobFilter, JobRow, NoSuchJob
from fairlead.workload.job_document import JobDocument, job_from_document, job_to_document

routes = router("jobs")
JobId = Annotated[str, Path(description="the job's id; where it says so, that of an array stands for all its tasks")]
_EXAMPLES = {
    "a shell line": {"name": "resnet", "resources": {"gpus": 4}, "run": "python train.py", "time_limit": "12h"},
    "a share of a GPU": {"resources": {"gpu_share": 0.5}, "run": ["python", "serve.py"], "env": {"PORT": "8080"}},
    "an array": {"run": "python sweep.py", "array": "0-9", "depends_on": {"after_ok": ["812"]}},
}


# -- what goes out -----------------------------------------------------------------------------------------------------------------


def job_out(row: JobRow, now_s: float, times: Times) -> dict[str, Any]:
    ran_s = row.ran_s
    if row.state == State.RUNNING and row.started_s is not None:
        ran_s += max(now_s - row.started_s, 0.0)
    start_s, finish_s = times.get(row.id, (None, None))
    return {
        "id": row.id,
        "name": row.name,
        "user": row.user,
        "tenant": row.tenant,
        "state": row.state,
        "reason": row.reason,
        "message": row.message,
        "gpus": row.gpus,
        "priority": row.priority,
        "submit_s": row.submit_s,
        "first_start_s": row.first_start_s,
        "started_s": row.started_s,
        "finished_s": row.finished_s,
        "exit_code": row.exit_code,
        "signal": row.signal,
        "run": row.run,
        "preemptions": row.preemptions,
        "suspension": row.suspension,
        "places": [{"node": at.node, "gpus": at.gpus, "milli": at.milli} for at in row.places],
        "ran_s": ran_s,
        "array_id": row.array_id,
        "array_index": row.array_index,
        "expected_start_s": start_s,
        "expected_finish_s": finish_s,
    }


# -- submitting --------------------------------------------------------------------------------------------------------------------


@routes.post(
    "/jobs",
    response_model=schemas.SubmittedOut | schemas.DryRun,
    status_code=201,
    summary="Submit a job",
    openapi_extra=takes(JobDocument, examples=_EXAMPLES),
    responses={
        200: {"model": schemas.SubmittedOut | schemas.DryRun, "description": "It was there already, or a dry run"}
    },
)
async def submit(
    request: Request,
    dry_run: Annotated[bool, Query(description="only say whether it could run, and when")] = False,
    idempotency_key: Annotated[
        str | None, Header(description="the same key and job again: the same answer, and nothing new")
    ] = None,
) -> Response:
    """The body is a job document: the fields of a job file, as JSON. Durable when it is answered."""
    desk, who = desk_of(request), require(request, Act.SUBMIT)
    spec = job_from_document(await body_of(request))
    tenant = spec.tenant or who.tenant
    who.require_of(Act.USE_TENANT, tenant)
    if spec.priority > 0:
        who.require(Act.RAISE_PRIORITY)
    if spec.depends_on:
        await asyncio.to_thread(_check_waits, desk, who, spec)
    if dry_run:
        return await _judged(desk, spec, who.user, tenant)
    made = await desk.scheduler.submit(spec, who.user, tenant, idempotency_key)
    content = {"jobs": [job.id for job in made.jobs], "array_id": made.array_id, "duplicate": made.duplicate}
    return answer(content, 200 if made.duplicate else 201)


def _check_waits(desk: Desk, who: Identity, spec: JobSpec) -> None:
    """Nobody waits for a job that they may not see: that would tell whether it is there, and how it ended."""
    for dependency in spec.depends_on:
        try:
            job_or_array(who, desk.store, dependency.job)
        except NoSuchJob as error:
            raise NoSuchJob(error.what, column="depends_on", value=dependency.job) from None


async def _judged(desk: Desk, spec: JobSpec, user: str, tenant: str) -> Response:
    start_s = finish_s = None
    try:
        await desk.scheduler.judge(spec, user, tenant)
        reason = ""
    except InputError as error:
        reason = f"{error.what}; expected {error.accepts}" if error.accepts else error.what
    else:
        start_s, finish_s = await desk.foresight.of_another(spec, tenant)
    content = {"fits": not reason, "reason": reason, "expected_start_s": start_s, "expected_finish_s": finish_s}
    return answer(content)


# -- looking -----------------------------------------------------------------------------------------------------------------------

_STATE = Query(
    description="any of these; several, or joined by commas", json_schema_extra={"items": {"enum": [*schemas.STATES]}}
)


def split(values: Sequence[str] | None) -> list[str]:
    return [part for value in values or () for part in value.split(",") if part]


@routes.get("/jobs", response_model=schemas.JobPage, summary="List jobs")
async def listing(
    request: Request,
    state: Annotated[list[str] | None, _STATE] = None,
    tenant: Annotated[list[str] | None, Query()] = None,
    user: Annotated[list[str] | None, Query()] = None,
    name: Annotated[str, Query(description="part of the name, or the beginning of the id")] = "",
    live: Annotated[bool | None, Query(description="true: those that have not ended")] = None,
    array: Annotated[str | None, Query(description="tasks of the array with this id")] = None,
    sort: Annotated[str, Query(json_schema_extra={"enum": sorted(SORTS)})] = "submitted",
    descending: bool = True,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[str | None, Query(description="`next` of the page before")] = None,
    expect: Annotated[bool, Query(description="say when each will start and finish")] = False,
) -> Response:
    """A page at a time. Jobs that are submitted between two pages neither hide nor double any other."""
    desk, who = desk_of(request), require(request, Act.SEE_JOBS)
    states, users = split(state), split(user)
    for one in states:
        check_known("state", one, schemas.STATES)
    check_known("sort", sort, SORTS)
    if who.scope(Act.SEE_JOBS) is Scope.OWN:
        for one in users:
            who.require_of(Act.SEE_JOBS, one)
        users = [who.user]
    which = JobFilter(states, split(tenant), users, name, live, array)
    times = await desk.foresight.times() if expect else {}

    def look() -> Response:
        page = desk.store.jobs(which, sort=sort, descending=descending, limit=limit, cursor=cursor)
        now_s = desk.clock()
        return answer_rows("jobs", (job_out(row, now_s, times) for row in page.jobs), next=page.cursor)

    return await asyncio.to_thread(look)


@routes.get("/jobs/{job_id}", response_model=schemas.JobWithSpec, summary="One job")
async def one(request: Request, job_id: JobId) -> Response:
    """With its document, where you may see that. The values of its variables are shown to nobody."""
    desk, who = desk_of(request), require(request, Act.SEE_JOBS)

    def look() -> Response:
        row = one_job(who, desk.store, job_id)
        scope = who.scope(Act.SEE_SPEC)
        shown = scope is Scope.ALL or (scope is Scope.OWN and row.user == who.user)
        spec = job_to_document(desk.store.spec(job_id).without_secrets()) if shown else None
        return answer({**job_out(row, desk.clock(), {}), "spec": spec})

    return await asyncio.to_thread(look)


@routes.get("/jobs/{job_id}/explain", response_model=schemas.ExplainOut, summary="Why it waits, and until when")
async def explain(request: Request, job_id: JobId) -> Response:
    desk, who = desk_of(request), require(request, Act.SEE_JOBS)
    row = await asyncio.to_thread(one_job, who, desk.store, job_id)
    everybodys = who.scope(Act.SEE_JOBS) is Scope.ALL

    def may_see(other: str) -> bool:
        job = desk.scheduler.jobs.get(other)
        return everybodys or (job is not None and job.user == who.user)

    return answer(await desk.foresight.explained(row, may_see))


# -- what may be done to it --------------------------------------------------------------------------------------------------------

Deed = Callable[[str, str], Awaitable[list[str]]]


async def _act(request: Request, job_id: str, deed: Callable[[Desk], Deed]) -> Response:
    desk, who = desk_of(request), require(request, Act.SEE_JOBS)
    row = await asyncio.to_thread(job_or_array, who, desk.store, job_id)
    who.require_of(Act.CONTROL, row.user)
    return answer({"jobs": await deed(desk)(job_id, who.user)})


@routes.post("/jobs/{job_id}/cancel", response_model=schemas.ActedOn, summary="Cancel a job, or all of an array")
async def cancel(request: Request, job_id: JobId) -> Response:
    return await _act(request, job_id, lambda desk: desk.scheduler.cancel)


@routes.post("/jobs/{job_id}/suspend", response_model=schemas.ActedOn, summary="Hold a job, or all of an array")
async def suspend(request: Request, job_id: JobId) -> Response:
    """Taken off its GPUs, or out of the queue, until it is resumed."""
    return await _act(request, job_id, lambda desk: desk.scheduler.suspend)


@routes.post("/jobs/{job_id}/resume", response_model=schemas.ActedOn, summary="Let a held job go on")
async def resume(request: Request, job_id: JobId) -> Response:
    return await _act(request, job_id, lambda desk: desk.scheduler.resume)
