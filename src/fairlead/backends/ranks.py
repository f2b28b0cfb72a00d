"""Who is who in a gang: the variables that torchrun's programs go by, the same on every engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fairlead.runtime.protocols import Order, Place


@dataclass(frozen=True)
class RankPlan:
    node_rank: int
    place: Place
    memory_mib: int | None  #: its part of the job's
    env: dict[str, str]  #: without MASTER_ADDR and MASTER_PORT, which are known once rank 0 has a machine


def ranks_of(order: Order) -> Iterator[RankPlan]:
    """One process per place; or per GPU, each of which sees all of its place and takes its own by LOCAL_RANK, as torchrun
    does it."""
    counts = [max(1, len(place.gpus)) if order.per_gpu else 1 for place in order.places]
    world = sum(counts)
    gpus_of_all = sum(len(place.gpus) for place in order.places)
    rank = 0
    for node_rank, (place, count) in enumerate(zip(order.places, counts, strict=True)):
        share = len(place.gpus) / gpus_of_all if gpus_of_all else 1 / len(order.places)
        memory_mib = None if order.memory_mib is None else max(1, int(order.memory_mib * share / count))
        for local_rank in range(count):
            yield RankPlan(
                node_rank,
                place,
                memory_mib,
                {
                    "RANK": str(rank),
                    "LOCAL_RANK": str(local_rank),
                    "WORLD_SIZE": str(world),
                    "LOCAL_WORLD_SIZE": str(count),
                    "NODE_RANK": str(node_rank),
                    "NNODES": str(len(order.places)),
                    "FAIRLEAD_NODE": place.node,
                },
            )
            rank += 1
