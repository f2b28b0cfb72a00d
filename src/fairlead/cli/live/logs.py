"""`fairlead logs`: what a job prints."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fairlead.cli.live.connect import Reach, talks


def register(app: typer.Typer, panel: str) -> None:
    app.command("logs", rich_help_panel=panel)(logs)


@talks
def logs(
    id: Annotated[str, typer.Argument(metavar="ID", help="The job's id.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job ends.")] = False,
    tail: Annotated[int | None, typer.Option("--tail", "-n", metavar="N", min=0, help="Only the last N lines.")] = None,
    *,
    reach: Reach,
) -> None:
    """Print what a job has printed; -f goes on as it prints more."""
    with reach.client() as client:
        try:
            for chunk in client.logs(id, follow=follow, tail=tail):
                # a job's output is its own: bytes as they are, in whatever encoding
                sys.stdout.buffer.write(chunk)
                sys.stdout.buffer.flush()
        except KeyboardInterrupt:
            if not follow:
                raise
