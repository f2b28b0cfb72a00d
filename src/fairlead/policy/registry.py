"""Policies by name: the modules of this package, entry points `fairlead.policies`, and a user's own `file.py:Name`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import cast

import fairlead.policy as package
from fairlead.model.errors import InputError
from fairlead.model.plugins import Plugins
from fairlead.model.suggest import unknown
from fairlead.policy.base import CompiledPlanner, Planner, Policy, QueuePolicy


def policies() -> dict[str, Policy]:
    return _KNOWN.all


def find_policy(name: str) -> Policy:
    """A policy by name, or the class `Name` of `path/file.py:Name`."""
    file, colon, attribute = name.rpartition(":")
    if colon and file.endswith(".py"):
        return _from_file(Path(file), attribute)
    return cast(Policy, _KNOWN.find(name))


def _from_file(path: Path, attribute: str) -> Policy:
    if not path.is_file():
        raise InputError("no such policy file", value=str(path), accepts="path/to/file.py:ClassName")
    spec = importlib.util.spec_from_file_location(f"fairlead_user_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"the policy file does not run: {type(error).__name__}: {error}", file=str(path)) from error
    found = {k: v for k, v in vars(module).items() if _is_policy_class(v) and v.__module__ == spec.name}
    if attribute not in found:
        raise unknown("policy class", attribute, found, file=str(path))
    chosen = found[attribute]
    if not hasattr(chosen, "name"):
        chosen.name = attribute
    return cast(Policy, chosen)


def _is_policy_class(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, QueuePolicy | Planner | CompiledPlanner)


_KNOWN = Plugins("policy", package, "fairlead.policies", _is_policy_class)
