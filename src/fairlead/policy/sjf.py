"""Shortest job first, knowing durations: the yardstick for predictions of them."""

from __future__ import annotations

from fairlead.kernels.columns import (
    F8,
    JobRow,
)
from fairlead.policy.base import QueuePolicy


class ShortestJobFirst(QueuePolicy):
    """Shortest duration first."""

    name = "sjf"

    @staticmethod
    def key(job: JobRow, now: float, p: F8) -> float:
        return job.duration_s
