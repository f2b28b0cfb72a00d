"""The commands that talk to a running scheduler, and `up`, which starts one."""

from __future__ import annotations

import typer

from fairlead.cli.live import (
    backup,
    control,
    events,
    jobs,
    logs,
    nodes,
    policy,
    report,
    shadow,
    submit,
    tenants,
    tokens,
    top,
    up,
    whatif,
)
from fairlead.cli.panels import LIVE


def register(app: typer.Typer) -> None:
    """In the order in which a newcomer needs them."""
    for module in (
        up,
        submit,
        jobs,
        logs,
        control,
        top,
        nodes,
        tenants,
        policy,
        whatif,
        report,
        events,
        tokens,
        backup,
        shadow,
    ):
        module.register(app, LIVE)
