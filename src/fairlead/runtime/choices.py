"""Policies and placers by name, for whoever offers them without knowing any: the server."""

from __future__ import annotations

from functools import cache
from typing import Any

from fairlead.core.choices import known_placers, known_policies
from fairlead.core.plugs import parse_choice
from fairlead.model.errors import InputError
from fairlead.model.suggest import unknown


@cache
def choices() -> dict[str, list[dict[str, Any]]]:
    """`policies` and `placers`, each with its name, what it does, and its parameters as text where JSON has no such thing."""
    return {
        kind: [{**row, "parameters": {key: _plain(value) for key, value in row["parameters"].items()}} for row in rows]
        for kind, rows in (("policies", known_policies()), ("placers", known_placers()))
    }


def check_named(kind: str, field: str, text: str) -> None:
    """That somebody asks for one that there is, by its name: InputError with the nearest one where not. Never one from a file."""
    name = parse_choice(text).name
    known = [row["name"] for row in choices()[kind]]
    if name not in known:
        said = unknown(field, name[:100], known)
        raise InputError(said.what, column=field, value=text, accepts=said.accepts)


def _plain(value: object) -> object:
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)
