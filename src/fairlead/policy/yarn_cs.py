"""YARN's capacity scheduler, the baseline of Tiresias and HiveD: a queue per tenant, each with a guaranteed share.

A tenant's guarantee is its quota_gpus; where no tenant has one, the cluster is divided by weight. Jobs hold their GPUs
exclusively and go in order of submission within their queue. GPUs that nobody asks for are lent to whoever does; a queue
below its guarantee gets them back, by suspending jobs of tenants above theirs, the latest submission first.
"""

from __future__ import annotations

import math

from fairlead.kernels.columns import (
    F8,
    JobRow,
    TenantRow,
)
from fairlead.policy.base import QueuePolicy


class YarnCapacityScheduler(QueuePolicy):
    """A queue per tenant, first in, first out; shares are guaranteed, lent, and taken back (preempt=false: waited for)."""

    name = "yarn-cs"
    queues = True
    borrows = True
    by_tenant = True
    strict = True
    preempts = True

    @staticmethod
    def group(tenant: TenantRow, now: float, p: F8) -> float:
        return tenant.held_gpus / tenant.guaranteed_gpus if tenant.guaranteed_gpus > 0.0 else math.inf

    @staticmethod
    def key(job: JobRow, now: float, p: F8) -> float:
        return job.submit_s
