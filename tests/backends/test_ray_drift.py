"""What somebody does in Ray behind our back is seen, said, and leaves nothing running."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from fairlead.runtime.protocols import Place, ReportKind
from servers.ray_cluster import RayCluster

from .harness import is_gone, python
from .ray_bench import RayBench, on_ray, until

#: a program, a child of it, and a child's child that has left its session
FAMILY = python(
    "import os, time\n"
    "if os.fork() == 0:\n"
    "    if os.fork() == 0: os.setsid()\n"
    "os.write(1, f'{os.getpid()}\\n'.encode()); time.sleep(600)"
)
CONNECT = 'import os, ray; ray.init(os.environ["RAY_ADDRESS"], _node_ip_address="127.0.0.1", log_to_driver=False)\n'
KILL_ACTOR = (
    CONNECT
    + """
import sys
name = sys.argv[1]
ray.kill(ray.get_actor(name + "#" + sys.argv[2], namespace=name.split("/")[0]))
"""
)
REMOVE_GROUP = (
    CONNECT
    + """
import sys
from ray._raylet import PlacementGroupID
from ray.util.placement_group import PlacementGroup
for key, one in ray.util.placement_group_table().items():
    if one["name"] == sys.argv[1]:
        ray.util.remove_placement_group(PlacementGroup(PlacementGroupID(bytes.fromhex(key))))
"""
)


async def family(bench: RayBench, parts: int) -> list[int]:
    places = [Place("node-1", (0,)), Place("node-2", (0,))][:parts]
    await bench.begin(*FAMILY, places=places)
    await until(lambda: len(bench.log().splitlines()) == 3 * parts)
    return [int(line.split()[-1]) for line in bench.log().splitlines()]


@pytest.mark.parametrize(
    ("program", "says"), [(KILL_ACTOR, "killed"), (REMOVE_GROUP, "placement group")], ids=["actor", "group"]
)
def test_who_loses_its_actor_or_its_group_is_lost_and_leaves_nobody(
    path: Path, ray_cluster: RayCluster, program: str, says: str
) -> None:
    async def scenario() -> None:
        async with on_ray(path, ray_cluster) as bench:
            pids = await family(bench, 2)
            name = bench.executor._runs["job", 1].name
            await asyncio.to_thread(ray_cluster.run, program, name, "1")
            lost = await bench.wait(ReportKind.LOST)
            assert all(map(is_gone, pids))
            assert says in lost.message
            # its GPUs are free again in Ray
            await bench.begin("sleep", "60", run=2, places=[Place(f"node-{i}", (0, 1, 2, 3)) for i in (1, 2)])
            await bench.executor.stop("job", 2)
            await bench.wait(ReportKind.ENDED, run=2)

    asyncio.run(scenario())


def test_a_supervisor_that_is_killed_takes_everybody_with_it(path: Path, ray_cluster: RayCluster) -> None:
    async def scenario() -> None:
        async with on_ray(path, ray_cluster) as bench:
            pids = await family(bench, 1)
            os.kill(bench.state()["supervisor"][0], signal.SIGKILL)
            lost = await bench.wait(ReportKind.LOST)
            assert "its supervisor died" in lost.message
            assert all(map(is_gone, pids))

    asyncio.run(scenario())


def test_an_actor_and_its_supervisor_killed_together_leave_nobody(path: Path, ray_cluster: RayCluster) -> None:
    async def scenario() -> None:
        async with on_ray(path, ray_cluster) as bench:
            pids = await family(bench, 1)
            supervisor = bench.state()["supervisor"][0]
            os.kill(supervisor, signal.SIGSTOP)
            name = bench.executor._runs["job", 1].name
            await asyncio.to_thread(ray_cluster.run, KILL_ACTOR, name, "0")
            os.kill(supervisor, signal.SIGKILL)
            await bench.wait(ReportKind.LOST)
            assert all(map(is_gone, pids))

    asyncio.run(scenario())


def test_the_process_that_talks_to_ray_may_be_killed(path: Path, tmp_path: Path, ray_cluster: RayCluster) -> None:
    ends = f"while test ! -e {tmp_path}/go; do sleep 0.05; done; exit 7"

    async def scenario() -> None:
        async with on_ray(path, ray_cluster) as bench:
            await bench.begin("sh", "-c", ends)
            pid = bench.executor.bridge.pid
            assert pid
            os.kill(pid, signal.SIGKILL)
            await bench.start("true", job="meanwhile")
            (tmp_path / "go").touch()
            assert (await bench.wait(ReportKind.ENDED)).exit_code == 7
            assert (await bench.wait(ReportKind.ENDED, "meanwhile")).exit_code == 0
            assert {report.kind for report in bench.seen} == {ReportKind.STARTED, ReportKind.ENDED}

    asyncio.run(scenario())
