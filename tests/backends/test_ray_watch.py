"""The watcher sees who has and who wants GPUs in a Ray cluster, whoever they are."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.live.daemon import START_S, Daemon, until

from fairlead.backends.ray import RayWatcher
from fairlead.runtime.protocols import Phase, Place, ReportKind, Scene, Sighting
from servers.ray_cluster import RayCluster

from .ray_bench import PATIENCE_S, environment, on_ray, settings

SOMEBODY = """
import os, sys, ray
from ray.util.placement_group import placement_group
ray.init(os.environ["RAY_ADDRESS"], _node_ip_address="127.0.0.1", log_to_driver=False,
         job_config=ray.job_config.JobConfig(metadata={"user": "ada"}))
@ray.remote(num_gpus=0.5, num_cpus=0)
class Model:
    def ready(self): return True
model = Model.remote()
ray.get(model.ready.remote())
pair = placement_group([{"GPU": 2}, {"GPU": 2}], strategy="STRICT_SPREAD", name="pair")
assert pair.wait(30)
wide = placement_group([{"GPU": 4}] * 3, strategy="STRICT_SPREAD", name="wide")
cpu = placement_group([{"CPU": 1}], name="no-gpus")
print("there", flush=True)
sys.stdin.readline()
ray.util.remove_placement_group(pair)
print("gone", flush=True)
sys.stdin.readline()
"""


async def seen(watcher: RayWatcher, name: str, phase: Phase) -> tuple[Scene, Sighting]:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            scene = await watcher.look()
            for one in scene.jobs:
                if (one.job.spec.name, one.phase) == (name, phase):
                    return scene, one
            await asyncio.sleep(0.1)


@contextmanager
def somebody(cluster: RayCluster) -> Iterator[subprocess.Popen[str]]:
    """Who has two GPUs on each of two nodes and half a one, and wants all; a line, and the two and two are given up."""
    env = {**cluster.environment(), "RAY_ADDRESS": cluster.address}
    words = [cluster.python, "-c", SOMEBODY]
    with subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            assert process.stdout.readline() == "there\n"
            yield process
        finally:
            process.kill()


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()


def test_it_sees_groups_and_actors_that_hold_gpus_or_wait_for_them(path: Path, ray_cluster: RayCluster) -> None:
    with somebody(ray_cluster) as process:

        async def scenario() -> None:
            watcher = await RayWatcher.open(settings(path, ray_cluster))
            try:
                spec = await watcher.inventory()
                assert [(node.name, node.gpus) for node in spec.nodes] == [
                    ("head", 4),
                    ("node-1", 4),
                    ("node-2", 4),
                ]
                scene, pair = await seen(watcher, "pair", Phase.RUNNING)
                by_name = {one.job.spec.name: one for one in scene.jobs}
                assert set(by_name) == {"pair", "wide", "Model"}
                assert (pair.job.spec.gpus, pair.job.spec.num_nodes, pair.job.user) == (2, 2, "ada")
                assert [gpus for _, gpus in pair.gpus] == [2, 2]
                assert len({node for node, _ in pair.gpus}) == 2
                assert pair.start_s is not None
                assert abs(pair.start_s - scene.time_s) < 600
                assert pair.job.submit_s <= pair.start_s
                wide = by_name["wide"]
                assert (wide.phase, wide.job.spec.gpus, wide.job.spec.num_nodes) == (Phase.WAITING, 4, 3)
                assert (wide.start_s, wide.gpus) == (None, ())
                model = by_name["Model"]
                assert (model.phase, model.job.spec.gpu_share_milli) == (Phase.RUNNING, 500)
                assert scene.down == {}
                go_on(process)
                scene, ended = await seen(watcher, "pair", Phase.ENDED)
                assert ended.end_s is not None
                assert ended.job.foreign == pair.job.foreign
                assert ended.gpus == pair.gpus
                after = await watcher.look()
                assert "pair" not in {one.job.spec.name for one in after.jobs}  # told once
            finally:
                await watcher.close()

        asyncio.run(scenario())


def test_it_sees_what_fairlead_itself_runs_there(path: Path, ray_cluster: RayCluster) -> None:
    async def scenario() -> None:
        async with on_ray(path, ray_cluster) as bench:
            await bench.begin("sleep", "600", places=[Place("node-1", (0, 1)), Place("node-2", (0,))])
            watcher = await RayWatcher.open(settings(path, ray_cluster))
            try:
                (one,) = (await watcher.look()).jobs
                assert (one.job.spec.gpus, one.gpus) == (3, (("node-1", 2), ("node-2", 1)))
            finally:
                await watcher.close()
            await bench.executor.stop("job", 1)
            await bench.wait(ReportKind.ENDED)

    asyncio.run(scenario())


def test_in_the_shadow_of_a_real_cluster(tmp_path: Path, ray_cluster: RayCluster) -> None:
    up = Daemon(tmp_path)
    args = ("up", "--engine", "ray", "--address", ray_cluster.address, "--shadow", "--policy", "fifo-backfill")
    with somebody(ray_cluster) as process, up.popen(*args, **environment(ray_cluster)) as watches:
        try:
            journal = up.state_dir / "shadow.jsonl"

            def says(word: str) -> bool:
                assert watches.poll() is None, watches.communicate()
                return journal.exists() and word in journal.read_text()

            until(lambda: says("pair"), START_S)
            go_on(process)
            until(lambda: says('"end"'), START_S)
        finally:
            watches.send_signal(signal.SIGTERM)
            watches.wait(60)
    rows = [json.loads(line) for line in journal.read_text().splitlines()]
    names = {row["job"]: json.loads(row["spec"])["name"] for row in rows if row["kind"] == "seen"}
    assert sorted(names.values()) == ["Model", "pair", "wide"]
    assert {names[row["job"]] for row in rows if row["kind"] == "start"} >= {"Model", "pair"}
    assert next(names[row["job"]] for row in rows if row["kind"] == "end") == "pair"
