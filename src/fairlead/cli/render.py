"""Results to stdout in the form that was asked for; everything else to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

#: of a table that goes to a file or a pipe
PLAIN_WIDTH = 120


class Output(StrEnum):
    table = "table"
    json = "json"
    yaml = "yaml"


OutputOption = Annotated[Output, typer.Option("-o", "--output", help="How to print the result.")]


def emit(data: Any, output: Output, table: Callable[[], str | RenderableType]) -> None:
    """Print `data` as JSON or YAML, or what `table` makes of it for people: plain text, or something for rich."""
    if output is Output.json:
        print(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))
    elif output is Output.yaml:
        import yaml

        yaml.safe_dump(data, sys.stdout, sort_keys=False, allow_unicode=True, width=PLAIN_WIDTH)
    else:
        made = table()
        if isinstance(made, str):
            print(made)
        else:
            console().print(made)


def console(*, errors: bool = False) -> Console:
    from rich.console import Console

    stream = sys.stderr if errors else sys.stdout
    return Console(stderr=errors, width=None if stream.isatty() else PLAIN_WIDTH, highlight=False)


def say(text: str) -> None:
    """Tell the person something that is not the result."""
    print(text, file=sys.stderr, flush=True)


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Names and values in two columns; rows without a value are left out."""
    kept = [(name, value) for name, value in rows if value]
    wide = max((len(name) for name, _ in kept), default=0)
    return "\n".join(f"{name:<{wide}}  {value}" for name, value in kept)


def grid(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[str] = (), caption: str = ""
) -> RenderableType:
    """A table without frames; columns named in `numbers` are set to the right and never broken."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption=caption or None, caption_justify="left")
    for head in heads:
        number = head in numbers
        # a number's heading in lines of a word each, so that the column is no wider than its numbers
        title = head.replace(" ", "\n") if number else head
        table.add_column(title, justify="right" if number else "left", no_wrap=number, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
