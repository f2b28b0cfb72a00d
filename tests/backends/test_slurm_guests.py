"""Jobs that users give to a real Slurm with their own sbatch: they wait for us, run where we say, and come back."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

from fairlead.runtime.protocols import Order, Place, Report, ReportKind, Suspension
from servers.slurm import SlurmCluster

from .slurm_harness import SlurmBench, shared, slurm, slurm_cluster, starts, until, witness_script

__all__ = ["shared", "slurm_cluster"]


async def release(bench: SlurmBench, arrived: Report, job: str, node: str, run: int = 1, **more: Any) -> None:
    """As the scheduler does it, on as many GPUs as were asked for."""
    assert arrived.arrival is not None
    gpus = tuple(range(arrived.arrival.spec.gpus))
    more.setdefault("suspend", tuple(Suspension(way) for way in arrived.arrival.spec.suspend))
    places = [Place(one, gpus) for one in node.split(",")]
    await bench.executor.start(Order(job, run, (), places, foreign=arrived.foreign, resumes=run > 1, **more))


def test_what_a_job_asks_for_is_read_from_its_sbatch(shared: Path, slurm_cluster: SlurmCluster) -> None:
    async def check() -> None:
        options = (
            "--gres=gpu:v100:2",
            "-N2",
            "-c3",
            "--mem=4G",
            "-t",
            "1-2",
            "-A",
            "vision",
            "-J",
            "train",
            "--nice=7",
        )
        many = slurm_cluster.sbatch("true", *options)
        total = slurm_cluster.sbatch("true", "--gpus=3", "--no-requeue", user="daemon")
        held = slurm_cluster.sbatch("true", "--hold", "--gpus=1")
        later = slurm_cluster.sbatch("true", "--begin=now+1hour", "--gpus=1")
        after = slurm_cluster.sbatch("true", f"--dependency=afterok:{many}", "--gpus=1")
        async with slurm(shared) as bench:
            arrived = (await bench.appeared(many)).arrival
            assert arrived is not None
            spec = arrived.spec
            assert (spec.gpus, spec.gpu_type, spec.num_nodes, spec.name) == (2, "v100", 2, "train")
            assert (spec.cpu_milli, spec.memory_mib, spec.time_limit_s, spec.priority) == (3000, 4096, 26 * 3600, -7)
            assert (arrived.user, arrived.tenant) == ("nobody", "vision")
            assert abs(arrived.submit_s - bench.seen[0].time_s) < 60
            other = (await bench.appeared(total)).arrival
            assert other is not None
            assert (other.spec.gpus, other.spec.num_nodes, other.spec.preemptible) == (3, 1, False)
            assert (other.user, other.tenant) == ("daemon", "")
            await bench.run("true", job="time-passes")
            seen = {report.foreign.split(":")[2] for report in bench.seen if report.foreign}
            assert seen & {held, later, after} == set()
            slurm_cluster.run("scontrol", "release", held)
            await bench.appeared(held)

    asyncio.run(check())


def test_nothing_starts_before_it_is_released_and_then_where_it_is_told(
    shared: Path, slurm_cluster: SlurmCluster
) -> None:
    async def check() -> None:
        number = slurm_cluster.sbatch(f"{witness_script(shared, 'job')}\nexit 4", "--gres=gpu:2")
        async with slurm(shared) as bench:
            arrived = await bench.appeared(number)
            await bench.run("true", job="time-passes")
            assert starts(shared, "job") == 0
            await release(bench, arrived, "guest", "node6")
            started = await bench.wait(ReportKind.STARTED, "guest")
            ended = await bench.wait(ReportKind.ENDED, "guest")
            assert (ended.exit_code, ended.signal) == (4, None)
            assert started.time_s <= ended.time_s
            assert bench.executor.rows[number]["nodes"] == "node6"
            assert starts(shared, "job") == 1

    asyncio.run(check())


def test_the_tasks_of_an_array_are_jobs_of_their_own(shared: Path, slurm_cluster: SlurmCluster) -> None:
    async def check() -> None:
        number = slurm_cluster.sbatch("exit $SLURM_ARRAY_TASK_ID", "--gpus=1", "--array=1-3")
        async with slurm(shared) as bench:
            for task in (3, 1):
                await release(bench, await bench.appeared(f"{number}_{task}"), f"task-{task}", f"node{task}")
            for task in (3, 1):
                assert (await bench.wait(ReportKind.ENDED, f"task-{task}")).exit_code == task
            assert slurm_cluster.state(f"{number}_2") == "PENDING"
            names = [report.foreign for report in bench.seen if report.kind == ReportKind.APPEARED]
            assert len(names) == len(set(names)) == 3

    asyncio.run(check())


def test_a_job_that_is_taken_back_is_withdrawn(shared: Path, slurm_cluster: SlurmCluster) -> None:
    async def check() -> None:
        number = slurm_cluster.sbatch("true", "--gpus=1")
        while_away = slurm_cluster.sbatch("true", "--gpus=1")
        async with slurm(shared) as bench:
            arrived = await bench.appeared(number)
            unseen = await bench.appeared(while_away)
            slurm_cluster.run("scancel", number, user="nobody")
            await bench.until(lambda r: r.kind == ReportKind.WITHDRAWN and r.foreign == arrived.foreign)
        slurm_cluster.run("scancel", while_away, user="nobody")
        async with slurm(shared) as bench:
            await bench.until(lambda r: r.kind == ReportKind.WITHDRAWN and r.foreign == unseen.foreign)

    asyncio.run(check())


def test_a_refused_job_stays_with_the_reason_beside_it(shared: Path, slurm_cluster: SlurmCluster) -> None:
    async def check() -> None:
        number = slurm_cluster.sbatch("true", "--gpus=1")
        unwanted = slurm_cluster.sbatch("true", "--gpus=1")
        async with slurm(shared) as bench:
            arrived = await bench.appeared(number)
            await bench.executor.decline(arrived.foreign, 'the tenant "x" has no quota', cancel=False)
            await until(lambda: "has no quota" in slurm_cluster.run("squeue", "-h", "-j", number, "-o", "%k"))
            assert slurm_cluster.state(number) == "PENDING"
            await bench.executor.decline((await bench.appeared(unwanted)).foreign, "cancelled", cancel=True)
            await until(lambda: slurm_cluster.state(unwanted) == "CANCELLED")
        async with slurm(shared) as bench:  # and is not announced again
            await bench.run("true", job="time-passes")
            assert not [report for report in bench.seen if report.kind == ReportKind.APPEARED]

    asyncio.run(check())


def test_a_suspended_job_holds_nothing_and_comes_back_at_once(shared: Path, slurm_cluster: SlurmCluster) -> None:
    async def check() -> None:
        number = slurm_cluster.sbatch(f"{witness_script(shared, 'job')}\nsleep 1000", "--gpus=8")
        async with slurm(shared) as bench:
            arrived = await bench.appeared(number)
            await release(bench, arrived, "guest", "node2")
            await bench.wait(ReportKind.STARTED, "guest")
            await until(lambda: starts(shared, "job") == 1)
            await bench.executor.suspend("guest", 1)
            assert (await bench.wait(ReportKind.SUSPENDED, "guest")).method == Suspension.REQUEUE
            await bench.executor.forget("guest", 1)
            await bench.run("true", job="other", places=[Place("node2", tuple(range(8)))])
            assert starts(shared, "job") == 1
            assert slurm_cluster.state(number) == "PENDING"
            # Slurm lets a requeued job wait for two minutes by itself: our patience is one
            await release(bench, arrived, "guest", "node5", run=2)
            await bench.wait(ReportKind.STARTED, "guest", 2)
            await until(lambda: starts(shared, "job") == 2)
            await bench.executor.stop("guest", 2)
            assert (await bench.wait(ReportKind.ENDED, "guest", 2)).signal == signal.SIGTERM
            names = [report.foreign for report in bench.seen if report.kind == ReportKind.APPEARED]
            assert names == [arrived.foreign]

    asyncio.run(check())


def test_a_job_that_knows_a_checkpoint_signal_is_given_it(shared: Path, slurm_cluster: SlurmCluster) -> None:
    async def check() -> None:
        saves = f"trap 'echo saved >> {shared}/saved; exit 0' USR1\nwhile :; do sleep 0.1; done"
        (shared / "saved").touch()
        (shared / "saved").chmod(0o666)
        number = slurm_cluster.sbatch(saves, "--gpus=1")
        async with slurm(shared) as bench:
            arrived = await bench.appeared(number)
            ways = (Suspension.CHECKPOINT, Suspension.REQUEUE)
            await release(bench, arrived, "guest", "node2", suspend=ways, checkpoint_signal="SIGUSR1")
            await bench.wait(ReportKind.STARTED, "guest")
            await asyncio.sleep(1)  # for its trap
            await bench.executor.suspend("guest", 1)
            assert (await bench.wait(ReportKind.SUSPENDED, "guest")).method == Suspension.CHECKPOINT
            assert (shared / "saved").read_text() == "saved\n"
            assert slurm_cluster.state(number) == "PENDING"

    asyncio.run(check())


def test_whoever_submits_past_us_waits_like_everybody(shared: Path, slurm_cluster: SlurmCluster) -> None:
    async def check() -> None:
        async with slurm(shared) as bench:
            await bench.begin("sleep", "1000", places=[Place("node1", tuple(range(8)))])
            number = slurm_cluster.sbatch("true", "-p", "gpu-fairlead", "--gres=gpu:8", "-N8")
            await bench.appeared(number)
            assert bench.executor.rows[number]["partition"] == "gpu"

    asyncio.run(check())


def test_whoever_chooses_the_nodes_is_told_that_we_do(shared: Path, slurm_cluster: SlurmCluster) -> None:
    async def check() -> None:
        choosy = {
            slurm_cluster.sbatch("true", "--gpus=1", "-w", "node1"): "--nodelist=node1",
            slurm_cluster.sbatch("true", "--gpus=1", "-x", "node[1-2]"): "--exclude=node[1-2]",
            slurm_cluster.sbatch("true", "--gpus=1", ":", "--gpus=2"): "several components",
        }
        async with slurm(shared) as bench:
            for number, why in choosy.items():
                await until(lambda n=number, why=why: why in slurm_cluster.run("squeue", "-h", "-j", n, "-o", "%k"))
            assert not [report for report in bench.seen if report.kind == ReportKind.APPEARED]

    asyncio.run(check())


def test_a_job_that_its_owner_holds_is_not_released(shared: Path, slurm_cluster: SlurmCluster) -> None:
    async def check() -> None:
        number = slurm_cluster.sbatch(f"{witness_script(shared, 'job')}\nsleep 1000", "--gpus=1")
        async with slurm(shared) as bench:
            arrived = await bench.appeared(number)
            slurm_cluster.run("scontrol", "hold", number, user="nobody")
            await until(lambda: bench.executor.rows[number].is_held)
            await release(bench, arrived, "guest", "node2")
            failed = await bench.wait(ReportKind.FAILED_TO_START, "guest")
            assert (failed.retry, "owner holds it" in failed.message) == (True, True)
            slurm_cluster.run("scontrol", "release", number, user="nobody")
            await until(lambda: not bench.executor.rows[number].is_held)
            await release(bench, arrived, "guest", "node2", run=2)
            await bench.wait(ReportKind.STARTED, "guest", 2)
            await until(lambda: starts(shared, "job") == 1)

    asyncio.run(check())


def test_a_name_full_of_signs_harms_nobody(shared: Path, slurm_cluster: SlurmCluster) -> None:
    async def check() -> None:
        number = slurm_cluster.sbatch("true", "--gpus=1", "-J", "a\x1fb\x1ec\nshutdown", "--comment", "\x1e\n99\x1f99")
        async with slurm(shared) as bench:
            arrived = await bench.appeared(number)
            assert "99" not in bench.executor.rows
            assert bench.executor.rows[number]["name"].startswith("a")
            await release(bench, arrived, "guest", "node2")
            assert (await bench.wait(ReportKind.ENDED, "guest")).exit_code == 0

    asyncio.run(check())
