"""Wall-clock time that never falls back."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta


class WallClock:
    """Seconds since 1970 when it was made, and from then on by a clock that nobody can set."""

    def __init__(self, not_before_s: float = 0.0) -> None:
        """`not_before_s`: the last moment that is written down anywhere. A wall clock that was set back starts from there."""
        self._offset = max(time.time(), not_before_s) - time.monotonic()

    def now(self) -> float:
        return self._offset + time.monotonic()

    async def sleep_until(self, time_s: float) -> None:
        await asyncio.sleep(max(time_s - self.now(), 0.0))


def ahead_of_utc(at_s: float) -> float:
    """Seconds that this machine's local time is ahead of UTC at a moment, summer time and all."""
    return (datetime.fromtimestamp(at_s).astimezone().utcoffset() or timedelta()).total_seconds()
