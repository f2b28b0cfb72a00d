"""Jobs of equal rank: which of them goes is told by their numbers, whatever the core keeps of them."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.kernels.columns import ENDED
from fairlead.model.cluster import parse_cluster_shape
from fairlead.runtime.driver import Core
from fairlead.sim import run as runs
from fairlead.sim.jobs import job_input, most_gpus
from fairlead.sim.profiles import Profiles
from fairlead.state.check import check
from fairlead.state.rules import Options
from fairlead.state.state import new_state
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


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "policy", ["tiresias:thresholds=100", "tiresias:thresholds=200/800", "srtf", "las:quantum=100"]
)
def test_what_is_known_of_equal_ranks_is_of_those_who_run_now(policy: str, seed: int) -> None:
    trace, options, profiles = in_heaps(seed), Options(), Profiles()
    plugged, _ = runs.prepare(policy, "consolidate", trace, CLUSTER, options)
    jobs = job_input(trace, CLUSTER, profiles, estimates=plugged.uses_estimates, utilization=plugged.uses_utilization)
    state = new_state(CLUSTER, jobs, plugged.traits, options, profiles.rates(CLUSTER, most_gpus(jobs)))
    core, at = Core(state, plugged), 0.0
    while core.run(until=at) != ENDED:
        check(state)
        at += 50.0
    check(state)
