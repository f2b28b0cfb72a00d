"""How fast the local executor is on this machine: `python -m tests.backends.measure_local [STARTS] [IDLE]`.

Starts per second of a command that does nothing (`true`), from the first order to the last end; the time from `start` to
the process's first instruction; what an idle run costs in memory and CPU. Once through the nursery, once with a Python
process of its own per supervisor.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from fairlead.backends.local.executor import LocalExecutor
from fairlead.backends.local.launch import Launcher
from fairlead.backends.local.settings import LocalSettings
from fairlead.runtime.protocols import Order, Place, ReportKind

HERE = [Place("node-0", ())]


def memory_kib(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    return 0


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def throughput(executor: LocalExecutor, count: int) -> None:
    reports = executor.reports()
    begun = time.perf_counter()
    used = os.times()
    for i in range(count):
        await executor.start(Order(f"t{i}", 1, ["true"], HERE))
    ordered = time.perf_counter() - begun
    ended = 0
    while ended < count:
        report = await anext(reports)
        assert report.kind in (ReportKind.STARTED, ReportKind.ENDED), report
        ended += report.kind is ReportKind.ENDED
    took = time.perf_counter() - begun
    now = os.times()
    own = now.user + now.system - used.user - used.system
    print(f"  {count} runs of `true`: {count / ordered:.0f} orders/s, {count / took:.0f} runs/s to the last end; ")
    print(f"  the executor itself used {1000 * own / count:.2f} ms of CPU per run")


async def latency(executor: LocalExecutor, count: int) -> None:
    """The process itself writes what time it is, as its first act."""
    reports = executor.reports()
    waits, told = [], []
    for i in range(count):
        before = time.time()
        await executor.start(Order(f"l{i}", 1, ["date", "+%s.%N"], HERE))
        while (report := await anext(reports)).kind is not ReportKind.ENDED:
            told.append(time.time() - before)
        assert report.exit_code == 0
        waits.append(float((executor.settings.state_dir / f"logs/l{i}.log").read_text()) - before)
    for name, values in (("start() to the program's own first act", waits), ("start() to the report of it", told)):
        values.sort()
        print(
            f"  {name}: median {1000 * statistics.median(values):.1f} ms, p95 {1000 * values[len(values) * 95 // 100]:.1f} ms"
        )


async def idle(executor: LocalExecutor, count: int) -> None:
    reports = executor.reports()
    for i in range(count):
        await executor.start(Order(f"i{i}", 1, ["sleep", "600"], HERE, grace_s=1))
    for _ in range(count):
        assert (await anext(reports)).kind is ReportKind.STARTED
    runs = [executor._runs[f"i{i}", 1] for i in range(count)]
    pids = [run.state["supervisor"][0] for run in runs if run.state]
    before, own = sum(map(cpu_s, pids)), sum(os.times()[:2])
    await asyncio.sleep(3)
    used, own = sum(map(cpu_s, pids)) - before, sum(os.times()[:2]) - own
    for field in ("Pss", "Private_Dirty"):
        print(
            f"  {count} idle runs: {statistics.mean(memory_kib(pid, field) for pid in pids) / 1024:.2f} MiB {field} each"
        )
    print(f"  CPU in 3 s: supervisors {used:.2f} s together, executor {own:.3f} s")
    begun = time.perf_counter()
    for i in range(count):
        await executor.stop(f"i{i}", 1)
    for _ in range(count):
        assert (await anext(reports)).kind is ReportKind.ENDED
    print(f"  all stopped in {time.perf_counter() - begun:.2f} s")


class OneByOne(Launcher):
    """Without a nursery: each supervisor is a Python process that imports what it needs."""

    def _hand_over(self, path: str, theirs: object) -> None:
        fd = theirs.fileno()  # type: ignore[attr-defined]
        self.started.append(self._start("supervise", path, str(fd), pass_fds=(fd,)))

    def close(self) -> None:
        for process in self.started:
            process.wait(10)


async def measure(starts: int, idles: int) -> None:
    for launcher in (Launcher, OneByOne):
        with tempfile.TemporaryDirectory() as directory:
            executor = await LocalExecutor.open(LocalSettings(Path(directory), gpus=8))
            executor._launcher = launcher(directory)
            executor._launcher.started = []  # type: ignore[attr-defined]
            print(f"{launcher.__name__} (the nursery)" if launcher is Launcher else "a Python process per supervisor")
            count = starts if launcher is Launcher else starts // 10
            await latency(executor, 40)
            await throughput(executor, count)
            await idle(executor, idles if launcher is Launcher else idles // 10)
            await executor.close()


if __name__ == "__main__":
    asyncio.run(
        measure(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, int(sys.argv[2]) if len(sys.argv) > 2 else 200)
    )
