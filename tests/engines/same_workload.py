"""One workload, lived through on this machine, on Slurm and on Ray, each beside its simulation: for the table in docs/engines.md.

PYTHONPATH=tests python tests/engines/same_workload.py [ENGINE ...] [--jobs N] [--policy P ...]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator

from servers.ray_cluster import RayCluster, installed
from servers.slurm import started

NODES, GPUS = 3, 4
POLICIES = ("fifo", "tiresias:thresholds=20", "hived:vcs=even")


@contextlib.contextmanager
def local() -> Iterator[tuple[list[str], dict[str, str]]]:
    yield ["--cluster", f"{NODES}x{GPUS}"], {}


@contextlib.contextmanager
def slurm() -> Iterator[tuple[list[str], dict[str, str]]]:
    with started(nodes=NODES, gpus=GPUS) as cluster:
        yield ["--engine", "slurm", "--partition", cluster.partition, "--poll", "500ms"], cluster.env


@contextlib.contextmanager
def ray() -> Iterator[tuple[list[str], dict[str, str]]]:
    python = installed()
    if python is None:
        raise SystemExit("Ray can't be had here")
    cluster = RayCluster(python)
    try:
        cluster.begin()
        env = cluster.environment() | {"FAIRLEAD_RAY_PYTHON": str(python)}
        yield ["--engine", "ray", "--address", cluster.address, "--poll", "500ms"], env
    finally:
        cluster.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engines", nargs="*", default=["local", "slurm", "ray"])
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--mean", type=float, default=6.0)
    parser.add_argument("--policy", action="append")
    asked = parser.parse_args()
    for name in asked.engines:
        with {"local": local, "slurm": slurm, "ray": ray}[name]() as (words, env):
            for policy in asked.policy or POLICIES:
                command = [sys.executable, "-m", "fairlead", "rehearse", *words, "--policy", policy]
                command += ["--jobs", str(asked.jobs), "--mean", str(asked.mean), "--within", "0.1", "-o", "json"]
                done = subprocess.run(
                    command, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True, check=False
                )
                for row in json.loads(done.stdout or "[]"):
                    print(json.dumps({"engine": name, **row}), flush=True)


if __name__ == "__main__":
    main()
