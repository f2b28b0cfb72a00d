"""The workloads that several claims share: Tiresias' 480 jobs, and the public Philly trace at two loads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairlead.model.cluster import parse_cluster_shape
from fairlead.model.errors import InputError
from fairlead.sim.claims.result import Ask
from fairlead.workload.generate import generate
from fairlead.workload.readers import load_trace
from fairlead.workload.trace import Trace

TESTBED = "15x4"
#: of the claims that name it; the sensitivity runs take 1 GPU-hour
TESTBED_THRESHOLD = 3200
PHILLY = Path("train", "philly_pollux_60000.csv.gz")
_PHILLY_JOBS = 60_000
#: The paper does not say how large its simulated cluster was, and the ratios depend on it more than on anything
#: else, so there are two: a moderate load and a high one.
PHILLY_CLUSTERS = {"80x8": 0.70, "64x8": 0.88}


def synthetic_480(seed: int, jobs: int | None, gap_s: float = 30.0) -> Trace:
    """Tiresias' set; `jobs` scales the counts of each size."""
    return generate("tiresias-480", seed=seed, jobs=jobs, gap_s=gap_s)


def synthetic_setting(ask: Ask) -> str:
    seeds = "seed 0" if ask.seeds == 1 else f"seeds 0 to {ask.seeds - 1} (mean ± sd)"
    return f"generator tiresias-480, {seeds}, on {TESTBED}"


@dataclass(frozen=True)
class Workload:
    """A trace and the cluster that it is run on."""

    trace: Trace
    cluster: str

    @property
    def load(self) -> float:
        return offered_load(self.trace, self.cluster)

    @property
    def name(self) -> str:
        return f"{self.cluster} at {self.load:.0%}"


def offered_load(trace: Trace, cluster: str) -> float:
    """GPU time asked for over what the cluster has, from the first submission to the last."""
    span_s = float(trace.submit_s[-1] - trace.submit_s[0])
    return float(np.sum(trace.gpus * trace.duration_s)) / (parse_cluster_shape(cluster).gpus * span_s)


def philly(ask: Ask) -> list[Workload]:
    """The public trace on each cluster, or, without the data, a workload like it for each."""
    if ask.data is not None:
        trace = load_trace(data_file(ask.data, PHILLY), limit=ask.jobs).trace
        return [Workload(trace, cluster) for cluster in PHILLY_CLUSTERS]
    jobs = ask.jobs or _PHILLY_JOBS
    return [
        Workload(generate("philly-like", seed=1, jobs=jobs, gpus=parse_cluster_shape(shape).gpus, load=load), shape)
        for shape, load in PHILLY_CLUSTERS.items()
    ]


def philly_setting(ask: Ask, workloads: list[Workload]) -> str:
    jobs = len(workloads[0].trace)
    where = " and ".join(workload.name for workload in workloads)
    if ask.data is None:
        return f"no data folder: {jobs:,} generated philly-like jobs (seed 1) on {where} load"
    return f"{jobs:,} jobs of the public Philly trace as filtered for Pollux, on {where} load"


def data_file(data: Path, name: Path) -> Path:
    path = data / name
    if not path.is_file():
        raise InputError("this data folder lacks a trace", file=str(path), accepts=f"--data DIR with {name} in it")
    return path
