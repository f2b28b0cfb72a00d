"""Smallest first: the fewest GPUs, whatever the duration."""

from __future__ import annotations

from fairlead.kernels.columns import (
    F8,
    JobRow,
)
from fairlead.policy.base import QueuePolicy


class SmallestFirst(QueuePolicy):
    """Fewest GPUs first."""

    name = "smallest-first"

    @staticmethod
    def key(job: JobRow, now: float, p: F8) -> float:
        return job.gpus
