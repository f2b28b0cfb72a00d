"""What is said of jobs that say themselves where they must be, or that nobody takes their GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.model.cluster import ClusterSpec, NodeSpec, TenantSpec
from fairlead.model.reason import Reason
from runtime.test_twin_explain import HOUR, at, running, waiting, why


def racks() -> ClusterSpec:
    """Two racks of two nodes of four GPUs."""
    nodes = tuple(NodeSpec(f"n{i}", 4, path=(f"r{i // 2}",)) for i in range(4))
    return ClusterSpec(nodes, levels=("rack",))


@pytest.mark.parametrize(
    ("asks", "says"),
    [
        ({"num_nodes": 2}, "needs 4 GPUs on 2 nodes; 7 of 16 are free, but not 2 on each of so many nodes; "),
        (
            {"num_nodes": 2, "topology": "rack"},
            "needs 4 GPUs on 2 nodes of one rack; 7 of 16 are free, but not 2 on each of so many nodes of one rack; ",
        ),
    ],
)
def test_free_gpus_are_of_no_use_where_they_are(asks: dict[str, Any], says: str) -> None:
    held = [running("a", (0, 1, 2), HOUR), running("b", (4, 5, 6), HOUR), running("c", (8, 9, 10), HOUR)]
    reason, sentence = why(at(racks(), *held, waiting("w", 4, **asks)))
    assert reason == Reason.FRAGMENTED
    assert sentence.startswith(says)


def test_a_rack_that_is_not_free_enough_is_waited_for() -> None:
    held = [running("a", (0, 1, 2, 3), HOUR), running("b", (8, 9, 10, 11), 2 * HOUR)]
    assert why(at(racks(), *held, waiting("w", 8, topology="rack"))) == (
        Reason.FRAGMENTED,
        (
            "needs 8 GPUs in one rack; 8 of 16 are free, but not enough in one rack; "
            "n0 frees 4 at about 15:13 when job a ends; number 1 of 1 in the queue"
        ),
    )


@pytest.mark.parametrize(
    ("gpus", "asks", "reason", "says"),
    [
        (12, {"topology": "rack"}, Reason.DOMAIN_TOO_SMALL, "needs 12 GPUs in one rack; the largest rack has 8 GPUs"),
        (8, {"topology": "node"}, Reason.DOMAIN_TOO_SMALL, "needs 8 GPUs on one node; the largest node has 4 GPUs"),
        (
            5,
            {"num_nodes": 5},
            Reason.TOO_FEW_NODES,
            "needs 5 GPUs on 5 nodes; 4 of the cluster's nodes have 1 GPU or more",
        ),
        (5, {"num_nodes": 2}, Reason.TOO_FEW_NODES, "can't be divided evenly over so many nodes"),
        (4, {"topology": "pod"}, Reason.NO_SUCH_LEVEL, "the cluster's levels are node, rack"),
    ],
)
def test_what_can_never_be_is_said_with_numbers(gpus: int, asks: dict[str, Any], reason: Reason, says: str) -> None:
    found, sentence = why(at(racks(), waiting("w", gpus, **asks)))
    assert found == reason
    assert sentence.startswith("can never run here: needs ")
    assert says in sentence


def test_what_a_policy_can_not_keep_to_is_said() -> None:
    spec = ClusterSpec(racks().nodes, ("rack",), tenants={"t": TenantSpec("t", 16)})
    job = waiting("w", 4, tenant="t", priority=-1, preemptible=False)
    reason, sentence = why(at(spec, job, policy="hived"))
    assert reason == Reason.NOT_BY_POLICY
    assert "policy hived can't keep to what it says: that it is not preemptible" in sentence
