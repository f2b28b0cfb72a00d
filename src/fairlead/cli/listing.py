"""`fairlead policies` and `fairlead placers`: what there is to choose from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairlead.cli.panels import SIMULATION
from fairlead.cli.render import Output, OutputOption, emit, grid

if TYPE_CHECKING:
    from rich.console import RenderableType


def register(app: typer.Typer) -> None:
    app.command("policies", rich_help_panel=SIMULATION)(policies)
    app.command("placers", rich_help_panel=SIMULATION)(placers)


def policies(
    engine: Annotated[
        str, typer.Option("--engine", metavar="NAME", help="Mark what each loses on local, slurm, slurm-pilot or ray.")
    ] = "",
    output: OutputOption = Output.table,
) -> None:
    """List the policies with their parameters."""
    from fairlead.core.choices import known_policies

    rows = known_policies()
    if not engine:
        emit(rows, output, lambda: _table(rows))
        return
    from fairlead.cli.live.engines import capabilities_of
    from fairlead.runtime.within import losses

    can = capabilities_of(engine)
    for row in rows:
        row["loses"] = losses(row["name"], can)
    emit(rows, output, lambda: _losses(engine, rows))


def _losses(engine: str, rows: list[dict[str, Any]]) -> RenderableType:
    lines = [[row["name"], row["summary"], "; ".join(row["loses"]) or "nothing"] for row in rows]
    return grid(["name", "what it does", f"loses on {engine}"], lines)


def placers(output: OutputOption = Output.table) -> None:
    """List the placers with their parameters."""
    from fairlead.core.choices import known_placers

    rows = known_placers()
    emit(rows, output, lambda: _table(rows))


def _table(rows: list[dict[str, Any]]) -> RenderableType:
    traits = "preempts" in rows[0]
    lines = []
    for row in rows:
        # what every policy takes is said once, below; a quantum that is set is one of the policy's own traits
        common = ("strict", "preempt", *(() if row["parameters"].get("quantum") else ("quantum",)))
        known = [f"{k}={_text(v)}" for k, v in row["parameters"].items() if not (traits and k in common)]
        line = [row["name"], row["summary"]]
        if traits:
            line += ["yes" if row["preempts"] else "no", "yes" if row["strict"] else "no"]
        lines.append([*line, ", ".join(known)])
    heads = ["name", "what it does", *(["preempts", "strict"] if traits else []), "parameters"]
    caption = "Every queue policy also takes strict=, preempt= and quantum=SECONDS." if traits else ""
    return grid(heads, lines, caption=caption)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
