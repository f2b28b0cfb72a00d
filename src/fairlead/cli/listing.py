"""`fairlead policies` and `fairlead placers`: what there is to choose from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairlead.cli.panels import SIMULATION
from fairlead.cli.render import Output, OutputOption, emit, grid

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.policy.base import Policy


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
    from fairlead.policy.registry import policies as known

    rows = [_policy(name, policy) for name, policy in known().items()]
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
    from fairlead.placement.registry import placers as known

    rows = [
        {"name": name, "summary": _summary(placer), "parameters": dict(placer.parameters)}
        for name, placer in known().items()
    ]
    emit(rows, output, lambda: _table(rows))


def _policy(name: str, policy: Policy) -> dict[str, Any]:
    from fairlead.policy.base import QueuePolicy

    row: dict[str, Any] = {"name": name, "summary": _summary(policy), "parameters": dict(policy.parameters)}
    if issubclass(policy, QueuePolicy):
        # every queue policy takes these three beside its own
        row["parameters"] |= {"strict": policy.strict, "preempt": policy.preempts, "quantum": policy.quantum}
        return {**row, "kind": "queue", "preempts": policy.preempts, "strict": policy.strict}
    return {**row, "kind": "planner", "preempts": True, "strict": False}


def _summary(plug: type) -> str:
    return (plug.__doc__ or "").strip().partition("\n")[0]


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
