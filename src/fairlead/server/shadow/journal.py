"""What was seen of an engine and what would have been decided, line by line in a file that only grows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fairlead.model.cluster import ClusterSpec, NodeSpec, TenantSpec
from fairlead.model.errors import InputError

FILE = "shadow.jsonl"
Row = dict[str, Any]


class ShadowJournal:
    """Written by one process; read by any, at any time."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / FILE
        self._lines: list[str] = []
        self._mend()
        self.path.touch(mode=0o600)

    def _mend(self) -> None:
        """A last line that a crash has cut short is taken off, so that the next one stands alone."""
        if self.path.exists():
            data = self.path.read_bytes()
            if data and not data.endswith(b"\n"):
                self.path.write_bytes(data[: data.rfind(b"\n") + 1])

    def write(self, kind: str, time_s: float, **args: Any) -> None:
        row = {"kind": kind, "time_s": round(time_s, 3), **{k: v for k, v in args.items() if v not in (None, "", ())}}
        self._lines.append(json.dumps(row, separators=(",", ":"), allow_nan=False) + "\n")

    def flush(self) -> None:
        """What was written since the last time, together."""
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(self._lines)
        self._lines.clear()


def rows(state_dir: Path) -> Iterator[Row]:
    path = state_dir / FILE
    if not path.exists():
        raise InputError(
            "nothing was watched here",
            value=str(path),
            accepts="the --state-dir of a `fairlead up --engine NAME --shadow`",
        )
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith("\n"):
                return  # it is being written
            try:
                yield json.loads(line)
            except ValueError:
                raise InputError("this line is no JSON", file=str(path), line=number) from None


def cluster_to_json(spec: ClusterSpec) -> Mapping[str, Any]:
    return {
        "nodes": [asdict(node) for node in spec.nodes],
        "levels": list(spec.levels),
        "tenants": [asdict(tenant) for tenant in spec.tenants.values()],
        "speeds": dict(spec.speeds),
    }


def cluster_from_json(found: Mapping[str, Any]) -> ClusterSpec:
    nodes = tuple(NodeSpec(**{**node, "path": tuple(node["path"])}) for node in found["nodes"])
    tenants = {tenant["name"]: TenantSpec(**tenant) for tenant in found["tenants"]}
    return ClusterSpec(nodes, tuple(found["levels"]), tenants, dict(found["speeds"]))
