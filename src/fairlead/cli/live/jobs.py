"""`fairlead jobs` and `fairlead explain`: what there is, what became of it, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairlead.cli.live.connect import Reach, talks
from fairlead.cli.live.watch import EveryOption, watch
from fairlead.cli.render import Output, OutputOption, emit, grid, pairs, say
from fairlead.model.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.client import Client, Explanation, Job, JobPage

_MOST_ROWS = 1000  #: of one request


def register(app: typer.Typer, panel: str) -> None:
    app.command("jobs", rich_help_panel=panel)(jobs)
    app.command("explain", rich_help_panel=panel)(explain)


@talks
def jobs(
    id: Annotated[
        str | None, typer.Argument(metavar="ID", help="Everything about this job, or an array's tasks.")
    ] = None,
    all: Annotated[bool, typer.Option("--all", "-a", help="Those that have ended too.")] = False,
    state: Annotated[
        list[str] | None, typer.Option("--state", metavar="STATE", help="Only those in this state. Repeatable.")
    ] = None,
    tenant: Annotated[list[str] | None, typer.Option("--tenant", metavar="NAME", help="Only this tenant's.")] = None,
    user: Annotated[list[str] | None, typer.Option("--user", metavar="NAME", help="Only this user's.")] = None,
    name: Annotated[
        str, typer.Option("--name", metavar="TEXT", help="Part of the name, or the beginning of the id.")
    ] = "",
    sort: Annotated[
        str | None,
        typer.Option(
            "--sort", metavar="BY", help="submitted, started, finished, name, tenant, user, state, gpus, priority."
        ),
    ] = None,
    ascending: Annotated[bool, typer.Option("--ascending", help="The smallest or oldest first.")] = False,
    expect: Annotated[bool, typer.Option("--expect", help="When each is expected to start and finish.")] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="So many at most.")] = 100,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="TEXT", help="Where the last listing broke off.")
    ] = None,
    watching: Annotated[bool, typer.Option("--watch", "-w", help="Draw the table again and again.")] = False,
    every: EveryOption = 2.0,
    output: OutputOption = Output.table,
    *,
    reach: Reach,
) -> None:
    """List jobs that wait and run, or look at one."""
    from fairlead.cli.live.words import plain

    which: dict[str, Any] = {
        "state": tuple(state or ()),
        "tenant": tuple(tenant or ()),
        "user": tuple(user or ()),
        "name": name,
        "live": None if all or state else True,
        "sort": sort,
        "descending": not ascending,
        "expect": expect or None,
        "cursor": cursor,
    }
    with reach.client() as client:
        if id is not None:
            which = {"array": id, "sort": "submitted", "descending": False}
            if not _is_array(client, id):
                _show(client, id, output)
                return
        if watching:
            if output is not Output.table:
                raise InputError(
                    "only a table can be watched", file="--watch", value=str(output), accepts="no --output"
                )
            watch(lambda: _table(_page(client, which, limit), client.now_s, expect), every)
            return
        page = _page(client, which, limit)
        emit(plain(page.jobs), output, lambda: _table(page, client.now_s, expect))
        if page.next is not None:
            say(f"there are more: --cursor {page.next} goes on, --limit N shows more at once")


def _page(client: Client, which: dict[str, Any], limit: int) -> JobPage:
    """So many rows, in as many requests as that takes."""
    from fairlead.client.types import JobPage

    found: list[Job] = []
    cursor = which.get("cursor")
    while True:
        page = client.jobs(**{**which, "cursor": cursor}, limit=min(limit - len(found), _MOST_ROWS))
        found += page.jobs
        cursor = page.next
        if cursor is None or len(found) >= limit:
            return JobPage(tuple(found), cursor)


def _table(page: JobPage, now_s: float | None, expect: bool) -> RenderableType:
    from fairlead.cli.live.words import ago, clock, lasting, where, why

    if not page.jobs:
        return "no jobs"
    heads = ["id", "name", "tenant", "user", "state", "GPUs", "submitted", "ran", "where"]
    heads += ["starts", "ends"] if expect else []
    rows = []
    for job in page.jobs:
        row = [job.id, job.name, job.tenant, job.user, job.state, str(job.gpus), ago(job.submit_s, now_s)]
        row += [lasting(job.ran_s) if job.first_start_s is not None else "", where(job)]
        if expect:
            row += [clock(job.expected_start_s, now_s), clock(job.expected_finish_s, now_s)]
        rows.append([*row, why(job)])
    return grid([*heads, "why"], rows, numbers=("GPUs", "submitted", "ran"))


def _is_array(client: Client, id: str) -> bool:
    from fairlead.client.errors import ApiError

    try:
        client.job(id)
        return False
    except ApiError as error:
        if error.status == 404 and client.jobs(array=id, limit=1).jobs:
            return True
        raise


def _show(client: Client, id: str, output: Output) -> None:
    from fairlead.cli.live.words import plain

    job = client.job(id)
    emit(plain(job), output, lambda: _facts(job, client.now_s))


def _facts(job: Job, now_s: float | None) -> str:
    from fairlead.cli.live.words import ago, clock, ended, lasting, where

    spec = dict(job.spec or {})
    command = spec.get("run", "")
    array = "" if job.array_id is None else f"task {job.array_index} of array {job.array_id}"

    def moment(time_s: float | None) -> str:
        return "" if time_s is None else f"{clock(time_s, now_s)}, {ago(time_s, now_s)} ago"

    return pairs(
        [
            ("job", f"{job.id} {job.name}".strip()),
            ("array", array),
            ("state", f"{job.state}{' (' + ended(job) + ')' if ended(job) else ''}"),
            ("why", job.message or job.reason),
            ("owner", f"{job.user}, tenant {job.tenant}"),
            ("GPUs", f"{job.gpus}{' on ' + where(job) if job.places else ''}"),
            ("priority", str(job.priority) if job.priority else ""),
            ("submitted", moment(job.submit_s)),
            ("started", moment(job.first_start_s)),
            ("ended", moment(job.finished_s)),
            ("ran", f"{lasting(job.ran_s)} in {job.run} run{'s' if job.run != 1 else ''}" if job.run else ""),
            ("preempted", f"{job.preemptions} times" if job.preemptions else ""),
            ("suspended", f"by {job.suspension}" if job.suspension else ""),
            ("runs", command if isinstance(command, str) else " ".join(map(str, command))),
            ("in", str(spec.get("workdir", ""))),
        ]
    )


@talks
def explain(
    id: Annotated[str, typer.Argument(metavar="ID", help="The job's id.")],
    output: OutputOption = Output.table,
    *,
    reach: Reach,
) -> None:
    """Say why a job waits, and when it should start and finish."""
    from fairlead.cli.live.words import plain

    with reach.client() as client:
        found = client.explain(id)
        emit(plain(found), output, lambda: _sentence(found, client.now_s))


def _sentence(found: Explanation, now_s: float | None) -> str:
    from fairlead.cli.live.words import expected

    when = expected(found.expected_start_s, found.expected_finish_s, now_s)
    said = found.message or found.reason
    told = [
        f"job {found.job} is {found.state}{': ' + said if said else ''}",
        f"it {when}" if when else "",
        *found.engine,
    ]
    return "\n".join(line for line in told if line)
