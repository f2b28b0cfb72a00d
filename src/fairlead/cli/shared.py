"""Arguments that several commands take, and what the shell may complete them with."""

from __future__ import annotations

from typing import Annotated

import typer


def policy_names(incomplete: str) -> list[str]:
    from fairlead.policy.registry import policies

    return [name for name in policies() if name.startswith(incomplete)]


def placer_names(incomplete: str) -> list[str]:
    from fairlead.placement.registry import placers

    return [name for name in placers() if name.startswith(incomplete)]


def generator_names(incomplete: str) -> list[str]:
    from fairlead.workload.generate import generators

    return [one.name for one in generators() if one.name.startswith(incomplete)]


TraceArgument = Annotated[list[str], typer.Argument(metavar="TRACE", help="Files, a folder, or gen:NAME:key=value,...")]
ClusterOption = Annotated[
    str, typer.Option(metavar="SPEC", help="NODESxGPUS (64x8), NODESxGPUS@TYPE+..., or a YAML or machine-list file.")
]
PlacerOption = Annotated[
    str,
    typer.Option(metavar="NAME[:KEY=VALUE]", help="See `fairlead placers`.", autocompletion=placer_names),
]
SeedOption = Annotated[
    int, typer.Option(help="For failures, random placement, and a generated workload that names no seed of its own.")
]
