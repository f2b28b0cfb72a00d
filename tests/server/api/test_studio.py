"""The studio over a real service: uploads, comparisons in a process of their own, and who may do what."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .service import Service, service, wait_for

GOOD = "job_id,submit_s,gpus,duration_s,tenant\n" + "".join(
    f"{i},{i * 5},{1 + i % 4},{60 + i},t{i % 3}\n" for i in range(60)
)
SMALL: dict[str, Any] = {
    "generator": {"name": "philly-like", "jobs": 200, "gpus": 32, "load": 0.9, "seed": 1},
    "cluster": "4x8",
    "policies": ["fifo", "las"],
}


def upload(live: Service, who: str = "ann", text: str | bytes = GOOD, name: str = "mine.csv") -> Any:
    return live.ask(who, "POST", "/v1/studio/traces", params={"name": name}, content=text)


def start(live: Service, who: str = "ann", **fields: Any) -> dict[str, Any]:
    answer = live.ask(who, "POST", "/v1/studio/runs", json={**SMALL, **fields})
    assert answer.status_code == 202, answer.text
    found: dict[str, Any] = answer.json()
    return found


def until(live: Service, who: str, run: str, *states: str) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        now: dict[str, Any] = live.ask(who, "GET", f"/v1/studio/runs/{run}").json()
        return now if now["state"] in states else None

    for _ in range(5):  # the first compiles
        try:
            told: dict[str, Any] = wait_for(found)
            return told
        except AssertionError:
            continue
    raise AssertionError(live.ask(who, "GET", f"/v1/studio/runs/{run}").text)


def test_it_says_what_can_be_simulated(live: Service) -> None:
    told = live.ask("vic", "GET", "/v1/studio").json()
    assert "philly-like" in [one["name"] for one in told["generators"]]
    assert "canonical" in str(told["formats"])
    known = live.ask("vic", "GET", "/v1/policies").json()
    assert {"fifo", "srtf", "tiresias"} <= {one["name"] for one in known["policies"]}
    assert "consolidate" in [one["name"] for one in known["placers"]]


@pytest.mark.parametrize("packed", [False, True])
def test_a_trace_is_uploaded_looked_at_and_deleted(live: Service, packed: bool) -> None:
    answer = upload(live, text=gzip.compress(GOOD.encode()) if packed else GOOD, name="über/../mine.csv")
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert made["about"]["jobs"] == 60
    assert made["about"]["tenants"] == 3
    assert "/" not in made["name"]
    assert made["id"] in [one["id"] for one in live.ask("ann", "GET", "/v1/studio/traces").json()["traces"]]
    assert live.ask("ann", "GET", f"/v1/studio/traces/{made['id']}").json() == made
    assert live.ask("bob", "GET", f"/v1/studio/traces/{made['id']}").status_code == 404
    assert live.ask("bob", "DELETE", f"/v1/studio/traces/{made['id']}").status_code == 404
    assert live.ask("vic", "DELETE", f"/v1/studio/traces/{made['id']}").status_code == 403
    assert live.ask("ann", "DELETE", f"/v1/studio/traces/{made['id']}").status_code == 200
    assert live.ask("ann", "GET", f"/v1/studio/traces/{made['id']}").status_code == 404


def test_a_bad_row_is_answered_with_its_place_and_what_would_do(live: Service) -> None:
    answer = upload(live, text="job_id,submit_s,gpus,duration_s\n1,0,4,600\n2,30,four,600\n", name="spoilt.csv")
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    told = answer.json()
    assert (told["file"], told["line"], told["field"], told["value"]) == ("spoilt.csv", 3, "gpus", "four")
    assert told["accepts"]
    assert str(live.path) not in answer.text
    before = list((live.path / "studio").rglob("data"))
    for text in ("", "hello", b"\x00\xff" * 100, "a,b\n1,2\n", b"\x1f\x8bnot really gzip", b"PAR1 and no more"):
        answer = upload(live, text=text, name="x.csv")
        assert answer.status_code == 422, answer.text
        assert str(live.path) not in answer.text
    assert list((live.path / "studio").rglob("data")) == before, "what was refused is still there"


def test_a_comparison_runs_to_its_end_beside_the_scheduler(live: Service) -> None:
    run = start(live)
    assert run["names"] == ["fifo", "las"]
    assert live.ask("ann", "GET", f"/v1/studio/runs/{run['id']}/report").status_code in (404, 200)
    done = until(live, "ann", run["id"], "done", "failed")
    assert done["state"] == "done", done
    assert [row["name"] for row in done["results"]] == ["fifo", "las"]
    assert all(row["finished"] == 200 for row in done["results"])
    assert (done["at"], done["problem"]) == (2, None)
    page = live.ask("ann", "GET", f"/v1/studio/runs/{run['id']}/report")
    assert page.status_code == 200
    assert page.text.startswith("<!doctype html>")
    assert "philly-like (jobs 200" in page.text
    policy = page.headers["content-security-policy"]
    assert "sandbox allow-scripts allow-downloads" in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
    assert re.search(r"script-src 'sha256-", policy)


def test_an_uploaded_trace_is_compared_on_the_nodes_that_are_here(live: Service) -> None:
    trace = upload(live).json()
    run = start(
        live, generator=None, trace=trace["id"], cluster=None, policies=["srtf"], placers=["consolidate", "spread"]
    )
    assert run["names"] == ["srtf", "srtf / spread"]
    assert run["workload"] == "mine.csv"
    assert "2 nodes, 8 GPUs" in run["cluster"]
    done = until(live, "ann", run["id"], "done", "failed")
    assert (done["state"], done["results"][0]["finished"]) == ("done", 60), done
    assert (
        live.ask("bob", "POST", "/v1/studio/runs", json={**SMALL, "generator": None, "trace": trace["id"]}).status_code
        == 404
    )


def test_what_ran_here_is_kept_as_a_trace_by_an_admin(live: Service) -> None:
    jobs = [live.submit(run=f"sleep 0.{i}") for i in (1, 2)]
    for job in jobs:
        live.until("ann", job, "done")
    assert live.ask("ann", "POST", "/v1/studio/traces/lived").status_code == 403
    made = live.ask("ada", "POST", "/v1/studio/traces/lived")
    assert made.status_code == 201, made.text
    assert made.json()["about"]["jobs"] >= 2
    run = start(live, "ada", generator=None, trace=made.json()["id"], cluster=None, policies=["fifo"])
    assert until(live, "ada", run["id"], "done", "failed")["state"] == "done"
    none = live.ask("ada", "POST", "/v1/studio/traces/lived", params={"since_s": live.scheduler.now()})
    assert (none.status_code, "no jobs" in none.json()["detail"]) == (422, True), none.text


def test_a_report_opens_by_its_ticket_and_by_nothing_else(live: Service) -> None:
    run = start(live, policies=["fifo"])
    assert until(live, "ann", run["id"], "done", "failed")["state"] == "done"
    assert live.ask("bob", "POST", f"/v1/studio/runs/{run['id']}/ticket").status_code == 404
    path = live.ask("vic", "POST", f"/v1/studio/runs/{run['id']}/ticket").json()["path"]
    page = live.ask(None, "GET", path)
    assert (page.status_code, page.text[:9]) == (200, "<!doctype")
    assert live.ask(None, "GET", path[:-1]).status_code == 404
    assert live.ask(None, "GET", f"/v1/studio/runs/{run['id']}/report").status_code == 401
    live.app.state.desk.studio._tickets.clear()
    assert live.ask(None, "GET", path).status_code == 404


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"policies": ["fifoo"]}, "policies"),
        ({"policies": ["/tmp/evil.py:Evil"]}, "policies"),
        ({"policies": ["evil.py:Evil"]}, "policies"),
        ({"policies": []}, "policies"),
        ({"placers": ["nowhere"]}, "placers"),
        ({"cluster": "/etc/passwd"}, "cluster"),
        ({"cluster": "999999999x8"}, "cluster"),
        ({"cluster": "1x0000000000000200001"}, "cluster"),
        ({"cluster": "2x8+1x00000000000000200001"}, "cluster"),
        ({"cluster": "0x8"}, "cluster"),
        ({"generator": {"name": "phily"}}, "generator.name"),
        ({"generator": {"name": "philly-like", "jobs": 10**9}}, "generator.jobs"),
        ({"generator": None}, "trace"),
        ({"trace": "x"}, "trace"),
    ],
)
def test_what_can_not_be_compared_is_refused_at_once(live: Service, fields: dict[str, Any], field: str) -> None:
    answer = live.ask("ann", "POST", "/v1/studio/runs", json={**SMALL, **fields})
    assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text


def test_what_only_the_simulator_can_refuse_is_told_of_the_run(live: Service) -> None:
    run = start(live, policies=["fifo:nonsense=1"])
    told = until(live, "ann", run["id"], "done", "failed")
    assert told["state"] == "failed"
    assert "nonsense" in told["problem"]["detail"] + str(told["problem"])
    assert live.ask("ann", "GET", f"/v1/studio/runs/{run['id']}/report").status_code == 404


def test_viewers_look_and_do_not_run(live: Service) -> None:
    run = start(live, "bob")
    assert upload(live, "vic").status_code == 403
    assert live.ask("vic", "POST", "/v1/studio/runs", json=SMALL).status_code == 403
    assert run["id"] in [one["id"] for one in live.ask("vic", "GET", "/v1/studio/runs").json()["runs"]]
    assert live.ask("vic", "POST", f"/v1/studio/runs/{run['id']}/cancel").status_code == 403
    assert run["id"] not in [one["id"] for one in live.ask("ann", "GET", "/v1/studio/runs").json()["runs"]]
    assert live.ask("ada", "POST", f"/v1/studio/runs/{run['id']}/cancel").json()["state"] in ("cancelled", "done")


def workers() -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"fairlead.cli.studio_worker" in path.read_bytes() and path.parent.joinpath("status").exists():
                parent = re.search(r"^PPid:\s+(\d+)", path.parent.joinpath("status").read_text(), re.MULTILINE)
                if parent is not None and int(parent[1]) == os.getpid():
                    found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_one_runs_the_others_wait_and_any_can_be_cancelled(live: Service) -> None:
    long = {
        "generator": {"name": "philly-like", "jobs": 400_000, "gpus": 512, "load": 1.5},
        "cluster": "64x8",
        "policies": ["las"],
    }
    first = start(live, **long)
    until(live, "ann", first["id"], "running")
    (pid,) = wait_for(workers)
    assert wait_for(lambda: os.getpriority(os.PRIO_PROCESS, pid) == 15), "it is not nice"
    second, third = start(live, "bob"), start(live, "bob")
    assert [live.ask("bob", "GET", f"/v1/studio/runs/{one['id']}").json()["before"] for one in (second, third)] == [
        1,
        2,
    ]
    assert live.ask("bob", "POST", f"/v1/studio/runs/{second['id']}/cancel").json()["state"] == "cancelled"
    assert live.ask("bob", "GET", f"/v1/studio/runs/{third['id']}").json()["before"] == 1
    more = [live.ask("bob", "POST", "/v1/studio/runs", json=SMALL).status_code for _ in range(3)]
    assert 429 in more, "one user may fill the queue"
    assert live.ask("ann", "POST", f"/v1/studio/runs/{first['id']}/cancel").json()["state"] == "cancelled"
    wait_for(lambda: pid not in workers())
    for run in live.ask("bob", "GET", "/v1/studio/runs").json()["runs"]:
        live.ask("bob", "DELETE", f"/v1/studio/runs/{run['id']}")
    assert live.ask("bob", "GET", "/v1/studio/runs").json()["runs"] == []


# -- limits, and a scheduler that stops ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    path = tmp_path_factory.mktemp("tight") / "state"
    with service(path, max_upload=10_000, max_request=5_000, studio_time=3.0, studio_memory=1 << 20) as made:
        yield made


def test_what_is_too_large_too_long_or_too_much_is_ended_and_says_so(tight: Service) -> None:
    assert upload(tight, text=b"x" * 10_001).status_code == 413
    assert upload(tight, text=GOOD * 3).status_code in (201, 422)  # more than another request may have
    run = start(tight, generator={"name": "philly-like", "jobs": 1_000_000, "gpus": 512, "load": 1.5}, cluster="64x8")
    told = until(tight, "ann", run["id"], "done", "failed")
    assert told["state"] == "failed"
    assert "studio_time" in str(told["problem"]) or "memory" in str(told["problem"]), told
    assert wait_for(lambda: not workers())


def test_a_scheduler_that_stops_takes_its_simulation_with_it_and_says_so_when_it_is_back(tmp_path: Path) -> None:
    with service(tmp_path / "state") as made:
        kept = upload(made).json()
        run = start(made, generator={"name": "philly-like", "jobs": 900_000, "gpus": 512, "load": 1.5}, cluster="64x8")
        until(made, "ann", run["id"], "running")
        wait_for(workers)
    wait_for(lambda: not workers())
    with service(tmp_path / "state") as made:
        told = made.ask("ann", "GET", f"/v1/studio/runs/{run['id']}").json()
        assert told["state"] in ("failed", "cancelled")
        assert made.ask("ann", "GET", f"/v1/studio/traces/{kept['id']}").json() == kept
