"""A whole scheduler on a Slurm of 64 nodes and 512 GPUs where users have queued 2,000 jobs: how long a decision and a look take, and how
often Slurm is called.

    PYTHONPATH=tests python tests/engines/slurm_queue.py [NODES] [JOBS] [--policy P]

The jobs take half a minute each, so that some end, and others are released, all the time. Prints JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fairlead.backends.slurm import SlurmExecutor, SlurmSettings
from fairlead.server.clock import WallClock
from fairlead.server.jobs import State
from fairlead.server.scheduler import Scheduler
from fairlead.server.store import Store
from servers.slurm import SlurmCluster, started

SECONDS = 60.0
SCRIPT = "sleep $((20 + RANDOM % 20))"


def spread(took_s: list[float]) -> dict[str, float]:
    ordered = sorted(took_s)
    names = {"median": 0.5, "p99": 0.99, "most": 1.0}
    found = {f"{name}_ms": 1000 * ordered[min(int(len(ordered) * at), len(ordered) - 1)] for name, at in names.items()}
    return {"times": len(ordered), **{name: round(ms, 2) for name, ms in found.items()}}


async def until(true: Callable[[], bool], patience_s: float = 600.0) -> None:
    async with asyncio.timeout(patience_s):
        while not true():
            await asyncio.sleep(0.5)


async def measure(cluster: SlurmCluster, folder: Path, jobs: int, policy: str) -> dict[str, object]:
    passes: list[float] = []
    looks: list[float] = []
    executor = await SlurmExecutor.open(SlurmSettings(folder, cluster.partition))
    look = executor._poll

    async def timed() -> None:
        began_s = time.perf_counter()
        await look()
        looks.append(time.perf_counter() - began_s)

    executor._poll = timed  # type: ignore[method-assign]
    with Store(f"sqlite:///{folder}/fairlead.db") as store:
        scheduler = Scheduler(
            store,
            executor,
            await executor.inventory(),
            WallClock(),
            policy=policy,
            placer="consolidate",
            logs=folder / "logs",
        )
        decided = scheduler.metrics.decided

        def noted(duration_s: float, started: int) -> None:
            passes.append(duration_s)
            decided(duration_s, started)

        scheduler.metrics.decided = noted  # type: ignore[method-assign]

        def count(*states: State) -> int:
            return sum(job.state in states for job in scheduler.jobs.values())

        await scheduler.open()
        try:
            began_s = time.perf_counter()
            with ThreadPoolExecutor(8) as pool:
                sent: list[Awaitable[str]] = [
                    asyncio.wrap_future(pool.submit(cluster.sbatch, SCRIPT, f"--gres=gpu:{1 + i % 8}"))
                    for i in range(jobs)
                ]
                await asyncio.gather(*sent)
            submitting_s = time.perf_counter() - began_s
            await until(lambda: len(scheduler.jobs) >= 0.99 * jobs or executor._reports.empty())
            await until(lambda: count(State.RUNNING) > 50)
            queued, there = count(State.WAITING), len(scheduler.jobs)
            passes.clear()
            looks.clear()
            executor.slurm.calls.clear()
            await asyncio.sleep(SECONDS)
            calls = {name: round(number / SECONDS, 2) for name, number in executor.slurm.calls.items()}
            return {
                "nodes": len(cluster.nodes),
                "gpus": cluster.gpus * len(cluster.nodes),
                "policy": policy,
                "submitted": jobs,
                "submitting_s": round(submitting_s, 1),
                "waiting": [queued, count(State.WAITING)],
                "running": count(State.RUNNING),
                "ended_meanwhile": there - len(scheduler.jobs),
                "decision": spread(passes),
                "look": spread(looks),
                "calls_per_s": {**calls, "all": round(sum(calls.values()), 2)},
                "in Slurm's queue": len(executor.rows),
            }
        finally:
            await scheduler.close()
            await executor.close()


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("nodes", type=int, nargs="?", default=64)
    given.add_argument("jobs", type=int, nargs="?", default=2000)
    given.add_argument("--policy", default="tiresias")
    options = given.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fairlead-slurm-queue-"))
    folder.chmod(0o755)
    with started(options.nodes, slurmd_timeout_s=120) as cluster:
        os.environ["SLURM_CONF"] = str(cluster.conf)
        try:
            print(json.dumps(asyncio.run(measure(cluster, folder, options.jobs, options.policy)), indent=2))
        finally:
            cluster.clear()
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
