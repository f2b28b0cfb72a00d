"""Fair share: the tenant that has used least lately goes first, use being forgotten by half every half-life."""

from __future__ import annotations

from fairlead.kernels.columns import (
    F8,
    JobRow,
    TenantRow,
)
from fairlead.policy.base import QueuePolicy


class FairShare(QueuePolicy):
    """The tenant with the least decayed GPU-time per weight first; half_life_s=SECONDS."""

    name = "fair-share"
    by_tenant = True
    parameters = {"half_life_s": 604800.0}
    half_life = "half_life_s"

    @staticmethod
    def group(tenant: TenantRow, now: float, p: F8) -> float:
        return tenant.use_gpu_s / tenant.weight

    @staticmethod
    def key(job: JobRow, now: float, p: F8) -> float:
        return job.submit_s
