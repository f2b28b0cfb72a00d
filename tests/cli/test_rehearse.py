"""What was simulated is what runs: the short version of `fairlead rehearse`."""

from __future__ import annotations

import json

import pytest

from .command import fairlead

#: seconds that a job works on average. Other tests run at the same time and make everything late: where that was too much, once more
#: with longer jobs, for which it is less
MEANS = (3, 8, 20)
#: twice what jobs come late by where nothing else runs: whoever is not later than that has no excuse for another order
UNDISTURBED_S = 0.06


@pytest.mark.parametrize("policy", ["fifo", "srtf", "tiresias:thresholds=6", "gandiva:quantum=1,idle=1"])
def test_a_lived_run_is_the_simulated_one(policy: str) -> None:
    outcomes = []
    for mean in MEANS:
        done = fairlead(
            *("rehearse", "--policy", policy, "--jobs", "14", "--mean", str(mean), "--cluster", "2x4", "--load", "1.1"),
            *("-o", "json"),
        )
        (found,) = json.loads(done.out)
        assert found["jobs"] == 14
        settled, swapped, off, late_s = (found[name] for name in ("settled", "swapped", "jct_off", "late_s"))
        holds = settled > found["pairs"] / 2 and swapped == 0
        assert holds or late_s > UNDISTURBED_S, found
        if holds and abs(off) <= 0.05:
            assert done.code == 0
            return
        outcomes.append(f"{mean} s: {settled} settled, {swapped} swapped, off by {off:.1%}, late by {late_s:.2f} s")
    pytest.fail("; ".join(outcomes))


def test_virtual_nodes_are_all_alike() -> None:
    done = fairlead("rehearse", "--cluster", "1x4+1x8")
    assert (done.code, "virtual nodes are all alike" in done.err) == (2, True)
