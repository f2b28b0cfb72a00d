"""How Slurm's executor does at scale, and how long each step takes: `python tests/backends/slurm_scale.py [NODES] [JOBS]`.

Prints JSON: a Slurm of 64 nodes and 512 GPUs on this machine, with 2,000 jobs that users have queued; then the latencies of one run
at a time on it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from backends.slurm_harness import SlurmBench, slurm
from fairlead.backends.slurm.rows import all_jobs, node_states
from fairlead.runtime.protocols import Order, Place, ReportKind, Suspension
from servers.slurm import SlurmCluster, started

RUNS = 6


def spread(values: list[float]) -> dict[str, float]:
    return {"median_s": round(statistics.median(values), 3), "max_s": round(max(values), 3), "n": len(values)}


async def refreshes(bench: SlurmBench) -> dict[str, object]:
    """One look at all jobs and nodes: asking, and what is then worked out from it."""
    executor = bench.executor
    whole, asked = [], []
    for _ in range(RUNS):
        began_s = time.perf_counter()
        await all_jobs(executor.slurm)
        await node_states(executor.slurm, executor.site.runs_in)
        asked.append(time.perf_counter() - began_s)
        began_s = time.perf_counter()
        await executor._poll()
        whole.append(time.perf_counter() - began_s)
    return {"refresh": spread(whole), "of which asking Slurm": spread(asked), "jobs": len(executor.rows)}


async def calls(bench: SlurmBench, seconds: float = 20.0) -> dict[str, float]:
    """A second, with the usual `poll_s` and while jobs come to run and end."""
    counted = bench.executor.slurm.calls
    counted.clear()
    await asyncio.sleep(seconds)
    return {name: round(number / seconds, 2) for name, number in counted.items()}


def drain(bench: SlurmBench) -> None:
    """Take what has been reported."""
    queue = bench.executor._reports
    while not queue.empty():
        report = queue.get_nowait()
        assert report is not None
        bench.seen.append(report)


async def latencies(bench: SlurmBench) -> dict[str, object]:
    found: dict[str, list[float]] = {name: [] for name in ("order to running", "end to reported")}
    found |= {"suspend to reported": [], "resume to running": []}
    loop = "trap 'exit 0' USR1; while :; do sleep 0.05; done"
    for i in range(RUNS):
        job = f"timed-{i}"
        place = [Place("node1", (0,))]
        began_s = time.time()
        await bench.start("sleep", "0.5", job=job, places=place)
        found["order to running"].append((await bench.wait(ReportKind.STARTED, job)).time_s - began_s)
        ended = await bench.wait(ReportKind.ENDED, job)
        found["end to reported"].append(time.time() - ended.time_s)
        job = f"suspended-{i}"
        await bench.begin("/bin/bash", "-c", loop, job=job, places=place, checkpoint_signal="SIGUSR1")
        began_s = time.time()
        await bench.executor.suspend(job, 1)
        await bench.wait(ReportKind.SUSPENDED, job)
        found["suspend to reported"].append(time.time() - began_s)
        began_s = time.time()
        await bench.start("/bin/bash", "-c", loop, job=job, run=2, places=place, resumes=True)
        found["resume to running"].append((await bench.wait(ReportKind.STARTED, job, 2)).time_s - began_s)
        await bench.executor.stop(job, 2)
        await bench.wait(ReportKind.ENDED, job, 2)
    return {name: spread(values) for name, values in found.items()}


async def guests(bench: SlurmBench, cluster: SlurmCluster) -> dict[str, object]:
    """The same of users' own jobs, whose ends only Slurm can tell."""
    found: dict[str, list[float]] = {"release to running": [], "suspend to reported": [], "resume to running": []}
    for i in range(3):
        number = cluster.sbatch("sleep 1000", "--gpus=1")
        foreign = (await bench.appeared(number)).foreign
        job, places = f"guest-{i}", [Place("node2", (0,))]
        began_s = time.time()
        await bench.executor.start(Order(job, 1, (), places, foreign=foreign, suspend=(Suspension.REQUEUE,)))
        await bench.wait(ReportKind.STARTED, job)
        found["release to running"].append(time.time() - began_s)
        began_s = time.time()
        await bench.executor.suspend(job, 1)
        await bench.wait(ReportKind.SUSPENDED, job)
        found["suspend to reported"].append(time.time() - began_s)
        began_s = time.time()
        await bench.executor.start(Order(job, 2, (), places, foreign=foreign, resumes=True))
        await bench.wait(ReportKind.STARTED, job, 2)
        found["resume to running"].append(time.time() - began_s)
        await bench.executor.stop(job, 2)
        await bench.wait(ReportKind.ENDED, job, 2)
    return {name: spread(values) for name, values in found.items()}


async def pilots(folder: Path) -> dict[str, object]:
    """The same inside of an allocation that is held for good."""
    found: dict[str, list[float]] = {"order to running": [], "suspend to reported": [], "resume to running": []}
    async with slurm(folder, mode="pilot", poll_s=2.0, calls_per_s=5.0) as bench:
        await bench.until(lambda report: (report.kind, report.node) == (ReportKind.NODE_UP, "node1"), 120.0)
        for i in range(RUNS):
            job = f"pilot-{i}"
            began_s = time.time()
            await bench.start("sleep", "1000", job=job)
            found["order to running"].append((await bench.wait(ReportKind.STARTED, job)).time_s - began_s)
            began_s = time.time()
            await bench.executor.suspend(job, 1)
            await bench.wait(ReportKind.SUSPENDED, job)
            found["suspend to reported"].append(time.time() - began_s)
            began_s = time.time()
            await bench.start("sleep", "1000", job=job, run=2, resumes=True)
            await bench.wait(ReportKind.RESUMED, job, 2)
            found["resume to running"].append(time.time() - began_s)
            await bench.executor.stop(job, 2)
            await bench.wait(ReportKind.ENDED, job, 2)
    return {name: spread(values) for name, values in found.items()}


class Shown(dict[str, object]):
    """Says what it learns, since all of it takes minutes."""

    def __setitem__(self, key: str, value: object) -> None:
        super().__setitem__(key, value)
        print(f"{key}: {value}", file=sys.stderr, flush=True)


async def measure(cluster: SlurmCluster, jobs: int) -> dict[str, object]:
    folder = Path(tempfile.mkdtemp(prefix="fairlead-slurm-scale-"))
    folder.chmod(0o777)
    found: dict[str, object] = Shown(
        {"nodes": len(cluster.nodes), "gpus": len(cluster.nodes) * cluster.gpus, "jobs": jobs}
    )
    async with slurm(folder, poll_s=2.0, calls_per_s=5.0) as bench:
        await asyncio.sleep(3)  # for nodes that have just come up
        found["one run at a time, nothing queued"] = await latencies(bench)
        found["users' jobs, nothing queued"] = await guests(bench, cluster)
        with ThreadPoolExecutor(8) as pool:  # each a job of its own: an array would be one row until its tasks start
            waiting = [asyncio.wrap_future(pool.submit(cluster.sbatch, "sleep 5", "--gpus=1")) for _ in range(jobs)]
            await asyncio.gather(*waiting)
        await asyncio.sleep(5)
        drain(bench)
        found["with the queue"] = await refreshes(bench)
        found["calls a second, idle"] = await calls(bench)
        arrived = [report for report in bench.seen if report.arrival is not None]
        began_s = time.time()
        for i, report in enumerate(arrived[:64]):
            place = Place(cluster.nodes[i % len(cluster.nodes)], (i // len(cluster.nodes),))
            await bench.executor.start(Order(f"queued-{i}", 1, (), [place], foreign=report.foreign))
        found["calls a second, 64 released and run"] = await calls(bench)
        drain(bench)
        ends = [r.time_s - began_s for r in bench.seen if r.kind == ReportKind.ENDED and r.job.startswith("queued")]
        found["64 released: last of them ended after"] = spread(ends) if ends else "none ended"
    cluster.clear()
    found["pilot mode"] = await pilots(folder / "pilots")
    cluster.clear()
    shutil.rmtree(folder, ignore_errors=True)
    return found


def main() -> None:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    jobs = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    with started(nodes, slurmd_timeout_s=120) as cluster:
        os.environ["SLURM_CONF"] = str(cluster.conf)
        print(json.dumps(asyncio.run(measure(cluster, jobs)), indent=2))


if __name__ == "__main__":
    main()
