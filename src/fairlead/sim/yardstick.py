"""What speeds are measured by: Python's own heap on this machine, at this moment.

Seconds say as much about the machine as about the program. A ratio to work that every Python does alike, measured in the
same minute, can be compared between machines and on a busy one.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from heapq import heappop, heappush
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROUNDS = 200_000
#: taken each time that the yardstick is asked for
_SAMPLES = 3


def rounds_per_s(rounds: int = ROUNDS) -> float:
    """Rounds of push, push, pop, pop of floats on an empty heap, new floats every round."""
    heap: list[float] = []
    push, pop = heappush, heappop
    started = time.perf_counter()
    for i in range(rounds):
        push(heap, i + 1.0)
        push(heap, i + 0.5)
        pop(heap)
        pop(heap)
    return rounds / (time.perf_counter() - started)


class Yardstick:
    """Measured around each case, so that a case is held against the machine as it was then."""

    def __init__(self, rounds: int = ROUNDS) -> None:
        self._rounds = rounds
        self.samples: list[float] = []

    def measure(self) -> list[float]:
        found = [rounds_per_s(self._rounds) for _ in range(_SAMPLES)]
        self.samples += found
        return found

    @property
    def rounds_per_s(self) -> float:
        return statistics.median(self.samples)


def machine_facts() -> dict[str, Any]:
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "numba": version("numba"),
        "numpy": version("numpy"),
    }


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()
