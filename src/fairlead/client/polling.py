"""Waiting for a job's end: how often to ask, and for how long to put up with nobody answering."""

from __future__ import annotations

import time

from fairlead.client.errors import Unreachable

_SOONEST_S, _LATEST_S = 0.1, 2.0
RESTART_S = 60.0  #: a scheduler that has answered before may be away for so long


class Patience:
    """Ask soon at first, later about every tenth of the time waited so far."""

    def __init__(self, id: str, timeout_s: float | None) -> None:
        self._id, self._timeout_s = id, timeout_s
        self._begun = time.perf_counter()
        self._answered: float | None = None
        self._is_last = False

    def answered(self) -> None:
        self._answered = time.perf_counter()

    def missed(self, error: Unreachable) -> None:
        """Nobody answered: raises where nobody ever did, or for too long."""
        if self._answered is None or time.perf_counter() - self._answered > RESTART_S:
            raise error

    def pause_s(self) -> float:
        """Seconds until it is asked again; TimeoutError once the time is over and it was asked a last time."""
        waited_s = time.perf_counter() - self._begun
        pause_s = min(max(waited_s / 10, _SOONEST_S), _LATEST_S)
        if self._timeout_s is None:
            return pause_s
        if self._is_last:
            raise TimeoutError(f"job {self._id} has not ended within {self._timeout_s:g} s")
        left_s = max(self._timeout_s - waited_s, 0.0)
        self._is_last = left_s <= pause_s
        return min(pause_s, left_s)
