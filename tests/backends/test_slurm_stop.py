"""Ending and suspending runs in a real Slurm, by us and behind our back."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from fairlead.runtime.protocols import Place, ReportKind, Suspension
from servers.slurm import RUNS, SlurmCluster

from .slurm_harness import is_running, pids, shared, slurm, slurm_cluster, starts, until, witness

__all__ = ["shared", "slurm_cluster"]
CHECKPOINTS = "trap 'echo saved; exit 0' USR1\nwhile :; do sleep 0.1; done"
DEAF = "trap '' TERM\nwhile :; do sleep 0.1; done"


def test_a_stopped_run_has_its_grace_period(shared: Path, slurm_cluster: SlurmCluster) -> None:
    async def check() -> None:
        async with slurm(shared) as bench:
            polite = "trap 'echo bye; exit 7' TERM\nwhile :; do sleep 0.1; done"
            await bench.begin("/bin/bash", "-c", polite)
            await bench.begin("/bin/bash", "-c", DEAF, job="deaf", grace_s=1.0)
            await bench.executor.stop("job", 1)
            await bench.executor.stop("deaf", 1)
            ended = await bench.wait(ReportKind.ENDED)
            assert (ended.exit_code, ended.signal) == (7, None)
            assert "bye" in bench.log()
            assert (await bench.wait(ReportKind.ENDED, "deaf")).signal == signal.SIGKILL

    asyncio.run(check())


def test_a_run_that_waits_in_slurm_is_called_off(shared: Path, slurm_cluster: SlurmCluster) -> None:
    async def check() -> None:
        async with slurm(shared) as bench:
            everything = [Place("node1", tuple(range(8)))]
            await bench.begin("sleep", "1000", job="first", places=everything)
            command = witness(shared, "job", "true")
            await bench.start(*command, job="a", places=everything)
            await bench.start(*command, job="b", places=everything)
            await until(lambda: len([s for s in slurm_cluster.jobs().values() if s == "PENDING"]) == 2)
            await bench.executor.stop("a", 1)
            await bench.executor.suspend("b", 1)
            await bench.wait(ReportKind.ENDED, "a")
            assert (await bench.wait(ReportKind.SUSPENDED, "b")).method == Suspension.REQUEUE
            await bench.executor.stop("first", 1)
            await bench.wait(ReportKind.ENDED, "first")
            await bench.begin("true", job="after", places=everything)
            assert starts(shared, "job") == 0

    asyncio.run(check())


def test_a_run_is_suspended_by_its_own_checkpoint_and_comes_back_elsewhere(
    shared: Path, slurm_cluster: SlurmCluster
) -> None:
    async def check() -> None:
        async with slurm(shared) as bench:
            command = witness(shared, "job", CHECKPOINTS)
            await bench.begin(*command, checkpoint_signal="SIGUSR1")
            await bench.executor.suspend("job", 1)
            suspended = await bench.wait(ReportKind.SUSPENDED)
            assert suspended.method == Suspension.CHECKPOINT
            assert "saved" in bench.log()
            assert not any(is_running(pid) for pid in pids(shared, "job"))
            await bench.executor.forget("job", 1)
            # it holds nothing: somebody else gets the whole node
            await bench.run("true", job="other", places=[Place("node1", tuple(range(8)))])
            resumed = [Place("node6", (0,))]
            await bench.begin(*command, run=2, places=resumed, resumes=True, checkpoint_signal="SIGUSR1")
            await until(lambda: starts(shared, "job") == 2)
            await bench.executor.stop("job", 2)
            await bench.wait(ReportKind.ENDED, run=2)

    asyncio.run(check())


def test_a_run_without_a_checkpoint_is_requeued(shared: Path) -> None:
    async def check() -> None:
        async with slurm(shared) as bench:
            await bench.begin("/bin/bash", "-c", DEAF, grace_s=1.0, checkpoint_signal="SIGUSR1")
            await bench.executor.suspend("job", 1)
            assert (await bench.wait(ReportKind.SUSPENDED)).method == Suspension.REQUEUE
            found = await bench.executor.found()
            assert [(one.running, one.suspended) for one in found] == [(False, Suspension.REQUEUE)]

    asyncio.run(check())


def test_scancel_behind_our_back_is_told(shared: Path, slurm_cluster: SlurmCluster) -> None:
    async def check() -> None:
        async with slurm(shared) as bench:
            await bench.begin("sleep", "1000")
            slurm_cluster.run("scancel", bench.executor.runs["job", 1].slurm_id)
            ended = await bench.wait(ReportKind.ENDED)
            assert ended.signal == signal.SIGTERM
            assert "cancelled in Slurm" in ended.message

    asyncio.run(check())


def test_drained_nodes_are_told_and_so_is_their_return(shared: Path, slurm_cluster: SlurmCluster) -> None:
    async def check() -> None:
        slurm_cluster.run("scontrol", "update", "NodeName=node8", "State=DRAIN", "Reason=a bad fan")
        try:
            async with slurm(shared) as bench:
                down = await bench.until(lambda report: report.kind == ReportKind.NODE_DOWN)
                assert (down.node, "a bad fan" in down.message) == ("node8", True)
                slurm_cluster.run("scontrol", "update", "NodeName=node8", "State=RESUME")
                up = await bench.until(lambda report: report.kind == ReportKind.NODE_UP)
                assert up.node == "node8"
        finally:
            slurm_cluster.run("scontrol", "update", "NodeName=node8", "State=RESUME", check=False)

    asyncio.run(check())


def test_nobody_can_make_slurm_start_a_run_again(shared: Path, slurm_cluster: SlurmCluster) -> None:
    """An administrator requeues it, with everything that could be in the way of that put aside."""

    async def check() -> None:
        async with slurm(shared) as bench:
            await bench.begin(*witness(shared, "job", "sleep 1000"))
            number = bench.executor.runs["job", 1].slurm_id
            assert "disabled" in slurm_cluster.run("scontrol", "requeue", number, check=False)
            slurm_cluster.run("scontrol", "update", f"JobId={number}", "Requeue=1")
            slurm_cluster.run("scontrol", "requeue", number)
            slurm_cluster.run("scontrol", "update", f"JobId={number}", "StartTime=now", check=False)
            over = await bench.until(
                lambda report: report.job == "job" and report.kind in (ReportKind.ENDED, ReportKind.LOST)
            )
            assert over.run == 1
            await until(lambda: slurm_cluster.state(number) in ("CANCELLED", "COMPLETED", "FAILED", ""))
            assert starts(shared, "job") == 1

    asyncio.run(check())


def test_somebody_elses_job_is_left_alone(shared: Path, slurm_cluster: SlurmCluster) -> None:
    async def check() -> None:
        number = slurm_cluster.sbatch("sleep 1000", "-p", "other")
        async with slurm(shared) as bench:
            await bench.run("true")
            assert slurm_cluster.state(number) == "RUNNING"
            assert not [report for report in bench.seen if report.foreign]

    asyncio.run(check())
    assert RUNS
