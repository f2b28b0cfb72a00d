"""Dominant resource fairness: the tenant whose largest share of any resource is smallest goes first."""

from __future__ import annotations

from fairlead.kernels.columns import (
    F8,
    JobRow,
    TenantRow,
)
from fairlead.policy.base import QueuePolicy


class DominantResourceFairness(QueuePolicy):
    """The tenant with the smallest dominant share (GPUs, CPU, memory) per weight first."""

    name = "drf"
    by_tenant = True

    @staticmethod
    def group(tenant: TenantRow, now: float, p: F8) -> float:
        return tenant.dominant_share / tenant.weight

    @staticmethod
    def key(job: JobRow, now: float, p: F8) -> float:
        return job.submit_s
