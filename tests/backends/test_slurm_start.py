"""Runs through a real Slurm: started where they were told, with what they were told, and what is said about their end."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from fairlead.runtime.protocols import Place, ReportKind
from servers.slurm import SlurmCluster

from .slurm_harness import shared, slurm, slurm_cluster, starts, until, witness

__all__ = ["shared", "slurm_cluster"]


def test_the_inventory_is_slurms(shared: Path, slurm_cluster: SlurmCluster) -> None:
    async def check() -> None:
        async with slurm(shared) as bench:
            spec = await bench.executor.inventory()
            assert [node.name for node in spec.nodes] == slurm_cluster.nodes
            assert {(node.gpus, node.gpu_type, node.cpu_milli, node.memory_mib) for node in spec.nodes} == {
                (8, "v100", 16000, 64000)
            }
            assert spec.levels == ("switch2", "switch1")
            assert spec.nodes[0].path == ("top", "left")
            assert spec.nodes[-1].path == ("top", "right")

    asyncio.run(check())


def test_a_run_starts_where_it_was_told_and_ends_with_its_code(shared: Path, slurm_cluster: SlurmCluster) -> None:
    async def check() -> None:
        async with slurm(shared) as bench:
            show = "echo $FAIRLEAD_NODE $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES $FAIRLEAD_JOB_ID $NAME; id -un; exit 3"
            ended = await bench.run(
                "/bin/sh", "-c", show, places=[Place("node5", (2, 3))], env={"NAME": "x y"}, user="nobody"
            )
            assert (ended.exit_code, ended.signal) == (3, None)
            assert [report.kind for report in bench.seen if report.job] == [ReportKind.STARTED, ReportKind.ENDED]
            node, slurms, devices, job, *name = bench.log().split()[:6]
            assert (node, slurms, job, name) == ("node5", "node5", "job", ["x", "y"])
            assert len(devices.split(",")) == 2
            assert bench.log().split()[-1] == "nobody"
            number = bench.executor.runs["job", 1].slurm_id
            await until(lambda: slurm_cluster.state(number) == "FAILED")

    asyncio.run(check())


def test_a_signal_is_told_from_an_exit_code(shared: Path) -> None:
    async def check() -> None:
        async with slurm(shared) as bench:
            killed = await bench.run("/bin/sh", "-c", "kill -9 $$")
            assert (killed.exit_code, killed.signal) == (None, signal.SIGKILL)
            code = await bench.run("/bin/sh", "-c", "exit 137", job="other")
            assert (code.exit_code, code.signal) == (137, None)

    asyncio.run(check())


def test_a_gang_has_its_ranks_on_its_nodes(shared: Path) -> None:
    async def check() -> None:
        async with slurm(shared) as bench:
            show = (
                "echo $RANK $LOCAL_RANK $WORLD_SIZE $NODE_RANK $NNODES $MASTER_ADDR $SLURMD_NODENAME "
                "$MASTER_PORT $CUDA_VISIBLE_DEVICES"
            )
            places = [Place("node7", (0, 1)), Place("node2", (0, 1))]
            ended = await bench.run("/bin/sh", "-c", show, places=places, per_gpu=True)
            assert ended.exit_code == 0
            # another node's output comes by way of Slurm, and may come a moment after its end is known
            await until(lambda: len(bench.log().splitlines()) == 4)
            lines = sorted(line.split() for line in bench.log().splitlines())
            assert [line[:8] for line in lines] == [
                ["[0]", "0", "0", "4", "0", "2", "127.0.0.1", "node7"],
                ["[1]", "1", "1", "4", "0", "2", "127.0.0.1", "node7"],
                ["[2]", "2", "0", "4", "1", "2", "127.0.0.1", "node2"],
                ["[3]", "3", "1", "4", "1", "2", "127.0.0.1", "node2"],
            ]
            assert len({line[8] for line in lines}) == 1
            assert all(len(line[9].split(",")) == 2 for line in lines)

    asyncio.run(check())


def test_where_one_rank_fails_the_others_are_stopped(shared: Path) -> None:
    async def check() -> None:
        async with slurm(shared) as bench:
            program = 'if [ "$RANK" = 1 ]; then sleep 1; exit 5; fi; sleep 1000'
            places = [Place("node1", (0,)), Place("node2", (0,))]
            ended = await bench.run("/bin/sh", "-c", program, places=places)
            assert ended.exit_code == 5
            assert "rank 1 failed" in ended.message

    asyncio.run(check())


def test_a_gang_may_have_more_gpus_on_one_node_than_on_another(shared: Path, slurm_cluster: SlurmCluster) -> None:
    """Slurm spreads GPUs of a whole job as it likes, so each node's number is asked for by itself."""

    async def check() -> None:
        async with slurm(shared) as bench:
            show = "echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"
            places = [Place("node3", (0, 1, 2, 3, 4)), Place("node4", (0, 1, 2))]
            ended = await bench.run("/bin/sh", "-c", show, places=places)
            assert ended.exit_code == 0
            lines = [line.split()[1:] for line in bench.log().splitlines() if line.startswith("[")]
            assert {node: len(devices.split(",")) for node, devices in lines} == {"node3": 5, "node4": 3}

    asyncio.run(check())


def test_a_program_that_is_not_there_never_started(shared: Path) -> None:
    async def check() -> None:
        async with slurm(shared) as bench:
            await bench.start("/no/such/program")
            failed = await bench.wait(ReportKind.FAILED_TO_START)
            assert "/no/such/program" in failed.message
            assert not failed.retry
            await bench.start("true", job="nowhere", places=[Place("node99", (0,))])
            assert "node99" in (await bench.wait(ReportKind.FAILED_TO_START, "nowhere")).message

    asyncio.run(check())


def test_an_order_that_is_given_twice_is_carried_out_once(shared: Path) -> None:
    async def check() -> None:
        async with slurm(shared) as bench:
            command = witness(shared, "job", "sleep 0.5")
            await bench.start(*command)
            await bench.start(*command)
            await bench.wait(ReportKind.ENDED)
            await bench.start(*command)
            assert starts(shared, "job") == 1
            await bench.executor.forget("job", 1)
            assert await bench.executor.found() == []
            assert os.listdir(shared / "state" / "slurm" / "runs") == []

    asyncio.run(check())


def test_many_runs_take_few_calls(shared: Path) -> None:
    async def check() -> None:
        async with slurm(shared) as bench:
            calls = bench.executor.slurm.calls
            calls.clear()
            began_s = time.monotonic()
            for i in range(16):
                await bench.start("true", job=f"job-{i}", places=[Place(f"node{i % 8 + 1}", (i // 8,))])
            for i in range(16):
                assert (await bench.wait(ReportKind.ENDED, f"job-{i}")).exit_code == 0
            # a submission each; releases and looks at Slurm are for all of them together
            assert calls["sbatch"] == 16
            assert calls["scontrol"] < 16
            assert calls["squeue"] <= (time.monotonic() - began_s) / bench.executor.settings.poll_s + 1

    asyncio.run(check())
