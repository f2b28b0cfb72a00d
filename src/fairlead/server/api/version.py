"""The version of what runs here, as its package says."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def _found() -> str:
    try:
        return version("fairlead")
    except PackageNotFoundError:  # run from its sources
        return "0"


VERSION = _found()
