"""What jobs print: whole, its end, from a byte on, as it grows, over rotations; and nothing that is no job's output."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fairlead.server.api.kept_log import Astray, KeptLog

from .service import Service, service, wait_for


def printed(live: Service, job: str, who: str = "ann", **asked: object) -> str:
    answer = live.ask(who, "GET", f"/v1/jobs/{job}/logs", params=asked)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    return answer.text


def test_all_of_it_its_end_and_from_a_byte_on(live: Service) -> None:
    job = live.submit(run="for i in 1 2 3 4; do echo line $i; done")
    live.until("ann", job, "done")
    assert printed(live, job) == printed(live, job, follow=True) == "line 1\nline 2\nline 3\nline 4\n"
    assert printed(live, job, tail=2) == "line 3\nline 4\n"
    assert printed(live, job, tail=0) == ""
    assert printed(live, job, tail=99) == printed(live, job)
    assert printed(live, job, since_byte=21) == "line 4\n"
    assert printed(live, job, since_byte=10_000) == ""
    assert live.ask("ann", "HEAD", f"/v1/jobs/{job}/logs").headers["x-fairlead-log-size"] == "28"


def test_a_job_that_has_not_started_has_printed_nothing(live: Service) -> None:
    job = live.submit(depends_on=[live.submit()])
    assert printed(live, job) == ""


def test_a_follower_sees_output_as_it_comes_until_the_job_ends(live: Service, tmp_path: Path) -> None:
    go = tmp_path / "go"
    wait = f"until [ -e {go} ]; do sleep 0.02; done"
    job = live.submit(run=f"echo begun; {wait}; echo done")
    with live.client("ann") as client, client.stream("GET", f"/v1/jobs/{job}/logs?follow=true") as answer:
        lines = answer.iter_lines()
        assert next(lines) == "begun"
        go.touch()
        assert next(lines) == "done"
        assert list(lines) == []
    live.until("ann", job, "done")


def test_a_follower_waits_for_a_job_that_has_not_begun(live: Service, tmp_path: Path) -> None:
    go = tmp_path / "go"
    first = live.submit(run=f"until [ -e {go} ]; do sleep 0.02; done")
    job = live.submit(run="echo at last", depends_on=[first])
    with live.client("ann") as client, client.stream("GET", f"/v1/jobs/{job}/logs?follow=true") as answer:
        assert answer.headers["x-fairlead-log-size"] == "0"
        go.touch()
        assert list(answer.iter_lines()) == ["at last"]


def test_a_log_that_is_rotated_is_followed_on(tmp_path: Path) -> None:
    with service(tmp_path / "s", nodes=1, log_limit_bytes=2048) as live:
        job = live.submit(run="i=0; while [ $i -lt 300 ]; do echo number $i of many; i=$((i+1)); done; sleep 1")
        told = printed(live, job, follow=True).splitlines()
        live.until("ann", job, "done")
        # two older files of 2 KiB are kept: a follower that comes late has the end, and no line twice
        numbers = [int(line.split()[1]) for line in told]
        assert numbers == sorted(set(numbers))
        assert numbers[-1] == 299
        kept = printed(live, job).splitlines()
        assert len(kept) > 100
        assert kept == [f"number {i} of many" for i in range(300 - len(kept), 300)]
        assert printed(live, job, tail=100).splitlines() == kept[-100:]


# -- nothing else -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "job",
    ["..", "../..", "..%2f..%2ftoken", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "a%00b", "1%2f..%2f1", "%2fetc%2fpasswd", "."],
)
def test_ids_that_are_paths_are_no_jobs(live: Service, job: str) -> None:
    live.submit(run="true")
    answer = live.ask("ada", "GET", f"/v1/jobs/{job}/logs")
    assert answer.status_code == 404
    assert "root" not in answer.text


@pytest.fixture
def planted(live: Service) -> tuple[str, Path]:
    """A job that has ended, and its log, for the test to do something to."""
    job = live.submit(run="echo mine")
    live.until("ann", job, "done")
    path = live.scheduler.log_path(job)
    wait_for(path.exists)
    return job, path


def test_a_link_in_place_of_a_log_is_not_followed(live: Service, planted: tuple[str, Path], tmp_path: Path) -> None:
    job, path = planted
    secret = tmp_path / "secret"
    secret.write_text("hush")
    path.unlink()
    path.symlink_to(secret)
    answer = live.ask("ann", "GET", f"/v1/jobs/{job}/logs")
    assert (answer.status_code, answer.json()["detail"]) == (404, "this job has no log that can be shown")


def test_a_link_in_place_of_its_folder_is_not_followed(
    live: Service, planted: tuple[str, Path], tmp_path: Path
) -> None:
    job, path = planted
    (tmp_path / path.name).write_text("hush")
    path.parent.rename(path.parent.with_name("gone"))
    path.parent.symlink_to(tmp_path)
    assert live.ask("ann", "GET", f"/v1/jobs/{job}/logs").status_code == 404


def test_a_pipe_in_place_of_a_log_holds_nobody_up(live: Service, planted: tuple[str, Path]) -> None:
    job, path = planted
    path.unlink()
    os.mkfifo(path)
    assert live.ask("ann", "GET", f"/v1/jobs/{job}/logs").status_code == 404


def test_a_path_outside_is_refused_whatever_it_is(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for path in (tmp_path / "else" / "x.log", tmp_path / "logs" / ".." / "x.log"):
        with pytest.raises(Astray):
            KeptLog(tmp_path / "logs", path)


# -- what is kept --------------------------------------------------------------------------------------------------------------------


def all_of(log: KeptLog) -> bytes:
    found = b""
    while block := log.next():
        found += block
    return found


@pytest.mark.parametrize("size", [3, 1 << 18])
def test_older_files_come_first_and_a_tail_goes_back_into_them(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.server.api.kept_log.BLOCK", size)
    path = tmp_path / "output.log"
    lines = [f"line {i}\n".encode() for i in range(9)]
    for name, part in (("output.log.2", lines[:3]), ("output.log.1", lines[3:6]), ("output.log", lines[6:])):
        (tmp_path / name).write_bytes(b"".join(part))
    whole = b"".join(lines)
    for wanted in range(12):
        log = KeptLog(tmp_path, path)
        log.tail(wanted)
        assert all_of(log) == b"".join(lines[max(9 - wanted, 0) :])
        log.close()
    for skipped in (0, 1, 20, 21, 22, 42, 62, 63, 100):
        log = KeptLog(tmp_path, path)
        log.skip(skipped)
        assert log.left == max(len(whole) - skipped, 0)
        assert all_of(log) == whole[skipped:]
        log.close()
    (tmp_path / "output.log").write_bytes(b"no end")
    log = KeptLog(tmp_path, path)
    log.tail(2)
    assert all_of(log) == b"line 5\nno end"
    log.close()
    assert log.next() == b""


def test_reading_goes_on_over_several_rotations(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"one ")
    log = KeptLog(tmp_path, path)
    assert (log.next(), log.next()) == (b"one ", b"")
    with path.open("ab") as file:
        file.write(b"two ")
        path.rename(tmp_path / "output.log.2")
        file.write(b"three ")
    (tmp_path / "output.log.1").write_bytes(b"four ")
    path.write_bytes(b"five ")
    assert all_of(log) == b"two three four five "
    with path.open("ab") as file:
        file.write(b"six")
    assert all_of(log) == b"six"
    # all that it knew is gone: what is there now is new
    for one in tmp_path.iterdir():
        one.unlink()
    assert log.next() == b""
    (tmp_path / "new").write_bytes(b"seven")
    (tmp_path / "new").rename(path)
    assert all_of(log) == b"seven"
    log.close()
