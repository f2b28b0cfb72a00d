"""Plain quota: the cluster is divided among tenants by GPU counts, and each runs its own queue in its part."""

from __future__ import annotations

from fairlead.kernels.columns import (
    F8,
    JobRow,
)
from fairlead.policy.base import QueuePolicy


class Quota(QueuePolicy):
    """A queue per tenant, first in, first out, never above the tenant's quota_gpus; nothing is lent."""

    name = "quota"
    queues = True
    by_tenant = True
    strict = True

    @staticmethod
    def key(job: JobRow, now: float, p: F8) -> float:
        return job.submit_s
