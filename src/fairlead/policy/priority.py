"""Highest priority first, as the jobs state it."""

from __future__ import annotations

from fairlead.kernels.columns import (
    F8,
    JobRow,
)
from fairlead.policy.base import QueuePolicy


class Priority(QueuePolicy):
    """Highest priority first, then in order of submission."""

    name = "priority"

    @staticmethod
    def level(job: JobRow, now: float, p: F8) -> float:
        return -job.priority

    @staticmethod
    def key(job: JobRow, now: float, p: F8) -> float:
        return job.submit_s
