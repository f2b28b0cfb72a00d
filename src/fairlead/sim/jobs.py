"""From a trace to what the core runs: names become numbers, seconds stay seconds."""

from __future__ import annotations

import numpy as np

from fairlead.kernels.columns import (
    F8,
    I4,
    WHOLE,
)
from fairlead.model.cluster import ClusterSpec
from fairlead.policy.forecast import Labels
from fairlead.sim.profiles import Profiles
from fairlead.state.cluster import gpu_types, topology_levels
from fairlead.state.jobs import NO_SUCH_LEVEL, NO_SUCH_TYPE, JobInput
from fairlead.workload.trace import Names, Trace


def job_input(
    trace: Trace, spec: ClusterSpec, profiles: Profiles, *, estimates: bool, utilization: bool = False
) -> JobInput:
    tenant, tenant_names = _tenants(trace.tenant)
    return JobInput(
        submit_s=np.ascontiguousarray(trace.submit_s),
        duration_s=np.ascontiguousarray(trace.duration_s),
        gpus=np.ascontiguousarray(trace.gpus),
        share_milli=_shares(trace, spec),
        cpu_milli=trace.cpu_milli,
        memory_mib=trace.memory_mib,
        gpu_type=_types(trace.gpu_type, spec),
        tenant=tenant,
        tenant_names=tenant_names,
        priority=trace.priority,
        estimate_s=_estimates(trace) if estimates else None,
        profile=profiles.numbers(trace.profile),
        skew_milli=profiles.skews(trace.profile),
        efficiency_milli=profiles.efficiencies(trace.profile) if utilization else None,
        gpu_memory_gib=profiles.memory_gib(trace.profile, trace.gpu_memory_mib, len(trace)),
        min_gpus=trace.min_gpus,
        max_gpus=trace.max_gpus,
        preemptible=None if trace.preemptible is None or trace.preemptible.all() else trace.preemptible,
        num_nodes=None if trace.num_nodes is None or not trace.num_nodes.any() else trace.num_nodes,
        topology=_levels(trace.topology, spec),
    )


def labels_of(trace: Trace) -> Labels:
    """What a model of durations may look at: all of it is known when a job is submitted."""
    shares = trace.gpu_share_milli
    milli = trace.gpus * (WHOLE if shares is None else shares)
    return Labels(milli.astype(np.int32), *(_codes(column) for column in (trace.tenant, trace.user, trace.group)))


def _codes(column: Names | None) -> I4 | None:
    return None if column is None else column.codes


def most_gpus(jobs: JobInput) -> int:
    """The largest number of GPUs that a job asks for or may be given."""
    columns = [column for column in (jobs.gpus, jobs.max_gpus) if column is not None and len(column)]
    return max([1, *(int(column.max()) for column in columns)])


def _shares(trace: Trace, spec: ClusterSpec) -> I4 | None:
    """None where no job asks for less than a GPU: the core is faster without shares to look after."""
    shares = trace.gpu_share_milli
    if shares is None or bool((shares == WHOLE).all()):
        return None
    return shares if trace.gpu_memory_mib is None else _with_memory(trace, shares, spec)


def _with_memory(trace: Trace, shares: I4, spec: ClusterSpec) -> I4:
    """A share guarantees that part of a GPU's memory, so it is at least what the job's stated memory is of the smallest
    GPU that it may run on. Where some such GPU does not state its memory, shares are as asked for."""
    assert trace.gpu_memory_mib is not None
    types = () if trace.gpu_type is None else trace.gpu_type.values
    smallest = np.array([_smallest_gpu_mib(spec, name) for name in (*types, None)])  # code -1 is the last entry
    codes = np.full(len(trace), -1) if trace.gpu_type is None else trace.gpu_type.codes
    needs = np.ceil(trace.gpu_memory_mib * float(WHOLE) / smallest[codes])
    return np.where(shares < WHOLE, np.maximum(shares, np.minimum(needs, WHOLE)), shares).astype(np.int32)


def _smallest_gpu_mib(spec: ClusterSpec, gpu_type: str | None) -> float:
    """Infinite where a GPU of the type (None: of any) does not say how much it has."""
    sizes = [node.gpu_memory_mib for node in spec.nodes if node.gpus and gpu_type in (None, node.gpu_type)]
    return np.inf if not sizes or None in sizes else float(min(size for size in sizes if size is not None))


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


def _levels(column: Names | None, spec: ClusterSpec) -> I4 | None:
    if column is None or not column.values:
        return None
    levels = topology_levels(spec)
    return np.array([*(levels.get(name, NO_SUCH_LEVEL) for name in column.values), -1], np.int32)[column.codes]


def _tenants(column: Names | None) -> tuple[I4 | None, tuple[str, ...]]:
    if column is None:
        return None, ()
    if bool((column.codes < 0).any()):
        # jobs without a tenant share a nameless one
        return np.where(column.codes < 0, len(column.values), column.codes).astype(np.int32), (*column.values, "")
    return column.codes, column.values
