"""From a trace to what the core runs: names become numbers, seconds stay seconds."""

from __future__ import annotations

import numpy as np

from fairlead.kernels.columns import (
    F8,
    I4,
)
from fairlead.model.cluster import ClusterSpec
from fairlead.sim.profiles import Profiles
from fairlead.state.cluster import gpu_types
from fairlead.state.jobs import NO_SUCH_TYPE, JobInput
from fairlead.workload.trace import Names, Trace


def job_input(trace: Trace, spec: ClusterSpec, profiles: Profiles, *, estimates: bool) -> JobInput:
    tenant, tenant_names = _tenants(trace.tenant)
    return JobInput(
        submit_s=np.ascontiguousarray(trace.submit_s),
        duration_s=np.ascontiguousarray(trace.duration_s),
        gpus=np.ascontiguousarray(trace.gpus),
        share_milli=_shares(trace),
        cpu_milli=trace.cpu_milli,
        memory_mib=trace.memory_mib,
        gpu_type=_types(trace.gpu_type, spec),
        tenant=tenant,
        tenant_names=tenant_names,
        priority=trace.priority,
        estimate_s=_estimates(trace) if estimates else None,
        profile=profiles.numbers(trace.profile),
        skew_milli=profiles.skews(trace.profile),
        gpu_memory_gib=profiles.memory_gib(trace.profile, trace.gpu_memory_mib, len(trace)),
        min_gpus=trace.min_gpus,
        max_gpus=trace.max_gpus,
    )


def most_gpus(jobs: JobInput) -> int:
    """The largest number of GPUs that a job asks for or may be given."""
    columns = [column for column in (jobs.gpus, jobs.max_gpus) if column is not None and len(column)]
    return max([1, *(int(column.max()) for column in columns)])


def _shares(trace: Trace) -> I4 | None:
    """None where no job asks for less than a GPU: the core is faster without shares to look after."""
    shares = trace.gpu_share_milli
    return None if shares is None or bool((shares == 1000).all()) else shares


def _estimates(trace: Trace) -> F8 | None:
    if trace.estimate_s is None:
        return None
    return np.where(np.isnan(trace.estimate_s), trace.duration_s, trace.estimate_s)


def _types(column: Names | None, spec: ClusterSpec) -> I4 | None:
    if column is None or not column.values:
        return None
    number = {name: i for i, name in enumerate(gpu_types(spec))}
    table = np.array([number.get(name, NO_SUCH_TYPE) for name in column.values] + [-1], np.int32)
    return table[column.codes]  # code -1 is the last entry: any type


def _tenants(column: Names | None) -> tuple[I4 | None, tuple[str, ...]]:
    if column is None:
        return None, ()
    if bool((column.codes < 0).any()):
        # jobs without a tenant share a nameless one
        return np.where(column.codes < 0, len(column.values), column.codes).astype(np.int32), (*column.values, "")
    return column.codes, column.values
