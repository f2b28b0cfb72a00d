"""Shortest job first: by true durations, the yardstick, or by what someone or a model says of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.kernels.columns import (
    F8,
    JobRow,
)
from fairlead.policy.base import QueuePolicy
from fairlead.policy.forecast import FORECAST_PARAMETERS


class ShortestJobFirst(QueuePolicy):
    """Shortest duration first; estimate=actual|given|predicted (by=user+group+gpu, model=tree|mean|moving|harmonic)."""

    name = "sjf"
    parameters = {"estimate": "actual", **FORECAST_PARAMETERS}

    @classmethod
    def variant(cls, values: Mapping[str, Any]) -> type[QueuePolicy]:
        return cls if values["estimate"] == "actual" else ShortestEstimateFirst

    @staticmethod
    def key(job: JobRow, now: float, p: F8) -> float:
        return job.duration_s


class ShortestEstimateFirst(QueuePolicy):
    """Shortest estimate first; reached as sjf:estimate=given or sjf:estimate=predicted."""

    parameters = ShortestJobFirst.parameters

    @staticmethod
    def key(job: JobRow, now: float, p: F8) -> float:
        return job.estimate_s
