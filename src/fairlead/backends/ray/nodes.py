"""Ray's nodes under names that last: a node that comes back has another id, and is the same node to us."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Container, Sequence
from dataclasses import dataclass

from fairlead.backends.local.inventory import short_type
from fairlead.backends.local.rundir import Doc, write_file
from fairlead.model.cluster import ClusterSpec, NodeSpec

#: a label of this name, given to `ray start --labels`, names a node before everything else
NAME_LABEL = "fairlead.node"
#: how the domains around a node are known, outermost first
TOPOLOGY_LABELS = ("ray.io/availability-region", "ray.io/availability-zone")
LEVELS = ("region", "zone")
_ACCELERATOR = "accelerator_type:"


@dataclass
class Node:
    name: str
    base: str  #: what Ray calls it; several nodes may have it in common
    gpus: int
    gpu_type: str = ""
    cpus: float = 0.0
    memory_mib: int = 0
    path: tuple[str, ...] = ()  #: one domain per topology label, or none at all
    id: str = ""  #: Ray's, of its present or last life
    is_up: bool = False
    message: str = ""  #: why it is not
    down_s: float = math.inf  #: since when, by the clock that never falls back; inf: nobody has looked yet

    def spec(self, path: tuple[str, ...]) -> NodeSpec:
        cpu_milli = int(self.cpus * 1000) or None
        return NodeSpec(self.name, self.gpus, self.gpu_type, cpu_milli, self.memory_mib or None, path=path)


_KEPT = ("name", "base", "gpus", "gpu_type", "cpus", "memory_mib", "path", "id")


class Nodes:
    """Kept in a file, since jobs' places are written down by these names."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.by_name: dict[str, Node] = {}
        self._given: frozenset[str] = frozenset()  #: names that somebody goes by
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError), open(path, encoding="utf-8") as file:
            for doc in json.load(file):
                node = Node(**{**doc, "path": tuple(doc["path"])})
                self.by_name[node.name] = node

    def cluster(self) -> ClusterSpec:
        """Whoever asks goes by these names from now on."""
        self._given = frozenset(self.by_name)
        nodes = list(self.by_name.values())
        has_levels = all(node.path for node in nodes)
        specs = tuple(node.spec(node.path if has_levels else ()) for node in nodes)
        return ClusterSpec(specs, LEVELS if has_levels and nodes else ())

    @property
    def gpus(self) -> dict[str, int]:
        return {node.name: node.gpus for node in self.by_name.values()}

    def update(self, seen: Sequence[Doc], now: float) -> tuple[list[Node], list[Node]]:
        """How the nodes stand now; which have come and which have gone since. One that went and came back between two looks
        is in both: what ran on it is gone."""
        alive = {one["id"]: one for one in seen if one["alive"]}
        gone = [node for node in self.by_name.values() if node.is_up and node.id not in alive]
        for node in gone:
            why = next((one["message"] for one in seen if one["id"] == node.id), "")
            node.is_up, node.down_s, node.message = False, now, why or "Ray does not know it any more"
        for node in self.by_name.values():  # known from before a restart of ours: gone since when nobody knows
            if not node.is_up and node.down_s == math.inf:
                node.down_s = now
        came = []
        known = {node.id: node for node in self.by_name.values()}
        for one in sorted(alive.values(), key=_order):
            node = known.get(one["id"]) or self._take_in(one, alive)
            if not node.is_up:
                node.is_up, node.id, node.message = True, one["id"], ""
                came.append(node)
        came += self._heirs()
        if came:
            self._save()
        return came, gone

    def _heirs(self) -> list[Node]:
        """A node that is started again is back before Ray has noticed that it went, and has another name until then: one that
        nobody goes by. When its old life is over, it has its own again."""
        found = []
        for node in [one for one in self.by_name.values() if not one.is_up and one.name in self._given]:
            for spare in self.by_name.values():
                is_free = spare.is_up and spare.name not in self._given
                if is_free and (spare.base, spare.gpus) == (node.base, node.gpus):
                    node.is_up, node.id, node.message = True, spare.id, ""
                    del self.by_name[spare.name]
                    found.append(node)
                    break
        return found

    def all_gone(self, why: str, now: float) -> list[Node]:
        gone = [node for node in self.by_name.values() if node.is_up]
        for node in gone:
            node.is_up, node.down_s, node.message = False, now, why
        return gone

    def _take_in(self, one: Doc, alive: Container[str]) -> Node:
        """Under the name of one like it that is gone, or a new one."""
        base, resources = one["name"], one["resources"]
        gpus = int(resources.get("GPU", 0))
        for node in self.by_name.values():
            if not node.is_up and node.id not in alive and node.base == base and node.gpus == gpus:
                return node
        name, number = base, 1
        while name in self.by_name:
            number += 1
            name = f"{base}-{number}"
        path = tuple(one["labels"].get(label, "") for label in TOPOLOGY_LABELS)
        memory_mib = int(resources.get("memory", 0)) >> 20
        node = Node(name, base, gpus, _gpu_type(one), resources.get("CPU", 0.0), memory_mib, path if all(path) else ())
        self.by_name[name] = node
        return node

    def _save(self) -> None:
        docs = [{key: getattr(node, key) for key in _KEPT} for node in self.by_name.values()]
        with contextlib.suppress(OSError):  # a full disk: it is written at the next change
            write_file(self._path, json.dumps(docs).encode(), durable=True)

    def forget_absent(self, but: Container[str]) -> None:
        """Nodes that are not there and that no run names: those of an autoscaler never come back under their names."""
        absent = [node for node in self.by_name.values() if not node.is_up and node.name not in but]
        if len(absent) < len(self.by_name):
            for node in absent:
                del self.by_name[node.name]


def _order(one: Doc) -> tuple[str, int, str]:
    """The same names for the same nodes whoever looks first."""
    return one["name"], int(one.get("started_ms", 0)), one["id"]


def _gpu_type(one: Doc) -> str:
    label = one["labels"].get("ray.io/accelerator-type", "")
    named = [key.removeprefix(_ACCELERATOR) for key in one["resources"] if key.startswith(_ACCELERATOR)]
    return short_type(label or (named[0] if named else "")) if label or named else ""


def name_of(info: Doc) -> str:
    """Of what `ray.nodes` says about a node: its label, the name it was started with, or its host."""
    label = (info.get("Labels") or {}).get(NAME_LABEL)
    given = info.get("NodeName") or ""
    address = info.get("NodeManagerAddress") or ""
    host = info.get("NodeManagerHostname") or ""
    if label:
        return str(label)
    return str(given if given and given != address else host or address or info["NodeID"])
