"""Runs as the scheduler sees them, by files made by hand: what users write there, full disks, and what a restart must know."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead.backends.slurm import SlurmSettings, judge, plan, runfiles
from fairlead.backends.slurm.settings import capabilities
from fairlead.runtime.protocols import Order, Place, ReportKind, Suspension

from .slurm_paper import Paper, PaperSlurm, foreign, later, paper

RUNNING = {"phase": "running", "time_s": 10.0, "began_s": 10.0}


def say(one: Paper, job: str = "job", run: int = 1, part: int = 0, **doc: Any) -> None:
    """As its agent does."""
    out = Path(one.executor.runs[job, run].path) / "out"
    (out / runfiles.claim(part)).touch()
    (out / runfiles.part(part)).write_text(json.dumps(doc))


def kinds(one: Paper) -> list[ReportKind]:
    return [report.kind for report in one.reports() if report.job]


async def submitted(one: Paper, job: str = "job", **more: Any) -> str:
    """Its number in Slurm, which has it running."""
    await one.start(job, **more)
    while not one.executor.runs[job, more.get("run", 1)].slurm_id:
        await asyncio.sleep(0.01)
    number = one.executor.runs[job, more.get("run", 1)].slurm_id
    one.slurm.jobs[number] |= {"state": "RUNNING", "priority": "1", "reason": "None"}
    return number


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"phase": "running", "message": ' + "[" * 900 + "]" * 900 + "}",
        '{"phase": "running", "why": "' + "x" * 1_000_000 + '"}',
        '{"phase": "running", "time_s": 1e999, "exit_code": ' + "9" * 5000 + "}",
    ],
)
def test_one_users_file_stops_nobody_else(tmp_path: Path, text: str) -> None:
    async def check() -> None:
        async with paper(tmp_path) as one:
            await submitted(one, "bad")
            await submitted(one, "good")
            (Path(one.executor.runs["bad", 1].path) / "out" / "part-0.json").write_text(text)
            say(one, "good", phase="ended", exit_code=0, time_s=5.0, began_s=4.0)
            await one.scan()
            assert ReportKind.ENDED in [report.kind for report in one.reports() if report.job == "good"]
            slurm = one.slurm
        async with paper(tmp_path, slurm) as one:  # nor the next one
            assert {found.job for found in await one.executor.found()} == {"bad", "good"}

    asyncio.run(check())


def test_what_is_nested_too_deeply_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "part-0.json").write_text('{"a":' * 100_000)
    folder = runfiles.open_dir(str(tmp_path))
    try:
        assert runfiles.get(folder, "part-0.json") == {}
    finally:
        os.close(folder)


def test_words_of_a_user_are_plain(tmp_path: Path) -> None:
    async def check() -> None:
        async with paper(tmp_path) as one:
            await submitted(one)
            say(one, phase="ended", exit_code=1, message="a\x00b\ud800c", began_s=4.0)
            await one.scan()
            assert one.reports()[-1].message == "a b c"

    asyncio.run(check())


def test_a_run_that_can_not_be_judged_does_not_keep_others_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check() -> None:
        async with paper(tmp_path) as one:
            await submitted(one, "bad")
            await submitted(one, "good")
            monkeypatch.setattr(one.executor.runs["bad", 1], "read", lambda: 1 / 0)
            say(one, "good", **RUNNING)
            await one.scan()
            await one.poll()
            assert kinds(one) == [ReportKind.STARTED]

    asyncio.run(check())


def test_a_loop_that_dies_ends_the_reports_with_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        async with paper(tmp_path, PaperSlurm(), poll_s=0.01) as one:
            monkeypatch.setattr(one.executor, "_learn", lambda *_: 1 / 0)
            one.executor._follow()
            reports = one.executor.reports()
            with pytest.raises(ZeroDivisionError):
                await asyncio.wait_for(anext(reports), 60)

    asyncio.run(check())


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Switches a disk that takes nothing on and off."""
    put, mark = runfiles.put, runfiles.mark

    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    def switch(on: bool) -> None:
        monkeypatch.setattr(runfiles, "put", refuse if on else put)
        monkeypatch.setattr(runfiles, "mark", refuse if on else mark)

    return switch


def test_an_end_that_could_not_be_written_is_told_once_it_can(tmp_path: Path, full: Callable[[bool], None]) -> None:
    async def check() -> None:
        async with paper(tmp_path) as one:
            await submitted(one)
            say(one, phase="ended", exit_code=4, time_s=5.0, began_s=4.0)
            full(True)
            await one.scan()
            await one.poll()
            assert kinds(one) == []
            assert not one.executor.runs["job", 1].is_over
            full(False)
            await one.scan()
            assert kinds(one) == [ReportKind.STARTED, ReportKind.ENDED]

    asyncio.run(check())


def test_what_could_not_be_asked_is_asked_at_the_next_look(tmp_path: Path, full: Callable[[bool], None]) -> None:
    async def check() -> None:
        async with paper(tmp_path) as one:
            await submitted(one)
            say(one, **RUNNING)
            full(True)
            await one.executor.stop("job", 1)
            assert one.executor.runs["job", 1].asked == ""
            full(False)
            await one.scan()
            run = one.executor.runs["job", 1]
            assert (run.asked, (Path(run.path) / runfiles.ASK).read_text()) == ("stop", "stop")

    asyncio.run(check())


def test_a_full_disk_refuses_an_order_and_leaves_nothing_of_it(tmp_path: Path, full: Callable[[bool], None]) -> None:
    async def check() -> None:
        async with paper(tmp_path) as one:
            full(True)
            await one.start()
            (failed,) = one.reports()
            assert (failed.kind, failed.retry) == (ReportKind.FAILED_TO_START, True)
            assert list((tmp_path / "slurm" / "runs").iterdir()) == []

    asyncio.run(check())


def test_a_number_that_could_not_be_written_is_kept_and_nothing_submitted_again(
    tmp_path: Path, full: Callable[[bool], None]
) -> None:
    async def check() -> None:
        async with paper(tmp_path, poll_s=0.05) as one:
            call = one.slurm.call

            async def call_on_a_full_disk(*words: str, **more: Any) -> str:
                full(words[0] == "sbatch")
                return await call(*words, **more)

            one.slurm.call = call_on_a_full_disk  # type: ignore[method-assign]
            await one.start()
            await asyncio.sleep(0.2)
            assert not one.executor.runs["job", 1].slurm_id
            full(False)
            await asyncio.sleep(0.2)
            assert one.executor.runs["job", 1].slurm_id == "1000"
            assert one.slurm.calls["sbatch"] == 1

    asyncio.run(check())


def test_declining_needs_no_disk(tmp_path: Path, full: Callable[[bool], None]) -> None:
    async def check() -> None:
        async with paper(tmp_path) as one:
            one.slurm.add("7")
            await one.poll()
            full(True)
            await one.executor.decline(foreign("7"), "no quota", cancel=False)
            await one.poll()
            assert any("no quota" in said for said in one.slurm.said)
            full(False)
            await one.poll()
            slurm = one.slurm
        async with paper(tmp_path, slurm) as one:
            assert one.reports() == []

    asyncio.run(check())


def test_half_an_order_is_cleared_away_and_can_be_given_again(tmp_path: Path) -> None:
    async def check() -> None:
        async with paper(tmp_path) as one:
            await submitted(one)
            path = Path(one.executor.runs["job", 1].path)
        (path / runfiles.NOTES).unlink()
        async with paper(tmp_path) as one:
            assert await one.executor.found() == []
            await one.start()
            assert ("job", 1) in one.executor.runs

    asyncio.run(check())


def test_an_order_is_there_with_all_that_is_needed_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed right after an order was written down: what is there is enough for the next one."""

    async def check() -> None:
        async with paper(tmp_path) as one:
            one.slurm.add("7")
            await one.poll()
            monkeypatch.setattr(one.executor, "_go", lambda work: work.close())  # it is never submitted
            monkeypatch.setattr(one.executor.guests, "order", lambda *_: None)
            await one.start("own")
            await one.start("guest", foreign=foreign("7"))
            slurm = one.slurm
        async with paper(tmp_path, slurm) as one:
            assert {found.job for found in await one.executor.found()} == {"own", "guest"}
            assert one.executor.runs["own", 1].notes["words"][0] == "sbatch"
            await one.poll()
            assert "scontrol release 7" in slurm.said

    asyncio.run(check())


def test_a_run_that_was_asked_to_leave_has_its_grace_period_after_a_restart(tmp_path: Path) -> None:
    async def check() -> None:
        async with paper(tmp_path) as one:
            number = await submitted(one, checkpoint_signal="SIGUSR1")
            say(one, **RUNNING)
            await one.scan()
            await one.executor.suspend("job", 1)
            slurm = one.slurm
        async with paper(tmp_path, slurm) as one:
            await one.poll()
            assert f"scancel {number}" not in slurm.said
            later(one.executor.runs["job", 1], 1000)
            await one.poll()
            assert f"scancel {number}" in slurm.said

    asyncio.run(check())


async def left_running(path: Path) -> PaperSlurm:
    """A Slurm in which a user's job, 7, runs on node1 while nobody listens any more."""
    async with paper(path) as one:
        one.slurm.add("7")
        await one.poll()
        await one.start(foreign=foreign("7"))
        one.slurm.jobs["7"] |= {"state": "RUNNING", "partition": "gpu-fairlead", "nodes": "node1", "start": "1700"}
        await one.poll()
        return one.slurm


def test_a_users_job_that_has_run_is_not_released_again_after_a_restart(tmp_path: Path) -> None:
    """Its node failed while nobody listened, and Slurm has put it back into its queue: it may still run there."""

    async def check() -> None:
        slurm = await left_running(tmp_path)
        slurm.said.clear()
        slurm.jobs["7"] |= {"state": "PENDING", "reason": "BeginTime", "restarts": "1", "nodes": ""}
        slurm.down["node1"] = "no answer"
        async with paper(tmp_path, slurm) as one:
            await one.poll()
            await one.poll()
            assert "scontrol hold 7" in slurm.said
            assert not [said for said in slurm.said if "release" in said]

    asyncio.run(check())


def test_a_users_job_that_has_run_is_lost_where_slurm_forgets_it(tmp_path: Path) -> None:
    async def check() -> None:
        slurm = await left_running(tmp_path)
        slurm.jobs.clear()
        async with paper(tmp_path, slurm) as one:
            (found,) = await one.executor.found()
            assert found.report is not None
            assert found.report.kind == ReportKind.LOST

    asyncio.run(check())


def test_a_users_job_that_was_cancelled_here_is_cancelled_until_it_is_gone(tmp_path: Path) -> None:
    async def check() -> None:
        async with paper(tmp_path) as one:
            one.slurm.add("7")
            await one.poll()
            one.slurm.refuses = lambda words: words.startswith("scancel")
            await one.executor.decline(foreign("7"), "cancelled by ann", cancel=True)
            await one.executor.chores.do()
            slurm = one.slurm
        slurm.refuses = lambda words: False
        slurm.said.clear()
        async with paper(tmp_path, slurm) as one:
            await one.poll()
            assert "scancel 7" in slurm.said
            slurm.said.clear()
            slurm.jobs["7"]["submit"] = "1700009999"  # another job, of a Slurm that has begun to count anew
            await one.poll()
            assert slurm.said == []
            assert [report.kind for report in one.reports() if report.foreign] == [ReportKind.WITHDRAWN]
            await one.poll()
            assert [report.kind for report in one.reports() if report.foreign] == [ReportKind.APPEARED]

    asyncio.run(check())


def test_a_pilot_that_was_never_told_of_a_run_is_told(tmp_path: Path) -> None:
    async def check() -> None:
        async with paper(tmp_path, mode="pilot") as one:
            await one.start()
            inbox = tmp_path / "slurm" / "pilots" / "node1" / "inbox"
            assert [entry.name for entry in inbox.iterdir()] == ["job@1"]
            (inbox / "job@1").unlink()
        async with paper(tmp_path, mode="pilot") as one:
            assert [entry.name for entry in inbox.iterdir()] == ["job@1"]
            (inbox / "job@1").rename(inbox.parent / "taken" / "job@1")
        async with paper(tmp_path, mode="pilot") as one:
            await one.scan()
            assert list(inbox.iterdir()) == []

    asyncio.run(check())


@pytest.mark.parametrize(("ways", "is_cancelled"), [(("checkpoint",), False), (("checkpoint", "requeue"), True)])
def test_slurm_ends_a_suspension_only_where_that_is_allowed(
    tmp_path: Path, ways: tuple[str, ...], is_cancelled: bool
) -> None:
    async def check() -> None:
        async with paper(tmp_path) as one:
            allowed = tuple(Suspension(way) for way in ways)
            number = await submitted(one, checkpoint_signal="SIGUSR1", suspend=allowed)
            say(one, **RUNNING)
            await one.scan()
            await one.executor.suspend("job", 1)
            later(one.executor.runs["job", 1], 1000)
            await one.poll()
            assert (f"scancel {number}" in one.slurm.said) == is_cancelled
            await one.executor.stop("job", 1)
            later(one.executor.runs["job", 1], 1000)
            await one.poll()
            assert f"scancel {number}" in one.slurm.said

    asyncio.run(check())


def test_ways_to_suspend_are_what_runs_are_told(tmp_path: Path) -> None:
    order = Order("job", 1, ("true",), [Place("node1", (0,))], checkpoint_signal="SIGUSR1")
    for mode in ("jobs", "pilot"):
        assert plan.methods(order, SlurmSettings(tmp_path, mode=mode)) == [str(way) for way in capabilities(mode).ways]


async def over_in_slurm(one: Paper, number: str, **more: str) -> None:
    """Slurm has said so for long enough."""
    one.slurm.jobs[number] |= {"start": "1700", "end": "1800", "nodes": "node1"} | more
    await one.poll()
    later(one.executor.runs["job", 1], judge.SETTLE_S + 1)
    await one.poll()


def test_a_verdict_waits_for_a_look_past_all_caches(tmp_path: Path) -> None:
    """As on NFS: for up to a minute the directory seems to be as it was."""

    async def check() -> None:
        async with paper(tmp_path) as one:
            number = await submitted(one)
            say(one, **RUNNING)
            await one.scan()
            run = one.executor.runs["job", 1]
            out = Path(run.path) / "out"
            os.utime(out, (1700, 1700))
            run.read()
            say(one, phase="ended", exit_code=3, time_s=5.0, began_s=4.0)
            os.utime(out, (1700, 1700))
            await over_in_slurm(one, number, state="FAILED", status="9")
            ended = one.reports()[-1]
            assert (ended.kind, ended.exit_code, ended.signal) == (ReportKind.ENDED, 3, None)
            assert sorted(entry.name for entry in out.iterdir()) == ["claim-0", "part-0.json"]

    asyncio.run(check())


@pytest.mark.parametrize("has_begun", [True, False])
def test_of_a_run_on_one_node_slurms_word_that_it_ended_well_is_believed(tmp_path: Path, has_begun: bool) -> None:
    async def check() -> None:
        async with paper(tmp_path) as one:
            number = await submitted(one)
            if has_begun:
                say(one, **RUNNING)
                await one.scan()
            await over_in_slurm(one, number, state="COMPLETED", status="0")
            ended = one.reports()[-1]
            assert (ended.kind, ended.exit_code, ended.signal) == (ReportKind.ENDED, 0, None)

    asyncio.run(check())
