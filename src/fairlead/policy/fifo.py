"""First in, first out: the head of the queue blocks everything behind it."""

from __future__ import annotations

from fairlead.kernels.columns import (
    F8,
    JobRow,
)
from fairlead.policy.base import QueuePolicy


class Fifo(QueuePolicy):
    """In order of submission; the head blocks."""

    name = "fifo"
    strict = True

    @staticmethod
    def key(job: JobRow, now: float, p: F8) -> float:
        return job.submit_s
