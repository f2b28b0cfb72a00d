"""Metrics for Prometheus. Names are Kueue's with our prefix (a tenant is what Kueue calls a cluster queue) and, for what a GPU
says of itself, those of NVIDIA's DCGM exporter, so that dashboards made for either need little change.

A gauge is set as a whole: what is not named any more is gone. Counters count from the scheduler's start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: seconds that people wait for GPUs: from at once to a week
_WAITS = (1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800)
_MOMENTS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_TENANT = ("tenant",)
_GPU = ("gpu", "UUID", "modelName", "Hostname")


@dataclass(frozen=True)
class TenantGpus:
    """What a tenant may have, has and weighs. A quota of None is no limit, and no row."""

    tenant: str
    held: float
    quota: float | None = None
    weight: float = 1.0
    usage_gpu_s: float = 0.0


@dataclass(frozen=True)
class NodeGpus:
    node: str
    gpus: int
    allocated: float
    up: bool = True
    drained: bool = False


@dataclass(frozen=True)
class GpuReading:
    """What a GPU's driver says. None: it does not tell."""

    node: str
    gpu: int
    uuid: str
    model: str
    utilization_percent: float | None = None
    memory_used_mib: float | None = None
    memory_free_mib: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.readings: tuple[GpuReading, ...] = ()  #: what GPUs said last; none where nobody measures them
        gauge, counter, histogram = self._gauge, self._counter, self._histogram
        # the queue, after kueue_*
        self._pending = gauge(
            "fairlead_pending_workloads", "Jobs that wait: active, or inadmissible for now.", "tenant", "status"
        )
        self._running = gauge("fairlead_admitted_active_workloads", "Jobs that hold GPUs and have not ended.", *_TENANT)
        self._reserving = gauge(
            "fairlead_reserving_active_workloads", "Jobs that count against their tenant's quota.", *_TENANT
        )
        self._admitted = counter("fairlead_admitted_workloads", "Jobs started for the first time.", *_TENANT)
        self._wait = histogram(
            "fairlead_admission_wait_time_seconds", "From submission to the first start.", _WAITS, *_TENANT
        )
        self._evicted = counter(
            "fairlead_evicted_workloads", "Times that a job was taken off its GPUs.", "tenant", "reason"
        )
        self._finished = counter("fairlead_finished_workloads", "Jobs that ended.", "tenant", "result")
        self._attempts = counter("fairlead_admission_attempts", "Passes that decided who runs.", "result")
        self._pass = histogram(
            "fairlead_admission_attempt_duration_seconds", "How long a pass took.", _MOMENTS, "result"
        )
        # tenants, after kueue_cluster_queue_*
        resource = ("tenant", "resource")
        self._quota = gauge("fairlead_tenant_nominal_quota", "What the tenant may hold.", *resource)
        self._held = gauge("fairlead_tenant_resource_reservation", "What its jobs hold.", *resource)
        self._weight = gauge("fairlead_tenant_weight", "Its weight in fair-share policies.", *_TENANT)
        self._usage = gauge(
            "fairlead_tenant_usage_gpu_seconds", "Its decayed use, as fair-share policies see it.", *_TENANT
        )
        # nodes and GPUs
        self._node_gpus = gauge("fairlead_node_gpus", "GPUs by node: allocatable, allocated.", "node", "state")
        self._node_up = gauge("fairlead_node_schedulable", "1 where the node is up and not drained.", "node")
        self._gpu = {
            "utilization_percent": gauge("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", *_GPU),
            "memory_used_mib": gauge("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", *_GPU),
            "memory_free_mib": gauge("DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).", *_GPU),
            "power_w": gauge("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", *_GPU),
            "temperature_c": gauge("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", *_GPU),
        }
        # the scheduler itself
        self._stored = histogram("fairlead_store_write_duration_seconds", "From asking to durable.", _MOMENTS)
        self._requests = counter("fairlead_http_requests", "Requests answered.", "method", "route", "code")
        self._request = histogram(
            "fairlead_http_request_duration_seconds", "How long requests took.", _MOMENTS, "method", "route"
        )
        self._build = Info("fairlead_build", "What runs here.", registry=self.registry)

    def _gauge(self, name: str, says: str, *labels: str) -> Gauge:
        return Gauge(name, says, labels, registry=self.registry)

    def _counter(self, name: str, says: str, *labels: str) -> Counter:
        return Counter(name, says, labels, registry=self.registry)

    def _histogram(self, name: str, says: str, buckets: Iterable[float], *labels: str) -> Histogram:
        return Histogram(name, says, labels, buckets=tuple(buckets), registry=self.registry)

    # -- what happens ---------------------------------------------------------------------------------------------------------

    def admitted(self, tenant: str, wait_s: float) -> None:
        """A job started for the first time."""
        self._admitted.labels(tenant).inc()
        self._wait.labels(tenant).observe(max(wait_s, 0.0))

    def evicted(self, tenant: str, reason: str) -> None:
        self._evicted.labels(tenant, reason).inc()

    def finished(self, tenant: str, result: str) -> None:
        self._finished.labels(tenant, result).inc()

    def decided(self, duration_s: float, started: int) -> None:
        """A pass is over; Kueue calls it a success where something could start."""
        result = "success" if started else "inadmissible"
        self._attempts.labels(result).inc()
        self._pass.labels(result).observe(duration_s)

    def stored(self, duration_s: float) -> None:
        self._stored.observe(duration_s)

    def requested(self, method: str, route: str, code: int, duration_s: float) -> None:
        """`route` is the pattern (`/v1/jobs/{id}`), never the path: there would be no end of them."""
        self._requests.labels(method, route, str(code)).inc()
        self._request.labels(method, route).observe(duration_s)

    # -- how things stand -----------------------------------------------------------------------------------------------------

    def queue(
        self, pending: Mapping[tuple[str, str], int], running: Mapping[str, int], reserving: Mapping[str, int]
    ) -> None:
        """Jobs that wait by (tenant, "active" or "inadmissible"), that run, and that count against a quota."""
        self._pending.clear()
        for (tenant, status), number in pending.items():
            self._pending.labels(tenant, status).set(number)
        for gauge, numbers in ((self._running, running), (self._reserving, reserving)):
            gauge.clear()
            for tenant, number in numbers.items():
                gauge.labels(tenant).set(number)

    def tenants(self, rows: Iterable[TenantGpus]) -> None:
        for gauge in (self._quota, self._held, self._weight, self._usage):
            gauge.clear()
        for row in rows:
            if row.quota is not None:
                self._quota.labels(row.tenant, "gpu").set(row.quota)
            self._held.labels(row.tenant, "gpu").set(row.held)
            self._weight.labels(row.tenant).set(row.weight)
            self._usage.labels(row.tenant).set(row.usage_gpu_s)

    def nodes(self, rows: Iterable[NodeGpus]) -> None:
        self._node_gpus.clear()
        self._node_up.clear()
        for row in rows:
            schedulable = row.up and not row.drained
            self._node_gpus.labels(row.node, "allocatable").set(row.gpus if schedulable else 0)
            self._node_gpus.labels(row.node, "allocated").set(row.allocated)
            self._node_up.labels(row.node).set(int(schedulable))

    def gpus(self, readings: Iterable[GpuReading]) -> None:
        self.readings = tuple(readings)
        for gauge in self._gpu.values():
            gauge.clear()
        for reading in self.readings:
            for field, gauge in self._gpu.items():
                value = getattr(reading, field)
                if value is not None:
                    gauge.labels(str(reading.gpu), reading.uuid, reading.model, reading.node).set(value)

    def build(self, version: str, policy: str, placer: str) -> None:
        self._build.info({"version": version, "policy": policy, "placer": placer})

    def exposition(self) -> bytes:
        """What `/metrics` answers, with CONTENT_TYPE."""
        return generate_latest(self.registry)
