"""Compiled or not, under any PYTHONHASHSEED, every result is the same: tests and runs in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from fairlead.placement.registry import placers
from fairlead.policy.registry import policies

TESTS = Path(__file__).resolve().parent

#: prints the digest of each policy's journal, and of each placer's, on one generated workload
SCRIPT = """
import json, sys
from fairlead.kernels.jit import DISABLED
from fairlead.model.cluster import parse_cluster_shape
from fairlead.placement.registry import placers
from fairlead.policy.registry import policies
from fairlead.sim.run import simulate
from fairlead.state.rules import Options
from fairlead.workload.generate.registry import generate
import fairlead.workload.generate

cluster = parse_cluster_shape("4x8@V100+4x4@T4")
trace = generate("philly-like", jobs=300, seed=7, gpus=48, load=4.0)
options = Options(seed=3, start_cost_s=10.0, resume_cost_s=30.0, job_failures=0.05, retries=2, node_mtbf_s=2e6, node_mttr_s=9e3)
digests = {}
for policy in [*policies(), "tiresias:gittins=true", "sjf:estimate=predicted,retrain_s=9000"]:
    digests[policy] = simulate(trace, cluster, policy, "consolidate:relaxed=true", options).journal.sha256
for placer in placers():
    digests[placer] = simulate(trace, cluster, "srtf", placer, options).journal.sha256
json.dump({"compiled": not DISABLED, "digests": digests}, sys.stdout)
"""


def without_pytest(**env: str) -> dict[str, str]:
    """The environment, but for what would make a process believe to be part of this test run."""
    return {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")} | env


@cache
def digests(compiled: bool, hash_seed: str) -> dict[str, str]:
    env = without_pytest(NUMBA_DISABLE_JIT="0" if compiled else "1", PYTHONHASHSEED=hash_seed)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["compiled"] == compiled
    found: dict[str, str] = result["digests"]
    return found


@pytest.mark.parametrize(("compiled", "hash_seed"), [(True, "2"), (False, "3")])
def test_every_journal_is_the_same_under_another_hash_seed_compiled_or_not(compiled: bool, hash_seed: str) -> None:
    found = digests(compiled, hash_seed)
    assert set(found) >= {*policies(), *placers()}
    assert found == digests(compiled=True, hash_seed="1")


def test_these_runs_tell_policies_and_placers_apart() -> None:
    """But for a few: the workload has no priorities, racks or profiles, one queue of tiresias is like another, and the two
    versions of hived are meant to be alike."""
    found = digests(compiled=True, hash_seed="1")
    assert found["hived"] == found["hived-exact"]
    assert len(set(found.values())) >= len(found) - 5


@pytest.mark.parametrize("file", ["test_against_reference.py", "test_properties.py"])
def test_the_core_passes_its_tests_without_compilation(file: str) -> None:
    env = without_pytest(NUMBA_DISABLE_JIT="1", FAIRLEAD_REFERENCE_CASES="1")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(TESTS / file)]
    done = subprocess.run(command, cwd=TESTS.parent, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
