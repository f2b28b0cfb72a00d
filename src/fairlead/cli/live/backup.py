"""`fairlead backup`: a consistent copy of the store, beside a running scheduler or without one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairlead.cli.render import say
from fairlead.model.errors import InputError


def register(app: typer.Typer, panel: str) -> None:
    app.command("backup", rich_help_panel=panel, short_help="Copy the scheduler's store, while it runs or not.")(backup)


def backup(
    to: Annotated[Path, typer.Argument(metavar="FILE", help="Where the copy goes; must not be there yet.")],
    state_dir: Annotated[
        Path | None,
        typer.Option("--state-dir", metavar="DIR", help="Where the store is kept, if not in its usual place."),
    ] = None,
) -> None:
    """Copy the store: jobs, journal, tenants, tokens as hashes. docs/operate.md says how to put it back."""
    from fairlead.server.config import load_config
    from fairlead.server.store import Store, StoreError

    config = load_config({"state_dir": state_dir})
    if to.exists():
        raise InputError("something is there already", file=str(to), accepts="a path that is free")
    if config.store is None and not (config.state_dir / "fairlead.db").exists():
        raise InputError("there is no store", file=config.store_url, accepts="--state-dir DIR of a scheduler")
    try:
        with Store(config.store_url, write=False) as store:
            store.back_up(to)
    except StoreError as error:
        raise InputError(str(error)) from None
    say(f"copied {store.where} to {to}")
