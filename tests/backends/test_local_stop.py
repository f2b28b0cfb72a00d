"""What is stopped is gone: whatever it does with signals, forks and sessions."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from fairlead.backends.local import procs
from fairlead.runtime.protocols import Place, ReportKind

from .harness import is_gone, local, python, until

#: a process that ignores SIGTERM, and a child that has forked twice, has a session of its own and ignores it too
STUBBORN = python(
    "import os, signal, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork() == 0:\n"
    "        os.environ.clear()\n"
    "        os.write(1, b'daemon %d\\n' % os.getpid())\n"
    "        time.sleep(600)\n"
    "    os._exit(0)\n"
    "os.wait()\n"
    "os.write(1, b'ready\\n')\n"
    "time.sleep(600)\n"
)


async def said(log: Path, word: str) -> None:
    await until(lambda: log.exists() and word in log.read_text())


def test_a_program_is_asked_to_end_and_its_own_exit_code_counts(path: Path) -> None:
    program = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\nprint('ready')\nwhile True: time.sleep(0.1)"

    async def scenario() -> None:
        async with local(path) as bench:
            await bench.start(*python(program), grace_s=60)
            await said(path / "logs/job.log", "ready")
            for _ in range(3):
                await bench.executor.stop("job", 1)
            end = await bench.wait(ReportKind.ENDED)
            assert (end.exit_code, end.signal) == (5, None)
            await bench.executor.stop("job", 1)

    asyncio.run(scenario())


def test_what_ignores_the_request_and_hides_from_it_is_killed_with_all_its_children(path: Path) -> None:
    async def scenario() -> None:
        async with local(path) as bench:
            await bench.begin(*STUBBORN, grace_s=0.3)
            log = path / "logs/job.log"
            await until(lambda: log.exists() and log.read_text().count("\n") == 2)
            words = log.read_text().split()
            daemon = int(words[words.index("daemon") + 1])
            (pid, _), *_ = bench.state()["ranks"]
            assert not is_gone(daemon)
            begun = time.monotonic()
            await bench.executor.stop("job", 1)
            end = await bench.wait(ReportKind.ENDED)
            assert end.signal == signal.SIGKILL
            assert 0.25 < time.monotonic() - begun < 5
            assert is_gone(pid)
            assert is_gone(daemon)

    asyncio.run(scenario())


def test_what_a_job_leaves_behind_when_it_ends_is_ended_too(path: Path) -> None:
    async def scenario() -> None:
        async with local(path) as bench:
            await bench.run("sh", "-c", "setsid sleep 600 & echo $!; exit 3")
            assert bench.seen[-1].exit_code == 3
            assert is_gone(int(bench.log()))

    asyncio.run(scenario())


def test_a_job_that_forks_without_end_is_stopped(path: Path) -> None:
    """Each child waits for a moment, forks another and ends."""
    program = "import os, time\nprint('ready')\nwhile True:\n    if os.fork(): os._exit(0)\n    time.sleep(0.001)\n"

    async def scenario() -> None:
        async with local(path) as bench:
            await bench.begin("sh", "-c", 'trap "" TERM; "$@" & sleep 600', "-", *python(program), grace_s=0.2)
            await said(path / "logs/job.log", "ready")
            await bench.executor.stop("job", 1)
            await bench.wait(ReportKind.ENDED)
            token = bench.executor._runs["job", 1].dir.order()["token"]
            assert procs.marked(token) == []

    asyncio.run(scenario())


def test_a_stop_that_comes_before_the_start_is_done_is_not_lost(path: Path) -> None:
    async def scenario() -> None:
        async with local(path) as bench:
            await asyncio.gather(bench.start("sleep", "600"), bench.executor.stop("job", 1))
            assert (await bench.wait(ReportKind.ENDED)).signal == signal.SIGTERM

    asyncio.run(scenario())


def test_many_runs_are_stopped_together(path: Path) -> None:
    async def scenario() -> None:
        async with local(path) as bench:
            jobs = [f"job{i}" for i in range(60)]
            for job in jobs:
                await bench.start("sleep", "600", job=job, places=[Place("node-0", ())])
            for job in jobs:
                await bench.wait(ReportKind.STARTED, job)
            pids = [bench.supervisor(job) for job in jobs]
            for job in jobs:
                await bench.executor.stop(job, 1)
            for job in jobs:
                assert (await bench.wait(ReportKind.ENDED, job)).signal == signal.SIGTERM
            await until(lambda: all(map(is_gone, pids)))

    asyncio.run(scenario())


def test_a_machine_that_shuts_down_loses_its_runs_rather_than_failing_them(path: Path) -> None:
    """The job is asked to end properly, but it is not the job's fault: it may be started again."""
    program = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\nprint('ready')\nwhile True: time.sleep(0.1)"

    async def scenario() -> None:
        async with local(path) as bench:
            await bench.start(*python(program))
            await said(path / "logs/job.log", "ready")
            os.kill(bench.supervisor(), signal.SIGTERM)
            lost = await bench.wait(ReportKind.LOST)
            assert "shutting down" in lost.message

    asyncio.run(scenario())
