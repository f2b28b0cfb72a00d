"""A view that is drawn again and again until somebody has seen enough."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

EveryOption = Annotated[float, typer.Option("--every", metavar="SECONDS", min=0.2, help="How often to look again.")]


def watch(look: Callable[[], RenderableType], every_s: float) -> None:
    """Ctrl-C is the way out, not an error. A scheduler that is away for a while is waited for."""
    try:
        if sys.stdout.isatty():
            _on_screen(look, every_s)
        else:
            _one_after_another(look, every_s)
    except KeyboardInterrupt:
        return


def _on_screen(look: Callable[[], RenderableType], every_s: float) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from fairlead.cli.render import console
    from fairlead.client.errors import Unreachable

    seen = look()  # an error at first sight is one
    with Live(seen, console=console(), screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(every_s)
            try:
                seen = look()
                live.update(seen, refresh=True)
            except Unreachable as error:
                live.update(Group(Text(f"{error}; trying again", style="bold red"), seen), refresh=True)


def _one_after_another(look: Callable[[], RenderableType], every_s: float) -> None:
    """Into a pipe or a file: only what has changed."""
    from fairlead.cli.render import console

    to = console()
    before = ""
    while True:
        with to.capture() as capture:
            to.print(look())
        if capture.get() != before:
            before = capture.get()
            print(before, end="", flush=True)
        time.sleep(every_s)
