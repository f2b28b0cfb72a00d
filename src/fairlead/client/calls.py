"""Every call to the scheduler, once: what is sent and what is made of the answer. `Client` and `AsyncClient` both have them as
methods; only how the bytes travel differs."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

from fairlead.client.reading import read
from fairlead.client.types import (
    Cluster,
    DryRun,
    EventPage,
    Explanation,
    Job,
    JobPage,
    Me,
    NewToken,
    Node,
    Policy,
    Submitted,
    Tenant,
    Token,
    WhatIfRow,
)

if TYPE_CHECKING:
    from fairlead.model.job import JobSpec

    #: a job file's path, its fields, or a spec
    JobLike = str | Path | Mapping[str, Any] | JobSpec

T = TypeVar("T")


@dataclass(frozen=True)
class Call(Generic[T]):
    method: str
    path: str
    parse: Callable[[Any], T]
    params: Mapping[str, Any] = field(default_factory=dict)
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    #: may be sent again where nobody knows whether it arrived: twice does the same as once
    repeatable: bool = True
    text: bool = False  #: the answer is text, not JSON


def _get(path: str, parse: Callable[[Any], T], **params: Any) -> Call[T]:
    return Call("GET", path, parse, {key: value for key, value in params.items() if value not in (None, (), "")})


def _as(kind: type[T]) -> Callable[[Any], T]:
    return lambda data: read(kind, data)


def _list(kind: type[T], key: str) -> Callable[[Any], tuple[T, ...]]:
    def parse(data: Any) -> tuple[T, ...]:
        rows = read(list, data.get(key) if isinstance(data, dict) else data, key)
        return tuple(read(kind, row, f"{key}[{i}]") for i, row in enumerate(rows))

    return parse


def _part(name: str) -> str:
    """A name as one part of a path, whatever is in it."""
    return quote(name, safe="")


def _nothing(data: Any) -> None:
    return None


# -- jobs ---------------------------------------------------------------------------------------------------------------------


def document_of(job: JobLike) -> dict[str, Any]:
    """The job's fields as they are sent, checked here first: InputError names the file and line, or the field."""
    from fairlead.model.job import JobSpec
    from fairlead.workload.job_document import job_from_document, job_to_document

    if isinstance(job, JobSpec):
        return job_to_document(job)
    if isinstance(job, str | Path):
        from fairlead.workload.job_yaml import read_job_file

        return job_to_document(read_job_file(Path(job), base=Path.cwd()))
    return job_to_document(job_from_document(job))


def submit(job: JobLike, *, key: str | None = None) -> Call[Submitted]:
    """Submit a job: a job file's path, its fields as a mapping, or a JobSpec. The same `key` again gives the jobs of the first
    time; without one a key is made, so that a broken connection never makes two jobs of one."""
    key = secrets.token_hex(16) if key is None else key
    return Call("POST", "/v1/jobs", _as(Submitted), body=document_of(job), headers={"Idempotency-Key": key})


def dry_run(job: JobLike) -> Call[DryRun]:
    """What would become of the job; nothing is submitted."""
    return Call("POST", "/v1/jobs", _as(DryRun), {"dry_run": "true"}, document_of(job))


def jobs(
    *,
    state: Sequence[str] = (),
    tenant: Sequence[str] = (),
    user: Sequence[str] = (),
    name: str = "",
    array: str | None = None,
    live: bool | None = None,
    sort: str | None = None,
    descending: bool | None = None,
    limit: int | None = None,
    cursor: str | None = None,
    expect: bool | None = None,
) -> Call[JobPage]:
    """A page of jobs, the latest first. `live`: those that have not ended (True), or that have (False); `name` is a part of it, or
    the beginning of an id; `cursor` is the `next` of the page before; `expect` has each say when it will start and finish."""
    return _get(
        "/v1/jobs",
        _as(JobPage),
        state=tuple(state),
        tenant=tuple(tenant),
        user=tuple(user),
        name=name,
        array=array,
        live=_flag(live),
        sort=sort,
        descending=_flag(descending),
        limit=limit,
        cursor=cursor,
        expect=_flag(expect),
    )


def _flag(value: bool | None) -> str | None:
    return None if value is None else str(value).lower()


def job(id: str) -> Call[Job]:
    """One job, with its specification where this token may see it."""
    return _get(f"/v1/jobs/{_part(id)}", _as(Job))


def explain(id: str) -> Call[Explanation]:
    """Why the job is where it is, and when it is expected to start and finish."""
    return _get(f"/v1/jobs/{_part(id)}/explain", _as(Explanation))


def job_events(id: str, *, since: int | None = None, limit: int | None = None) -> Call[EventPage]:
    """What happened to one job, behind row number `since` of the journal."""
    return _get(f"/v1/jobs/{_part(id)}/events", _as(EventPage), since=since, limit=limit)


def _control(id: str, what: str) -> Call[tuple[str, ...]]:
    # a second cancel is refused, since the job has ended: not to be repeated blindly
    path = f"/v1/jobs/{_part(id)}/{what}"
    return Call("POST", path, lambda data: read(Submitted, data).jobs, repeatable=False)


def cancel(id: str) -> Call[tuple[str, ...]]:
    """End a job, or all tasks of an array; the ids of those that this ended."""
    return _control(id, "cancel")


def suspend(id: str) -> Call[tuple[str, ...]]:
    """Take a job off its GPUs, or out of the queue, until it is resumed."""
    return _control(id, "suspend")


def resume(id: str) -> Call[tuple[str, ...]]:
    """Let a job that was suspended by a person go on."""
    return _control(id, "resume")


# -- the cluster --------------------------------------------------------------------------------------------------------------


def cluster() -> Call[Cluster]:
    """Totals of GPUs and jobs, the policy, and what troubles the scheduler if anything does."""
    return _get("/v1/cluster", _as(Cluster))


def nodes() -> Call[tuple[Node, ...]]:
    """The nodes, what of them is in use, and which are drained."""
    return _get("/v1/nodes", _list(Node, "nodes"))


def drain(node: str, reason: str = "") -> Call[None]:
    """Start nothing more on a node; what runs there runs on."""
    return Call("POST", f"/v1/nodes/{_part(node)}/drain", _nothing, body={"reason": reason})


def undrain(node: str) -> Call[None]:
    """Use a drained node again."""
    return Call("POST", f"/v1/nodes/{_part(node)}/undrain", _nothing)


def tenants() -> Call[tuple[Tenant, ...]]:
    """The tenants with quotas, weights and what they hold."""
    return _get("/v1/tenants", _list(Tenant, "tenants"))


def put_tenant(name: str, quota_gpus: int | None = None, weight: float = 1.0) -> Call[None]:
    """Add a tenant, or change its quota and weight. A quota of None is no limit."""
    return Call("PUT", f"/v1/tenants/{_part(name)}", _nothing, body={"quota_gpus": quota_gpus, "weight": weight})


def remove_tenant(name: str) -> Call[None]:
    """Forget a tenant's quota and weight."""
    return Call("DELETE", f"/v1/tenants/{_part(name)}", _nothing, repeatable=False)


def policy() -> Call[Policy]:
    """Who decides, and where jobs go."""
    return _get("/v1/policy", _as(Policy))


def set_policy(policy: str | None = None, placer: str | None = None) -> Call[Policy]:
    """Change the policy, the placer or both; jobs stay as they are until the new one decides otherwise."""
    body = {key: value for key, value in (("policy", policy), ("placer", placer)) if value is not None}
    return Call("PUT", "/v1/policy", _as(Policy), body=body)


def whatif(
    policies: Sequence[str] = (),
    *,
    placer: str | None = None,
    add_nodes: str | None = None,
    remove_nodes: Sequence[str] = (),
) -> Call[tuple[WhatIfRow, ...]]:
    """The jobs at hand under other policies, with more nodes (`2x8`) or without some: one row each, the present one first."""
    body = {"policies": list(policies), "placer": placer, "add_nodes": add_nodes, "remove_nodes": list(remove_nodes)}
    return Call("POST", "/v1/whatif", _list(WhatIfRow, "rows"), body=body)


def events(*, since: int | None = None, kinds: Sequence[str] = (), limit: int | None = None) -> Call[EventPage]:
    """The journal behind row number `since`."""
    return _get("/v1/events", _as(EventPage), since=since, kinds=tuple(kinds), limit=limit)


def trace(*, since_s: float | None = None, until_s: float | None = None) -> Call[str]:
    """What was submitted and ran, as CSV that `fairlead sim run` replays."""
    call = _get("/v1/trace", str, since_s=since_s, until_s=until_s)
    return Call(call.method, call.path, call.parse, call.params, text=True)


# -- who may ask --------------------------------------------------------------------------------------------------------------


def me() -> Call[Me]:
    """Whose token this is."""
    return _get("/v1/me", _as(Me))


def tokens() -> Call[tuple[Token, ...]]:
    """The tokens that there are, never the tokens themselves."""
    return _get("/v1/tokens", _list(Token, "tokens"))


def create_token(
    user: str | None = None,
    role: str | None = None,
    *,
    label: str = "",
    expires: str | float | None = None,
    tenant: str | None = None,
) -> Call[NewToken]:
    """Make a token: for yourself with your own role unless said otherwise. `expires` is how long it lives, such as 90d; `tenant` is
    that of a user who is not known yet."""
    body = {"user": user, "role": role, "label": label, "expires": expires, "tenant": tenant}
    return Call("POST", "/v1/tokens", _as(NewToken), body=body, repeatable=False)


def revoke_token(id: str) -> Call[None]:
    """A token that is revoked counts no more."""
    return Call("DELETE", f"/v1/tokens/{_part(id)}", _nothing)
