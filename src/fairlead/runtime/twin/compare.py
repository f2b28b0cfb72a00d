"""What if: the jobs at hand under other policies, other placers, on more nodes or on fewer, beside what is in force now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairlead.model.cluster import NodeSpec, parse_cluster_shape, read_shape
from fairlead.model.errors import InputError
from fairlead.runtime.planning import IllegalPlan
from fairlead.runtime.twin.ahead import Ahead
from fairlead.runtime.twin.coming import Coming, fold_coming
from fairlead.runtime.twin.foresee import Outlook, outlook
from fairlead.runtime.twin.moment import Moment, grown, without

#: more than anybody could mean, and still quick to lay out
MOST_NODES = 20_000
MOST_GPUS = 1_024  #: of one node


@dataclass(frozen=True)
class Choice:
    """What is to be different; None and "": as it is now. `add_nodes` is a cluster shape: `2x8`, `2x8@H200`."""

    policy: str | None = None
    placer: str | None = None
    add_nodes: str = ""
    remove_nodes: tuple[str, ...] = ()  #: names of nodes that are there


@dataclass(frozen=True)
class Row:
    """One line of the comparison. Where the choice can't be tried, `error` says why and there is no outlook."""

    policy: str
    placer: str
    add_nodes: str
    outlook: Outlook | None
    error: str = ""
    remove_nodes: tuple[str, ...] = ()
    coming: Coming | None = None  #: the hours to come, point by point

    def to_json(self) -> dict[str, Any]:
        head: dict[str, Any] = {
            "policy": self.policy,
            "placer": self.placer,
            "add_nodes": self.add_nodes,
            "error": self.error,
        }
        head |= {
            "remove_nodes": list(self.remove_nodes),
            "coming": None if self.coming is None else self.coming.to_json(),
        }
        return {**head, **({} if self.outlook is None else self.outlook.to_json())}


def whatif(moment: Moment, choices: Sequence[Choice], known: Mapping[str, float] | None = None) -> list[Row]:
    """The present policy first, then each choice. `known` as in `forecast`. All rows show as many hours to come as the first one needs."""
    return list(whatif_rows(moment, choices, known))


def whatif_rows(moment: Moment, choices: Sequence[Choice], known: Mapping[str, float] | None = None) -> Iterator[Row]:
    """As `whatif`, each row worked out when it is asked for: others may have their turn in between."""
    first = _row(moment, Choice(), known, None)
    yield first
    length_s = None if first.coming is None else first.coming.length_s
    for choice in choices:
        yield _row(moment, choice, known, length_s)


def _row(moment: Moment, choice: Choice, known: Mapping[str, float] | None, length_s: float | None) -> Row:
    policy, placer = choice.policy or moment.policy, choice.placer or moment.placer
    try:
        # first more, then fewer: who replaces all nodes is left with the new ones
        more = replace(moment, spec=grown(moment.spec, parse_nodes(choice.add_nodes)))
        ahead = Ahead(without(more, choice.remove_nodes), policy=policy, placer=placer, known=known)
        ahead.run()
    except (InputError, IllegalPlan) as error:
        return Row(policy, placer, choice.add_nodes, None, str(error), choice.remove_nodes)
    found = outlook(ahead)
    return Row(
        policy, placer, choice.add_nodes, found, "", choice.remove_nodes, fold_coming(ahead, found.last_end_s, length_s)
    )


def parse_nodes(shape: str) -> tuple[NodeSpec, ...]:
    """The nodes of a cluster shape; none for ""."""
    if not shape:
        return ()
    groups = read_shape(shape)
    if sum(group.nodes for group in groups) > MOST_NODES or any(group.gpus > MOST_GPUS for group in groups):
        raise InputError(
            "this is more than can be added", value=shape, accepts=f"up to {MOST_NODES} nodes of up to {MOST_GPUS} GPUs"
        )
    return parse_cluster_shape(shape).nodes
