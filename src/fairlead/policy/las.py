"""Least attained service: whoever has had the least GPU-time goes next, so nothing needs to be known of durations."""

from __future__ import annotations

from fairlead.kernels.columns import (
    F8,
    JobRow,
)
from fairlead.policy.base import QueuePolicy


class LeastAttainedService(QueuePolicy):
    """Least GPU-time so far first, preempting at every quantum (quantum=SECONDS)."""

    name = "las"
    preempts = True
    quantum = 3600.0

    @staticmethod
    def key(job: JobRow, now: float, p: F8) -> float:
        return job.ran_s * job.gpus

    @staticmethod
    def drift(job: JobRow, now: float, p: F8) -> float:
        return job.gpus
