"""Suspended jobs go on where they were, by the best way there is for each, and each says which it got."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fairlead.backends.local import executor as executor_module
from fairlead.backends.local import procs
from fairlead.backends.local.inventory import Gpu, Machine
from fairlead.backends.local.rundir import RunDir
from fairlead.backends.local.settings import LocalSettings
from fairlead.model.cluster import ClusterSpec, NodeSpec
from fairlead.runtime.protocols import Place, ReportKind, Suspension

from .harness import Bench, is_gone, local, python, until

#: counts in memory, and says so; a child of it counts too
COUNT = python(
    "import os, sys, time\n"
    "name = 'child' if os.fork() == 0 else 'parent'\n"
    "for i in range(10**6):\n"
    "    with open(f'{sys.argv[1]}/{name}', 'w') as file: file.write(str(i))\n"
    "    time.sleep(0.002)\n"
)
#: counts in a file: what a training with checkpoints does
TRAIN = (
    "import os, signal, sys, time\n"
    "step, stop = 0, False\n"
    "if os.environ.get('FAIRLEAD_RESUME'): step = int(open(sys.argv[1]).read())\n"
    "def save(*_):\n"
    "    global stop\n"
    "    stop = True\n"
    "signal.signal(signal.SIGUSR1, save)\n"
    "print('from', step)\n"
    "while not stop:\n"
    "    step += 1\n"
    "    time.sleep(0.001)\n"
    "open(sys.argv[1], 'w').write(str(step))\n"
    "print('to', step)\n"
)


def number(file: Path) -> int:
    return int(file.read_text() or 0) if file.exists() else 0


def tree_of(bench: Bench, run: int = 1) -> list[int]:
    return procs.descendants(bench.supervisor(run=run))


async def counting(tmp_path: Path, beyond: int = 0) -> None:
    await until(lambda: number(tmp_path / "parent") > beyond and number(tmp_path / "child") > beyond)


def test_a_stopped_job_goes_on_in_the_next_run_with_the_same_processes(path: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with local(path) as bench:
            await bench.begin(*COUNT, str(tmp_path))
            await counting(tmp_path)
            before = tree_of(bench)
            for _ in range(2):
                await bench.executor.suspend("job", 1)
            assert (await bench.wait(ReportKind.SUSPENDED)).method is Suspension.STOP
            assert {procs.stat(pid)[0] for pid in before} == {"T"}  # type: ignore[index]
            count = number(tmp_path / "parent")
            (found,) = await bench.executor.found()
            assert (found.running, found.suspended) == (False, Suspension.STOP)

            for _ in range(2):
                await bench.start(*COUNT, str(tmp_path), run=2, resumes=True)
            resumed = await bench.wait(ReportKind.RESUMED, run=2)
            assert resumed.method is Suspension.STOP
            await counting(tmp_path, beyond=count + 5)
            assert tree_of(bench, run=2) == before
            assert [(found.run, found.running) for found in await bench.executor.found()] == [(1, False), (2, True)]

            await bench.executor.forget("job", 1)
            await bench.executor.suspend("job", 2)
            await bench.wait(ReportKind.SUSPENDED, run=2)
            await bench.start(*COUNT, str(tmp_path), run=3, resumes=True)
            await bench.wait(ReportKind.RESUMED, run=3)
            await bench.executor.stop("job", 3)
            assert (await bench.wait(ReportKind.ENDED, run=3)).signal == signal.SIGTERM
            assert all(map(is_gone, before))
            assert len(bench.seen) == 6

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "wrap", [lambda c: c, lambda c: ("sh", "-c", '"$@"; exit $?', "-", *c)], ids=["bare", "in-a-shell"]
)
def test_a_job_with_a_checkpoint_signal_writes_its_own(
    path: Path, tmp_path: Path, wrap: Callable[[tuple[str, ...]], tuple[str, ...]]
) -> None:
    file = tmp_path / "checkpoint"

    async def scenario() -> None:
        async with local(path) as bench:
            command = wrap(python(TRAIN))
            for run in (1, 2, 3):
                await bench.begin(*command, str(file), run=run, resumes=run > 1, checkpoint_signal="SIGUSR1")
                await until(lambda run=run: bench.log().count("from") == run)  # type: ignore[misc]
                await bench.executor.suspend("job", run)
                report = await bench.wait(ReportKind.SUSPENDED, run=run)
                assert report.method is Suspension.CHECKPOINT
            words = bench.log().split()
            assert words[1] == "0"
            assert (words[5], words[9]) == (words[3], words[7])
            assert [(found.running, found.suspended) for found in await bench.executor.found()] == [
                (False, Suspension.CHECKPOINT)
            ] * 3

    asyncio.run(scenario())


def test_a_job_that_has_not_set_its_signal_up_yet_is_not_killed_by_it(path: Path) -> None:
    async def scenario() -> None:
        async with local(path) as bench:
            await bench.begin("sleep", "600", checkpoint_signal="USR1")
            await bench.executor.suspend("job", 1)
            assert (await bench.wait(ReportKind.SUSPENDED)).method is Suspension.STOP

    asyncio.run(scenario())


def test_a_job_that_does_not_leave_when_asked_for_a_checkpoint_is_requeued(path: Path) -> None:
    program = (
        "import signal, time\nsignal.signal(signal.SIGUSR1, lambda *_: None)\nprint('ready')\nwhile True: time.sleep(1)"
    )

    async def scenario() -> None:
        async with local(path) as bench:
            await bench.begin(*python(program), checkpoint_signal="SIGUSR1", grace_s=0.2)
            await until(lambda: "ready" in bench.log())
            await bench.executor.suspend("job", 1)
            report = await bench.wait(ReportKind.SUSPENDED)
            assert report.method is Suspension.REQUEUE
            assert report.message == "it was asked for a checkpoint and had not left after 0.2 s"

    asyncio.run(scenario())


def test_a_suspended_job_can_be_stopped(path: Path) -> None:
    async def scenario() -> None:
        async with local(path) as bench:
            await bench.begin("sleep", "600", grace_s=60)
            await bench.executor.suspend("job", 1)
            await bench.wait(ReportKind.SUSPENDED)
            await bench.executor.stop("job", 1)
            assert (await bench.wait(ReportKind.ENDED)).signal == signal.SIGTERM

    asyncio.run(scenario())


def test_a_suspended_job_that_someone_kills_is_told_of_and_can_not_go_on(path: Path) -> None:
    async def scenario() -> None:
        async with local(path) as bench:
            await bench.begin("sleep", "600")
            await bench.executor.suspend("job", 1)
            await bench.wait(ReportKind.SUSPENDED)
            os.kill(tree_of(bench)[0], signal.SIGKILL)
            assert (await bench.wait(ReportKind.ENDED)).signal == signal.SIGKILL

    asyncio.run(scenario())


@pytest.mark.parametrize("suspended", [False, True])
def test_a_job_is_never_there_twice(path: Path, suspended: bool) -> None:
    async def scenario() -> None:
        async with local(path) as bench:
            await bench.begin("sleep", "600")
            if suspended:
                await bench.executor.suspend("job", 1)
                await bench.wait(ReportKind.SUSPENDED)
            await bench.start("sleep", "600", run=2, resumes=not suspended)
            says = (await bench.wait(ReportKind.FAILED_TO_START, run=2)).message
            state = "suspended" if suspended else "running"
            assert says == f"run 1 of it is still {state}; it must end before run 2 begins"
            await bench.executor.stop("job", 1)
            await bench.wait(ReportKind.ENDED)
            await bench.begin("sleep", "600", run=3)

    asyncio.run(scenario())


def test_words_that_come_late_change_nothing(path: Path) -> None:
    """Where they travel far, the same is said again until it is seen to be done."""

    async def scenario() -> None:
        async with local(path) as bench:
            await bench.begin("sleep", "600")
            await bench.executor.suspend("job", 1)
            await bench.wait(ReportKind.SUSPENDED)
            given_up = RunDir.create(str(path / "runs"), "job@9", {"job": "job", "run": 9, "token": "late"})
            given_up.write_state({"phase": "failed"})
            for name in ("job@9", "job@10"):  # and one that was forgotten
                await bench.executor._tell("job", 1, {"op": "continue", "rundir": str(path / "runs" / name)})
            await bench.start("sleep", "600", run=2, resumes=True)
            await bench.wait(ReportKind.RESUMED, run=2)
            assert given_up.state() == {"phase": "failed"}
            await bench.executor._tell("job", 2, {"op": "suspend", "run": 1})
            await asyncio.sleep(0.2)
            assert bench.state(run=2)["phase"] == "running"
            await bench.executor._tell("job", 2, {"op": "suspend", "run": 2})
            await bench.wait(ReportKind.SUSPENDED, run=2)

    asyncio.run(scenario())


def test_on_virtual_gpus_a_job_goes_on_anywhere(path: Path) -> None:
    async def scenario() -> None:
        async with local(path, nodes=2) as bench:
            await bench.begin("sleep", "600", places=[Place("node-0", (0, 1))])
            await bench.executor.suspend("job", 1)
            await bench.wait(ReportKind.SUSPENDED)
            await bench.start(
                "sleep", "600", run=2, resumes=True, places=[Place("node-0", (7,)), Place("node-1", (3,))]
            )
            await bench.wait(ReportKind.RESUMED, run=2)

    asyncio.run(scenario())


def test_a_stopped_job_does_not_go_on_with_another_number_of_gpus(path: Path) -> None:
    """Its processes were told how many there are: to be resized it is started again, from its checkpoint."""

    async def live() -> None:
        async with local(path, nodes=2) as bench:
            await bench.begin("sleep", "60", places=(Place("node-0", (0,)),))
            await bench.executor.suspend("job", 1)
            await bench.wait(ReportKind.SUSPENDED)
            await bench.start("sleep", "60", run=2, places=(Place("node-0", (0, 1)),), resumes=True)
            says = (await bench.wait(ReportKind.FAILED_TO_START, run=2)).message
            assert "another number of GPUs" in says

    asyncio.run(live())


def test_a_job_that_is_told_to_resume_without_having_been_suspended_begins_with_its_checkpoint(path: Path) -> None:
    async def scenario() -> None:
        async with local(path) as bench:
            await bench.run("sh", "-c", "echo $FAIRLEAD_RESUME", run=7, resumes=True)
            assert bench.log() == "1\n"

    asyncio.run(scenario())


# -- a machine with GPUs, as far as one can be had without any ---------------------------------------------------------------


@pytest.fixture
def with_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs whose driver has no checkpoint calls."""
    gpus = tuple(Gpu(i, f"GPU-{i:08x}-0000-0000-0000-000000000000", "V100", 32768) for i in range(2))
    machine = Machine(ClusterSpec((NodeSpec("here", 2, "V100"),)), {"here": gpus}, is_virtual=False)
    monkeypatch.setattr(executor_module, "look", lambda settings: machine)


@pytest.mark.usefixtures("with_gpus")
def test_where_memory_must_be_freed_and_nothing_else_does_it_a_job_is_requeued(path: Path) -> None:
    async def scenario() -> None:
        async with local(path, gpus=None) as bench:
            assert bench.executor.capabilities.frees_memory
            await bench.begin("sh", "-c", "echo $CUDA_VISIBLE_DEVICES; sleep 600", places=[Place("here", (1,))])
            await until(bench.log)
            pids = tree_of(bench)
            await bench.executor.suspend("job", 1)
            assert (await bench.wait(ReportKind.SUSPENDED)).method is Suspension.REQUEUE
            assert all(map(is_gone, pids))
            assert bench.log() == "GPU-00000001-0000-0000-0000-000000000000\n"
            await bench.run(
                "sh", "-c", "echo resumes=$FAIRLEAD_RESUME", run=2, resumes=True, places=[Place("here", (0,))]
            )
            assert bench.log().endswith("resumes=1\n")

    asyncio.run(scenario())


@pytest.mark.usefixtures("with_gpus")
def test_gpu_memory_that_does_not_fit_into_the_host_is_not_moved_there(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with local(path, gpus=None) as bench:
            bench.executor.machine = replace(bench.executor.machine, checkpoints=True)
            monkeypatch.setattr(executor_module, "used_memory_mib", lambda names, pids: 10**9)
            await bench.begin("sleep", "600", places=[Place("here", (1,))])
            await bench.executor.suspend("job", 1)
            report = await bench.wait(ReportKind.SUSPENDED)
            assert report.method is Suspension.REQUEUE
            assert "its 1000000000 MiB of GPU memory don't fit into the" in report.message

    asyncio.run(scenario())


@pytest.mark.usefixtures("with_gpus")
def test_where_memory_may_stay_a_job_is_stopped_and_goes_on_on_its_own_gpus_only(path: Path) -> None:
    async def scenario() -> None:
        async with local(path, gpus=None, keep_memory=True) as bench:
            able = bench.executor.capabilities
            assert (able.suspend, able.frees_memory, able.migrate) == (True, False, False)
            await bench.begin("sleep", "600", places=[Place("here", (1,))])
            await bench.executor.suspend("job", 1)
            assert (await bench.wait(ReportKind.SUSPENDED)).method is Suspension.STOP
            await bench.start("sleep", "600", run=2, resumes=True, places=[Place("here", (0,))])
            refusal = await bench.wait(ReportKind.FAILED_TO_START, run=2)
            assert "it can go on where it was" in refusal.message
            await bench.start("sleep", "600", run=3, resumes=True, places=[Place("here", (1,))])
            await bench.wait(ReportKind.RESUMED, run=3)

    asyncio.run(scenario())


@pytest.mark.usefixtures("with_gpus")
def test_a_share_of_a_gpu_has_the_limits_that_mps_keeps(path: Path) -> None:
    async def scenario() -> str:
        async with local(path, gpus=None, mps_pipe_dir="/run/mps") as bench:
            await bench.run("sh", "-c", "env | grep MPS | sort", places=[Place("here", (1,), 250)], gpu_memory_mib=4096)
            return bench.log()

    assert asyncio.run(scenario()).split() == [
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=4096M",
        "CUDA_MPS_PIPE_DIRECTORY=/run/mps",
    ]


def test_a_machine_without_gpus_says_so(path: Path) -> None:
    async def scenario() -> None:
        async with local(path, gpus=None) as bench:
            (node,) = (await bench.executor.inventory()).nodes
            assert node.cpu_milli
            assert node.memory_mib

    asyncio.run(scenario())
    assert LocalSettings(path).gpus is None
