"""How fast the Ray executor is on this machine: `python -m tests.backends.measure_ray [TIMES]`.

On a cluster of three nodes here, one run at a time: from an order to the process's own first act; from the process's end to its
report; from the wish to suspend to the report that its GPUs are free, with a checkpoint signal and without; from the next order to the
process's first act. Then how many runs a second go through, and what a run that idles costs.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.backends.ray_bench import RayBench, settings
from tests.servers.ray_cluster import RayCluster, installed

from fairlead.backends.ray import RayExecutor
from fairlead.runtime.protocols import Order, Place, ReportKind

PLACE = [Place("node-1", (0,))]
#: its first act is to write down what time it is, and so is its last
LIVES = (sys.executable, "-S", "-c", "import sys, time; open(sys.argv[1], 'a').write(f'{time.time()}\\n')")
STAYS = (
    sys.executable,
    "-S",
    "-c",
    """
import signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))
open(sys.argv[1], 'a').write(f'{time.time()}\\n')
while True:
    time.sleep(60)
""",
)


def told(what: str, seconds: list[float]) -> None:
    ordered = sorted(seconds)
    p95 = ordered[min(len(ordered) - 1, round(0.95 * len(ordered)))]
    print(f"{what}: median {statistics.median(ordered):.3f} s, p95 {p95:.3f} s, of {len(ordered)}")


async def once(bench: RayBench, times: int, folder: Path) -> None:
    to_run, to_report = [], []
    for number in range(times):
        file = folder / f"lives-{number}"
        ordered_s = time.time()
        await bench.start(*LIVES, str(file), job=f"l{number}", places=PLACE)
        await bench.wait(ReportKind.ENDED, f"l{number}")
        acted_s = float(file.read_text())
        to_run.append(acted_s - ordered_s)
        to_report.append(time.time() - acted_s)
        await bench.executor.forget(f"l{number}", 1)
    told("order to first act", to_run)
    told("last act to report of its end", to_report)


async def suspended(bench: RayBench, times: int, folder: Path, signal: str) -> None:
    to_free, to_go_on = [], []
    for number in range(times):
        job, file = f"s{signal}{number}", folder / f"stays-{signal}{number}"
        await bench.begin(*STAYS, str(file), job=job, places=PLACE, checkpoint_signal=signal)
        while not (file.exists() and file.read_text()):
            await asyncio.sleep(0.01)
        asked_s = time.time()
        await bench.executor.suspend(job, 1)
        await bench.wait(ReportKind.SUSPENDED, job)
        to_free.append(time.time() - asked_s)
        ordered_s = time.time()
        await bench.begin(*STAYS, str(file), job=job, run=2, places=PLACE, resumes=True)
        while len(lines := file.read_text().splitlines()) < 2:
            await asyncio.sleep(0.01)
        to_go_on.append(float(lines[1]) - ordered_s)
        await bench.executor.stop(job, 2)
        await bench.wait(ReportKind.ENDED, job, 2)
    how = "checkpoint" if signal else "requeue"
    told(f"suspend ({how}) to report", to_free)
    told(f"order to first act of the next run ({how})", to_go_on)


async def many(bench: RayBench, count: int) -> None:
    began_s = time.perf_counter()
    for number in range(count):
        place = Place(("head", "node-1", "node-2")[number % 3], (0,))
        await bench.executor.start(Order(f"m{number}", 1, ["true"], [place]))
    for number in range(count):
        await bench.wait(ReportKind.ENDED, f"m{number}", 1, 600)
    print(f"{count} runs of `true` ordered at once on 12 GPUs: {count / (time.perf_counter() - began_s):.2f} runs/s")


async def measure(cluster: RayCluster, folder: Path, times: int) -> None:
    executor = await RayExecutor.open(settings(folder / "state", cluster, poll_s=2.0, start_s=600.0))
    try:
        await executor.found()
        bench = RayBench(executor)
        await bench.run("true", job="warm", places=PLACE)  # Ray takes longer over its first workers
        await once(bench, times, folder)
        for signal in ("SIGUSR1", ""):
            await suspended(bench, times // 2, folder, signal)
        await many(bench, 2 * times)
    finally:
        await executor.close()


def main() -> None:
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    python = installed()
    assert python, "Ray can't be had here"
    cluster = RayCluster(python)
    try:
        cluster.begin()
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(measure(cluster, Path(folder), times))
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
