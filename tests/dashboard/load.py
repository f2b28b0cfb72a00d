"""What twenty open pages cost a scheduler of 10,000 GPUs and 5,000 jobs, and how soon the map is drawn.

    python tests/dashboard/load.py [--windows 4] [--seconds 20] [--browser | --no-map]

Jobs end and come all the time. Windows without and with pages take turns in one run, so that a machine that is slow now and then is
slow for both. The twenty pages are another process that asks as they do: the same stream, the same questions, as often. With --browser
they are twenty tabs of a real one, which needs a machine with processors to spare for it. Whoever looks runs when nobody else wants to, the
scheduler above others where it may: they stand for the machines of twenty people, which are not this one. Beside the time on the clock
there is the processor time of the scheduler's own thread, which no neighbour changes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.dashboard.stage import Stage, regions, staged

import fairlead.server.scheduler as scheduler_module
from fairlead.model.cluster import TenantSpec
from fairlead.model.job import JobSpec
from fairlead.server import garbage
from fairlead.server.metrics import GpuReading

JOBS, PAGES = 5000, 20
TENANTS = tuple(TenantSpec(f"team-{i}", None, 1.0 + i % 3) for i in range(8))
LAST = ("chrt", "--idle", "0")  #: runs when nobody else wants to
LASTS_S = 250.0  #: with a few thousand that run, some ten a second end


class _Watch:
    """`time` for the scheduler, which notes its thread's processor time whenever it looks at the clock."""

    def __init__(self) -> None:
        self.used_s: deque[float] = deque(maxlen=4)

    def perf_counter(self) -> float:
        self.used_s.append(time.thread_time())
        return time.perf_counter()


class Busy(Stage):
    """As many jobs as ever: for each that ends, another comes."""

    took_s: list[tuple[float, float]]  #: of each decision: by the clock, and of this thread's processor time

    async def fill(self) -> None:
        self._collecting = asyncio.create_task(garbage.collect())  # as `fairlead up` does
        self._draw = np.random.Generator(np.random.PCG64(11))
        self.took_s = []
        for _ in range(JOBS // 100):
            await asyncio.gather(*(self._another() for _ in range(100)))
        await self.settle()
        told, watch = self.scheduler.metrics.decided, _Watch()
        scheduler_module.time = watch  # type: ignore[attr-defined]

        def decided(duration_s: float, started: int) -> None:
            # the scheduler has looked at the clock when it began to decide and just now
            self.took_s.append((duration_s, watch.used_s[-1] - watch.used_s[-2]))
            told(duration_s, started)

        self.scheduler.metrics.decided = decided  # type: ignore[method-assign]
        self._measure()

    async def _another(self) -> None:
        tenant = TENANTS[int(self._draw.integers(len(TENANTS)))].name
        gpus = int(self._draw.choice([1, 1, 2, 4, 4, 8, 8, 16]))
        spec = JobSpec(run=("train",), name=f"train-{gpus}", gpus=gpus, estimate_s=LASTS_S)
        made = await self.scheduler.submit(spec, "ada", tenant)
        self.lasts[made.jobs[0].id] = float(self._draw.uniform(1.0, LASTS_S))

    def _measure(self) -> None:
        use = self._draw.uniform(0, 100, self.spec.gpus).tolist()
        readings = [
            GpuReading(node.name, gpu, "GPU", "H100", use.pop(), 40_000.0, 40_000.0)
            for node in self.spec.nodes
            for gpu in range(node.gpus)
        ]
        self.scheduler.metrics.gpus(readings)

    async def _go_on(self) -> None:
        coming: set[asyncio.Task[None]] = set()
        while True:
            for _ in range(self.executor.end_due()):
                task = asyncio.create_task(self._another())
                coming.add(task)
                task.add_done_callback(coming.discard)
            await asyncio.sleep(0.05)


def told(took_s: Sequence[tuple[float, float]]) -> str:
    clock, used = (sorted(1000 * one[i] for one in took_s) for i in (0, 1))
    return (
        f"{len(clock):5d} decisions; clock: median {statistics.median(clock):6.3f} ms, mean {statistics.fmean(clock):6.3f} ms, "
        f"p95 {clock[int(0.95 * len(clock))]:6.3f} ms; processor: median {statistics.median(used):6.3f} ms, mean {statistics.fmean(used):6.3f} ms"
    )


def ratio(
    looked: Sequence[tuple[float, float]], quiet: Sequence[tuple[float, float]], i: int, of: Callable[[Any], float]
) -> float:
    return of([one[i] for one in looked]) / of([one[i] for one in quiet])


def window(stage: Busy, seconds: float) -> list[tuple[float, float]]:
    first = len(stage.took_s)
    time.sleep(seconds)
    return stage.took_s[first:]


def addresses(stage: Stage) -> list[str]:
    runs = stage.ask("ada", "GET", "/v1/jobs?state=running&limit=5").json()["jobs"]
    waits = stage.ask("ada", "GET", "/v1/jobs?state=waiting&limit=5").json()["jobs"]
    jobs = [f"/jobs/{job['id']}" for job in (*runs[:3], *waits[:2])]
    return [*["/"] * 5, *["/cluster"] * 5, *["/jobs"] * 5, *jobs]


class Pages(Protocol):
    def look(self) -> None: ...

    def look_away(self) -> None: ...


class Askers:
    """A process that asks what twenty pages ask."""

    def __init__(self, stage: Busy) -> None:
        self._stage = stage
        self._process: subprocess.Popen[bytes] | None = None

    def look(self) -> None:
        command = [sys.executable, str(Path(__file__).with_name("asker.py")), self._stage.url, *addresses(self._stage)]
        environment = {**os.environ, "FAIRLEAD_TOKEN": self._stage.token["ada"]}
        self._process = subprocess.Popen([*LAST, *command], env=environment)

    def look_away(self) -> None:
        if self._process is not None:
            assert self._process.poll() is None, "nobody has asked"
            self._process.terminate()
            self._process.wait()
            self._process = None


def measure(stage: Busy, pages: Pages, windows: int, seconds: float) -> None:
    quiet: list[tuple[float, float]] = []
    looked: list[tuple[float, float]] = []
    for number in range(windows):
        time.sleep(3.0)
        quiet += (now := window(stage, seconds))
        print(f"window {number + 1}  no page   {told(now)}", flush=True)
        pages.look()
        time.sleep(5.0)
        looked += (now := window(stage, seconds))
        pages.look_away()
        print(f"window {number + 1}  {PAGES} pages  {told(now)}", flush=True)
    print(f"in all    no page   {told(quiet)}")
    print(f"in all    {PAGES} pages  {told(looked)}")
    for i, name in enumerate(("clock", "processor")):
        median, mean = (ratio(looked, quiet, i, of) for of in (statistics.median, statistics.fmean))
        print(f"with {PAGES} pages / without, {name}: median {median:.3f}, mean {mean:.3f}")
    counts = stage.ask("ada", "GET", "/v1/cluster").json()
    running, waiting = counts["jobs"]["running"], counts["jobs"]["waiting"]
    print(f"{counts['gpus']:,} GPUs, {counts['gpus_used']:,.0f} in use; running {running:,}, waiting {waiting:,}")


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--windows", type=int, default=4)
    given.add_argument("--seconds", type=float, default=20.0)
    given.add_argument("--browser", action="store_true", help="twenty tabs instead of twenty who ask as they do")
    given.add_argument("--no-map", action="store_true", help="for a machine without a browser")
    options = given.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as held:
        spec = regions(2, 25, 25, 8, TENANTS, "H100")
        stage = Busy(Path(folder) / "state", spec, lambda stage: stage.fill(), time.time() - 600)
        began = time.perf_counter()
        held.enter_context(staged(stage))
        took_s = time.perf_counter() - began
        print(f"{spec.gpus:,} GPUs, {JOBS:,} jobs, {os.cpu_count()} processors; staged in {took_s:.0f} s", flush=True)
        if not options.no_map:
            with tabs().browser(Path(folder)) as browser:
                tabs().measure_map(stage, browser)
        with suppress(PermissionError):
            for thread in os.listdir("/proc/self/task"):  # of each by itself: the scheduler's is not this one
                os.setpriority(os.PRIO_PROCESS, int(thread), -10)
        pages: Pages = Askers(stage)
        if options.browser:
            browser = held.enter_context(tabs().browser(Path(folder), LAST))
            pages = tabs().Tabs(held, browser, stage, lambda: addresses(stage))
        measure(stage, pages, options.windows, options.seconds)


def tabs() -> Any:
    """What needs a browser."""
    from tests.dashboard import tabs

    return tabs


if __name__ == "__main__":
    main()
