"""Plain runs: the loop that is compiled for them decides as the loop for all runs does, and no other run gets it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairlead.core.plugs import Plugged
from fairlead.kernels.plain import is_plain
from fairlead.model.cluster import parse_cluster_shape
from fairlead.policy.registry import policies
from fairlead.runtime.driver import drive
from fairlead.sim import run as runs
from fairlead.sim.jobs import job_input, most_gpus
from fairlead.sim.profiles import Profiles
from fairlead.state.rules import Options
from fairlead.state.state import State, new_state
from fairlead.workload.generate import generate
from fairlead.workload.trace import Trace

CLUSTER = parse_cluster_shape("12x8")
CHOICES = ["las:quantum=0", "srtf:quantum=600", "tiresias:knob=2"]
PLAIN = {"fifo-backfill", "sjf", "srtf", "srsf", "las", "smallest-first", "priority", "tiresias", *CHOICES}


def crowded(seed: int) -> Trace:
    return generate("philly-like", seed=seed, jobs=1500, gpus=CLUSTER.gpus, load=1.1, steady=True)


def begin(
    trace: Trace, policy: str, placer: str = "consolidate", options: Options | None = None
) -> tuple[State, Plugged]:
    options, profiles = options or Options(), Profiles()
    plugged = runs.prepare(policy, placer, trace, CLUSTER)
    jobs = job_input(trace, CLUSTER, profiles, estimates=plugged.uses_estimates, utilization=plugged.uses_utilization)
    return new_state(CLUSTER, jobs, plugged.traits, options, profiles.rates(CLUSTER, most_gpus(jobs))), plugged


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("policy", sorted(PLAIN))
def test_both_loops_write_the_same_journal(policy: str, seed: int) -> None:
    trace, logs = crowded(seed), []
    for plain in (False, True):
        state, plugged = begin(trace, policy)
        drive(state, plugged, plain=plain)
        rows, ids = state.counter[runs.G_ROWS], state.counter[runs.G_IDS]
        logs.append((state.log.time[:rows], state.log.what[:, :rows], state.log.gpu_ids[:ids]))
    assert len(logs[0][0]) >= 2 * len(trace)
    for one, other in zip(*logs):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("policy", [*policies(), *CHOICES, "tiresias:gittins=true"])
def test_which_policies_run_plainly(policy: str) -> None:
    state, _ = begin(crowded(1), policy)
    assert is_plain(state.queue) == (policy in PLAIN)


@pytest.mark.parametrize(
    ("placer", "options"),
    [
        ("spread", Options()),
        ("consolidate:relaxed=true", Options()),
        ("consolidate", Options(start_cost_s=5.0)),
        ("consolidate", Options(resume_cost_s=5.0)),
        ("consolidate", Options(job_failures=0.1)),
        ("consolidate", Options(node_mtbf_s=1e6, node_mttr_s=1e3)),
    ],
)
def test_what_is_asked_for_beside_the_policy_makes_a_run_less_plain(placer: str, options: Options) -> None:
    state, _ = begin(crowded(1), "sjf", placer, options)
    assert not is_plain(state.queue)


def test_shares_of_gpus_make_a_run_less_plain() -> None:
    trace = crowded(1)
    halves = replace(trace, gpus=np.ones_like(trace.gpus), gpu_share_milli=np.full(len(trace), 500, np.int32))
    assert not is_plain(begin(halves, "sjf")[0].queue)


@pytest.mark.parametrize(
    ("plain", "many", "there", "taken"),
    [
        (True, False, {"plain", "all"}, True),
        (True, False, {"all"}, False),  # a small run is not worth a compilation
        (True, True, {"all"}, True),
        (True, False, set(), True),  # one must be compiled anyway
        (False, True, {"plain"}, False),
    ],
)
def test_nobody_waits_for_a_loop_that_does_not_pay(
    monkeypatch: pytest.MonkeyPatch, plain: bool, many: bool, there: set[str], taken: bool
) -> None:
    monkeypatch.setattr(runs, "is_compiled", lambda plain=False: ("plain" if plain else "all") in there)
    assert runs.choose_loop(plain, many) is taken
