"""`fairlead whatif`: the jobs at hand under another policy, with more nodes or with fewer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.live.connect import Reach, talks
from fairlead.cli.render import Output, OutputOption, emit, grid
from fairlead.cli.shared import placer_names, policy_names
from fairlead.model.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.client import WhatIfRow


def register(app: typer.Typer, panel: str) -> None:
    app.command("whatif", rich_help_panel=panel)(whatif)


@talks
def whatif(
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy", metavar="NAME[:KEY=VALUE,...]", help="A policy to try. Repeatable.", autocompletion=policy_names
        ),
    ] = None,
    placer: Annotated[
        str | None,
        typer.Option("--placer", metavar="NAME", help="Another placer with them.", autocompletion=placer_names),
    ] = None,
    add_nodes: Annotated[
        str | None, typer.Option("--add-nodes", metavar="SHAPE", help="More nodes, such as 2x8: two of 8 GPUs.")
    ] = None,
    remove_nodes: Annotated[
        list[str] | None, typer.Option("--remove-nodes", metavar="NAME,...", help="Without these nodes. Repeatable.")
    ] = None,
    output: OutputOption = Output.table,
    *,
    reach: Reach,
) -> None:
    """Compare other policies, more nodes or fewer for the jobs at hand.

    The simulator runs on from what is there now, once as things are and once for each choice. Nothing is changed.
    """
    gone = [name.strip() for one in remove_nodes or () for name in one.split(",") if name.strip()]
    if not policy and placer is None and add_nodes is None and not gone:
        raise InputError(
            "there is nothing to compare",
            accepts="--policy NAME, --placer NAME, --add-nodes 2x8 or --remove-nodes NAME",
        )
    from fairlead.cli.live.words import plain

    with reach.client() as client:
        rows = client.whatif(policy or (), placer=placer, add_nodes=add_nodes, remove_nodes=gone)
        emit(plain(rows), output, lambda: _table(rows, client.now_s))
    if all(row.error for row in rows[1:]):
        raise typer.Exit(2)


def _table(rows: tuple[WhatIfRow, ...], now_s: float | None) -> RenderableType:
    from fairlead.cli.live.words import NONE, clock, lasting
    from fairlead.record.units import count, percent

    lines = []
    for number, row in enumerate(rows):
        name = " + ".join(one for one in (row.policy, row.add_nodes) if one)
        name += f" − {', '.join(row.remove_nodes)}" if row.remove_nodes else ""
        name += f" / {row.placer}" if row.placer != rows[0].placer else ""
        name += " (as it is)" if number == 0 else ""
        if row.error:
            lines.append([name, NONE, NONE, NONE, NONE, NONE, row.error])
            continue
        used = NONE if row.gpu_utilization is None else percent(row.gpu_utilization)
        notes = [
            f"{row.never} can't run" if row.never else "",
            f"{row.assumed} of assumed length" if row.assumed else "",
        ]
        lines.append(
            [
                name,
                lasting(row.wait_s.mean),
                lasting(row.jct_s.mean),
                clock(row.last_end_s, now_s),
                used,
                str(row.preemptions),
                ", ".join(one for one in notes if one),
            ]
        )
    heads = ["policy", "mean wait", "mean JCT", "last ends", "GPUs used", "preemptions", "notes"]
    caption = (
        f"{count(rows[0].jobs, 'job that waits or runs', 'jobs that wait or run')} now; waits are from now on."
        if rows
        else ""
    )
    return grid(heads, lines, numbers=heads[1:6], caption=caption)
