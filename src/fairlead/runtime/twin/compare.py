"""What if: the jobs at hand under other policies, other placers or on more nodes, beside what is in force now."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.model.cluster import NodeSpec, parse_cluster_shape
from fairlead.model.errors import InputError
from fairlead.runtime.planning import IllegalPlan
from fairlead.runtime.twin.foresee import Outlook, forecast
from fairlead.runtime.twin.moment import Moment

#: more than anybody could mean, and still quick to lay out
MOST_NODES = 20_000
MOST_GPUS = 1_024  #: of one node


@dataclass(frozen=True)
class Choice:
    """What is to be different; None and "": as it is now. `add_nodes` is a cluster shape: `2x8`, `2x8@H200`."""

    policy: str | None = None
    placer: str | None = None
    add_nodes: str = ""


@dataclass(frozen=True)
class Row:
    """One line of the comparison. Where the choice can't be tried, `error` says why and there is no outlook."""

    policy: str
    placer: str
    add_nodes: str
    outlook: Outlook | None
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        head = {"policy": self.policy, "placer": self.placer, "add_nodes": self.add_nodes, "error": self.error}
        return {**head, **({} if self.outlook is None else self.outlook.to_json())}


def whatif(moment: Moment, choices: Sequence[Choice], known: Mapping[str, float] | None = None) -> list[Row]:
    """The present policy first, then each choice. `known` as in `forecast`."""
    return [_row(moment, choice, known) for choice in (Choice(), *choices)]


def _row(moment: Moment, choice: Choice, known: Mapping[str, float] | None) -> Row:
    policy, placer = choice.policy or moment.policy, choice.placer or moment.placer
    try:
        nodes = parse_nodes(choice.add_nodes)
        found = forecast(moment, policy=policy, placer=placer, add_nodes=nodes, known=known).metrics
    except (InputError, IllegalPlan) as error:
        return Row(policy, placer, choice.add_nodes, None, str(error))
    return Row(policy, placer, choice.add_nodes, found)


def parse_nodes(shape: str) -> tuple[NodeSpec, ...]:
    """The nodes of a cluster shape; none for ""."""
    if not shape:
        return ()
    counts = [(int(nodes), int(gpus)) for nodes, gpus in re.findall(r"(\d{1,12})x(\d{1,12})", shape)]
    if sum(nodes for nodes, _ in counts) > MOST_NODES or any(gpus > MOST_GPUS for _, gpus in counts):
        raise InputError(
            "this is more than can be added", value=shape, accepts=f"up to {MOST_NODES} nodes of up to {MOST_GPUS} GPUs"
        )
    return parse_cluster_shape(shape).nodes
