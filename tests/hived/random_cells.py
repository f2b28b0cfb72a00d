"""Random workloads for random owners of random cells."""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import ClusterSpec
from fairlead.sim.claims.random_cells import random_spec
from fairlead.state.rules import Options
from fairlead.workload.trace import Names, Trace


def random_run(seed: int) -> tuple[Trace, ClusterSpec, Options]:
    """A cluster, a workload of a few dozen jobs, and nodes that fail."""
    rng = np.random.Generator(np.random.PCG64(seed))
    vcs = ("red", "blue", "green")[: int(rng.integers(1, 4))]
    cluster = random_spec(rng, vcs)
    count = int(rng.integers(10, 60))
    submit = np.sort(rng.integers(0, 40, count)).astype(float)
    largest = max(node.gpus for node in cluster.nodes)
    sizes = [1, 1, 1, 2, 2, 3, 4, largest, largest, largest + 1, 2 * largest, 3 * largest]
    priority = None
    if rng.random() < 0.6:
        priority = rng.choice([-1, -1, 0, 0, 1, 5], count).astype(np.int32)
    kinds = tuple(dict.fromkeys(node.gpu_type for node in cluster.nodes))
    kind = Names(rng.integers(-1, len(kinds), count).astype(np.int32), kinds) if rng.random() < 0.5 else None
    trace = Trace(
        submit_s=submit,
        gpus=rng.choice(sizes, count).astype(np.int32),
        duration_s=rng.integers(1, 30, count).astype(float),
        tenant=Names(rng.integers(0, len(vcs), count).astype(np.int32), vcs),
        priority=priority,
        gpu_type=kind,
    )
    events: list[tuple[float, int, bool]] = []
    if rng.random() < 0.6:
        for _ in range(int(rng.integers(1, 12))):
            node, down = int(rng.integers(len(cluster.nodes))), float(rng.integers(0, 50))
            events += [(down, node, False), (down + float(rng.integers(1, 20)), node, True)]
    failures = 0.2 if rng.random() < 0.2 else 0.0
    return trace, cluster, Options(seed=seed, node_events=tuple(sorted(events)), job_failures=failures, retries=1)
