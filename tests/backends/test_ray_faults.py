"""Nodes, the head and the scheduler's own process die under load: nothing is lost, nothing runs twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fairlead.backends.ray import RayExecutor, RaySettings
from fairlead.model.errors import InputError
from fairlead.runtime.protocols import Found, Order, Place, Report, ReportKind
from servers.ray_cluster import NODES, SWIFT, RayCluster

from .harness import is_gone, python
from .ray_bench import PATIENCE_S, RayBench, on_ray, settings, until

#: says when it began, that it lives, and when it ended by itself; all that ever ran can be read from the file
WITNESS = python(
    """
import os, sys, time
file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
me = f"{os.environ['FAIRLEAD_JOB_ID']} {os.environ['FAIRLEAD_RUN']} {os.environ['RANK']} {os.getpid()}"
os.write(file, f"begin {me}\\n".encode())
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    time.sleep(0.05)
os.write(file, f"end {me}\\n".encode())
"""
)


def deeds(file: Path, what: str) -> list[tuple[str, int, int, int]]:
    """(job, run, rank, process), in the order in which they were done."""
    found = []
    for line in file.read_text().splitlines() if file.exists() else ():
        deed, job, run, rank, pid = line.split()
        if deed == what:
            found.append((job, int(run), int(rank), int(pid)))
    return found


def check_once(file: Path) -> None:
    """No part of a run began twice."""
    began = [one[:3] for one in deeds(file, "begin")]
    assert len(began) == len(set(began)), began


async def server(bench: RayBench, orders: dict[str, Order], done: dict[str, Report]) -> None:
    """What a scheduler does about reports: a lost or refused run is followed by another one, until all have ended."""
    async for report in bench.executor.reports():
        bench.seen.append(report)
        order = orders.get(report.job)
        if order is None or report.run != order.run:
            continue
        if report.kind == ReportKind.ENDED:
            done[report.job] = report
        elif report.kind in (ReportKind.LOST, ReportKind.FAILED_TO_START):
            alive = [node.name for node in bench.executor.nodes.by_name.values() if node.is_up]
            await bench.executor.forget(report.job, report.run)
            await asyncio.sleep(0.5)
            places = [Place(node, place.gpus) for node, place in zip((alive or NODES)[::-1], order.places)]
            orders[report.job] = Order(order.job, order.run + 1, order.command, places, grace_s=order.grace_s)
            await bench.executor.start(orders[report.job])
        if len(done) == len(orders):
            return


def test_a_node_dies_under_load_and_comes_back(path: Path, tmp_path: Path, own_ray: RayCluster) -> None:
    witness = tmp_path / "witness"
    orders = {
        f"j{i}": Order(f"j{i}", 1, [*WITNESS, str(witness), "8"], [Place(node, (i % 2,))], grace_s=2)
        for i, node in enumerate((*NODES, *NODES))
    }
    orders["gang"] = Order("gang", 1, [*WITNESS, str(witness), "8"], [Place("node-1", (2,)), Place("node-2", (2,))])

    async def scenario() -> None:
        async with on_ray(path, own_ray, fence_s=20.0) as bench:
            for order in orders.values():
                await bench.executor.start(order)
            await until(lambda: len(deeds(witness, "begin")) == 8)
            on_node_2 = [
                pid
                for job, _, rank, pid in deeds(witness, "begin")
                if job in ("j2", "j5") or (job, rank) == ("gang", 1)
            ]
            own_ray.kill("node-2")
            done: dict[str, Report] = {}
            async with asyncio.timeout(PATIENCE_S):
                await server(bench, orders, done)
            assert all(map(is_gone, on_node_2))
            assert {job for job, order in orders.items() if order.run > 1} == {"j2", "j5", "gang"}
            assert all(report.exit_code == 0 for report in done.values())
            down = await bench.wait_node(ReportKind.NODE_DOWN, "node-2")
            assert down.message
            own_ray.remove("node-2")
            own_ray.add("node-2")
            await bench.wait_node(ReportKind.NODE_UP, "node-2")
            assert (await bench.run("true", job="again", places=[Place("node-2", (0, 1, 2, 3))])).exit_code == 0

    asyncio.run(scenario())
    check_once(witness)
    ends = [one[0] for one in deeds(witness, "end") if one[2] == 0]
    assert sorted(ends) == sorted(orders)  # each job's work was finished once


@pytest.mark.long
def test_the_head_dies_under_load_and_another_one_takes_its_place(
    path: Path, tmp_path: Path, own_ray: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SWIFT.items():
        monkeypatch.setenv(name, value)
    witness = tmp_path / "witness"
    orders = {
        f"j{i}": Order(f"j{i}", 1, [*WITNESS, str(witness), "600"], [Place(node, (0,))], grace_s=2)
        for i, node in enumerate(NODES)
    }

    async def scenario() -> None:
        async with on_ray(path, own_ray, fence_s=20.0, start_s=20.0) as bench:
            for order in orders.values():
                await bench.executor.start(order)
            await until(lambda: len(deeds(witness, "begin")) == 3)
            before = [pid for *_, pid in deeds(witness, "begin")]
            own_ray.kill("head", "gcs_server")
            for job in orders:  # without their head Ray's nodes give up, and what they ran ends with them
                lost = await bench.wait(ReportKind.LOST, job)
                assert lost.message
            assert all(map(is_gone, before))
            own_ray.end_all()
            own_ray.begin()
            for node in NODES:
                await bench.wait_node(ReportKind.NODE_UP, node)
            for job in orders:
                end = await bench.run(*WITNESS, str(witness), "0.1", job=job, run=2, places=orders[job].places)
                assert end.exit_code == 0

    asyncio.run(scenario())
    check_once(witness)
    assert [(job, run) for job, run, *_ in deeds(witness, "end")] == [(job, 2) for job in orders]


DAEMON = """
import asyncio, json, sys
from pathlib import Path
from fairlead.backends.ray import RayExecutor, RaySettings
from fairlead.runtime.protocols import Order, Place
async def main():
    state, address, python, command = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
    executor = await RayExecutor.open(RaySettings(Path(state), address, python=python, poll_s=0.5))
    await executor.found()
    for number in range(8):
        places = [Place(f"node-{1 + number % 2}", (number % 4,))]
        if number == 5:
            places.append(Place("head", (0,)))
        await executor.start(Order(f"j{number}", 1, command, places, grace_s=2))
    print("ordered", flush=True)
    async for report in executor.reports():
        print(report.kind, report.job, flush=True)
asyncio.run(main())
"""


def test_the_scheduler_is_killed_at_any_moment_and_the_next_one_takes_everything_over(
    path: Path, tmp_path: Path, ray_cluster: RayCluster
) -> None:
    witness = tmp_path / "witness"
    jobs = {f"j{number}" for number in range(8)}
    words = json.dumps([*WITNESS, str(witness), "2"])
    arguments = [str(path), ray_cluster.address, str(ray_cluster.python), words]
    for pause_s in (0.0, 0.6, 1.0):  # between the orders and what Ray makes of them
        daemon = subprocess.Popen([sys.executable, "-c", DAEMON, *arguments], stdout=subprocess.PIPE, text=True)
        assert daemon.stdout
        assert daemon.stdout.readline() == "ordered\n"
        time.sleep(pause_s)
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()
        daemon.stdout.close()

    async def scenario() -> None:
        executor = await RayExecutor.open(settings(path, ray_cluster))
        try:
            found: dict[str, Found] = {one.job: one for one in await executor.found()}
            assert set(found) == jobs
            bench = RayBench(executor)
            for job in sorted(jobs):
                report = found[job].report or await bench.wait(ReportKind.ENDED, job)
                assert (report.kind, report.exit_code) == (ReportKind.ENDED, 0), report
        finally:
            await executor.close()

    asyncio.run(scenario())
    check_once(witness)
    assert sorted(one[:3] for one in deeds(witness, "end")) == sorted([*((job, 1, 0) for job in jobs), ("j5", 1, 1)])
    assert not [pid for *_, pid in deeds(witness, "begin") if not is_gone(pid)]
    assert os.path.isdir(path)


def test_a_scheduler_begins_without_its_cluster_where_it_knew_it(path: Path, ray_python: Path) -> None:
    nowhere = RaySettings(path, "127.0.0.1:1", python=str(ray_python), connect_s=1.0)

    async def scenario() -> None:
        with pytest.raises(InputError, match="no Ray cluster could be reached within 1 s"):
            await RayExecutor.open(nowhere)
        (path / "ray").mkdir(parents=True, exist_ok=True)
        known = {
            "name": "a",
            "base": "a",
            "gpus": 4,
            "gpu_type": "",
            "cpus": 8,
            "memory_mib": 0,
            "path": [],
            "id": "f0",
        }
        (path / "ray" / "nodes.json").write_text(json.dumps([known]))
        executor = await RayExecutor.open(nowhere)
        try:
            assert [(node.name, node.gpus) for node in (await executor.inventory()).nodes] == [("a", 4)]
            assert await executor.found() == []
            bench = RayBench(executor)
            await bench.wait_node(ReportKind.NODE_DOWN, "a")
        finally:
            await executor.close()

    asyncio.run(scenario())
