"""EASY backfilling: the head gets a reservation, others may go ahead if they do not delay it."""

from __future__ import annotations

from fairlead.kernels.columns import (
    F8,
    JobRow,
)
from fairlead.policy.base import QueuePolicy
from fairlead.policy.forecast import FORECAST_PARAMETERS


class EasyBackfill(QueuePolicy):
    """In order of submission; others go ahead only if the head's reserved start holds. estimate=given|actual|predicted."""

    name = "easy-backfill"
    easy = True
    parameters = {"estimate": "given", **FORECAST_PARAMETERS}

    @staticmethod
    def key(job: JobRow, now: float, p: F8) -> float:
        return job.submit_s
