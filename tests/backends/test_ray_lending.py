"""A program on Ray borrows GPUs from a live scheduler, gives them back when they are wanted, and gets others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.live.daemon import Daemon, until

from servers.ray_cluster import RayCluster

from .ray_bench import environment

PLAIN = """
import json, os, sys, ray
from ray.util.placement_group import remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from fairlead.integrations.ray import fairlead_resources

ray.init(os.environ["RAY_ADDRESS"], _node_ip_address="127.0.0.1", log_to_driver=False, logging_level="ERROR")

@ray.remote(num_gpus=1, num_cpus=0)
class Worker:
    def where(self):
        return ray.get_runtime_context().get_node_id(), os.environ["CUDA_VISIBLE_DEVICES"]

wants = json.loads(sys.argv[2])
with fairlead_resources(folder=sys.argv[1], name="borrower", **wants) as resources:
    for grant in resources:
        group = grant.placement_group(cpus=0)
        assert group.wait(60)
        workers = [
            Worker.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, index)).remote()
            for index in range(grant.gpus)
        ]
        got = ray.get([worker.where.remote() for worker in workers])
        assert len(set(map(tuple, got))) == grant.gpus, got
        lent = {one.node_id: one.gpus for one in grant.lent}
        assert {node: [n for n, _ in got].count(node) for node in lent} == lent
        print(json.dumps([resources.job, grant.run, grant.gpus, sorted(one.node for one in grant.lent)]), flush=True)
        if grant.run == int(sys.argv[3]):
            break
        assert grant.recalled.wait(120)
        remove_placement_group(group)
print("done", flush=True)
"""

TRAIN = """
import json, os, sys, ray
from ray.train import RunConfig, get_context
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
from fairlead.integrations.ray import fairlead_resources

ray.init(os.environ["RAY_ADDRESS"], _node_ip_address="127.0.0.1", log_to_driver=False, logging_level="ERROR")

def loop(config):
    rank = get_context().get_world_rank()
    with open(f"{config['folder']}/rank-{rank}", "w") as file:
        json.dump([get_context().get_world_size(), ray.get_runtime_context().get_node_id()], file)

folder = sys.argv[1]
with fairlead_resources(gpus=3, folder=folder) as resources:
    for grant in resources:
        scaling = grant.scaling_config(resources_per_worker={"GPU": 1, "CPU": 0.1})
        run = RunConfig(storage_path=folder)
        DataParallelTrainer(loop, train_loop_config={"folder": folder}, scaling_config=scaling, run_config=run).fit()
        nodes = sorted(one.node_id for one in grant.lent for _ in range(one.gpus))
        seen = [json.load(open(f"{folder}/rank-{rank}")) for rank in range(3)]
        assert [world for world, _ in seen] == [3, 3, 3], seen
        assert sorted(node for _, node in seen) == nodes, (seen, nodes)
print("done", flush=True)
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory, ray_cluster: RayCluster) -> Iterator[Daemon]:
    args = ("--engine", "ray", "--address", ray_cluster.address)
    made = Daemon(tmp_path_factory.mktemp("up"), args, env=environment(ray_cluster))
    try:
        yield made.start()
        assert not made.died, made.died
    finally:
        made.end()


@contextmanager
def program(up: Daemon, cluster: RayCluster, text: str, *args: object) -> Iterator[subprocess.Popen[str]]:
    token = (up.state_dir / "token").read_text().strip()
    env = {**os.environ, **environment(cluster), "FAIRLEAD_SERVER": up.url, "FAIRLEAD_TOKEN": token}
    words = [sys.executable, "-c", text, *map(str, args)]
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> Any:
    assert process.stdout
    return json.loads(process.stdout.readline())


def test_what_is_lent_is_wanted_back_and_lent_again(up: Daemon, ray_cluster: RayCluster, tmp_path: Path) -> None:
    with up.client() as client, program(up, ray_cluster, PLAIN, tmp_path, '{"gpus": 6}', 2) as borrower:
        job, run, gpus, nodes = line(borrower)
        assert (run, gpus, len(nodes)) == (1, 6, 2)
        found = client.job(job)
        assert (found.state, sorted(found.nodes)) == ("running", nodes)
        client.suspend(job)
        until(lambda: client.job(job).suspension == "checkpoint", 60)  # it was asked, and has returned them
        everything = client.submit({"resources": {"gpus": 12}, "run": "true"}).id
        assert client.wait(everything, timeout_s=60).ok
        client.resume(job)
        assert line(borrower)[:3] == [job, 2, 6]
        assert borrower.wait(60) == 0
        assert client.job(job).state == "done"
    assert not list(tmp_path.iterdir())


def test_a_borrower_that_dies_leaves_nothing_taken(up: Daemon, ray_cluster: RayCluster, tmp_path: Path) -> None:
    with up.client() as client:
        with program(up, ray_cluster, PLAIN, tmp_path, '{"gpus": 2}', 9) as borrower:
            job = line(borrower)[0]
        (folder,) = tmp_path.iterdir()
        os.utime(folder / "alive", (0, 0))  # as if a minute had passed
        ended = client.wait(job, timeout_s=60)
        assert (ended.state, ended.exit_code) == ("failed", 1)


@pytest.mark.long
def test_ray_train_runs_its_workers_on_what_was_lent(up: Daemon, ray_cluster: RayCluster, tmp_path: Path) -> None:
    with program(up, ray_cluster, TRAIN, tmp_path) as trainer:
        assert trainer.wait(180) == 0
