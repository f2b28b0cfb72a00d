"""`fairlead submit`: files, options, waiting for the end, and what people get wrong."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from .daemon import Daemon, until


def test_a_command_is_submitted_and_its_id_printed(up: Daemon) -> None:
    ran = up("submit", "--gpus", "2", "--name", "hello", "--", "echo", "--gpus", "is", "the", "job's")
    assert ran.code == 0
    id = ran.out.strip()
    assert id.isdigit()
    assert f"submitted job {id}" in ran.err
    up.wait_for(id, "done")
    assert up("logs", id).out == "--gpus is the job's\n"


def test_a_job_file_is_read_and_options_stand_over_it(up: Daemon, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("name: file\nresources: {gpus: 1}\nrun: pwd; echo $A $B\nenv: {A: a, B: b}\n")
    ran = up("submit", "job.yaml", "--name", "option", "--env", "B=c", "-o", "json", cwd=tmp_path)
    made = ran.json()
    assert made["array_id"] is None
    assert not made["duplicate"]
    (id,) = made["jobs"]
    up.wait_for(id, "done")
    assert up("logs", id).out == f"{tmp_path}\na c\n"
    job = up("jobs", id, "-o", "json").json()
    assert job["name"] == "option"
    assert job["spec"]["env"] == {"A": "***", "B": "***"}


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("exit 0", 0, "done"),
        ("exit 3", 3, "failed"),
        ("kill -KILL $$", 128 + signal.SIGKILL, "SIGKILL"),
        ("kill -TERM $$", 128 + signal.SIGTERM, "SIGTERM"),
    ],
)
def test_waiting_gives_the_job_s_own_exit_code(up: Daemon, line: str, code: int, told: str) -> None:
    ran = up("submit", "--wait", "--", "sh", "-c", line)
    assert ran.code == code, ran.err
    assert told in ran.err


def test_waiting_for_a_command_that_does_not_exist_fails_and_says_so(up: Daemon) -> None:
    ran = up("submit", "--wait", "--", "no-such-program")
    assert ran.code not in (0, 2), ran.err
    assert "no-such-program" in ran.err


def test_waiting_for_an_array_gives_the_largest_exit_code(up: Daemon) -> None:
    ran = up("submit", "--wait", "--array", "0-2", "--", "sh", "-c", "exit $FAIRLEAD_ARRAY_INDEX")
    assert ran.code == 2, ran.err
    assert "of 3 tasks" in ran.err
    tasks = up("jobs", ran.out.strip(), "-o", "json").json()
    assert [task["exit_code"] for task in tasks] == [0, 1, 2]


def test_a_wait_that_is_interrupted_leaves_the_job_running(up: Daemon) -> None:
    with up.popen("submit", "--wait", "--", "sleep", "60") as process:
        assert process.stdout is not None
        id = process.stdout.readline().strip()
        up.wait_for(id, "running")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"fairlead cancel {id}" in err
    assert up.state(id) == "running"
    assert up("cancel", id).code == 0


def test_a_job_waits_for_others(up: Daemon) -> None:
    first = up.submit("--", "sleep", "60")
    after_ok = up.submit("--depends-on", first, "--", "true")
    after_any = up.submit("--after-any", first, "--", "true")
    assert up.state(after_ok) == up.state(after_any) == "blocked"
    assert up("cancel", first).code == 0
    up.wait_for(after_any, "done")
    up.wait_for(after_ok, "cancelled", "failed", "refused")


def test_a_time_limit_ends_a_job(up: Daemon) -> None:
    ran = up("submit", "--wait", "--time-limit", "1", "--grace-period", "0", "--", "sleep", "60")
    assert ran.code not in (0, 2)
    assert "limit" in ran.err


def test_the_same_key_gives_the_same_job(up: Daemon) -> None:
    first = up("submit", "--key", "k1", "--", "true")
    second = up("submit", "--key", "k1", "--", "true")
    assert second.out == first.out
    assert "was submitted before" in second.err
    other = up("submit", "--key", "k1", "--", "false")
    assert other.code == 2
    assert "key" in other.err


def test_a_dry_run_submits_nothing(up: Daemon) -> None:
    before = len(up("jobs", "--all", "--limit", "1000", "-o", "json").json())
    fits = up("submit", "--dry-run", "--gpus", "8", "--", "true")
    assert fits.code == 0, fits.err
    assert fits.out.startswith("it would run")
    refused = up("submit", "--dry-run", "--gpus", "9", "-o", "json", "--", "true")
    assert refused.code == 1
    found = json.loads(refused.out)
    assert not found["fits"]
    assert "more GPUs than the cluster has" in found["reason"]
    assert len(up("jobs", "--all", "--limit", "1000", "-o", "json").json()) == before


MISTAKES = [
    (("submit", "broken.yaml"), "broken.yaml:3: the YAML is broken"),
    (("submit", "typo.yaml"), "typo.yaml:2, column 'resorces'"),
    (("submit", "typo.yaml"), "did you mean 'resources'?"),
    (("submit", "value.yaml"), "value.yaml:2, column 'resources.gpus': this is no number of GPUs; got 'many'"),
    (("submit", "none.yaml"), "none.yaml: there is no such job file"),
    (("submit",), "there is nothing to submit"),
    (("submit", "--gpus", "two", "--", "true"), "--gpus: this is no number of GPUs; got 'two'"),
    (("submit", "--time-limit", "soon", "--", "true"), "--time-limit: this is no duration; got 'soon'"),
    (("submit", "--gpus", "9", "--", "true"), "resources.gpus: the job asks for more GPUs than the cluster has; got 9"),
    (("submit", "--tenant", "nobody", "--", "true"), "no tenant is called 'nobody'"),
    (("submit", "--gpu-type", "H2000", "--", "true"), "no node here says of what type its GPUs are; got 'H2000'"),
    (("submit", "--depends-on", "99999", "--", "true"), "99999"),
    (("submit", "--nmae", "x", "--", "true"), "--name"),
]


@pytest.mark.parametrize(("args", "told"), MISTAKES, ids=[told for _, told in MISTAKES])
def test_a_mistake_is_told_in_a_line_and_exits_2(up: Daemon, args: tuple[str, ...], told: str, tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("run: echo hi\nresources:\n  gpus: 1: 2\n")
    (tmp_path / "typo.yaml").write_text("run: echo hi\nresorces: {gpus: 1}\n")
    (tmp_path / "value.yaml").write_text("run: echo hi\nresources: {gpus: many}\n")
    ran = up(*args, cwd=tmp_path)
    assert ran.code == 2, ran.err
    assert ran.out == ""
    said = [line for line in ran.err.splitlines() if line.startswith("fairlead: ")]
    assert len(said) == 1, ran.err
    assert told in said[0]


def test_a_quota_is_kept(up: Daemon) -> None:
    assert up("tenants", "set", "small", "--quota", "2").code == 0
    ran = up("submit", "--tenant", "small", "--gpus", "3", "--", "true")
    assert ran.code == 2
    assert "more GPUs than tenant small may ever hold" in ran.err
    id = up.submit("--tenant", "small", "--gpus", "2", "--", "true")
    until(lambda: up.state(id) == "done")
