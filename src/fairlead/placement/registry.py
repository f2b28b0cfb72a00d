"""Placers by name: the modules of this package, and whatever other packages register as `fairlead.placers`."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

import fairlead.placement as package
from fairlead.model.suggest import unknown
from fairlead.placement.base import Placer


@cache
def placers() -> dict[str, type[Placer]]:
    found: dict[str, type[Placer]] = {}
    for module in pkgutil.iter_modules(package.__path__):
        for value in vars(import_module(f"{package.__name__}.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Placer) and value is not Placer:
                found[value.name] = value
    for entry in entry_points(group="fairlead.placers"):
        placer = entry.load()
        found[placer.name] = placer
    return dict(sorted(found.items()))


def find_placer(name: str) -> type[Placer]:
    if name not in placers():
        raise unknown("placer", name, placers())
    return placers()[name]
