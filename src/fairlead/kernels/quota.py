"""Tenants' quotas."""

from __future__ import annotations

from fairlead.kernels.columns import (
    C_SHAPE,
    C_TENANT,
    R_QUOTAS,
    S_GPUS,
    S_MILLI,
    T_HELD,
    T_QUOTA,
    Cluster,
    Queue,
)
from fairlead.kernels.jit import hot


@hot
def within_quota(c: Cluster, q: Queue, k: int) -> bool:
    if q.counter[R_QUOTAS] == 0:
        return True
    s, t = q.classes[C_SHAPE, k], q.classes[C_TENANT, k]
    quota = q.tenants[T_QUOTA, t]
    return quota < 0.0 or q.tenants[T_HELD, t] + c.shape[S_GPUS, s] * c.shape[S_MILLI, s] <= quota
