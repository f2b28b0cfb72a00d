"""What comes in and goes out, for OpenAPI and for small bodies. A job's own body is `workload.job_document`'s."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from fairlead.model.job import LONGEST_NAME
from fairlead.model.units import DURATION_FORM, parse_duration
from fairlead.server.jobs import State
from fairlead.workload.fields import Unfit

STATES = tuple(str(state) for state in State)
Seconds = Annotated[float, Field(description="seconds since 1970")]

# -- bodies that come in -------------------------------------------------------------------------------------------------------------

_NAME_FORM = f"1 to {LONGEST_NAME} printable characters, none of them a space at an end"


def _plain(text: str) -> str:
    if not text.isprintable() or text != text.strip() or any("\ud800" <= c <= "\udfff" for c in text):
        raise Unfit("this is no plain text", _NAME_FORM)
    return text


def _lifetime(value: object) -> float | None:
    if value is None:
        return None
    text = repr(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    try:
        return parse_duration(text.strip()) if isinstance(text, str) else _unfit_lifetime()
    except ValueError:
        return _unfit_lifetime()


def _unfit_lifetime() -> float:
    raise Unfit("this is no time to live", f"{DURATION_FORM}; nothing for ever")


Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(_plain)]
Words = Annotated[str, Field(max_length=1000), AfterValidator(_plain)]
Lifetime = Annotated[
    float | None,
    BeforeValidator(_lifetime),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string", "examples": ["90d"]}, {"type": "null"}]}),
]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Drain(Body):
    reason: Words = Field("", description="why, for people who wonder")


class TenantBody(Body):
    quota_gpus: Annotated[int, Field(ge=0, le=10**6)] | None = Field(None, description="null: no limit")
    weight: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] = Field(
        1.0, description="in fair-share policies"
    )


class PolicyBody(Body):
    policy: Name | None = Field(None, description="NAME[:key=value,...]; null: as it is")
    placer: Name | None = None


class WhatIf(Body):
    policies: list[Name] = Field(default=[], max_length=8, description="to be compared with the present one")
    placer: Name | None = None
    add_nodes: Name | None = Field(None, description="nodes that are not there: NODESxGPUS[@TYPE], several joined by +")
    remove_nodes: list[Name] = Field(
        default=[], max_length=1000, description="names of nodes, were they gone: what runs there waits again"
    )


class NewToken(Body):
    user: Name | None = Field(None, description="null: yourself")
    role: Literal["admin", "user", "viewer"] | None = Field(None, description="null: your own")
    label: Words = ""
    expires: Lifetime = Field(None, description="so long from now; null: never")
    tenant: Name | None = Field(None, description="of a user who is not known yet")


# -- what goes out -------------------------------------------------------------------------------------------------------------------


class Problem(BaseModel):
    """RFC 9457. `field`, `value` and `accepts` say where in the request it stands and what would do."""

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None
    value: str | int | float | bool | None = None
    accepts: str | None = None
    file: str | None = Field(None, description="of a trace that was sent: what it is called")
    line: int | None = Field(None, description="and the line that can't be used")


class PlaceOut(BaseModel):
    node: str
    gpus: list[int]
    milli: int = Field(description="thousandths of each GPU; below 1000 it is a share")


class JobOut(BaseModel):
    id: str
    name: str
    user: str
    tenant: str
    state: State
    reason: str
    message: str
    gpus: int
    priority: int
    submit_s: Seconds
    first_start_s: Seconds | None
    started_s: Seconds | None
    finished_s: Seconds | None
    exit_code: int | None
    signal: int | None
    run: int
    preemptions: int
    suspension: str
    places: list[PlaceOut]
    ran_s: float = Field(description="how long it ran, all its runs together, up to now")
    array_id: str | None
    array_index: int | None
    expected_start_s: Seconds | None = Field(None, description="only where `expect` asks for it")
    expected_finish_s: Seconds | None = None


class JobWithSpec(JobOut):
    spec: dict[str, Any] | None = Field(
        description="the job document, without the values of variables; null: not yours"
    )


class JobPage(BaseModel):
    jobs: list[JobOut]
    next: str | None = Field(description="the cursor of the next page; null: this was the last")


class SubmittedOut(BaseModel):
    jobs: list[str]
    array_id: str | None
    duplicate: bool


class DryRun(BaseModel):
    fits: bool
    reason: str
    expected_start_s: Seconds | None
    expected_finish_s: Seconds | None


class ActedOn(BaseModel):
    jobs: list[str]


class ExplainOut(BaseModel):
    job: str
    state: State
    reason: str
    message: str
    expected_start_s: Seconds | None
    expected_finish_s: Seconds | None
    note: str = Field(description="what was assumed about its length")
    rank: int | None = Field(
        description="its place in the queue, from 1; 0 where it does not wait; null: it is in none"
    )
    waiting: int | None = Field(description="how many wait in that queue")
    ahead: list[str] = Field(description="the first of those before it, of the jobs that you may see")
    waits_for: list[str] = Field(description="whose end makes room for it, of the jobs that you may see")
    nodes: list[str] = Field(description="where it runs")
    free_gpus: int | None = Field(description="of those that it could use")
    tenant_gpus: float | None = Field(description="what its tenant holds")
    quota_gpus: int | None
    engine: list[str] = Field(description="what the engine can't do that bears on when it runs, as sentences")


class EventOut(BaseModel):
    seq: int
    time_s: Seconds
    kind: str
    job: str | None
    run: int
    args: dict[str, Any]


class Events(BaseModel):
    events: list[EventOut]
    last: int = Field(description="go on from here: everything up to this number was looked at")


class NodeOut(BaseModel):
    name: str
    state: Literal["up", "drained", "down"]
    gpus: int
    gpu_type: str
    gpus_used: float
    gpu_memory_mib: int | None
    cpus: float | None
    memory_mib: int | None
    path: list[str] = Field(description="the domains around it, outermost first")
    running: int = Field(description="how many jobs have GPUs here")
    jobs: list[str] = Field(description="those of them that you may see")
    drained_s: Seconds | None
    drained_by: str
    drain_reason: str
    down_reason: str = Field(description="why the engine says that it is not there, or takes no jobs")


class Nodes(BaseModel):
    nodes: list[NodeOut]
    levels: list[str]


class HolderOut(BaseModel):
    job: str | None = Field(description="null: not yours to see")
    tenant: str
    milli: int = Field(description="thousandths of the GPU")


class GpuOut(BaseModel):
    index: int
    holders: list[HolderOut]
    utilization_percent: float | None = Field(description="null, as all that follows: nobody measures it")
    memory_used_mib: float | None
    memory_free_mib: float | None
    power_w: float | None
    temperature_c: float | None


class NodeWithGpus(NodeOut):
    each: list[GpuOut] = Field(description="its GPUs")


class GpuNode(BaseModel):
    name: str
    path: list[str]
    state: Literal["up", "drained", "down"]
    gpus: int
    gpu_type: str


class GpuJob(BaseModel):
    id: str | None = Field(description="null: jobs of this tenant that are not yours to see")
    name: str
    tenant: str


class GpuHolders(BaseModel):
    """GPUs are counted through the nodes in their order."""

    levels: list[str]
    nodes: list[GpuNode]
    jobs: list[GpuJob]
    holder: list[int] = Field(description="for each GPU, which of the jobs has it; -1: none")
    milli: list[int] = Field(description="for each GPU, thousandths of it that are held")
    shared: dict[str, list[int]] = Field(description="GPUs that several jobs have, and which")
    utilization_percent: list[float | None] | None = Field(description="for each GPU; null: nobody measures them")
    memory_used_mib: list[float | None] | None
    memory_free_mib: list[float | None] | None
    last_event: int


class NodeState(BaseModel):
    name: str
    state: Literal["up", "drained", "down"]


class TenantOut(BaseModel):
    name: str
    quota_gpus: int | None
    weight: float
    gpus_used: float
    usage_gpu_s: float
    jobs: dict[str, int] = Field(description="how many in each state")


class Tenants(BaseModel):
    tenants: list[TenantOut]


class TenantNow(BaseModel):
    name: str
    quota_gpus: int | None
    weight: float


class PolicyOut(BaseModel):
    policy: str
    placer: str


class Cluster(BaseModel):
    gpus: int
    gpus_used: float
    nodes: int
    nodes_up: int
    jobs: dict[str, int]
    tenants: dict[str, dict[str, int]]
    policy: str
    placer: str
    version: str
    started_s: Seconds
    now_s: Seconds
    last_event: int
    trouble: str


class TenantOverview(BaseModel):
    name: str
    weight: float
    quota_gpus: int | None
    gpus_used: float
    waiting: int
    fair_share: float = Field(description="of all that was used, by the weights of those who used or waited")
    share: float | None = Field(description="what it had of all that was used; null: nobody used anything")
    gpu_h: float
    started: int
    wait_p50_s: float | None = Field(
        description="of jobs that started in the span, from submission to their first start"
    )
    wait_p95_s: float | None


Series = Annotated[list[float], Field(description="a mean for each of `time_s`")]


class Overview(BaseModel):
    span: str
    last_event: int = Field(description="everything up to this row of the journal is in it")
    from_s: Seconds
    until_s: Seconds
    gpus: int
    gpus_open: int = Field(description="on nodes that take jobs")
    time_s: list[float] = Field(description="the middles of the pieces")
    allocated: Series = Field(description="GPUs that jobs held")
    computing: Series = Field(description="of these, where the jobs' processes were there")
    waiting: Series = Field(description="jobs that were submitted and held nothing")
    broken: Series = Field(description="free GPUs of nodes that were partly used")
    suspensions_per_h: Series
    started: int = Field(description="jobs that started for the first time")
    ended: int
    suspensions: int
    suspensions_mean_per_h: float
    pending: dict[str, int] = Field(description="jobs that wait now, by the first reason that holds")
    free_gpus: int = Field(description="now, on nodes that take jobs")
    free_broken: int = Field(description="of these, on nodes that are partly used")
    largest_free: int = Field(description="the most on one node")
    tenants: list[TenantOverview]


class WhatIfRow(BaseModel):
    """The first row is what is in force now. Where a choice can't be tried, `error` says why and the figures are missing."""

    model_config = ConfigDict(extra="allow")
    policy: str
    placer: str
    add_nodes: str
    remove_nodes: list[str]
    error: str
    coming: dict[str, Any] | None = Field(
        None, description="the hours to come in 96 steps: length_s, gpus, held_gpus, waiting_jobs, ended_jobs"
    )
    jobs: int | None = None
    finished: int | None = Field(None, description="of these jobs, those that end within a year")
    never: int | None = Field(None, description="those that can't run as things are")
    wait_s: dict[str, float | None] | None = None
    jct_s: dict[str, float | None] | None = None
    last_end_s: Seconds | None = None
    gpu_utilization: float | None = None
    preemptions: int | None = None
    tenant_wait_s: dict[str, float | None] | None = None


class WhatIfRows(BaseModel):
    rows: list[WhatIfRow]


class TokenOut(BaseModel):
    id: str
    user: str
    role: str
    label: str
    created_s: Seconds
    expires_s: Seconds | None
    revoked_s: Seconds | None
    used_s: Seconds | None


class TokenMade(TokenOut):
    token: str = Field(description="the token itself, which nobody sees again")


class TokenList(BaseModel):
    tokens: list[TokenOut]


class Me(BaseModel):
    user: str
    role: str
    tenant: str


class Health(BaseModel):
    status: Literal["ok", "trouble"]
    trouble: str = ""
