"""What Prometheus reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fairlead.server.metrics import GpuReading, Metrics, NodeGpus, TenantGpus

ROOT = Path(__file__).resolve().parents[2]


def samples(metrics: Metrics) -> dict[str, float]:
    """Each row of the text, by `name{label=value,...}`."""
    found = {}
    for family in text_string_to_metric_families(metrics.exposition().decode()):
        for one in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(one.labels.items()))
            found[f"{one.name}{{{labels}}}" if labels else one.name] = one.value
    return found


def test_a_scheduler_that_did_nothing_has_names_but_no_tenants() -> None:
    text = Metrics().exposition().decode()
    assert "# TYPE fairlead_pending_workloads gauge" in text
    assert "# TYPE fairlead_admission_wait_time_seconds histogram" in text
    assert "# TYPE fairlead_evicted_workloads_total counter" in text
    assert "# TYPE DCGM_FI_DEV_GPU_UTIL gauge" in text
    assert "tenant=" not in text


def test_what_happens_is_counted() -> None:
    metrics = Metrics()
    metrics.admitted("vision", 70.0)
    metrics.admitted("vision", -0.5)  # a clock that was set back is no wait
    metrics.evicted("vision", "outranked")
    metrics.finished("vision", "done")
    metrics.decided(0.002, started=1)
    metrics.decided(0.001, started=0)
    metrics.stored(0.004)
    metrics.requested("GET", "/v1/jobs/{id}", 200, 0.01)
    found = samples(metrics)
    assert found["fairlead_admitted_workloads_total{tenant=vision}"] == 2
    assert found["fairlead_admission_wait_time_seconds_count{tenant=vision}"] == 2
    assert found["fairlead_admission_wait_time_seconds_sum{tenant=vision}"] == 70
    assert found["fairlead_admission_wait_time_seconds_bucket{le=60.0,tenant=vision}"] == 1
    assert found["fairlead_admission_wait_time_seconds_bucket{le=300.0,tenant=vision}"] == 2
    assert found["fairlead_evicted_workloads_total{reason=outranked,tenant=vision}"] == 1
    assert found["fairlead_finished_workloads_total{result=done,tenant=vision}"] == 1
    assert found["fairlead_admission_attempts_total{result=success}"] == 1
    assert found["fairlead_admission_attempt_duration_seconds_count{result=inadmissible}"] == 1
    assert found["fairlead_store_write_duration_seconds_count"] == 1
    assert found["fairlead_http_requests_total{code=200,method=GET,route=/v1/jobs/{id}}"] == 1


def test_how_things_stand_replaces_how_they_stood() -> None:
    metrics = Metrics()
    metrics.queue({("old", "active"): 9}, {"old": 1}, {"old": 1})
    metrics.queue({("vision", "active"): 3, ("vision", "inadmissible"): 2}, {"vision": 4}, {"vision": 5})
    metrics.tenants([TenantGpus("old", 1)])
    metrics.tenants([TenantGpus("vision", 6.5, 8, 2.0, 120.0), TenantGpus("guests", 0)])
    metrics.nodes([NodeGpus("n1", 8, 6.5), NodeGpus("n2", 8, 1, drained=True), NodeGpus("n3", 8, 0, up=False)])
    found = samples(metrics)
    assert not [name for name in found if "old" in name]
    assert found["fairlead_pending_workloads{status=inadmissible,tenant=vision}"] == 2
    assert found["fairlead_admitted_active_workloads{tenant=vision}"] == 4
    assert found["fairlead_reserving_active_workloads{tenant=vision}"] == 5
    assert found["fairlead_tenant_nominal_quota{resource=gpu,tenant=vision}"] == 8
    assert "fairlead_tenant_nominal_quota{resource=gpu,tenant=guests}" not in found
    assert found["fairlead_tenant_resource_reservation{resource=gpu,tenant=vision}"] == 6.5
    assert found["fairlead_tenant_weight{tenant=vision}"] == 2
    assert found["fairlead_tenant_usage_gpu_seconds{tenant=vision}"] == 120
    assert found["fairlead_node_gpus{node=n1,state=allocatable}"] == 8
    assert found["fairlead_node_gpus{node=n2,state=allocatable}"] == 0
    assert found["fairlead_node_gpus{node=n2,state=allocated}"] == 1
    assert [found[f"fairlead_node_schedulable{{node=n{i}}}"] for i in (1, 2, 3)] == [1, 0, 0]


def test_a_gpu_tells_what_it_can() -> None:
    metrics = Metrics()
    metrics.gpus([GpuReading("n1", 0, "GPU-1", "H200", 87.0, 1000.0, None), GpuReading("n1", 1, "GPU-2", "H200")])
    label = "{Hostname=n1,UUID=GPU-1,gpu=0,modelName=H200}"
    found = samples(metrics)
    assert {name: value for name, value in found.items() if name.startswith("DCGM")} == {
        f"DCGM_FI_DEV_GPU_UTIL{label}": 87.0,
        f"DCGM_FI_DEV_FB_USED{label}": 1000.0,
    }


def test_a_tenants_name_may_be_anything() -> None:
    metrics = Metrics()
    for tenant in ('a"b', "c\\d", "e\nf", "日本"):
        metrics.finished(tenant, "done")
    assert sum(value for name, value in samples(metrics).items() if "finished_workloads_total" in name) == 4


def test_what_runs_here() -> None:
    metrics = Metrics()
    metrics.build("0.1", "fifo", "spread")
    metrics.build("0.1", "las", "spread")
    assert samples(metrics)["fairlead_build_info{placer=spread,policy=las,version=0.1}"] == 1
    assert len([name for name in samples(metrics) if "build" in name]) == 1


def test_the_docs_name_every_metric() -> None:
    text = (ROOT / "docs" / "operate.md").read_text()
    kinds = re.findall(r"^# TYPE (\S+) \w+$", Metrics().exposition().decode(), re.MULTILINE)
    names = {name for name in kinds if not name.endswith("_created")}
    assert len(names) > 20
    assert {name for name in names if f"`{name}`" not in text} == set()


def test_two_schedulers_in_one_process_do_not_share_them() -> None:
    one, other = Metrics(), Metrics()
    one.finished("a", "done")
    assert "fairlead_finished_workloads_total{result=done,tenant=a}" not in samples(other)
    with pytest.raises(ValueError, match="label"):
        one._evicted.labels("only one")
