"""Every command that looks at a running scheduler or tells it something."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
import yaml

from .daemon import Daemon, until


@pytest.fixture(scope="module")
def done(up: Daemon) -> str:
    """A job that has ended."""
    ran = up("submit", "--wait", "--name", "short", "--", "sh", "-c", "for i in 1 2 3 4 5; do echo line $i; done")
    assert ran.code == 0, ran.err
    return ran.out.strip()


def test_jobs_are_listed_as_table_json_and_yaml(up: Daemon, done: str) -> None:
    id = up.submit("--name", "sleeper", "--", "sleep", "60")
    up.wait_for(id, "running")
    table = up("jobs").out
    assert "sleeper" in table
    assert "node-0:" in table
    assert "short" not in table
    assert {job["id"] for job in up("jobs", "-o", "json").json()} == {id}
    assert [job["name"] for job in yaml.safe_load(up("jobs", "--all", "--name", "short", "-o", "yaml").out)] == [
        "short"
    ]
    assert [job["id"] for job in up("jobs", "--state", "done", "-o", "json").json()] == [done]
    assert up("jobs", "--tenant", "nobody", "-o", "json").json() == []
    assert up("jobs", "--user", "nobody").out == "no jobs\n"
    assert up("cancel", id).out == f"cancelled {id}\n"


def test_a_listing_is_paged(up: Daemon, done: str) -> None:
    up.wait_for(up.submit("--", "true"), "done")
    first = up("jobs", "--all", "--limit", "1", "--ascending", "-o", "json")
    assert len(first.json()) == 1
    cursor = first.err.split("--cursor ")[1].split()[0]
    second = up("jobs", "--all", "--limit", "1", "--ascending", "--cursor", cursor, "-o", "json")
    assert int(second.json()[0]["id"]) > int(first.json()[0]["id"])


def test_one_job_is_shown_with_what_it_runs(up: Daemon, done: str) -> None:
    shown = up("jobs", done).out
    assert "state" in shown
    assert "done" in shown
    assert "for i in 1 2 3 4 5" in shown
    assert up("jobs", done, "-o", "json").json()["spec"]["name"] == "short"
    missing = up("jobs", "424242")
    assert missing.code == 2
    assert "there is no job with this id" in missing.err


def test_a_watched_table_goes_on_until_it_is_interrupted(up: Daemon) -> None:
    with up.popen("jobs", "--watch", "--every", "0.2") as process:
        assert process.stdout is not None
        id = up.submit("--name", "watched", "--", "sleep", "60")
        for line in process.stdout:
            if "watched" in line:
                break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    up("cancel", id)
    assert up("jobs", "--watch", "-o", "json").code == 2


def test_explain_says_why_a_job_waits_and_until_when(up: Daemon, done: str) -> None:
    all_gpus = up.submit("--gpus", "8", "--estimate", "60", "--", "sleep", "60")
    up.wait_for(all_gpus, "running")
    waits = up.submit("--gpus", "4", "--estimate", "10", "--", "true")
    told = until(lambda: up("explain", waits).out)
    assert f"job {waits} is waiting" in told
    assert "starts at about" in told
    found = up("explain", waits, "-o", "json").json()
    assert found["expected_finish_s"] > found["expected_start_s"] > 0
    assert f"job {done} is done" in up("explain", done).out
    row = next(job for job in up("jobs", "--expect", "-o", "json").json() if job["id"] == waits)
    assert row["expected_start_s"] > 0
    assert up("cancel", all_gpus, waits).code == 0


def test_logs_whole_and_their_tail(up: Daemon, done: str) -> None:
    assert up("logs", done).out == "".join(f"line {i}\n" for i in range(1, 6))
    assert up("logs", done, "--tail", "2").out == "line 4\nline 5\n"
    assert up("logs", "-f", done, "--tail", "1").out == "line 5\n"
    assert up("logs", "424242").code == 2


def test_logs_are_followed_until_the_job_ends(up: Daemon, tmp_path: Path) -> None:
    id = up.submit("--", "sh", "-c", f"echo before; while ! test -e {tmp_path}/go; do sleep 0.05; done; echo after")
    with up.popen("logs", "-f", id) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "before\n"
        (tmp_path / "go").touch()
        assert process.stdout.readline() == "after\n"
        assert process.wait(60) == 0


def test_cancelling_several_goes_on_where_one_can_t_be(up: Daemon, done: str) -> None:
    jobs = [up.submit("--", "sleep", "60") for _ in range(2)]
    ran = up("cancel", jobs[0], "424242", done, jobs[1])
    assert ran.code == 2
    assert ran.out == f"cancelled {jobs[0]}\ncancelled {jobs[1]}\n"
    assert "424242: there is no job with this id" in ran.err
    assert "has ended already" in ran.err
    for id in jobs:
        up.wait_for(id, "cancelled")


def test_an_array_is_cancelled_by_its_id(up: Daemon) -> None:
    id = up.submit("--array", "3", "--", "sleep", "60")
    assert len(up("cancel", id, "-o", "json").json()["jobs"]) == 3
    until(lambda: all(job["state"] == "cancelled" for job in up("jobs", id, "-o", "json").json()))


def test_a_job_is_suspended_and_goes_on(up: Daemon) -> None:
    id = up.submit("--", "sleep", "60")
    up.wait_for(id, "running")
    assert up("suspend", id).out == f"suspended {id}\n"
    up.wait_for(id, "held")
    assert up("resume", id).out == f"resumed {id}\n"
    up.wait_for(id, "running")
    up("cancel", id)


def test_nodes_are_drained_and_used_again(up: Daemon) -> None:
    assert "node-0" in up("nodes").out
    ran = up("nodes", "drain", "node-0", "--reason", "a fan")
    assert ran.code == 0
    (node,) = up("nodes", "-o", "json").json()
    assert (node["state"], node["drain_reason"]) == ("drained", "a fan")
    id = up.submit("--", "true")
    assert up.state(id) == "waiting"
    assert up("nodes", "undrain", "node-0").code == 0
    up.wait_for(id, "done")
    missing = up("nodes", "drain", "node-7")
    assert missing.code == 2
    assert "node-7" in missing.err


def test_tenants_are_set_changed_and_removed(up: Daemon) -> None:
    def known() -> dict[str, tuple[int | None, float]]:
        return {one["name"]: (one["quota_gpus"], one["weight"]) for one in up("tenants", "-o", "json").json()}

    assert up("tenants", "set", "vision", "--quota", "4", "--weight", "2").code == 0
    assert until(lambda: known().get("vision")) == (4, 2.0)
    assert up("tenants", "set", "vision", "--weight", "3").code == 0
    until(lambda: known()["vision"] == (4, 3.0))
    assert up("tenants", "set", "vision", "--quota", "none").code == 0
    until(lambda: known()["vision"] == (None, 3.0))
    assert "no limit" in up("tenants").out
    assert up("tenants", "remove", "vision").code == 0
    until(lambda: "vision" not in known())
    assert up("tenants", "set", "vision", "--quota", "lots").code == 2
    assert up("tenants", "remove", "nobody").code == 2


def test_the_policy_is_changed_while_jobs_run(up: Daemon) -> None:
    id = up.submit("--", "sleep", "60")
    up.wait_for(id, "running")
    assert up("policy", "set", "srtf", "--placer", "spread").err == "policy srtf, placer spread\n"
    assert up("policy", "show", "-o", "json").json() == {"policy": "srtf", "placer": "spread"}
    wrong = up("policy", "set", "srft")
    assert wrong.code == 2
    assert "did you mean 'srtf'?" in wrong.err
    assert up("policy", "set").code == 2
    assert up("policy", "set", "fifo-backfill", "--placer", "consolidate").code == 0
    assert "fifo-backfill" in up("policy").out
    assert up.state(id) == "running"
    up("cancel", id)


def test_what_if_compares_policies_and_more_nodes(up: Daemon) -> None:
    jobs = [up.submit("--gpus", "8", "--estimate", str(60 - 20 * i), "--", "sleep", "60") for i in range(3)]
    up.wait_for(jobs[0], "running")
    rows = up("whatif", "--policy", "srtf", "--policy", "las", "--add-nodes", "2x8", "-o", "json").json()
    assert [row["policy"] for row in rows] == ["fifo-backfill", "srtf", "las"]
    assert rows[1]["wait_s"]["mean"] < rows[0]["wait_s"]["mean"]
    table = up("whatif", "--policy", "srtf").out
    assert "fifo-backfill (as it is)" in table
    assert up("whatif").code == 2
    assert up("whatif", "--add-nodes", "x").code == 2
    up("cancel", *jobs)


def test_top_shows_everything_at_once(up: Daemon) -> None:
    id = up.submit("--gpus", "3", "--name", "heavy", "--", "sleep", "60")
    up.wait_for(id, "running")
    shown = until(lambda: found if "heavy" in (found := up("top", "--once").out) else "")
    assert "3 of 8 GPUs in use" in shown
    assert "███·····" in shown
    found = up("top", "--once", "-o", "json").json()
    assert found["cluster"]["gpus"] == 8
    assert found["running"][0]["id"] == id
    assert up("top", "-o", "json").code == 2
    up("cancel", id)


def test_tokens_are_made_used_and_revoked(up: Daemon) -> None:
    made = up("tokens", "create", "--label", "nightly", "--expires", "90d", "-o", "json").json()
    assert up("jobs", FAIRLEAD_TOKEN=made["token"]).code == 0
    assert "nightly" in up("tokens").out
    assert made["token"] not in up("tokens", "list", "-o", "json").out
    assert up("tokens", "revoke", made["id"]).code == 0
    gone = up("jobs", FAIRLEAD_TOKEN=made["token"])
    assert gone.code == 2
    assert "the token is from FAIRLEAD_TOKEN" in gone.err
    viewer = up("tokens", "create", "--role", "viewer").out.strip()
    refused = up("submit", "--", "true", FAIRLEAD_TOKEN=viewer)
    assert refused.code == 2
    assert "a viewer may not submit jobs" in refused.err


def test_events_are_listed_and_followed(up: Daemon, done: str) -> None:
    kinds = [event["kind"] for event in up("events", done, "-o", "json").json()]
    assert kinds[0] == "submit"
    assert "submit" in up("events").out
    with up.popen("events", "-f", "-o", "json", "--since", "0") as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert first["seq"] == 1
        id = up.submit("--", "true")
        for line in process.stdout:
            if json.loads(line)["job"] == id:
                break
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_what_ran_is_exported_and_replayed(up: Daemon, done: str, tmp_path: Path) -> None:
    ran = up("trace", "export", "-o", tmp_path / "live.csv")
    assert ran.code == 0, ran.err
    assert "wrote" in ran.err
    assert up("trace", "export").out.startswith("job_id,submit_s,gpus,duration_s")
    assert up("trace", "export", "-o", tmp_path / "live.parquet").code == 0
    replayed = up("sim", "run", tmp_path / "live.csv", "--cluster", "1x8", "--policy", "fifo", "-o", "json").json()
    assert replayed["finished"] >= 1
    assert up("trace", "export", "--since", "yesterday").code == 2


# -- how the scheduler is found, and as whom ---------------------------------------------------------------------------------


def test_flags_stand_over_the_environment(up: Daemon, tmp_path: Path) -> None:
    token = (up.state_dir / "token").read_text()
    own = tmp_path / "token"
    own.write_text(token)
    own.chmod(0o600)
    elsewhere = {"FAIRLEAD_STATE_DIR": str(tmp_path / "none"), "FAIRLEAD_SERVER": "http://127.0.0.1:1"}
    assert up("nodes", "--server", up.url, "--token-file", own, **elsewhere).code == 0
    wrong = up("nodes", "--server", up.url, **elsewhere, FAIRLEAD_TOKEN="fl_wrong")
    assert wrong.code == 2
    assert "the token is from FAIRLEAD_TOKEN" in wrong.err
    # before a subcommand it counts for the subcommand
    assert up("policy", "--server", up.url, "--token-file", own, "show", **elsewhere).code == 0


def test_no_token_is_told_with_where_it_was_looked_for(up: Daemon, tmp_path: Path) -> None:
    ran = up("jobs", "--server", up.url, FAIRLEAD_STATE_DIR=str(tmp_path))
    assert ran.code == 2
    assert "no token was found" in ran.err
    assert str(tmp_path / "token") in ran.err
    assert up("jobs", "--server", up.url, "--token-file", tmp_path / "none").code == 2


def test_a_token_file_that_others_can_read_is_refused(up: Daemon, tmp_path: Path) -> None:
    own = tmp_path / "token"
    own.write_text((up.state_dir / "token").read_text())
    own.chmod(0o640)
    ran = up("jobs", "--token-file", own)
    assert ran.code == 2
    assert f"chmod 600 {own}" in ran.err


def test_no_scheduler_is_told_with_what_would_start_one(tmp_path: Path, up: Daemon) -> None:
    ran = up("jobs", FAIRLEAD_STATE_DIR=str(tmp_path), FAIRLEAD_PORT="1")
    assert ran.code == 1
    assert ran.err == "fairlead: no scheduler answers at http://127.0.0.1:1; start one with `fairlead up`\n"
    assert up("logs", "-f", "1", FAIRLEAD_STATE_DIR=str(tmp_path), FAIRLEAD_PORT="1").err == ran.err


def test_a_token_does_not_cross_the_network_in_the_clear(up: Daemon) -> None:
    ran = up("jobs", "--server", "http://scheduler.example.org:7878")
    assert ran.code == 2
    assert "in the clear" in ran.err


def test_a_project_file_says_where_the_scheduler_is(up: Daemon, tmp_path: Path) -> None:
    port = up.url.rpartition(":")[2]
    (tmp_path / "fairlead.yaml").write_text(f"port: {port}\n")
    assert up("jobs", cwd=tmp_path).code == 0
    (tmp_path / "fairlead.yaml").write_text(f"prot: {port}\n")
    ran = up("jobs", cwd=tmp_path)
    assert ran.code == 2
    assert "did you mean 'port'?" in ran.err


def test_help_names_the_groups_of_commands(up: Daemon) -> None:
    shown = up("--help").out
    assert shown.index("Live scheduler:") < shown.index("Simulation:") < shown.index("Traces:")
