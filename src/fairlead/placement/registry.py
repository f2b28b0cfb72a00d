"""Placers by name: the modules of this package, and whatever other packages register as `fairlead.placers`."""

from __future__ import annotations

from typing import cast

import fairlead.placement as package
from fairlead.model.plugins import Plugins
from fairlead.placement.base import Placer


def placers() -> dict[str, type[Placer]]:
    return _KNOWN.all


def find_placer(name: str) -> type[Placer]:
    return cast(type[Placer], _KNOWN.find(name))


def _is_placer_class(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Placer)


_KNOWN = Plugins("placer", package, "fairlead.placers", _is_placer_class)
