"""GPU sharing: the memory that a share guarantees, and the compute that is divided as the profile says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairlead.model.cluster import ClusterSpec, NodeSpec
from fairlead.sim.jobs import job_input
from fairlead.sim.profiles import Profile, Profiles
from fairlead.sim.run import simulate
from fairlead.workload.trace import Names, Trace

GIB = 1024


def cluster(*gpus: tuple[int, str, int | None]) -> ClusterSpec:
    """One node per (GPUs, type, GiB of each)."""
    return ClusterSpec(
        tuple(
            NodeSpec(f"n{i}", count, kind, gpu_memory_mib=None if gib is None else gib * GIB)
            for i, (count, kind, gib) in enumerate(gpus)
        )
    )


def jobs(shares: list[int], memory_gib: list[int] | None = None, types: list[int] | None = None) -> Trace:
    count = len(shares)
    return Trace(
        submit_s=np.zeros(count),
        gpus=np.ones(count, np.int32),
        duration_s=np.full(count, 8.0),
        gpu_share_milli=np.array(shares, np.int32),
        gpu_memory_mib=None if memory_gib is None else np.array(memory_gib, np.int64) * GIB,
        gpu_type=None if types is None else Names(np.array(types, np.int32), ("V100", "T4")),
        profile=Names(np.zeros(count, np.int32), ("net",)),
    )


def held(trace: Trace, spec: ClusterSpec) -> list[int]:
    shares = job_input(trace, spec, Profiles(), estimates=False).share_milli
    assert shares is not None
    return shares.tolist()


@pytest.mark.parametrize(
    ("says", "spec", "memory_gib", "types", "want"),
    [
        ("a share is enough for its part of the memory", cluster((1, "", 16)), [4, 8], None, [250, 500]),
        ("a job of more memory gets a larger share", cluster((1, "", 16)), [12, 5], None, [750, 500]),
        ("never more than a GPU", cluster((1, "", 16)), [20, 0], None, [1000, 500]),
        (
            "by the smallest GPU that it may run on",
            cluster((1, "V100", 32), (1, "T4", 16)),
            [8, 8],
            [0, -1],
            [250, 500],
        ),
        ("what is not stated is not the limit", cluster((1, "", 16), (1, "", None)), [12, 12], None, [250, 500]),
    ],
)
def test_a_share_guarantees_its_memory(
    says: str, spec: ClusterSpec, memory_gib: list[int], types: list[int] | None, want: list[int]
) -> None:
    assert held(jobs([250, 500], memory_gib, types), spec) == want, says


def test_whole_gpus_are_left_as_they_are() -> None:
    assert held(jobs([1000, 250], [64, 4]), cluster((1, "", 16))) == [1000, 250]


def test_jobs_whose_memory_does_not_fit_together_do_not_share() -> None:
    spec, trace = cluster((1, "", 16)), jobs([500, 500], [12, 8])
    assert simulate(trace, spec, "fifo-backfill").outcome.start_s.tolist() == [0, 8]
    assert simulate(replace(trace, gpu_memory_mib=None), spec, "fifo-backfill").outcome.start_s.tolist() == [0, 0]


def test_compute_is_divided_as_the_profile_says_and_given_back_when_a_neighbour_leaves() -> None:
    trace = replace(jobs([250, 250, 250]), duration_s=np.array([8.0, 8.0, 2.0]))
    # alone 1, with one neighbour 3/4, with two 1/2: all three until 4, when the third ends; then two, at 3/4, for 6 / (3/4)
    profiles = Profiles({"net": Profile(sharing=(1.0, 0.75, 0.5))})
    run = simulate(trace, cluster((1, "", 16)), "fifo-backfill", profiles=profiles)
    assert run.outcome.finish_s.tolist() == [12, 12, 4]
