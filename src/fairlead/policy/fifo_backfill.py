"""First in, first out, but whatever fits may start: large jobs can wait for long."""

from __future__ import annotations

from fairlead.kernels.columns import (
    F8,
    JobRow,
)
from fairlead.policy.base import QueuePolicy


class FifoBackfill(QueuePolicy):
    """In order of submission, starting whatever fits."""

    name = "fifo-backfill"

    @staticmethod
    def key(job: JobRow, now: float, p: F8) -> float:
        return job.submit_s
