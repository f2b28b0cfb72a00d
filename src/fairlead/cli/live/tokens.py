"""`fairlead tokens`: who may ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.live.connect import Reach, talks
from fairlead.cli.render import Output, OutputOption, emit, grid, say

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.client import Token


def register(app: typer.Typer, panel: str) -> None:
    group = typer.Typer(invoke_without_command=True, rich_markup_mode=None, callback=tokens)
    group.command("list")(list_tokens)
    group.command("create")(create)
    group.command("revoke")(revoke)
    app.add_typer(group, name="tokens", rich_help_panel=panel)


def _list(reach: Reach, output: Output) -> None:
    from fairlead.cli.live.words import plain

    with reach.client() as client:
        found = client.tokens()
        emit(plain(found), output, lambda: _table(found, client.now_s))


def _table(found: tuple[Token, ...], now_s: float | None) -> RenderableType:
    from fairlead.cli.live.words import NONE, ago, clock

    rows = []
    for one in found:
        state = "revoked" if one.revoked_s is not None else "in use"
        if one.revoked_s is None and one.expires_s is not None and now_s is not None and one.expires_s <= now_s:
            state = "expired"
        ends = NONE if one.expires_s is None else clock(one.expires_s, now_s)
        used = NONE if one.used_s is None else f"{ago(one.used_s, now_s)} ago"
        rows.append([one.id, one.user, one.role, one.label, state, clock(one.created_s, now_s), ends, used])
    return grid(["id", "user", "role", "label", "state", "made", "ends", "last used"], rows)


@talks
def tokens(output: OutputOption = Output.table, *, context: typer.Context, reach: Reach) -> None:
    """List, make and revoke tokens."""
    if context.invoked_subcommand is None:
        _list(reach, output)


@talks
def list_tokens(output: OutputOption = Output.table, *, reach: Reach) -> None:
    """List tokens: whose they are, when they end, when they were used."""
    _list(reach, output)


@talks
def create(
    user: Annotated[str | None, typer.Option("--user", metavar="NAME", help="For whom: yourself, if not said.")] = None,
    role: Annotated[
        str | None, typer.Option("--role", metavar="ROLE", help="admin, user or viewer: your own, if not said.")
    ] = None,
    label: Annotated[str, typer.Option("--label", metavar="TEXT", help="What it is for.")] = "",
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="TIME", help="How long it lives, such as 90d.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="NAME", help="Of a user who is not known yet.")
    ] = None,
    output: OutputOption = Output.table,
    *,
    reach: Reach,
) -> None:
    """Make a token. It is printed this once, and kept nowhere."""
    from fairlead.cli.live.words import plain

    with reach.client() as client:
        made = client.create_token(user, role, label=label, expires=expires, tenant=tenant)
    emit(plain(made), output, lambda: made.token)
    say(f"token {made.id} for {made.user}, {made.role}: this is the only time that it is shown")


@talks
def revoke(
    id: Annotated[str, typer.Argument(metavar="ID", help="The token's id, as `tokens list` shows it.")], *, reach: Reach
) -> None:
    """End a token's life at once."""
    with reach.client() as client:
        client.revoke_token(id)
    say(f"token {id} is revoked")
