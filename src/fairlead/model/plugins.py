"""Plug-ins by name: the modules of one of our packages, and what other packages register as entry points."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoints, entry_points
from types import ModuleType
from typing import Any

from fairlead.model.suggest import unknown


class Plugins:
    """Classes that have a `name`. One that is registered takes the place of ours of that name."""

    def __init__(self, kind: str, package: ModuleType, group: str, is_one: Callable[[object], bool]) -> None:
        self.kind, self._package, self._group, self._is_one = kind, package, group, is_one

    @cached_property
    def all(self) -> dict[str, Any]:
        """Every one there is, in the order of their names."""
        classes = [one for name in self._modules for one in self._classes(name)]
        classes += [entry.load() for entry in self._registered]
        return {one.name: one for one in sorted(classes, key=lambda one: str(one.name))}

    def find(self, name: str) -> Any:
        """It is mostly in the module of its name; then the others, which take longer to import than a small run, are left alone."""
        module = name.replace("-", "_")
        if module in self._modules and not self._registered:
            for one in self._classes(module):
                if one.name == name:
                    return one
        if name not in self.all:
            raise unknown(self.kind, name, self.all)
        return self.all[name]

    @cached_property
    def _modules(self) -> list[str]:
        return [module.name for module in pkgutil.iter_modules(self._package.__path__)]

    @cached_property
    def _registered(self) -> EntryPoints:
        return entry_points(group=self._group)

    def _classes(self, module: str) -> Iterable[Any]:
        found = vars(import_module(f"{self._package.__name__}.{module}")).values()
        return [one for one in found if self._is_one(one) and hasattr(one, "name")]
