"""The journal as a trace: what is exported replays."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from tests.server.build import submission, submit

from fairlead.server.export import trace_rows
from fairlead.server.store import Batch, Store
from fairlead.sim.run import simulate
from fairlead.workload.readers.load import load_trace

from .service import Service


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def ended(store: Store, job: int, state: str, start_s: float, ran_s: float) -> None:
    batch = Batch()
    batch.change(
        job, state=state, first_start_s=start_s, started_s=start_s, finished_s=start_s + ran_s, ran_s=ran_s, run=1
    )
    store.write(batch)


def test_what_ran_is_a_trace_and_what_never_ran_is_counted(sqlite_store: Store) -> None:
    store = sqlite_store
    jobs = submit(
        store,
        submission("a", 100.0, gpus=2, gpu_type="H200", priority=3, estimate_s=60.0, user="ann"),
        submission("b", 160.5, gpus=1, gpu_share_milli=500, tenant="speech", user="bob"),
        submission("c", 170.0, gpus=4, num_nodes=2, cpu_milli=2000, array=(0, 1), preemptible=False, topology="rack"),
        submission("never", 180.0),
        submission("still", 190.0),
    )
    ended(store, jobs[0], "done", 101.0, 50.25)
    ended(store, jobs[1], "failed", 170.0, 7.0)
    ended(store, jobs[2], "cancelled", 171.0, 1.0)
    ended(store, jobs[3], "lost", 171.0, 1.0)
    batch = Batch()
    batch.change(jobs[5], state="running", first_start_s=200.0, started_s=210.0, ran_s=5.0)
    store.write(batch)
    made = trace_rows(store, now_s=240.0)
    assert (made.jobs, made.left_out, made.origin) == (5, 1, "1970-01-01T00:01:40+00:00")
    found = rows(made.csv)
    assert [row["job_id"] for row in found] == ["1", "2", "3_0", "3_1", "6"]
    assert [float(row["submit_s"]) for row in found] == [0.0, 60.5, 70.0, 70.0, 90.0]
    assert [int(row["gpus"]) for row in found] == [2, 1, 8, 8, 1]
    assert [float(row["duration_s"]) for row in found] == [50.25, 7.0, 1.0, 1.0, 35.0]
    assert [row["status"] for row in found] == ["passed", "failed", "killed", "unknown", "unknown"]
    assert [row["gpu_type"] for row in found] == ["H200", "", "", "", ""]
    assert [float(row["gpu_share"]) for row in found] == [1, 0.5, 1, 1, 1]
    assert [float(row["cpus"]) for row in found] == [0, 0, 4, 4, 0]
    assert [float(row["estimate_s"]) for row in found] == [60.0, 7.0, 1.0, 1.0, 35.0]
    assert [row["num_nodes"] for row in found] == ["0", "0", "2", "2", "0"]
    assert [row["preemptible"] for row in found] == ["true", "true", "false", "false", "true"]
    assert [row["topology"] for row in found] == ["", "", "rack", "rack", ""]
    assert {row["user"] for row in found} == {"ann", "bob"}
    part = trace_rows(store, 160.0, 175.0, 240.0)
    assert [row["job_id"] for row in rows(part.csv)] == ["2", "3_0", "3_1"]


def test_pages_do_not_matter(sqlite_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.server.export._AT_ONCE", 3)
    jobs = submit(sqlite_store, *(submission(f"j{i}", float(i), array=(0, 1)) for i in range(5)))
    for job in jobs:
        ended(sqlite_store, job, "done", 10.0, 1.0)
    assert len(rows(trace_rows(sqlite_store).csv)) == 10


def test_an_empty_journal_is_an_empty_trace(sqlite_store: Store) -> None:
    made = trace_rows(sqlite_store)
    assert (made.jobs, made.left_out, made.origin) == (0, 0, None)
    assert made.csv.startswith("job_id,submit_s,gpus,duration_s")


def test_an_export_through_the_api_replays(live: Service, tmp_path: Path) -> None:
    ids = [live.submit(run=f"sleep 0.{i}", resources={"gpus": i}) for i in (1, 2)]
    ids.append(live.submit(run="true", array="0-1"))
    for job in (*ids[:2], f"{ids[2]}_0", f"{ids[2]}_1"):
        live.until("ann", job, "done")
    runs = live.submit()
    live.until("ann", runs, "running")
    never = live.submit(depends_on=[runs])
    answer = live.ask("ada", "GET", "/v1/trace")
    assert (answer.headers["content-type"], answer.headers["x-fairlead-left-out"]) == ("text/csv; charset=utf-8", "1")
    found = {row["job_id"]: row for row in rows(answer.text)}
    assert never not in found
    assert float(found[ids[0]]["duration_s"]) >= 0.1 * (
        1 - 5e-4
    )  # a wall clock may be slewed by so much while it sleeps
    path = tmp_path / "yesterday.csv"
    path.write_text(answer.text)
    trace = load_trace(path).trace
    assert len(trace) == len(found)
    assert trace.job_id(0) == ids[0]
    run = simulate(trace, live.scheduler.spec, "fifo-backfill")
    assert bool((run.outcome.finish_s > 0).all())
    late = live.ask("ada", "GET", "/v1/trace", params={"since_s": live.scheduler.now()})
    assert rows(late.text) == []
