"""What there is in a Ray cluster, as plain data. It runs in the process that talks to Ray, and changes nothing there."""

from __future__ import annotations

from typing import Any

from fairlead.backends.ray.nodes import name_of

Doc = dict[str, Any]


def node(info: Doc) -> Doc:
    """One of `ray.nodes()`."""
    return {
        "id": info["NodeID"],
        "name": name_of(info),
        "alive": bool(info["Alive"]),
        "message": str(info.get("DeathReasonMessage") or ""),
        "resources": {key: float(value) for key, value in (info.get("Resources") or {}).items()},
        "labels": dict(info.get("Labels") or {}),
    }


def scene() -> Doc:
    raise NotImplementedError
