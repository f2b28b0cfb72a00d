"""Answers that many people ask for at once, worked out once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Generic, TypeVar

T = TypeVar("T")


class Fresh(Generic[T]):
    """What `make` says, as long as it is fresh: for `age_s` whatever happens, for `most_s` while nothing happens. `number` is
    the journal's last row. What is dear is kept for longer: making it takes at most `share` of the time."""

    def __init__(
        self,
        make: Callable[[], Awaitable[T]],
        number: Callable[[], int],
        age_s: float,
        most_s: float,
        share: float = math.inf,
    ) -> None:
        self._make, self._number = make, number
        self._age_s, self._most_s, self._share = age_s, most_s, share
        self._turn = asyncio.Lock()
        self._kept: tuple[T, int, float] | None = None
        self._took_s = 0.0

    async def get(self, after: int = 0) -> T:
        """Whoever comes while it is made waits for that; nobody makes it twice. `after`: a row of the journal that it must know of,
        however dear it is."""
        kept = self._fresh(after)
        if kept is None:
            async with self._turn:
                kept = self._fresh(after)
                if kept is None:
                    number, began_s = self._number(), perf_counter()
                    made = await self._make()
                    self._took_s = perf_counter() - began_s
                    self._kept = kept = (made, number, perf_counter())
        return kept[0]

    def _fresh(self, after: int) -> tuple[T, int, float] | None:
        if self._kept is None or self._kept[1] < min(after, self._number()):
            return None
        _, number, made = self._kept
        most_s = self._most_s if number == self._number() else self._age_s
        return self._kept if perf_counter() - made < max(most_s, self._took_s / self._share) else None
