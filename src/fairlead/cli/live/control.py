"""`fairlead cancel`, `suspend` and `resume`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from fairlead.cli.live.connect import Reach, talks
from fairlead.cli.render import Output, OutputOption, emit, say

IdsArgument = Annotated[list[str], typer.Argument(metavar="ID...", help="Jobs, or arrays for all their tasks.")]


def register(app: typer.Typer, panel: str) -> None:
    for command in (cancel, suspend, resume):
        app.command(command.__name__, rich_help_panel=panel)(command)


@talks
def cancel(ids: IdsArgument, output: OutputOption = Output.table, *, reach: Reach) -> None:
    """End jobs: those that run are asked to stop, then killed."""
    with reach.client() as client:
        _each(client.cancel, ids, output, "cancelled")


@talks
def suspend(ids: IdsArgument, output: OutputOption = Output.table, *, reach: Reach) -> None:
    """Take jobs off their GPUs or out of the queue until resumed."""
    with reach.client() as client:
        _each(client.suspend, ids, output, "suspended")


@talks
def resume(ids: IdsArgument, output: OutputOption = Output.table, *, reach: Reach) -> None:
    """Let suspended jobs go on."""
    with reach.client() as client:
        _each(client.resume, ids, output, "resumed")


def _each(act: Callable[[str], tuple[str, ...]], ids: list[str], output: Output, done: str) -> None:
    """One that can't be does not keep the others from it; the exit code says that something was wrong."""
    from fairlead.client.errors import ApiError

    acted: list[str] = []
    failed = 0
    for id in dict.fromkeys(ids):
        try:
            acted += act(id)
        except ApiError as error:
            if error.status not in (404, 409, 422):
                raise
            say(f"fairlead: {id}: {error}")
            failed += 1
    emit({"jobs": acted}, output, lambda: "\n".join(f"{done} {id}" for id in acted) or f"nothing was {done}")
    if failed:
        raise typer.Exit(2)
