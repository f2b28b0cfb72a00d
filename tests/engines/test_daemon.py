"""A whole scheduler on a real engine: what is killed under load is started again, and nothing is lost, doubled or charged twice."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from cli.live.daemon import Daemon, until
from engines.witness import check_once, most_at_once, program, runs, shell
from fairlead.model.job import JobSpec
from servers.ray_cluster import RayCluster
from servers.slurm import started

QUOTA = 4
PATIENCE_S = 240.0


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that every node and every user can reach, with a file that all of them write to."""
    folder = Path(tempfile.mkdtemp(prefix="fl-eng-", dir="/tmp"))
    folder.chmod(0o755)
    (folder / "runs").touch()
    (folder / "runs").chmod(0o666)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def scheduler(shared: Path, *args: str, **env: str) -> Iterator[Daemon]:
    policy = ("--policy", "fair-share:half_life_s=1e12")
    daemon = Daemon(shared / "daemon", (*args, *policy), env={"FAIRLEAD_POLL": "500ms", **env})
    try:
        yield daemon.start()
    finally:
        daemon.end()


def load(daemon: Daemon, file: Path, jobs: int, seed: int) -> dict[str, tuple[str, int]]:
    """Jobs of two tenants, one of which may not hold more than its quota: tenant and GPUs by id."""
    rng, made = Random(seed), {}
    with daemon.client() as client:
        client.put_tenant("vision", quota_gpus=QUOTA)
        client.put_tenant("speech")
        for i in range(jobs):
            tenant, gpus = ("vision", "speech")[i % 2], rng.choice((1, 1, 2))
            spec = JobSpec(run=program(file, rng.uniform(1.0, 3.0)), gpus=gpus, tenant=tenant, grace_s=5.0)
            made[client.submit(spec).jobs[0]] = (tenant, gpus)
    return made


def restart(daemon: Daemon) -> None:
    daemon.signal(signal.SIGKILL)
    daemon.start()


def finish(daemon: Daemon, jobs: dict[str, tuple[str, int]], file: Path) -> None:
    """Everything ends well, ran once, within the quota; and what was charged is what was held."""

    def over() -> bool:
        assert not daemon.died, daemon.died
        with daemon.client() as client:
            return not [job for job in client.jobs(live=True, limit=1000).jobs if job.id in jobs]

    until(over, PATIENCE_S)
    with daemon.client() as client:
        ended = [client.job(id) for id in jobs]
        wrong = [(job.id, job.state, job.message, [e.kind for e in client.job_events(job.id).events]) for job in ended
                 if job.state != "done"]  # fmt: skip
        assert not wrong, wrong
        check_once(file, list(jobs))
        vision = {id: gpus for id, (tenant, gpus) in jobs.items() if tenant == "vision"}
        assert most_at_once(file, vision) <= QUOTA
        charged = {tenant.name: tenant.usage_gpu_s for tenant in client.tenants()}
        held = dict.fromkeys(("vision", "speech"), 0.0)
        for id, (tenant, gpus) in jobs.items():
            begun = 0.0
            for event in client.job_events(id).events:
                if event.kind == "start":
                    begun = event.time_s
                elif event.kind in ("end", "requeue", "suspend") and begun:
                    held[tenant] += gpus * (event.time_s - begun)
                    begun = 0.0
        for tenant, gpu_s in held.items():
            assert charged[tenant] == pytest.approx(gpu_s, rel=0.02, abs=0.5), f"{charged} charged, {held} held"


def begun(file: Path, count: int) -> Callable[[], bool]:
    return lambda: len(runs(file)) >= count


def test_a_scheduler_on_slurm_that_is_killed_goes_on(shared: Path) -> None:
    """And so it does when the controller is killed, and jobs of both doors are under way."""
    file = shared / "runs"
    with (
        started() as slurm,
        scheduler(shared, "--engine", "slurm", "--partition", slurm.partition, **slurm.env) as daemon,
    ):
        jobs = load(daemon, file, 24, 1)
        numbers = [slurm.sbatch(shell(file, 2.0), "--gres=gpu:1") for _ in range(6)]
        until(begun(file, 3), PATIENCE_S)
        restart(daemon)
        until(begun(file, 8), PATIENCE_S)
        slurm.kill_slurmctld()
        time.sleep(3.0)
        slurm.start_slurmctld()
        until(begun(file, 12), PATIENCE_S)
        restart(daemon)
        finish(daemon, jobs, file)
        with daemon.client() as client:
            until(lambda: not client.jobs(live=True, limit=1000).jobs, PATIENCE_S)
            theirs = [job for job in client.jobs(limit=1000).jobs if job.id not in jobs]
        check_once(file, [f"slurm-{number}" for number in numbers])
        assert [(job.user, job.state) for job in theirs] == [("nobody", "done")] * 6


def test_a_scheduler_on_ray_that_is_killed_goes_on(shared: Path, ray_cluster: RayCluster) -> None:
    file = shared / "runs"
    env = {"FAIRLEAD_RAY_PYTHON": str(ray_cluster.python), **ray_cluster.environment()}
    with scheduler(shared, "--engine", "ray", "--address", ray_cluster.address, **env) as daemon:
        jobs = load(daemon, file, 16, 2)
        until(begun(file, 3), PATIENCE_S)
        restart(daemon)
        until(begun(file, 8), PATIENCE_S)
        restart(daemon)
        finish(daemon, jobs, file)


@pytest.mark.long  # what ran there is certain to be gone only after Slurm's own timeout and a lease
def test_a_node_that_slurm_loses_under_load_loses_no_job(shared: Path) -> None:
    file = shared / "runs"
    with (
        started(nodes=3, gpus=4, slurmd_timeout_s=10) as slurm,
        scheduler(shared, "--engine", "slurm", "--partition", slurm.partition, **slurm.env) as daemon,
    ):
        jobs = load(daemon, file, 30, 3)
        until(begun(file, 6), PATIENCE_S)
        with daemon.client() as client:
            node = next(job.places[0].node for job in client.jobs(state=["running"]).jobs if job.places)
        slurm.kill_slurmd(node)
        until(begun(file, 15), PATIENCE_S)
        slurm.start_slurmd(node)
        finish(daemon, jobs, file)


@pytest.mark.long
def test_a_raylet_that_is_killed_under_load_loses_no_job(shared: Path, ray_python: Path) -> None:
    file, cluster = shared / "runs", RayCluster(ray_python)
    try:
        cluster.begin()
        env = {"FAIRLEAD_RAY_PYTHON": str(ray_python), **cluster.environment()}
        with scheduler(shared, "--engine", "ray", "--address", cluster.address, **env) as daemon:
            jobs = load(daemon, file, 24, 4)
            until(begun(file, 6), PATIENCE_S)
            cluster.kill("node-1")
            until(begun(file, 12), PATIENCE_S)
            cluster.add("node-1")
            finish(daemon, jobs, file)
    finally:
        cluster.close()


def test_users_without_root_are_refused_nothing_silently(shared: Path) -> None:
    """What the engine lacks is said at the start, with what would do."""
    env = {"SLURM_CONF": str(shared / "none.conf"), "PATH": os.defpath}
    daemon = Daemon(shared / "daemon", ("--engine", "slurm"), env=env)
    process = daemon.begin()
    assert process.wait(120) == 2
    assert process.stdout is not None
    process.stdout.close()
    assert "slurm" in daemon.errors.lower()
