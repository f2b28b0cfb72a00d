"""Parts of a real Slurm die, and so does our own process, each with runs under way: nothing is lost, nothing runs twice."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.backends.slurm.runfiles import ASK
from fairlead.runtime.protocols import Order, Place, ReportKind, Suspension
from servers.slurm import SlurmCluster

from .slurm_harness import SlurmBench, is_running, pids, shared, slurm, slurm_cluster, starts, until, witness
from .slurm_harness import witness_script as guest

__all__ = ["shared", "slurm_cluster"]


def fail(cluster: SlurmCluster, node: str) -> None:
    """Its slurmd dies, and Slurm gives it up without waiting for long."""
    cluster.kill_slurmd(node)
    cluster.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=no answer")


def come_back(cluster: SlurmCluster, node: str) -> None:
    cluster.start_slurmd(node)
    cluster.run("scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)
    cluster.wait_idle()


def test_a_run_on_a_node_that_slurm_has_lost_is_fenced_before_it_is_called_lost(
    shared: Path, slurm_cluster: SlurmCluster
) -> None:
    async def check() -> None:
        async with slurm(shared) as bench:
            command = witness(shared, "job", "sleep 1000")
            await bench.begin(*command, places=[Place("node3", (0,)), Place("node4", (0,))])
            await until(lambda: starts(shared, "job") == 2)
            fail(slurm_cluster, "node4")
            try:
                lost = await bench.wait(ReportKind.LOST)
                assert lost.message
                assert not any(is_running(pid) for pid in pids(shared, "job"))
                down = await bench.until(lambda report: report.kind == ReportKind.NODE_DOWN)
                assert down.node == "node4"
                await bench.begin(*command, run=2, places=[Place("node5", (0,)), Place("node6", (0,))], resumes=True)
            finally:
                come_back(slurm_cluster, "node4")
            await bench.until(lambda report: report.kind == ReportKind.NODE_UP)
            await until(lambda: starts(shared, "job") == 4)
            await bench.executor.stop("job", 2)
            await bench.wait(ReportKind.ENDED, run=2)

    asyncio.run(check())


def test_a_run_that_finishes_though_slurm_has_lost_its_node_has_finished(
    shared: Path, slurm_cluster: SlurmCluster
) -> None:
    async def check() -> None:
        async with slurm(shared) as bench:
            await bench.begin(*witness(shared, "job", "sleep 1; exit 6"), places=[Place("node3", (0,))])
            slurm_cluster.kill_slurmd("node3")
            try:
                assert (await bench.wait(ReportKind.ENDED)).exit_code == 6
            finally:
                come_back(slurm_cluster, "node3")

    asyncio.run(check())


def test_a_node_that_can_not_reach_our_files_ends_its_run_by_itself(shared: Path) -> None:
    """What makes fencing certain: it needs nobody to tell the node anything."""

    async def check() -> None:
        async with slurm(shared) as bench:
            await bench.begin(*witness(shared, "job", "sleep 1000"))
            os.unlink(Path(bench.executor.runs["job", 1].path) / ASK)
            lost = await bench.wait(ReportKind.LOST)
            assert "could not reach" in lost.message
            assert not any(is_running(pid) for pid in pids(shared, "job"))

    asyncio.run(check())


def test_what_a_user_writes_in_the_agents_place_harms_nobody_else(shared: Path) -> None:
    async def check() -> None:
        async with slurm(shared) as bench:
            out = shared / "state" / "slurm" / "runs" / "job@1" / "out"
            lies = (
                f"""cd {out}; rm -f part-0.json; ln -s /etc/shadow part-0.json; sleep 1; rm part-0.json; mkfifo part-0.json; sleep 1;"""
                """rm part-0.json; echo '{"phase": "suspended", "method": [1], "time_s": "x", "exit_code": {}}' > part-0.json; sleep 1;"""
                """rm part-0.json; echo '[' > part-0.json; sleep 1; exit 4"""
            )
            await bench.start("/bin/bash", "-c", lies, user="nobody")
            await bench.until(lambda report: report.job == "job" and report.kind != ReportKind.STARTED)
            assert (await bench.run("true", job="other")).exit_code == 0

    asyncio.run(check())


def test_without_slurmctld_runs_go_on_and_orders_wait(shared: Path, slurm_cluster: SlurmCluster) -> None:
    async def check() -> None:
        async with slurm(shared) as bench:
            gate = shared / "gate"
            await bench.begin(
                *witness(shared, "ends", f"while [ ! -e {gate} ]; do sleep 0.1; done; exit 5"), job="ends"
            )
            await bench.begin(*witness(shared, "stops", "sleep 1000"), job="stops")
            await asyncio.to_thread(slurm_cluster.kill_slurmctld)
            try:
                await bench.start(*witness(shared, "waits", "true"), job="waits")
                await until(lambda: bench.executor.is_away)
                gate.touch()
                assert (await bench.wait(ReportKind.ENDED, "ends")).exit_code == 5
                await bench.executor.stop("stops", 1)
                await bench.wait(ReportKind.ENDED, "stops")
            finally:
                slurm_cluster.start_slurmctld()
            assert (await bench.wait(ReportKind.ENDED, "waits")).exit_code == 0
            assert [starts(shared, name) for name in ("ends", "stops", "waits")] == [1, 1, 1]
            assert not [report for report in bench.seen if report.kind == ReportKind.LOST]
            slurm_cluster.wait_idle()

    asyncio.run(check())


#: an executor that is killed at the moment that is named, after it was given the orders
_DOOMED = """
import asyncio, json, os, signal, sys
from pathlib import Path
from fairlead.backends.slurm import SlurmExecutor, SlurmSettings
from fairlead.backends.slurm.chores import Chores
from fairlead.backends.slurm.commands import Slurm
from fairlead.runtime.protocols import Order, Place

state, moment, orders = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if moment == "submitted":
    SlurmExecutor._submitted = die
elif moment == "noted":
    Chores.release = die
elif moment == "released":
    tell = Chores._tell_release
    async def told(self, jobs):
        await tell(self, jobs)
        die()
    Chores._tell_release = told
elif moment == "guest":
    Chores.line = die

async def main():
    executor = await SlurmExecutor.open(SlurmSettings(state, poll_s=0.5, lease_s=6.0))
    await executor.found()
    for job, command, node, foreign in orders:
        await executor.start(Order(job, 1, command, [Place(node, (0,))], grace_s=5.0, foreign=foreign))
    await asyncio.sleep(60)

asyncio.run(main())
"""


def doom(state: Path, moment: str, orders: list[Order]) -> None:
    import json

    given = json.dumps([[o.job, list(o.command), o.places[0].node, o.foreign] for o in orders])
    words = [sys.executable, "-c", _DOOMED, str(state), moment, given]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize("moment", ["submitted", "noted", "released"])
def test_an_executor_that_is_killed_while_it_starts_runs_starts_each_once(
    shared: Path, slurm_cluster: SlurmCluster, moment: str
) -> None:
    async def check() -> None:
        orders = [
            Order(
                f"job-{i}",
                1,
                witness(shared, f"job-{i}", "sleep 1; exit 3"),
                [Place(f"node{i + 1}", (0,))],
                grace_s=5.0,
            )
            for i in range(4)
        ]
        doom(shared / "state", moment, orders)
        async with slurm(shared) as bench:
            found = {one.job for one in await bench.executor.found()}
            assert "job-0" in found
            for order in orders:  # as a scheduler does it that does not know how far the last one came
                await bench.executor.start(order)
            for order in orders:
                if order.job not in found:
                    assert (await bench.wait(ReportKind.ENDED, order.job)).exit_code == 3
            await until(lambda: not bench.executor._submitting and "PENDING" not in slurm_cluster.jobs().values())
            for order in orders:
                await until(lambda job=order.job: bench.executor.runs[job, 1].is_over)
            results = [one.report for one in await bench.executor.found()]
            assert [report and report.exit_code for report in results] == [3, 3, 3, 3]
            assert [starts(shared, order.job) for order in orders] == [1, 1, 1, 1]

    asyncio.run(check())


def test_runs_are_adopted_and_so_is_what_became_of_them_meanwhile(shared: Path, slurm_cluster: SlurmCluster) -> None:
    async def check() -> None:
        async with slurm(shared) as bench:
            await bench.begin(*witness(shared, "goes-on", "sleep 1000"), job="goes-on")
            await bench.begin(*witness(shared, "ends", "sleep 1; exit 9"), job="ends")
        await until(lambda: "end" in (shared / "ends.witness").read_text())
        await until(lambda: "FAILED" in slurm_cluster.jobs().values())
        async with slurm(shared) as bench:
            found = {one.job: one for one in await bench.executor.found()}
            assert found["goes-on"].running
            report = found["ends"].report
            assert report is not None
            assert (report.kind, report.exit_code) == (ReportKind.ENDED, 9)
            await bench.executor.stop("goes-on", 1)
            await bench.wait(ReportKind.ENDED, "goes-on")
            assert bench.kinds("ends") == []
            assert starts(shared, "goes-on") == 1

    asyncio.run(check())


async def _arrived_guest(bench: SlurmBench, cluster: SlurmCluster, folder: Path) -> tuple[str, str]:
    number = cluster.sbatch(f"{guest(folder, 'job')}\nsleep 1000", "--gpus=1")
    return number, (await bench.appeared(number)).foreign


def test_a_users_job_on_a_lost_node_stays_there_until_the_node_is_back(
    shared: Path, slurm_cluster: SlurmCluster
) -> None:
    async def check() -> None:
        async with slurm(shared) as bench:
            number, foreign = await _arrived_guest(bench, slurm_cluster, shared)
            order = Order("guest", 1, (), [Place("node7", (0,))], foreign=foreign, suspend=(Suspension.REQUEUE,))
            await bench.executor.start(order)
            await bench.wait(ReportKind.STARTED, "guest")
            await until(lambda: starts(shared, "job") == 1)
            (pid,) = pids(shared, "job")
            fail(slurm_cluster, "node7")
            try:
                await bench.until(lambda report: report.kind == ReportKind.NODE_DOWN)
                await until(lambda: slurm_cluster.state(number) == "PENDING" and bench.executor.rows[number].is_held)
                await bench.run("true", job="time-passes", places=[Place("node1", (0,))])
                assert ReportKind.LOST not in bench.kinds("guest")
                assert is_running(pid)  # nobody could tell its node
            finally:
                come_back(slurm_cluster, "node7")
            lost = await bench.wait(ReportKind.LOST, "guest")
            assert "is back" in lost.message
            assert not is_running(pid)
            await bench.executor.start(Order("guest", 2, (), [Place("node2", (0,))], foreign=foreign, resumes=True))
            await bench.wait(ReportKind.STARTED, "guest", 2)
            await until(lambda: starts(shared, "job") == 2)
            await bench.executor.stop("guest", 2)
            await bench.wait(ReportKind.ENDED, "guest", 2)

    asyncio.run(check())


def test_an_executor_that_is_killed_while_it_releases_a_users_job_releases_it_once(
    shared: Path, slurm_cluster: SlurmCluster
) -> None:
    async def check() -> None:
        number = slurm_cluster.sbatch(f"{guest(shared, 'job')}\nexit 2", "--gpus=1")
        async with slurm(shared) as bench:
            foreign = (await bench.appeared(number)).foreign
        doom(shared / "state", "guest", [Order("guest", 1, (), [Place("node7", (0,))], foreign=foreign)])
        async with slurm(shared) as bench:
            assert [one.job for one in await bench.executor.found()] == ["guest"]
            assert (await bench.wait(ReportKind.ENDED, "guest")).exit_code == 2
            assert starts(shared, "job") == 1

    asyncio.run(check())
