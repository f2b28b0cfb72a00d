"""Nodes, tenants, the policy, what if, counts, metrics and tokens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from fairlead.runtime import twin
from fairlead.runtime.protocols import Report, ReportKind

from .service import Service, wait_for


@pytest.fixture
def running(live: Service) -> Any:
    """A job of ann's on three GPUs."""
    job = live.submit(resources={"gpus": 3}, name="runs")
    live.until("ann", job, "running")
    yield job
    live.ask("ann", "POST", f"/v1/jobs/{job}/cancel")
    live.until("ann", job, "cancelled")


def test_who_you_are(live: Service) -> None:
    assert live.ask("ann", "GET", "/v1/me").json() == {"user": "ann", "role": "user", "tenant": "vision"}


def test_nodes_and_who_is_on_them(live: Service, running: str) -> None:
    found = wait_for(lambda: [n for n in live.ask("ada", "GET", "/v1/nodes").json()["nodes"] if n["jobs"] == [running]])
    (node,) = found
    assert (node["gpus"], node["gpus_used"], node["running"], node["state"]) == (4, 3.0, 1, "up")


def test_a_node_is_drained_and_used_again(live: Service) -> None:
    def node() -> Any:
        return next(n for n in live.ask("ann", "GET", "/v1/nodes").json()["nodes"] if n["name"] == "node-0")

    done = live.ask("ada", "POST", "/v1/nodes/node-0/drain", json={"reason": "a fan is broken"})
    assert done.json() == {"name": "node-0", "state": "drained"}
    now = node()
    assert (now["state"], now["drained_by"], now["drain_reason"]) == ("drained", "ada", "a fan is broken")
    assert now["drained_s"] <= live.scheduler.now()
    assert live.ask("ada", "GET", "/v1/cluster").json()["nodes_up"] == 1
    assert live.ask("ada", "POST", "/v1/nodes/node-0/undrain").json()["state"] == "up"
    assert (node()["state"], node()["drained_s"]) == ("up", None)
    missed = live.ask("ada", "POST", "/v1/nodes/nod-0/drain")
    assert (missed.status_code, "did you mean 'node-0'?" in missed.json()["detail"]) == (404, True)


def test_a_node_that_is_not_there_is_down(live: Service) -> None:
    async def told(kind: ReportKind) -> None:
        report = Report(kind, live.scheduler.now(), node="node-1")
        await live.scheduler._ask(lambda turn: live.scheduler._floor.reported(turn, report))

    live.call(told(ReportKind.NODE_DOWN))
    assert [n["state"] for n in live.ask("ann", "GET", "/v1/nodes").json()["nodes"]] == ["up", "down"]
    assert live.ask("ann", "GET", "/v1/cluster").json()["nodes_up"] == 1
    live.call(told(ReportKind.NODE_UP))
    assert [n["state"] for n in live.ask("ann", "GET", "/v1/nodes").json()["nodes"]] == ["up", "up"]


def test_tenants_are_added_changed_and_removed(live: Service, running: str) -> None:
    put = live.ask("ada", "PUT", "/v1/tenants/vision", json={"quota_gpus": 6, "weight": 2.5})
    assert put.json() == {"name": "vision", "quota_gpus": 6, "weight": 2.5}

    def vision() -> Any:
        rows = live.ask("ann", "GET", "/v1/tenants").json()["tenants"]
        return next((row for row in rows if row["name"] == "vision" and row["quota_gpus"] == 6), None)

    row = wait_for(vision)
    assert (row["weight"], row["gpus_used"], row["jobs"]["running"]) == (2.5, 3.0, 1)
    over = live.ask("ann", "POST", "/v1/jobs", json={"run": "true", "resources": {"gpus": 7}})
    assert (over.status_code, over.json()["accepts"][:10]) == (422, "6 or fewer")
    held = live.ask("ada", "DELETE", "/v1/tenants/vision")
    assert (held.status_code, f"cancel {running}" in held.json()["accepts"]) == (422, True)
    live.ask("ann", "POST", f"/v1/jobs/{running}/cancel")
    live.until("ann", running, "cancelled")
    assert live.ask("ada", "DELETE", "/v1/tenants/vision").status_code == 204
    again = live.ask("ada", "DELETE", "/v1/tenants/vision")
    assert (again.status_code, again.json()["field"]) == (404, "name")


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/tenants/x", {"quota_gpu": 1}, "quota_gpu"),
        ("/v1/tenants/x", {"quota_gpus": -1}, "quota_gpus"),
        ("/v1/tenants/x", {"quota_gpus": "8"}, "quota_gpus"),
        ("/v1/tenants/x", {"weight": 0}, "weight"),
        ("/v1/tenants/" + "x" * 201, {}, "name"),
        ("/v1/tenants/a%0ab", {}, "name"),
        ("/v1/policy", {"polic": "fifo"}, "polic"),
        ("/v1/policy", {"policy": 3}, "policy"),
        ("/v1/policy", {"policy": "/tmp/mine.py:key=1"}, "policy"),
        ("/v1/policy", {"placer": "mine.py"}, "placer"),
    ],
)
def test_what_can_not_be_put(live: Service, path: str, body: dict[str, object], field: str) -> None:
    answer = live.ask("ada", "PUT", path, json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_the_policy_changes_while_jobs_run(live: Service, running: str) -> None:
    before = live.ask("vic", "GET", "/v1/policy").json()
    assert live.ask("ada", "PUT", "/v1/policy", json={"policy": "srtf"}).json() == {**before, "policy": "srtf"}
    assert live.ask("ann", "GET", f"/v1/jobs/{running}").json()["state"] == "running"
    wrong = live.ask("ada", "PUT", "/v1/policy", json={"policy": "srft"})
    assert (wrong.status_code, "did you mean 'srtf'?" in wrong.json()["detail"]) == (422, True)
    assert live.ask("ada", "PUT", "/v1/policy", json={}).json()["policy"] == "srtf"
    assert live.ask("ada", "PUT", "/v1/policy", json=before).json() == before


def test_what_another_policy_or_more_nodes_would_do(live: Service, running: str) -> None:
    asked = {"policies": ["srtf", "las"], "add_nodes": "1x4"}
    rows = live.ask("ann", "POST", "/v1/whatif", json=asked).json()["rows"]
    assert [row["policy"] for row in rows][1:] == ["srtf", "las"]
    assert [row["add_nodes"] for row in rows] == ["", "1x4", "1x4"]
    assert len(live.ask("ann", "POST", "/v1/whatif", json={}).json()["rows"]) == 1
    for number in (9, 21):
        many = live.ask("ann", "POST", "/v1/whatif", json={"policies": ["fifo"] * number})
        assert (many.status_code, many.json()["field"]) == (422, "policies")


ROWS = 10


@pytest.fixture
def slow_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A what-if of ten rows that take their time; those that are done."""
    done: list[int] = []

    def rows(*_: Any) -> Iterator[twin.Row]:
        for number in range(ROWS):
            time.sleep(0.1)
            done.append(number)
            yield twin.Row("fifo", "consolidate", "", None, "not really")

    monkeypatch.setattr(twin, "whatif_rows", rows)
    return done


def test_others_are_answered_between_the_rows_of_a_what_if_and_a_user_has_one_at_a_time(
    live: Service, running: str, slow_rows: list[int]
) -> None:
    with ThreadPoolExecutor(1) as beside, live.client("ann") as client:
        asked = beside.submit(client.post, "/v1/whatif", json={})
        wait_for(lambda: slow_rows)
        refused = live.ask("ann", "POST", "/v1/whatif", json={})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "2")
        assert "another what-if of yours" in refused.json()["detail"]
        told = live.ask("ann", "GET", f"/v1/jobs/{running}/explain").json()
        assert told["message"].startswith("runs on")
        assert len(slow_rows) < ROWS, "the explanation waited for all of them"
        assert len(asked.result().json()["rows"]) == ROWS
    assert live.ask("ann", "POST", "/v1/whatif", json={}).status_code == 200


def test_what_nobody_waits_for_any_more_is_not_worked_out(live: Service, slow_rows: list[int]) -> None:
    with live.client("bob") as client, pytest.raises(httpx.ReadTimeout):
        client.post("/v1/whatif", json={}, timeout=0.3)
    wait_for(lambda: not live.app.state.desk.foresight._comparing)
    assert len(slow_rows) < ROWS


def test_counts_of_everything(live: Service, running: str) -> None:
    now = wait_for(lambda: (c := live.ask("vic", "GET", "/v1/cluster").json())["gpus_used"] == 3 and c)
    assert (now["gpus"], now["nodes"], now["nodes_up"], now["trouble"]) == (8, 2, 2, "")
    assert now["jobs"]["running"] == now["tenants"]["vision"]["running"] == 1
    assert (now["policy"], now["placer"]) == ("fifo-backfill", "consolidate")
    assert now["started_s"] < now["now_s"]
    assert now["last_event"] > 0


def test_metrics_are_for_prometheus(live: Service, running: str) -> None:
    waiting = live.submit("bob", resources={"gpus": 8})

    def samples() -> dict[str, float]:
        answer = live.ask("vic", "GET", "/metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        return {
            " ".join([one.name, *(f"{key}={one.labels[key]}" for key in sorted(one.labels))]): one.value
            for family in text_string_to_metric_families(answer.text)
            for one in family.samples
        }

    found = wait_for(lambda: (s := samples()).get("fairlead_pending_workloads status=active tenant=speech") == 1 and s)
    assert found["fairlead_admitted_active_workloads tenant=vision"] == 1
    assert found["fairlead_tenant_resource_reservation resource=gpu tenant=vision"] == 3
    assert found["fairlead_http_requests_total code=201 method=POST route=/v1/jobs"] >= 1
    # a path would be a row for each job
    assert "fairlead_http_requests_total code=200 method=GET route=/v1/jobs/{job_id}" in found
    assert not [name for name in found if f"route=/v1/jobs/{running}" in name]
    live.ask("bob", "POST", f"/v1/jobs/{waiting}/cancel")


def test_tokens_are_made_listed_and_revoked(live: Service) -> None:
    made = live.ask("ann", "POST", "/v1/tokens", json={"label": "nightly", "expires": "90d"})
    assert made.status_code == 201
    token = made.json()
    assert (token["user"], token["role"], token["label"]) == ("ann", "user", "nightly")
    assert token["expires_s"] == pytest.approx(token["created_s"] + 90 * 86400)
    asked = live.ask(None, "GET", "/v1/me", headers={"Authorization": f"Bearer {token['token']}"})
    assert asked.json()["user"] == "ann"
    listed = live.ask("ann", "GET", "/v1/tokens")
    assert token["id"] in {row["id"] for row in listed.json()["tokens"]}
    assert token["token"] not in listed.text
    assert "hash" not in listed.text
    assert live.ask("bob", "DELETE", f"/v1/tokens/{token['id']}").status_code == 404
    assert live.ask("ann", "DELETE", f"/v1/tokens/{token['id']}").status_code == 200
    assert live.ask("ann", "DELETE", "/v1/tokens/nope").status_code == 404


def test_an_admin_adds_a_user_with_its_first_token(live: Service) -> None:
    body = {"user": "cleo", "role": "user"}
    unknown = live.ask("ada", "POST", "/v1/tokens", json=body)
    assert (unknown.status_code, unknown.json()["field"]) == (422, "user")
    made = live.ask("ada", "POST", "/v1/tokens", json={**body, "tenant": "speech"}).json()
    asked = live.ask(None, "GET", "/v1/me", headers={"Authorization": f"Bearer {made['token']}"})
    assert asked.json() == {"user": "cleo", "role": "user", "tenant": "speech"}
    moved = live.ask("ada", "POST", "/v1/tokens", json={**body, "tenant": "vision"})
    assert (moved.status_code, moved.json()["field"]) == (422, "tenant")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"role": "root"}, "role"),
        ({"expires": "soon"}, "expires"),
        ({"expires": -1}, "expires"),
        ({"expires": True}, "expires"),
        ({"lable": "x"}, "lable"),
        ({"label": "two\nlines"}, "label"),
        ({"user": " "}, "user"),
    ],
)
def test_tokens_that_can_not_be(live: Service, body: dict[str, object], field: str) -> None:
    answer = live.ask("ada", "POST", "/v1/tokens", json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
