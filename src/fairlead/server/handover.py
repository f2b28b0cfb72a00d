"""GPUs change hands: whoever gets one waits until whoever had it has left."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence

from fairlead.runtime.protocols import Place

Run = tuple[str, int]
_Gpu = tuple[str, int]


class Handover:
    def __init__(self) -> None:
        self._leaving: dict[Run, tuple[asyncio.Event, frozenset[_Gpu]]] = {}

    def leaving(self, job: str, run: int, places: Iterable[Place]) -> None:
        self._leaving[job, run] = (asyncio.Event(), frozenset(_gpus(places)))

    def is_leaving(self, job: str, run: int) -> bool:
        return (job, run) in self._leaving

    def left(self, job: str, run: int) -> None:
        found = self._leaving.pop((job, run), None)
        if found is not None:
            found[0].set()

    def in_the_way(self, job: str, places: Sequence[Place]) -> list[asyncio.Event]:
        """Of a start there: others that are on their way off those GPUs, and earlier runs of the job itself."""
        wanted = frozenset(_gpus(places))
        return [gone for (name, _), (gone, held) in self._leaving.items() if name == job or held & wanted]

    def clear(self) -> None:
        for gone, _ in self._leaving.values():
            gone.set()
        self._leaving.clear()

    def __len__(self) -> int:
        return len(self._leaving)


def _gpus(places: Iterable[Place]) -> Iterator[_Gpu]:
    return ((place.node, gpu) for place in places for gpu in place.gpus)
