"""Tiresias with the Gittins index: within a queue, the job most likely to end soon for the service it still needs.

G(a) = P(S − a ≤ Δ | S > a) / E[min(S − a, Δ) | S > a], larger first, with Δ the end of the job's queue and S the service
of the workload's own jobs (a history that is right: the paper takes it from past jobs). The last queue is FIFO by first
start. The index changes with every second of service, so ranks are taken anew at every event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fairlead.kernels.columns import (
    F8,
    JobRow,
)
from fairlead.policy.base import History, QueuePolicy
from fairlead.policy.tiresias import Tiresias, queue_of

_COUNT, _FIRST = 0, 2
#: points of the index kept per queue; between them it holds its left value
_POINTS = 512


def gittins_index(service: np.ndarray[Any, np.dtype[np.float64]], at: float, delta: float) -> float:
    """G(at) for an ascending sample of services."""
    first = int(np.searchsorted(service, at, side="right"))
    rest = service[first:] - at
    if len(rest) == 0:
        return 0.0
    return float(np.mean(rest <= delta) / np.mean(np.minimum(rest, delta)))


class TiresiasGittins(QueuePolicy):
    """Discretised 2D-Gittins; reached as tiresias:gittins=true."""

    preempts = True
    changes = "running"
    parameters = Tiresias.parameters
    level = Tiresias.level
    wake = Tiresias.wake
    resets = Tiresias.resets

    @classmethod
    def numbers(cls, values: Mapping[str, Any], history: History) -> list[float]:
        """After tiresias's own: per queue but the last, _POINTS services and then the index at each."""
        numbers = Tiresias.numbers(values, history)
        service = np.sort(history.gpus * history.duration_s)
        if len(service) > 20000:
            service = service[:: len(service) // 20000]
        low = 0.0
        for high in numbers[_FIRST:]:
            points = np.linspace(low, high, _POINTS, endpoint=False)
            numbers += [*points, *(gittins_index(service, at, high) for at in points)]
            low = high
        return numbers

    @staticmethod
    def key(job: JobRow, now: float, p: F8) -> float:
        service = job.ran_s * job.gpus
        queue = queue_of(service, p)
        queues = int(p[_COUNT])
        if queue >= queues:
            return job.first_start_s
        at = _FIRST + queues + queue * 2 * _POINTS
        low, high = 0, _POINTS - 1
        while low < high:
            middle = (low + high + 1) // 2
            if p[at + middle] <= service:
                low = middle
            else:
                high = middle - 1
        return -p[at + _POINTS + low]
