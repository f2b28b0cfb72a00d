"""GPUs by number, as the core knows them, and by node and index, as everybody else does."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from fairlead.model.cluster import ClusterSpec
from fairlead.runtime.protocols import Place


class PlaceMap:
    def __init__(self, spec: ClusterSpec) -> None:
        self._names = [node.name for node in spec.nodes]
        self._first = [0, *accumulate(node.gpus for node in spec.nodes)]
        self._number = {name: n for n, name in enumerate(self._names)}

    def places(self, gpu_ids: Sequence[int], milli: int) -> tuple[Place, ...]:
        """By node, in the cluster's order. A job without GPUs has one id, -1 - node."""
        found: dict[int, list[int]] = {}
        for gpu in sorted(gpu_ids):
            node = -1 - gpu if gpu < 0 else bisect_right(self._first, gpu) - 1
            at = found.setdefault(node, [])
            if gpu >= 0:
                at.append(gpu - self._first[node])
        return tuple(Place(self._names[node], tuple(gpus), milli) for node, gpus in sorted(found.items()))

    def gpu_ids(self, places: Sequence[Place]) -> tuple[int, ...] | None:
        """The other way round; None where the cluster has not all of it any more."""
        found: list[int] = []
        for place in places:
            node = self._number.get(place.node)
            if node is None or any(gpu >= self._first[node + 1] - self._first[node] for gpu in place.gpus):
                return None
            found += [self._first[node] + gpu for gpu in place.gpus] or [-1 - node]
        return tuple(sorted(found))

    def node(self, name: str) -> int | None:
        return self._number.get(name)
