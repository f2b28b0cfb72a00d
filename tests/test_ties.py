"""Jobs of equal rank: which of them goes is told by their numbers, whatever the core keeps of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fairlead.kernels.columns import ENDED, G_IDS, G_ROWS, R_INDEXED
from fairlead.model.cluster import parse_cluster_shape
from fairlead.runtime.driver import Core
from fairlead.sim import run as runs
from fairlead.sim.jobs import job_input, most_gpus
from fairlead.sim.profiles import Profiles
from fairlead.state.check import check
from fairlead.state.rules import Options
from fairlead.state.state import State, new_state
from fairlead.workload.trace import Trace

CLUSTER = parse_cluster_shape("24x4")


def in_heaps(seed: int, jobs: int = 1500) -> Trace:
    """Many come at one instant, ask for the same and start together; rows of those who went are others' at once."""
    rng = np.random.default_rng(seed)
    return Trace(
        submit_s=np.sort(rng.integers(0, jobs // 30, jobs) * 100.0),
        gpus=rng.choice([1, 1, 1, 2, 4], jobs),
        duration_s=rng.integers(1, 40, jobs) * 50.0,
        source="heaps",
    )


def begin(trace: Trace, policy: str) -> tuple[State, Core]:
    options, profiles = Options(), Profiles()
    plugged = runs.prepare(policy, "consolidate", trace, CLUSTER)
    jobs = job_input(trace, CLUSTER, profiles, estimates=plugged.uses_estimates, utilization=plugged.uses_utilization)
    state = new_state(CLUSTER, jobs, plugged.traits, options, profiles.rates(CLUSTER, most_gpus(jobs)))
    return state, Core(state, plugged)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "policy", ["tiresias:thresholds=100", "tiresias:thresholds=200/800", "srtf", "las:quantum=100"]
)
def test_what_is_known_of_equal_ranks_is_of_those_who_run_now(policy: str, seed: int) -> None:
    state, core = begin(in_heaps(seed), policy)
    at = 0.0
    while core.run(until=at) != ENDED:
        check(state)
        at += 50.0
    check(state)


def apart(seed: int, jobs: int = 1500) -> Trace:
    """Hardly two alike, as many as the cluster can just bear."""
    rng = np.random.default_rng(seed)
    gpus = rng.choice([1, 1, 1, 1, 2, 3, 4, 8, 12], jobs)
    duration_s = rng.lognormal(5.0, 1.5, jobs)
    span_s = float((gpus * duration_s).sum()) / CLUSTER.gpus
    return Trace(
        submit_s=np.sort(rng.uniform(0.0, span_s, jobs)),
        gpus=gpus,
        duration_s=duration_s,
        priority=rng.integers(0, 5, jobs),
        source="apart",
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("workload", [in_heaps, apart])
@pytest.mark.parametrize(
    "policy", ["tiresias:thresholds=100", "tiresias:thresholds=200/800,knob=2", "srtf", "priority:preempt=true"]
)
def test_the_index_of_guards_decides_as_the_lanes_do(policy: str, workload: Callable[[int], Trace], seed: int) -> None:
    """What the index lets be passed over, lanes try."""
    logs = []
    for indexed in (1, 0):
        state, core = begin(workload(seed), policy)
        assert state.counter[R_INDEXED] == 1
        state.counter[R_INDEXED] = indexed
        assert core.run() == ENDED
        rows, ids = int(state.counter[G_ROWS]), int(state.counter[G_IDS])
        logs.append((state.log.time[:rows], *state.log.what[:, :rows], state.log.gpu_ids[:ids]))
    for one, other in zip(*logs, strict=True):
        np.testing.assert_array_equal(one, other)
