"""`fairlead report` on a scheduler that runs, and on the store that it has."""

from __future__ import annotations

import csv
import time
from pathlib import Path

import pytest
from tests.server.build import submission, submit

from fairlead.cli.live import lived
from fairlead.cli.live.lived import FromScheduler, FromStore, collect
from fairlead.model.cluster import ClusterSpec, NodeSpec
from fairlead.server.store import Batch, Store

from .daemon import Daemon


def test_the_report_has_what_happened_from_the_api_and_from_the_store_alike(up: Daemon, tmp_path: Path) -> None:
    assert up("tenants", "set", "vision", "--weight", "2").code == 0
    long = up.submit("--gpus", "2", "--tenant", "vision", "--", "sleep", "600")
    up.wait_for(long, "running")
    for command, state in ((("true",), "done"), (("sh", "-c", "exit 3"), "failed")):
        up.wait_for(up.submit("--gpus", "1", "--", *command), state)
    found = up("report", "--since", "1h", "-o", "json").json()
    assert (found["gpus"], found["nodes"]) == (8, 1)
    assert (found["ended"].get("done"), found["ended"].get("failed")) == (1, 1)
    assert found["reasons"] == {"exit-code": 1}
    assert found["held_gpu_s"] > 0
    tenants = {row["name"]: row for row in found["tenants"]}
    assert tenants["vision"]["held_gpu_s"] > 0

    html, tables = tmp_path / "week.html", tmp_path / "tables"
    shown = up("report", "--html", str(html), "--csv", str(tables), "--title", "Our <week>")
    assert "vision" in shown.out
    assert "8 GPUs in use over 7 d" in shown.out
    assert "Our &lt;week&gt;" in html.read_text(encoding="utf-8")
    with (tables / "use-by-tenant.csv").open(encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["tenant", "GPU-hours held"]
    assert "vision" in [row[0] for row in rows]

    stored = up("report", "--since", "1h", "--state-dir", str(up.state_dir), "--cluster", "1x8", "-o", "json").json()
    assert (stored["ended"], stored["reasons"], stored["jobs"]) == (found["ended"], found["reasons"], found["jobs"])
    guessed = up("report", "--since", "1h", "--state-dir", str(up.state_dir), "-o", "json").json()
    assert 2 <= guessed["gpus"] <= 8  # as many as were seen in use
    up("cancel", long)


def test_a_stretch_that_began_before_a_job_ended_has_its_run(up: Daemon) -> None:
    """The job's start is older than the stretch: it is found all the same."""
    id = up.submit("--gpus", "4", "--", "sleep", "600")
    up.wait_for(id, "running")
    up.wait_for(up.submit("--", "sleep", "1.2"), "done")
    found = up("report", "--since", "1s", "-o", "json").json()
    assert found["held_gpu_s"] >= 3.5  # four GPUs for about the whole second
    up("cancel", id)


def test_what_can_not_be_reported_says_what_would_do(up: Daemon, tmp_path: Path) -> None:
    for args, told in (
        (("--since", "yesterday"), "--since: this is no time; got 'yesterday'; expected so long ago, such as 7d"),
        (("--since", "1h", "--until", "2h"), "this ends before it begins"),
        (("--cluster", "1x8"), "--state-dir DIR with it"),
        (("--state-dir", str(tmp_path)), "there is no store"),
        (("--html", str(tmp_path / "no" / "such.html")), "there is no such folder"),
    ):
        wrong = up("report", *args)
        assert (wrong.code, told in wrong.err) == (2, True), wrong.err


def test_fewer_nodes_are_a_what_if_too(up: Daemon) -> None:
    rows = up("whatif", "--add-nodes", "2x8", "--remove-nodes", "node-0", "-o", "json").json()
    assert rows[1]["remove_nodes"] == ["node-0"]
    assert "− node-0" in up("whatif", "--add-nodes", "2x8", "--remove-nodes", "node-0").out
    wrong = up("whatif", "--remove-nodes", "node-7")
    assert wrong.code == 2
    assert "node-7" in wrong.out + wrong.err


def test_a_user_is_told_of_its_own_jobs_and_the_report_says_so(up: Daemon) -> None:
    from fairlead.client import Client
    from fairlead.record.lived_numbers import fold_lived
    from fairlead.record.report.lived import lived_report

    up.wait_for(up.submit("--gpus", "1", "--", "true"), "done")
    token = up("tokens", "create", "--user", "bob", "--tenant", "speech", "--role", "user").out.strip()
    with Client(up.url, token) as client:
        source = FromScheduler(client)
        found = collect(source, source.now_s - 3600.0, source.now_s)
    assert (found.jobs, found.whose, found.cluster.gpus) == ((), "bob's jobs only", 8)
    page = lived_report(fold_lived(found), lambda _: 0.0, notes=source.notes).html()
    assert "These are your own jobs" in page


def test_a_node_that_was_drained_long_before_is_out_of_service(up: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lived, "_ROWS", 2)  # so few rows before the stretch are looked at
    monkeypatch.setattr(lived, "_SLACK_S", 0.0)
    with up.client() as client:
        client.drain("node-0", "a fan is broken")
        for weight in range(1, 9):
            client.put_tenant("vision", weight=weight)
        time.sleep(0.02)
        source = FromScheduler(client)
        found = collect(source, source.now_s - 0.01, source.now_s)
        assert found.down == (("node-0", found.begin_s, found.end_s),)
        client.undrain("node-0")


def test_what_a_store_has_of_nodes_counts_however_long_ago_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lived, "_ROWS", 5)
    nodes = ClusterSpec(tuple(NodeSpec(name, 8) for name in ("a", "b", "c")))
    with Store(tmp_path / "fairlead.db") as store:
        submit(store, submission(time_s=1.0))
        batch = Batch()
        batch.record("drain", 2.0, node="a")
        batch.record("node-down", 3.0, node="b")
        batch.record("node-down", 3.0, node="c")
        batch.record("node-up", 4.0, node="c")
        for number in range(100):
            batch.record("tenant", 1000.0 + number, tenant="vision")
        store.write(batch)
        store.standing.drain("a", 2.0, "ada", "")
        found = collect(FromStore(store, nodes), 1080.0, 1099.0)
        assert found.down == (("a", 1080.0, 1099.0), ("b", 1080.0, 1099.0))
        store.prune(before_s=1000.0)  # the rows are gone, the node is drained all the same
        assert collect(FromStore(store, nodes), 1080.0, 1099.0).down == (("a", 1080.0, 1099.0),)
