"""Whoever held the executor may die at any moment: the next one finds every run, and every end is told once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from fairlead.backends.local import layout, procs, rundir
from fairlead.backends.local.inventory import look
from fairlead.backends.local.rundir import RunDir
from fairlead.backends.local.runs import kill_rest
from fairlead.backends.local.settings import LocalSettings
from fairlead.model.errors import InputError
from fairlead.runtime.protocols import Order, ReportKind, Suspension

from .harness import ONE, PATIENCE_S, Bench, is_gone, local, python, until

#: holds an executor, begins what it is told and waits to be killed
HOLDER = textwrap.dedent("""
    import asyncio, json, sys
    from pathlib import Path
    from fairlead.backends.local.executor import LocalExecutor
    from fairlead.backends.local.settings import LocalSettings
    from fairlead.runtime.protocols import Order, Place

    async def main():
        executor = await LocalExecutor.open(LocalSettings(Path(sys.argv[1]), gpus=8))
        for job, command in json.loads(sys.argv[2]).items():
            await executor.start(Order(job, 1, command, [Place("node-0", (0,))], grace_s=2))
        if "wait" in sys.argv[3]:
            seen = 0
            async for report in executor.reports():
                seen += report.kind == "started"
                if seen == len(executor._runs):
                    break
        if "suspend" in sys.argv[3]:
            for job, run in list(executor._runs):
                await executor.suspend(job, run)
            async for report in executor.reports():
                seen -= report.kind == "suspended"
                if seen == 0:
                    break
        print("ready", flush=True)
        await asyncio.sleep(600)

    asyncio.run(main())
""")


def hold_and_die(path: Path, jobs: dict[str, list[str]], then: str = "wait") -> None:
    """Start these, then kill -9 the process that holds the executor."""
    command = [sys.executable, "-c", HOLDER, str(path), json.dumps(jobs), then]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout
            assert holder.stdout.readline() == b"ready\n"
        finally:
            holder.kill()


def test_runs_outlive_whoever_started_them_and_are_adopted_with_their_ends(path: Path, tmp_path: Path) -> None:
    wait = f"while ! [ -e {tmp_path}/go ]; do sleep 0.02; done; echo done; exit 7"
    jobs = {"long": ["sh", "-c", wait], "short": ["sh", "-c", "sleep 0.3; exit 5"], "stopped": ["sleep", "600"]}
    hold_and_die(path, jobs)

    async def scenario() -> None:
        ended = RunDir(str(path / "runs/short@1"))
        await until(lambda: (ended.state() or {})["phase"] == "ended")
        async with local(path) as bench:
            found = {found.job: found for found in await bench.executor.found()}
            assert {job: it.running for job, it in found.items()} == {"long": True, "short": False, "stopped": True}
            assert found["short"].report
            assert found["short"].report.exit_code == 5
            (tmp_path / "go").touch()
            assert (await bench.wait(ReportKind.ENDED, "long")).exit_code == 7
            assert bench.log("long") == "done\n"
            await bench.executor.stop("stopped", 1)
            assert (await bench.wait(ReportKind.ENDED, "stopped")).signal == signal.SIGTERM
            assert [report.kind for report in bench.seen] == [ReportKind.ENDED] * 2

    asyncio.run(scenario())


def test_nothing_is_reported_twice_when_a_run_ends_before_anyone_asked(path: Path, tmp_path: Path) -> None:
    hold_and_die(path, {"job": ["sh", "-c", f"while ! [ -e {tmp_path}/go ]; do sleep 0.02; done"]})

    async def scenario() -> None:
        async with local(path) as bench:
            (tmp_path / "go").touch()
            run = bench.executor._runs["job", 1]
            await until(lambda: run.phase == "ended")
            (found,) = await bench.executor.found()
            assert found.report
            await bench.run("true", job="next")
            assert {report.job for report in bench.seen} == {"next"}

    asyncio.run(scenario())


def test_a_suspended_run_is_adopted_and_goes_on(path: Path, tmp_path: Path) -> None:
    hold_and_die(
        path, {"job": ["sh", "-c", f"while ! [ -e {tmp_path}/go ]; do sleep 0.02; done; exit 3"]}, "wait suspend"
    )

    async def scenario() -> None:
        async with local(path) as bench:
            (found,) = await bench.executor.found()
            assert (found.running, found.suspended) == (False, Suspension.STOP)
            (tmp_path / "go").touch()
            await bench.start("sh", "-c", "exit 99", run=2, resumes=True)
            await bench.wait(ReportKind.RESUMED, run=2)
            assert (await bench.wait(ReportKind.ENDED, run=2)).exit_code == 3

    asyncio.run(scenario())


def order_without_launch(path: Path, order: Order, **more: Any) -> RunDir:
    """As if the executor had died between writing the order down and starting a supervisor."""
    (path / "runs").mkdir(parents=True, exist_ok=True)
    settings = LocalSettings(path, gpus=8)
    plan = layout.plan(order, look(settings), settings)
    plan |= {"boot_id": rundir.boot_id(), "cgroup": "", "continues": None, **more}
    return RunDir.create(str(path / "runs"), rundir.dir_name(order.job, order.run), plan)


def test_an_order_that_was_written_down_but_never_begun_is_begun_once(path: Path, tmp_path: Path) -> None:
    order = Order("job", 1, ["sh", "-c", f"echo ran >>{tmp_path}/count"], ONE)
    written = order_without_launch(path, order)
    supervise = [sys.executable, "-m", "fairlead.backends.local.supervise", written.path]
    others = [subprocess.Popen(supervise) for _ in range(3)]  # the same order reaches several supervisors

    async def scenario() -> None:
        async with local(path) as bench:
            await bench.executor.start(order)
            (found,) = await bench.executor.found()
            if found.running:
                assert (await bench.wait(ReportKind.ENDED)).exit_code == 0

    asyncio.run(scenario())
    assert [other.wait(60) for other in others] == [0, 0, 0]
    assert (tmp_path / "count").read_text() == "ran\n"


def test_an_order_to_go_on_that_its_supervisor_never_got_reaches_it(path: Path) -> None:
    hold_and_die(path, {"job": ["sleep", "600"]}, "wait suspend")
    order_without_launch(path, Order("job", 2, ["sleep", "600"], ONE, resumes=True), continues=1)

    async def scenario() -> None:
        async with local(path) as bench:
            await until(lambda: bench.executor._runs["job", 2].phase == "running")
            assert [(found.run, found.running) for found in await bench.executor.found()] == [(1, False), (2, True)]
            assert bench.state(run=2)["ranks"] == bench.state(run=1)["ranks"]
            await bench.executor.stop("job", 2)
            await bench.wait(ReportKind.ENDED, run=2)

    asyncio.run(scenario())


def test_after_a_run_that_could_not_go_on_the_next_one_goes_on_with_the_processes_that_still_wait(path: Path) -> None:
    """Run 2 failed (its GPU had no memory free, say): run 1 is still suspended, and run 3 must not begin beside it."""
    hold_and_die(path, {"job": ["sleep", "600"]}, "wait suspend")
    refused = order_without_launch(path, Order("job", 2, ["sleep", "600"], ONE, resumes=True), continues=1)
    refused.write_state({"job": "job", "run": 2, "phase": "failed", "boot_id": rundir.boot_id(), "time_s": 1.0})

    async def scenario() -> None:
        async with local(path) as bench:
            await bench.executor.found()
            await bench.start("sleep", "600", run=3, resumes=True)
            await bench.wait(ReportKind.RESUMED, run=3)
            assert bench.state(run=3)["ranks"] == bench.state(run=1)["ranks"]
            assert len(procs.descendants(bench.supervisor(run=3))) == 1

    asyncio.run(scenario())


def test_half_written_directories_are_cleared_away(path: Path) -> None:
    (path / "runs/.job@1.77").mkdir(parents=True)
    (path / "runs/.job@1.77/order.json").write_text("{")

    async def scenario() -> None:
        async with local(path) as bench:
            assert await bench.executor.found() == []
            assert (await bench.run("true")).exit_code == 0

    asyncio.run(scenario())
    assert os.listdir(path / "runs") == ["job@1"]


# -- when a supervisor or the machine dies --------------------------------------------------------------------------------------


def test_a_supervisor_that_is_killed_takes_its_job_with_it_and_the_run_is_lost(path: Path) -> None:
    async def scenario() -> None:
        async with local(path) as bench:
            await bench.begin(
                *python(
                    "import os, time\nif os.fork() == 0: os.setsid()\nos.write(1, b'%d\\n' % os.getpid())\ntime.sleep(600)"
                )
            )
            await until(lambda: bench.log().count("\n") == 2)
            os.kill(bench.supervisor(), signal.SIGKILL)
            assert "its supervisor died" in (await bench.wait(ReportKind.LOST)).message
            await until(lambda: all(is_gone(int(pid)) for pid in bench.log().split()))
        async with local(path) as bench:
            (found,) = await bench.executor.found()
            assert found.report
            assert found.report.kind is ReportKind.LOST

    asyncio.run(scenario())


def test_a_supervisor_that_died_while_nobody_watched_is_noticed_at_adoption(path: Path) -> None:
    hold_and_die(path, {"job": ["sleep", "600"]})
    state = RunDir(str(path / "runs/job@1")).state() or {}
    os.kill(state["supervisor"][0], signal.SIGKILL)

    async def scenario() -> None:
        async with local(path) as bench:
            await until(lambda: bench.executor._runs["job", 1].phase == "lost")
            (found,) = await bench.executor.found()
            assert (found.running, found.report and found.report.kind) == (False, ReportKind.LOST)

    asyncio.run(scenario())
    assert is_gone(state["ranks"][0][0])


def test_when_the_supervisor_of_a_suspended_run_dies_the_next_run_begins_from_its_checkpoint(path: Path) -> None:
    async def scenario() -> None:
        async with local(path) as bench:
            await bench.begin("sleep", "600")
            await bench.executor.suspend("job", 1)
            await bench.wait(ReportKind.SUSPENDED)
            os.kill(bench.supervisor(), signal.SIGKILL)
            await bench.start("sh", "-c", "echo resumes=$FAIRLEAD_RESUME", run=2, resumes=True)
            assert (await bench.wait(ReportKind.ENDED, run=2)).exit_code == 0
            assert bench.log() == "resumes=1\n"

    asyncio.run(scenario())


def test_after_a_reboot_every_run_that_had_not_ended_is_lost(path: Path) -> None:
    async def scenario() -> None:
        async with local(path) as bench:
            await bench.run("sh", "-c", "exit 4", job="ended")
        running = order_without_launch(path, Order("running", 1, ["sleep", "600"], ONE))
        running.write_state(
            {"job": "running", "run": 1, "phase": "running", "boot_id": "another", "ranks": [[os.getpid(), 1]]}
        )
        order_without_launch(path, Order("ordered", 1, ["sleep", "600"], ONE), boot_id="another")
        torn = order_without_launch(path, Order("torn", 1, ["sleep", "600"], ONE), boot_id="another")
        Path(torn.file("state.json")).write_text('{"job": "to')
        for _ in range(2):
            async with local(path) as bench:
                found = {found.job: found.report for found in await bench.executor.found()}
                assert all(found.values())
                assert {job: report.kind for job, report in found.items() if report} == {
                    "ended": ReportKind.ENDED,
                    "ordered": ReportKind.LOST,
                    "running": ReportKind.LOST,
                    "torn": ReportKind.LOST,
                }

    asyncio.run(scenario())


def test_a_recycled_process_id_is_never_mistaken_for_the_jobs(path: Path) -> None:
    """The state names a process that is there, but that started at another time: it is a stranger, and is left alone."""
    with subprocess.Popen(["sleep", "600"]) as stranger:
        try:
            ticks = procs.start_ticks(stranger.pid)
            assert procs.is_alive(stranger.pid, ticks)
            assert not procs.is_alive(stranger.pid, ticks - 1)
            written = order_without_launch(path, Order("job", 1, ["true"], ONE))
            state = {"job": "job", "run": 1, "phase": "running", "boot_id": rundir.boot_id()}
            state |= {"ranks": [[stranger.pid, ticks - 1]], "supervisor": [stranger.pid, ticks - 1], "token": "none"}
            written.write_state(state)

            async def scenario() -> None:
                async with local(path) as bench:
                    await until(lambda: bench.executor._runs["job", 1].phase == "lost")

            asyncio.run(scenario())
            assert stranger.poll() is None
            assert kill_rest({"ranks": [[stranger.pid, ticks]]}) == 1
            assert stranger.wait(60) == -signal.SIGKILL
        finally:
            stranger.kill()


def test_the_nursery_may_die_too(path: Path) -> None:
    async def scenario() -> None:
        async with local(path) as bench:
            await bench.begin("sleep", "600")
            nursery = bench.executor._launcher._nursery
            assert nursery
            nursery.kill()
            nursery.wait()
            assert (await bench.run("true", job="next")).exit_code == 0
            assert bench.state()["phase"] == "running"

    asyncio.run(scenario())


def test_a_nursery_that_does_not_leave_is_killed(path: Path) -> None:
    async def scenario() -> None:
        async with local(path) as bench:
            await bench.begin("sleep", "600")
            nursery = bench.executor._launcher._nursery
            assert nursery
            os.kill(nursery.pid, signal.SIGSTOP)
        assert nursery.returncode == -signal.SIGKILL
        async with local(path) as bench:
            assert [found.running for found in await bench.executor.found()] == [True]

    asyncio.run(scenario())


def test_closed_while_a_supervisor_is_being_launched_nothing_of_ours_is_left(path: Path) -> None:
    async def scenario() -> None:
        begun, go = threading.Event(), threading.Event()
        async with local(path) as bench:
            launcher = bench.executor._launcher
            launch = launcher.launch

            def slowly(path: str) -> socket.socket:
                begun.set()
                go.wait(PATIENCE_S)
                return launch(path)

            launcher.launch = slowly  # type: ignore[method-assign]
            starting = asyncio.create_task(bench.start("true"))
            await until(begun.is_set)
            starting.cancel()
            threading.Timer(0.1, go.set).start()
        assert go.is_set()
        assert (launcher._nursery, launcher._requests) == (None, None)
        async with local(path) as bench:  # it had been ordered, so it runs
            await until(lambda: bench.executor._runs["job", 1].phase == "ended")

    asyncio.run(scenario())


# -- many, and one at a time -------------------------------------------------------------------------------------------------------


def test_a_state_directory_has_one_executor(path: Path) -> None:
    async def scenario() -> None:
        async with local(path):
            with pytest.raises(InputError, match="another scheduler uses this state directory"):
                await local(path).__aenter__()
        async with local(path):
            pass

    asyncio.run(scenario())


def test_a_hundred_runs_are_adopted_in_a_moment_and_cost_nothing_while_they_run(path: Path) -> None:
    hold_and_die(path, {f"job{i}": ["sleep", "600"] for i in range(100)})

    async def scenario() -> Bench:
        begun = time.perf_counter()
        async with local(path) as bench:
            assert time.perf_counter() - begun < 5
            assert sum(found.running for found in await bench.executor.found()) == 100
            before = time.process_time()
            await asyncio.sleep(0.5)
            assert time.process_time() - before < 0.1
            for i in range(100):
                await bench.executor.stop(f"job{i}", 1)
            for i in range(100):
                await bench.wait(ReportKind.ENDED, f"job{i}")
            return bench

    assert len(asyncio.run(scenario()).seen) == 100


@pytest.mark.parametrize("wait_s", [0.0, 0.002, 0.01, 0.03, 0.08])
def test_killed_at_any_moment_nothing_is_lost_or_begun_twice(path: Path, tmp_path: Path, wait_s: float) -> None:
    """The holder starts runs as fast as it can and is killed somewhere in between."""
    count = tmp_path / "count"
    count.mkdir()
    jobs = {f"job{i}": ["sh", "-c", f"mktemp {count}/$FAIRLEAD_JOB_ID.XXXXXX"] for i in range(30)}
    command = [sys.executable, "-c", HOLDER, str(path), json.dumps(jobs), "no"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as holder:
        try:
            while not (path / "runs").is_dir() or not os.listdir(path / "runs"):
                time.sleep(0.001)
            time.sleep(wait_s)
        finally:
            holder.kill()

    async def scenario() -> None:
        async with local(path) as bench:
            ended = {found.job for found in await bench.executor.found() if not found.running}
            for job, script in jobs.items():  # as the runtime does: what is in the journal is ordered again
                await bench.start(*script, job=job)
            for job in jobs:
                if job not in ended:
                    await bench.wait(ReportKind.ENDED, job)

    asyncio.run(scenario())
    assert sorted(file.name.partition(".")[0] for file in count.iterdir()) == sorted(jobs)
