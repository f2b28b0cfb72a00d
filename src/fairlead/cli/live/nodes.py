"""`fairlead nodes`: the machines, and taking one out of use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.live.connect import Reach, talks
from fairlead.cli.render import Output, OutputOption, emit, grid, say

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.client import Node

NodeArgument = Annotated[str, typer.Argument(metavar="NODE", help="The node's name.")]


def register(app: typer.Typer, panel: str) -> None:
    group = typer.Typer(invoke_without_command=True, rich_markup_mode=None, callback=nodes)
    group.command("drain")(drain)
    group.command("undrain")(undrain)
    app.add_typer(group, name="nodes", rich_help_panel=panel)


@talks
def nodes(output: OutputOption = Output.table, *, context: typer.Context, reach: Reach) -> None:
    """List nodes and what of them is in use; drain and undrain them."""
    if context.invoked_subcommand is not None:
        return
    from fairlead.cli.live.words import plain

    with reach.client() as client:
        found = client.nodes()
    emit(plain(found), output, lambda: node_table(found))


def node_table(found: tuple[Node, ...]) -> RenderableType:
    from fairlead.cli.live.words import gpus

    rows = []
    for node in found:
        drained = " ".join(one for one in (node.drained_by and f"by {node.drained_by}:", node.drain_reason) if one)
        drained = drained or node.down_reason
        jobs = " ".join(node.jobs[:8]) + (" …" if len(node.jobs) > 8 else "")
        rows.append([node.name, node.state, str(node.gpus), gpus(node.gpus_used), node.gpu_type, jobs, drained])
    return grid(["node", "state", "GPUs", "used", "type", "jobs", "why it is out"], rows, numbers=("GPUs", "used"))


@talks
def drain(
    node: NodeArgument,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="For people who wonder.")] = "",
    *,
    reach: Reach,
) -> None:
    """Start nothing more on a node. What runs there runs on."""
    with reach.client() as client:
        client.drain(node, reason)
    say(f"{node} is drained: what runs there runs on, and nothing new is started")


@talks
def undrain(node: NodeArgument, *, reach: Reach) -> None:
    """Use a drained node again."""
    with reach.client() as client:
        client.undrain(node)
    say(f"{node} is in use again")
