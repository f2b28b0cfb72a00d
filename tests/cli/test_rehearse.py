"""What was simulated is what runs: the short version of `fairlead rehearse`."""

from __future__ import annotations

import json

import pytest

from .command import fairlead

ATTEMPTS = 3  #: other tests run at the same time and make everything late


@pytest.mark.parametrize("policy", ["fifo", "srtf", "tiresias:thresholds=6", "gandiva:quantum=1,idle=1"])
def test_a_lived_run_is_the_simulated_one(policy: str) -> None:
    outcomes = []
    for seed in range(1, ATTEMPTS + 1):
        done = fairlead(
            *("rehearse", "--policy", policy, "--jobs", "14", "--mean", "3", "--cluster", "2x4", "--load", "1.1"),
            *("--seed", str(seed), "-o", "json"),
        )
        (found,) = json.loads(done.out)
        assert found["jobs"] == 14
        assert found["settled"] > found["pairs"] / 2
        if found["swapped"] == 0 and abs(found["jct_off"]) <= 0.05:
            return
        outcomes.append(
            f"{found['swapped']} pairs ended the other way round, and the mean was off by {found['jct_off']}"
        )
    pytest.fail(f"in all of {ATTEMPTS} runs {'; '.join(outcomes)}")


def test_virtual_nodes_are_all_alike() -> None:
    done = fairlead("rehearse", "--cluster", "1x4+1x8")
    assert (done.code, "virtual nodes are all alike" in done.err) == (2, True)
