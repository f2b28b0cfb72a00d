"""`fairlead events`: the journal, as it is or as it grows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.live.connect import Reach, talks
from fairlead.cli.render import Output, OutputOption, emit
from fairlead.model.errors import InputError

if TYPE_CHECKING:
    from fairlead.client import Event


def register(app: typer.Typer, panel: str) -> None:
    app.command("events", rich_help_panel=panel)(events)


@talks
def events(
    id: Annotated[str | None, typer.Argument(metavar="ID", help="Only what happened to this job.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as more happens.")] = False,
    since: Annotated[int | None, typer.Option("--since", metavar="N", help="Behind the journal's row N.")] = None,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", metavar="KIND", help="Only events of this kind. Repeatable.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="So many at most, without -f.")] = 100,
    output: OutputOption = Output.table,
    *,
    reach: Reach,
) -> None:
    """Print what happened lately; -f goes on as more happens."""
    from fairlead.cli.live.words import plain

    kinds = tuple(kind or ())
    with reach.client() as client:
        if follow:
            if output is Output.yaml:
                raise InputError("events that go on have no end as YAML", file="--output", accepts="table or json")
            try:
                for event in client.follow(since, kinds, job=id):
                    # a line each, so that whoever reads it has it at once
                    print(json.dumps(plain(event)) if output is Output.json else _line(event), flush=True)
            except KeyboardInterrupt:
                return
            return
        if id is not None:
            found = client.job_events(id).events
        else:
            begin = since if since is not None else max(client.cluster().last_event - limit, 0)
            found = client.events(since=begin, kinds=kinds, limit=limit).events
        emit(plain(found), output, lambda: "\n".join(map(_line, found)) or "no events")


def _line(event: Event) -> str:
    from fairlead.cli.live.words import clock

    args = " ".join(f"{key}={_short(value)}" for key, value in event.args.items() if value not in (None, "", [], {}))
    who = f"job {event.job}" if event.job is not None else ""
    run = f"run {event.run}" if event.run else ""
    return "  ".join(
        one for one in (f"{event.seq:>6}", clock(event.time_s, event.time_s), event.kind, who, run, args) if one
    )


def _short(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
