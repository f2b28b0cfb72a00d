"""Shortest remaining time first: the best mean for jobs of one size, where durations are known."""

from __future__ import annotations

from fairlead.kernels.columns import (
    F8,
    JobRow,
)
from fairlead.policy.base import QueuePolicy


class ShortestRemainingTime(QueuePolicy):
    """Least remaining time first, preempting."""

    name = "srtf"
    preempts = True

    @staticmethod
    def key(job: JobRow, now: float, p: F8) -> float:
        return job.remaining_s

    @staticmethod
    def drift(job: JobRow, now: float, p: F8) -> float:
        return -1.0
