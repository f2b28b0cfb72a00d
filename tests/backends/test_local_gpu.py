"""On a machine with a GPU: unmodified PyTorch programs leave the GPU and come back, and go on as if nothing had been."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fairlead.backends.local import driver
from fairlead.backends.local.inventory import look
from fairlead.backends.local.settings import LocalSettings
from fairlead.runtime.protocols import Place, ReportKind, Suspension

from .harness import Bench, local

MACHINE = look(LocalSettings(Path("/nonexistent")))
HERE = MACHINE.cluster.nodes[0].name
TOTAL_GIB = (MACHINE.gpus[HERE][0].memory_mib or 0) / 1024 if MACHINE.cluster.gpus else 0.0
GIB = min(25.0, TOTAL_GIB / 2)  #: what a program needs; the host must have room for two of them
pytestmark = [
    pytest.mark.skipif(not MACHINE.cluster.gpus, reason="this machine has no GPU that NVML knows"),
    pytest.mark.skipif(not MACHINE.checkpoints, reason="this machine's driver has no process checkpoint calls"),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="there is no PyTorch to train with"),
]
#: knows nothing of fairlead; the weights and the ballast are on the GPU, the step and the loss are printed
TRAIN = """
import sys, torch
gib, steps = float(sys.argv[1]), int(sys.argv[2])
torch.manual_seed(1)
ballast = torch.randn(int(gib * 2**28), device="cuda")
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1)).cuda()
optimizer = torch.optim.Adam(model.parameters())
check = float(ballast[::4096].double().sum())
for step in range(steps):
    x = torch.randn(64, 256, device="cuda")
    loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, loss.item(), flush=True)
assert float(ballast[::4096].double().sum()) == check
print("done", flush=True)
"""


def train(gib: float, steps: int) -> tuple[str, ...]:
    return (sys.executable, "-c", TRAIN, str(gib), str(steps))


def used_mib() -> int:
    ask = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0"]
    return int(subprocess.run(ask, capture_output=True, text=True, check=True).stdout)


def steps(bench: Bench, job: str) -> int:
    return bench.log(job).count("step")


async def begin(bench: Bench, job: str, gib: float, count: int, run: int = 1, **more: Any) -> None:
    env = {name: os.environ[name] for name in ("PYTHONPATH", "LD_LIBRARY_PATH") if name in os.environ}
    await bench.start(*train(gib, count), job=job, run=run, places=[Place(HERE, (0,))], env=env, grace_s=60, **more)


async def reach(bench: Bench, job: str, step: int) -> None:
    async with asyncio.timeout(120):
        while steps(bench, job) < step:
            await asyncio.sleep(0.01)


def test_gpus_are_known_by_type_memory_and_uuid() -> None:
    gpu = MACHINE.gpus[HERE][0]
    assert gpu.name.startswith("GPU-")
    assert (gpu.memory_mib or 0) > 1000
    assert gpu.type
    assert len(driver.uuid_bytes(gpu.name)) == 16


def test_losses_go_on_exactly_and_the_memory_is_free_meanwhile(path: Path) -> None:
    async def scenario() -> None:
        async with local(path, gpus=None) as bench:
            assert bench.executor.capabilities.frees_memory
            await begin(bench, "whole", 2, 6000)
            assert (await bench.wait(ReportKind.ENDED, "whole")).exit_code == 0, bench.log("whole")
            idle = used_mib()
            await begin(bench, "job", 2, 6000)
            for run in (1, 2):
                await reach(bench, "job", 500 * run)
                assert used_mib() > idle + 2000
                before = time.perf_counter()
                await bench.executor.suspend("job", run)
                report = await bench.wait(ReportKind.SUSPENDED, run=run)
                suspend_s = time.perf_counter() - before
                assert report.method is Suspension.DRIVER, report
                assert used_mib() < idle + 500
                before = time.perf_counter()
                await begin(bench, "job", 2, 6000, run=run + 1, resumes=True)
                await bench.wait(ReportKind.RESUMED, run=run + 1)
                print(f"2 GiB: suspend {suspend_s:.2f} s, resume {time.perf_counter() - before:.2f} s")
            assert (await bench.wait(ReportKind.ENDED, run=3)).exit_code == 0, bench.log()
            assert bench.log("job") == bench.log("whole")

    asyncio.run(scenario())


async def fill(bench: Bench) -> None:
    """Someone who stays takes so much that one of our programs has room, and two have not."""
    await begin(bench, "stays", TOTAL_GIB - 1.5 * GIB, 10**7)
    await reach(bench, "stays", 1)


def test_two_programs_for_which_there_is_not_room_at_once_take_turns(path: Path) -> None:
    async def scenario() -> None:
        async with local(path, gpus=None) as bench:
            await fill(bench)
            runs = {"a": 1, "b": 1}
            for turn in range(4):
                job = "ab"[turn % 2]
                kind = ReportKind.RESUMED if turn > 1 else ReportKind.STARTED
                before = time.perf_counter()
                await begin(bench, job, GIB, 10**7, run=runs[job], resumes=turn > 1)
                await bench.wait(kind, job, runs[job], patience_s=300)
                begin_s = time.perf_counter() - before
                await reach(bench, job, steps(bench, job) + 200)
                before = time.perf_counter()
                await bench.executor.suspend(job, runs[job])
                report = await bench.wait(ReportKind.SUSPENDED, job, runs[job], patience_s=300)
                print(f"{GIB:.0f} GiB: {kind} {begin_s:.1f} s, suspend {time.perf_counter() - before:.1f} s")
                assert report.method is Suspension.DRIVER, report
                runs[job] += 1
            for job in "ab":
                await bench.executor.stop(job, runs[job] - 1)
                await bench.wait(ReportKind.ENDED, job, runs[job] - 1, patience_s=90)
                numbers = [int(number) for number in re.findall(r"^step (\d+)", bench.log(job), re.MULTILINE)]
                assert numbers == list(range(len(numbers)))

    asyncio.run(scenario())


def test_a_program_for_which_there_is_no_room_stays_suspended_and_can_be_stopped(path: Path) -> None:
    async def scenario() -> None:
        async with local(path, gpus=None) as bench:
            await fill(bench)
            await begin(bench, "job", GIB, 10**7)
            await reach(bench, "job", 10)
            await bench.executor.suspend("job", 1)
            await bench.wait(ReportKind.SUSPENDED, patience_s=300)
            await begin(bench, "other", GIB, 10**7)
            await reach(bench, "other", 10)
            await begin(bench, "job", GIB, 10**7, run=2, resumes=True)
            refusal = await bench.wait(ReportKind.FAILED_TO_START, run=2, patience_s=300)
            print(refusal.message)
            assert "out of memory" in refusal.message
            assert [(found.run, found.suspended) for found in await bench.executor.found() if found.job == "job"] == [
                (1, Suspension.DRIVER),
                (2, None),
            ]
            await bench.executor.stop("job", 1)
            await bench.wait(ReportKind.ENDED, patience_s=90)

    asyncio.run(scenario())


@pytest.mark.parametrize("late_s", [0.0, 0.2, 0.5, 0.8])
def test_a_program_that_is_about_to_end_may(path: Path, late_s: float) -> None:
    """It gives its memory back for a while: what it has done must not be done again."""

    async def scenario() -> None:
        async with local(path, gpus=None) as bench:
            await begin(bench, "job", GIB, 100)
            async with asyncio.timeout(120):
                while "done" not in bench.log("job"):
                    await asyncio.sleep(0.01)
            await asyncio.sleep(late_s)
            await bench.executor.suspend("job", 1)
            report = await bench.wait(ReportKind.ENDED, patience_s=120)
            assert report.exit_code == 0
            assert [report.kind for report in bench.seen] == [ReportKind.STARTED, ReportKind.ENDED]

    asyncio.run(scenario())


def test_memory_comes_back_by_a_map_of_gpus(path: Path) -> None:
    """With one GPU, onto itself: the driver takes the map as it is laid out."""
    if not MACHINE.moves:
        pytest.skip("this driver has no map of GPUs at restore")

    async def scenario() -> None:
        async with local(path, gpus=None) as bench:
            await begin(bench, "job", 1, 10**6)
            await bench.wait(ReportKind.STARTED)
            await reach(bench, "job", 10)
            pid = bench.state()["ranks"][0][0]
            uuid = MACHINE.gpus[HERE][0].name
            cuda = driver.CudaDriver()
            assert driver.freeze(cuda, [pid]) == [pid]
            driver.thaw(cuda, [pid], {uuid: uuid})
            await reach(bench, "job", steps(bench, "job") + 100)
            await bench.executor.stop("job", 1)
            await bench.wait(ReportKind.ENDED)

    asyncio.run(scenario())
