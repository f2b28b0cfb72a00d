"""Time-slicing in a real Slurm: runs take turns in allocations that are held for good."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fairlead.runtime.protocols import Place, ReportKind, Suspension
from servers.slurm import SlurmCluster

from .slurm_harness import is_running, pids, shared, slurm, slurm_cluster, starts, until, witness

__all__ = ["shared", "slurm_cluster"]
COUNTS = "while :; do echo >> {file}; sleep 0.05; done"


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_runs_take_turns_on_the_same_gpus(shared: Path, slurm_cluster: SlurmCluster) -> None:
    async def check() -> None:
        async with slurm(shared, mode="pilot") as bench:
            can = bench.executor.capabilities
            assert (can.suspend, can.frees_memory, can.migrate, can.choose_gpus) == (True, False, False, True)
            await bench.until(lambda report: (report.kind, report.node) == (ReportKind.NODE_UP, "node2"))
            file = shared / "count"
            place = [Place("node2", (5, 6))]
            counts = witness(shared, "first", "echo gpus $CUDA_VISIBLE_DEVICES; " + COUNTS.format(file=file))
            await bench.begin(*counts, job="first", places=place)
            await until(lambda: file.exists() and "gpus 5,6" in bench.log("first"))
            steps = slurm_cluster.run("squeue", "-h", "-s", "-o", "%j %N")
            assert "first@1 node2" in steps
            await bench.executor.suspend("first", 1)
            assert (await bench.wait(ReportKind.SUSPENDED, "first")).method == Suspension.STOP
            assert all(stopped(pid) for pid in pids(shared, "first"))
            other = await bench.run("/bin/sh", "-c", "echo $CUDA_VISIBLE_DEVICES", job="second", places=place)
            assert other.exit_code == 0
            await until(lambda: bench.log("second").strip() == "5,6")
            before = file.stat().st_size
            await bench.start(*counts, job="first", run=2, places=[Place("node2", (1, 2))], resumes=True)
            refused = await bench.wait(ReportKind.FAILED_TO_START, "first", 2)
            assert "can't go on" in refused.message
            await bench.start(*counts, job="first", run=2, places=place, resumes=True)
            resumed = await bench.wait(ReportKind.RESUMED, "first", 2)
            assert resumed.method == Suspension.STOP
            await bench.executor.forget("first", 1)
            await until(lambda: file.stat().st_size > before)
            assert starts(shared, "first") == 1
            await bench.executor.stop("first", 2)
            await bench.wait(ReportKind.ENDED, "first", 2)

    asyncio.run(check())


def test_pilots_outlive_their_scheduler_and_a_lost_one_is_replaced(shared: Path, slurm_cluster: SlurmCluster) -> None:
    async def check() -> None:
        gang = [Place("node3", (0,)), Place("node4", (7,))]
        async with slurm(shared, mode="pilot") as bench:
            for place in gang:
                await bench.until(lambda r, node=place.node: (r.kind, r.node) == (ReportKind.NODE_UP, node))  # type: ignore[misc]
            await bench.begin(*witness(shared, "job", "sleep 1000"), places=gang)
        async with slurm(shared, mode="pilot") as bench:
            assert [(one.job, one.running) for one in await bench.executor.found()] == [("job", True)]
            assert all(is_running(pid) for pid in pids(shared, "job"))
            pilot = bench.executor.pilots.ids["node4"]
            slurm_cluster.run("scancel", pilot)
            lost = await bench.wait(ReportKind.LOST)
            assert "node4" in lost.message
            await until(lambda: not any(is_running(pid) for pid in pids(shared, "job")))
            await until(lambda: bench.executor.pilots.ids.get("node4") not in (None, pilot))
            command = witness(shared, "job", 'if [ "$RANK" = 1 ]; then exit 3; fi; sleep 1000')
            ended = await bench.run(*command, run=2, places=gang)
            assert ended.exit_code == 3

    asyncio.run(check())
