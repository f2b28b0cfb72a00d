"""Jobs through the API: in, looked at, listed page by page, held, let go and cancelled."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from .service import Service, wait_for


def test_a_job_is_submitted_runs_and_can_be_looked_at(live: Service) -> None:
    job = live.submit(run="echo hello; exit 3", name="first", env={"SECRET": "squirrel"}, resources={"gpus": 2})
    found = live.until("ann", job, "failed")
    assert (found["name"], found["user"], found["tenant"], found["gpus"]) == ("first", "ann", "vision", 2)
    assert (found["exit_code"], found["run"], found["places"], found["reason"]) == (3, 1, [], "exit-code")
    assert found["submit_s"] <= found["first_start_s"] <= found["finished_s"]
    assert 0 < found["ran_s"] < 20
    assert found["spec"]["env"] == {"SECRET": "***"}
    assert found["spec"]["run"] == "echo hello; exit 3"


def test_a_running_job_says_where_and_how_long_so_far(live: Service) -> None:
    job = live.submit(resources={"gpus": 1})
    first = live.until("ann", job, "running")
    (place,) = first["places"]
    assert (len(place["gpus"]), place["milli"]) == (1, 1000)
    later = wait_for(
        lambda: (now := live.ask("ann", "GET", f"/v1/jobs/{job}").json())["ran_s"] > first["ran_s"] and now
    )
    assert later["started_s"] == first["started_s"]
    assert live.ask("ann", "POST", f"/v1/jobs/{job}/cancel").json() == {"jobs": [job]}
    assert live.until("ann", job, "cancelled")["message"] == "cancelled by ann"


def test_a_job_is_held_and_let_go_on(live: Service) -> None:
    job = live.submit(resources={"gpus": 1}, suspend=["requeue"])
    live.until("ann", job, "running")
    assert live.ask("ann", "POST", f"/v1/jobs/{job}/suspend").json() == {"jobs": [job]}
    assert live.until("ann", job, "held")["places"] == []
    assert live.ask("ann", "POST", f"/v1/jobs/{job}/resume").json() == {"jobs": [job]}
    assert live.until("ann", job, "running")["run"] == 2
    live.ask("ann", "POST", f"/v1/jobs/{job}/cancel")
    live.until("ann", job, "cancelled")
    again = live.ask("ann", "POST", f"/v1/jobs/{job}/cancel")
    assert (again.status_code, again.json()["detail"]) == (422, "the job has ended already")


def test_the_id_of_an_array_stands_for_its_tasks(live: Service) -> None:
    array = live.submit(array="0-2", name="many")
    tasks = [f"{array}_{i}" for i in range(3)]
    page = live.ask("ann", "GET", "/v1/jobs", params={"array": array, "descending": False}).json()
    assert [(job["id"], job["array_id"], job["array_index"]) for job in page["jobs"]] == [
        (task, array, i) for i, task in enumerate(tasks)
    ]
    looked = live.ask("ann", "GET", f"/v1/jobs/{array}")
    assert (looked.status_code, looked.json()["accepts"]) == (404, f"one of its tasks, such as {array}_0")
    assert sorted(live.ask("ann", "POST", f"/v1/jobs/{array}/cancel").json()["jobs"]) == tasks


def test_the_same_key_and_job_are_the_same_jobs(live: Service) -> None:
    body = {"run": "true", "name": "keyed"}
    key = {"Idempotency-Key": "k-1"}
    first = live.ask("ann", "POST", "/v1/jobs", json=body, headers=key)
    again = live.ask("ann", "POST", "/v1/jobs", json=body, headers=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == {**first.json(), "duplicate": True}
    other = live.ask("ann", "POST", "/v1/jobs", json={**body, "run": "false"}, headers=key)
    assert (other.status_code, other.json()["type"]) == (409, "urn:fairlead:problem:conflict")
    # a key is its user's own
    bobs = live.ask("bob", "POST", "/v1/jobs", json={**body, "run": "false"}, headers=key)
    assert (bobs.status_code, bobs.json()["duplicate"]) == (201, False)


def test_a_dry_run_says_whether_and_when_and_writes_nothing(live: Service) -> None:
    before = live.store.count()
    fits = live.ask("ann", "POST", "/v1/jobs?dry_run=true", json={"run": "true", "estimate": "1h"}).json()
    assert (fits["fits"], fits["reason"]) == (True, "")
    assert fits["expected_start_s"] <= fits["expected_finish_s"]
    large = live.ask("ann", "POST", "/v1/jobs?dry_run=true", json={"run": "true", "resources": {"gpus": 99}}).json()
    assert large["fits"] is False
    assert "more GPUs than the cluster has; expected 8 or fewer" in large["reason"]
    assert live.store.count() == before


def test_a_waiting_job_is_told_why_and_when(live: Service) -> None:
    big = live.submit(resources={"gpus": 8}, estimate="1h")
    live.until("ann", big, "running")
    job = live.submit(resources={"gpus": 8}, estimate="10m")
    told = wait_for(
        lambda: (said := live.ask("ann", "GET", f"/v1/jobs/{job}/explain").json())["expected_start_s"] and said
    )
    assert (told["job"], told["state"]) == (job, "waiting")
    assert told["message"]
    page = live.ask("ann", "GET", "/v1/jobs", params={"expect": True, "state": "waiting"}).json()
    assert {one["id"] for one in page["jobs"] if one["expected_start_s"]} >= {job}
    blocked = live.submit(depends_on=[job])
    assert live.ask("ann", "GET", f"/v1/jobs/{blocked}/explain").json()["state"] == "blocked"
    for one in (blocked, job, big):
        live.ask("ann", "POST", f"/v1/jobs/{one}/cancel")
    live.until("ann", big, "cancelled")
    ended = live.ask("ann", "GET", f"/v1/jobs/{big}/explain").json()
    assert (ended["state"], ended["expected_start_s"], ended["message"]) == ("cancelled", None, "cancelled by ann")


def test_why_a_job_waits_says_nothing_of_jobs_that_are_not_yours(live: Service) -> None:
    bobs = live.submit("bob", resources={"gpus": 8}, estimate="1h")
    live.until("bob", bobs, "running")
    mine = live.submit(resources={"gpus": 8}, estimate="10m")

    def told(who: str) -> dict[str, Any]:
        return wait_for(
            lambda: (said := live.ask(who, "GET", f"/v1/jobs/{mine}/explain").json())["expected_start_s"] and said
        )

    assert "when another job ends" in told("ann")["message"]
    assert f"job {bobs}" not in told("ann")["message"]
    assert told("ann")["waits_for"] == []
    for who in ("ada", "vic"):
        assert f"when job {bobs} ends" in told(who)["message"]
        assert told(who)["waits_for"] == [bobs]
    live.ask("ann", "POST", f"/v1/jobs/{mine}/cancel")
    live.ask("bob", "POST", f"/v1/jobs/{bobs}/cancel")
    live.until("bob", bobs, "cancelled")


# -- listings --------------------------------------------------------------------------------------------------------------------


def test_listings_are_narrowed_and_sorted(live: Service) -> None:
    jobs = [live.submit(run="true", name=f"list-{name}", priority=-n) for n, name in enumerate("cab")]
    for job in jobs:
        live.until("ann", job, "done")
    get = live.client("ada").get

    def names(**asked: Any) -> list[str]:
        answer = get("/v1/jobs", params={"name": "list-", **asked})
        assert answer.status_code == 200, answer.text
        return [job["name"] for job in answer.json()["jobs"]]

    assert names() == ["list-b", "list-a", "list-c"]
    assert names(sort="name", descending=False) == ["list-a", "list-b", "list-c"]
    assert names(sort="priority") == ["list-c", "list-a", "list-b"]
    assert names(state="done,failed", tenant="vision", user="ann", live=False) == ["list-b", "list-a", "list-c"]
    assert names(state=["running", "held"]) == names(user="bob") == names(live=True) == []
    assert names(limit=2) == ["list-b", "list-a"]


def test_pages_reach_the_end_while_jobs_are_added(live: Service) -> None:
    there = {live.submit("bob", run="true", name="page") for _ in range(25)}
    stop = threading.Event()

    def adding() -> None:
        with live.client("bob") as client:
            while not stop.is_set():
                client.post("/v1/jobs", json={"run": "true", "name": "page"}).raise_for_status()

    thread = threading.Thread(target=adding)
    thread.start()
    try:
        with live.client("bob") as client:
            for sort in ("submitted", "started"):
                seen: list[str] = []
                cursor: dict[str, str] = {}
                while True:
                    asked = {"name": "page", "limit": "7", "sort": sort, "descending": "false", **cursor}
                    page = client.get("/v1/jobs", params=asked).raise_for_status().json()
                    seen += [job["id"] for job in page["jobs"]]
                    if page["next"] is None or there <= set(seen):
                        break
                    cursor = {"cursor": page["next"]}
                assert there <= set(seen)
                assert len(seen) == len(set(seen)) or sort == "started"  # a job may start between two pages
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize(
    ("asked", "field", "says"),
    [
        ({"limt": 3}, "limt", "did you mean 'limit'?"),
        ({"limit": 0}, "limit", "greater than or equal to 1"),
        ({"limit": 1001}, "limit", "less than or equal to 1000"),
        ({"limit": "many"}, "limit", "valid integer"),
        ({"state": "runing"}, "state", "did you mean 'running'?"),
        ({"sort": "nme"}, "sort", "did you mean 'name'?"),
        ({"cursor": "x"}, "cursor", "no page of a listing"),
        ({"descending": "maybe"}, "descending", "valid boolean"),
    ],
)
def test_what_a_listing_does_not_take(live: Service, asked: dict[str, str], field: str, says: str) -> None:
    answer = live.ask("ada", "GET", "/v1/jobs", params=asked)
    told = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert told["field"] == field
    assert says in told["detail"]
