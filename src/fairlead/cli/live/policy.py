"""`fairlead policy`: who decides, and changing that while everything runs."""

from __future__ import annotations

from typing import Annotated

import typer

from fairlead.cli.live.connect import Reach, talks
from fairlead.cli.render import Output, OutputOption, emit, pairs, say
from fairlead.cli.shared import placer_names, policy_names
from fairlead.model.errors import InputError


def register(app: typer.Typer, panel: str) -> None:
    group = typer.Typer(invoke_without_command=True, rich_markup_mode=None, callback=policy)
    group.command("show")(show)
    group.command("set")(set_policy)
    app.add_typer(group, name="policy", rich_help_panel=panel)


def _show(reach: Reach, output: Output) -> None:
    from fairlead.cli.live.words import plain

    with reach.client() as client:
        found = client.policy()
    emit(plain(found), output, lambda: pairs([("policy", found.policy), ("placer", found.placer)]))


@talks
def policy(output: OutputOption = Output.table, *, context: typer.Context, reach: Reach) -> None:
    """Show the running scheduler's policy and placer; change them."""
    if context.invoked_subcommand is None:
        _show(reach, output)


@talks
def show(output: OutputOption = Output.table, *, reach: Reach) -> None:
    """Show the policy and the placer."""
    _show(reach, output)


@talks
def set_policy(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME[:KEY=VALUE,...]", help="A policy; see `fairlead policies`.", autocompletion=policy_names
        ),
    ] = None,
    placer: Annotated[
        str | None,
        typer.Option("--placer", metavar="NAME", help="A placer; see `fairlead placers`.", autocompletion=placer_names),
    ] = None,
    *,
    reach: Reach,
) -> None:
    """Change the policy or the placer. No job is lost; the new one decides from now on."""
    if name is None and placer is None:
        raise InputError("nothing to change was named", accepts="a policy's NAME, or --placer NAME")
    with reach.client() as client:
        client.set_policy(name, placer)
        found = client.policy()
    say(f"policy {found.policy}, placer {found.placer}")
