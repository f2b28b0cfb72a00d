"""Shortest remaining service first: time × GPUs, so that a wide job counts for what it takes."""

from __future__ import annotations

from fairlead.kernels.columns import (
    F8,
    JobRow,
)
from fairlead.policy.base import QueuePolicy


class ShortestRemainingService(QueuePolicy):
    """Least remaining GPU-time first, preempting."""

    name = "srsf"
    preempts = True

    @staticmethod
    def key(job: JobRow, now: float, p: F8) -> float:
        return job.remaining_s * job.gpus

    @staticmethod
    def drift(job: JobRow, now: float, p: F8) -> float:
        return -job.gpus
