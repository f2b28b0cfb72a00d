"""Where a job goes. Every placer is a function of what is free; none of them changes anything.

A placer for whole GPUs answers with how many GPUs to take on which node (`Counts`), or None where the job
does not fit. On each node the GPUs with the lowest numbers are then taken. `min` and `max` return the first
of equals, and all lists here are in index order: that is the tie-break.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairlead.model.cluster import ClusterSpec

from .cluster import Ask, ClusterState, Node, Placement

Counts = dict[int, int]
#: draw(i, count): the i-th random choice among `count` things
Draw = Callable[[int, int], int]


@dataclass(frozen=True)
class Request:
    """Everything a placer may look at."""

    ask: Ask
    nodes: list[Node]  #: of the right type, up or not
    draw: Draw
    params: dict[str, Any]
    spec: ClusterSpec
    trace_asks: list[Ask]  #: of all jobs of the trace

    @property
    def levels(self) -> tuple[str, ...]:
        return self.spec.levels

    @property
    def up(self) -> list[Node]:
        return [node for node in self.nodes if node.up]


def place(
    name: str, params: dict[str, Any], state: ClusterState, ask: Ask, trace_asks: list[Ask], draw: Draw
) -> Placement | None:
    """Where the placer puts the job on this cluster, or None. Quotas are not its business."""
    nodes = [node for node in state.nodes if node.is_of_type(ask)]
    request = Request(ask, nodes, draw, params, state.spec, trace_asks)
    if ask.gpus == 0:
        roomy = [node for node in request.up if node.has_room(ask, 0)]
        return {NO_GPUS.get(name, first_node)(request, roomy).index: []} if roomy else None
    if ask.is_share:
        return _place_share(SHARES[name], request)
    counts = where_it_must_be(request) if ask.is_bound else WHOLE_GPUS[name](request)
    if counts is None:
        return None
    return {index: state.nodes[index].free_gpus[:count] for index, count in sorted(counts.items())}


# Jobs that say themselves where they must be


def where_it_must_be(request: Request) -> Counts | None:
    """As `rack` places, no further out than the job's topology; with a number of nodes, on those that can take a part."""
    ask = request.ask
    for name, domains in zip(("node", *reversed(request.levels), "cluster"), domains_from_inside(request)):
        enough = [domain for domain in domains if can_take_all(ask, domain)]
        if enough:
            tightest = min(enough, key=lambda domain: sum(node.free for node in domain if node.up))
            return evenly(ask, tightest) if ask.num_nodes else consolidate_loosely(ask, tightest)
        if name == ask.topology:
            return None
    return None


def can_take_all(ask: Ask, domain: list[Node]) -> bool:
    if ask.num_nodes:
        return len(can_take_a_part(ask, domain)) >= ask.num_nodes
    return sum(node.can_take(ask, ask.gpus) for node in domain if node.up) >= ask.gpus


def can_take_a_part(ask: Ask, domain: list[Node]) -> list[Node]:
    part = ask.gpus // ask.num_nodes
    return [node for node in domain if node.up and node.can_take(ask, part) == part]


def evenly(ask: Ask, domain: list[Node]) -> Counts:
    """The nodes with the least free GPUs; `sorted` keeps the order of equals."""
    tightest = sorted(can_take_a_part(ask, domain), key=lambda node: node.free)[: ask.num_nodes]
    return {node.index: ask.gpus // ask.num_nodes for node in tightest}


# Whole GPUs


def consolidate(request: Request) -> Counts | None:
    """As few nodes as the capacities allow: whole nodes first, then the tightest node for the rest."""
    counts = consolidate_strictly(request.ask, request.nodes)
    if counts is None and request.params.get("relaxed", False):
        counts = consolidate_loosely(request.ask, request.nodes)
    return counts


def consolidate_strictly(ask: Ask, nodes: list[Node]) -> Counts | None:
    """Fewest nodes or nothing. What nodes could hold if they were empty and up says how many that is."""
    capacities = sorted((node.capacity for node in nodes), reverse=True)
    nodes_left = fewest_nodes(ask.gpus, capacities)
    if nodes_left is None:
        return None
    rest = ask.gpus
    counts: Counts = {}
    while nodes_left > 1:
        wholly_free = [
            node
            for node in nodes
            if node.up
            and node.index not in counts
            and 0 < node.capacity <= rest
            and node.free == node.capacity
            and rest - node.capacity <= sum(capacities_without(nodes, [*counts, node.index])[: nodes_left - 1])
            and node.has_room(ask, node.capacity)
        ]
        if not wholly_free:
            return None
        chosen = max(wholly_free, key=lambda node: node.capacity)
        counts[chosen.index] = chosen.capacity
        rest -= chosen.capacity
        nodes_left -= 1
    enough = [
        node
        for node in nodes
        if node.up and node.index not in counts and node.free >= rest and node.has_room(ask, rest)
    ]
    if not enough:
        return None
    counts[min(enough, key=lambda node: node.free).index] = rest
    return counts


def fewest_nodes(gpus: int, capacities: list[int]) -> int | None:
    """How many of the largest capacities hold `gpus` together."""
    for count in range(1, len(capacities) + 1):
        if sum(capacities[:count]) >= gpus:
            return count
    return None


def capacities_without(nodes: list[Node], taken: list[int]) -> list[int]:
    return sorted((node.capacity for node in nodes if node.index not in taken), reverse=True)


def consolidate_loosely(ask: Ask, nodes: list[Node]) -> Counts | None:
    """The node that can take most, until one node can take all the rest: then the tightest such."""
    rest = ask.gpus
    counts: Counts = {}
    while True:
        left = [node for node in nodes if node.up and node.index not in counts]
        enough = [node for node in left if node.can_take(ask, rest) == rest]
        if enough:
            counts[min(enough, key=lambda node: node.free).index] = rest
            return counts
        most = max(left, key=lambda node: node.can_take(ask, rest), default=None)
        if most is None or most.can_take(ask, rest) == 0:
            return None
        counts[most.index] = most.can_take(ask, rest)
        rest -= counts[most.index]


def spread(request: Request) -> Counts | None:
    """One GPU after another, each on the node with the most free GPUs left."""
    ask = request.ask
    counts: Counts = {}
    for _ in range(ask.gpus):
        candidates = [
            node
            for node in request.up
            if counts.get(node.index, 0) < node.free and node.has_room(ask, counts.get(node.index, 0) + 1)
        ]
        if not candidates:
            return None
        chosen = max(candidates, key=lambda node: node.free - counts.get(node.index, 0))
        counts[chosen.index] = counts.get(chosen.index, 0) + 1
    return counts


def first_fit(request: Request) -> Counts | None:
    """The first node that can take all of it; else from each node, by index, what it can take."""
    ask = request.ask
    for node in request.up:
        if node.can_take(ask, ask.gpus) == ask.gpus:
            return {node.index: ask.gpus}
    counts: Counts = {}
    rest = ask.gpus
    for node in request.up:
        taken = node.can_take(ask, rest)
        if taken > 0:
            counts[node.index] = taken
            rest -= taken
    return counts if rest == 0 else None


def random(request: Request) -> Counts | None:
    """A random node after another, from each what it can take."""
    ask = request.ask
    counts: Counts = {}
    rest = ask.gpus
    draws = 0
    while rest > 0:
        candidates = [node for node in request.up if node.index not in counts and node.can_take(ask, rest) >= 1]
        if not candidates:
            return None
        chosen = candidates[request.draw(draws, len(candidates))]
        draws += 1
        counts[chosen.index] = chosen.can_take(ask, rest)
        rest -= counts[chosen.index]
    return counts


def rack(request: Request) -> Counts | None:
    """The smallest kind of domain (node, levels outwards, cluster) of which one can take the whole job."""
    ask = request.ask
    for domains in domains_from_inside(request):
        enough = [
            domain for domain in domains if sum(node.can_take(ask, ask.gpus) for node in domain if node.up) >= ask.gpus
        ]
        if enough:
            tightest = min(enough, key=lambda domain: sum(node.free for node in domain if node.up))
            return consolidate_loosely(ask, tightest)
    return None


def domains_from_inside(request: Request) -> list[list[list[Node]]]:
    """For each level, innermost first: its domains, by their first node. No level beyond `within`."""
    names = ["cluster", *request.levels, "node"]
    depths = {name: depth for depth, name in enumerate(names)}
    outermost = depths[request.params.get("within") or "cluster"]
    levels = []
    for depth in range(len(names) - 1, outermost - 1, -1):
        domains: dict[object, list[Node]] = {}
        suitable = {node.index: node for node in request.nodes}
        for index, node in enumerate(request.spec.nodes):
            domain = domains.setdefault(index if names[depth] == "node" else node.path[:depth], [])
            domain += [suitable[index]] if index in suitable else []
        levels.append(list(domains.values()))
    return levels


def fragmentation(request: Request) -> Counts | None:
    """The node whose free GPUs lose least of their use to the trace's jobs."""
    ask = request.ask
    if ask.gpus > max((node.capacity for node in request.nodes), default=0):
        return consolidate_strictly(ask, request.nodes)
    candidates = [node for node in request.up if node.can_take(ask, ask.gpus) == ask.gpus]
    if not candidates:
        return None

    def raised(node: Node) -> int:
        return raised_fragmentation(node, ask, node.free_gpus[: ask.gpus], request.trace_asks)

    return {min(candidates, key=raised).index: ask.gpus}


def raised_fragmentation(node: Node, ask: Ask, gpus: list[int], trace_asks: list[Ask]) -> int:
    """How much the node's fragmentation rises when the job takes these GPUs of it."""
    after = node.copy()
    for gpu in gpus:
        after.free_milli[gpu] -= ask.share_milli
    after.cpu_free -= ask.cpu_part(len(gpus))
    after.memory_free -= ask.memory_part(len(gpus))
    return node_fragmentation(after, trace_asks) - node_fragmentation(node, trace_asks)


def node_fragmentation(node: Node, trace_asks: list[Ask]) -> int:
    return sum(unusable_milli(node, ask) for ask in trace_asks)


def unusable_milli(node: Node, ask: Ask) -> int:
    """How much of what is free here such a job can't use. A gang larger than the node counts as the node."""
    if ask.gpus == 0:
        return 0
    gpus = min(ask.gpus, node.capacity)
    suitable = [free for free in node.free_milli if free >= ask.share_milli]
    if not node.is_of_type(ask) or not node.has_room(ask, gpus) or len(suitable) < gpus:
        return sum(node.free_milli)
    return sum(free for free in node.free_milli if free < ask.share_milli)


def balance(request: Request) -> Counts | None:
    """The node of which the least is taken; where none can take all of it, one such node after another."""
    ask = request.ask
    enough = [node for node in request.up if node.can_take(ask, ask.gpus) == ask.gpus]
    if enough:
        return {least_loaded(request, enough).index: ask.gpus}
    counts: Counts = {}
    rest = ask.gpus
    while rest > 0:
        candidates = [node for node in request.up if node.index not in counts and node.can_take(ask, rest) >= 1]
        if not candidates:
            return None
        chosen = least_loaded(request, candidates)
        counts[chosen.index] = chosen.can_take(ask, rest)
        rest -= counts[chosen.index]
    return counts


def least_loaded(request: Request, nodes: list[Node]) -> Node:
    return min(nodes, key=lambda node: load(request, node))


def load(request: Request, node: Node) -> float:
    """What is taken of the node, each resource over its capacity, weighed."""
    spec, weights = request.spec.nodes[node.index], request.params
    loads = []
    if node.capacity:
        loads.append((weights.get("gpu", 1.0), 1000 * node.capacity - sum(node.free_milli), 1000 * node.capacity))
    if spec.cpu_milli:
        loads.append((weights.get("cpu", 1.0), spec.cpu_milli - node.cpu_free, spec.cpu_milli))
    if spec.memory_mib:
        loads.append((weights.get("memory", 1.0), spec.memory_mib - node.memory_free, spec.memory_mib))
    return sum((weight * (taken / capacity) for weight, taken, capacity in loads), 0.0)


def reserve_and_pack(request: Request) -> Counts | None:
    """The first of the job's plans, each a few GPU types, on which it can be packed."""
    for types in plans(request):
        counts = consolidate_loosely(request.ask, [node for node in request.nodes if node.gpu_type in types])
        if counts is not None:
            return counts
    return None


def plans(request: Request) -> list[list[str]]:
    """High-GPU jobs: each type, best first, then all together. Others: each weak type, weakest first, then those together;
    then, where enough of the high-end stays free, the same for the rest."""
    order, high = types_best_first(request)
    if is_high(request):
        usable = order[: len(high)] if request.params.get("waits") and request.ask.gpu_type is None else order
        return [*([name] for name in usable), usable]
    weak = order[len(high) :]
    found = [*([name] for name in reversed(weak)), weak]
    if may_borrow(request, high, weak):
        found += [*([name] for name in reversed(high)), order]
    return found


def types_best_first(request: Request) -> tuple[list[str], list[str]]:
    """All of the cluster's types, and the high-end ones among them: those named, or the fastest."""
    types = list(dict.fromkeys(node.gpu_type for node in request.spec.nodes))
    speed = {name: request.spec.speeds.get(name, 1.0) for name in types}
    high = [name for name in request.params.get("high", "").split("/") if name]
    if not high:
        high = [name for name in types if speed[name] == max(speed.values())]
    return high + sorted((name for name in types if name not in high), key=lambda name: -speed[name]), high


def is_high(request: Request) -> bool:
    return not request.ask.is_share and request.ask.gpus >= request.params.get("gpus", 2)


def may_borrow(request: Request, high: list[str], weak: list[str]) -> bool:
    if request.ask.gpu_type is not None or not weak:
        return True
    best = [node for node in request.nodes if node.gpu_type in high]
    free = sum(node.free for node in best if node.up)
    keep = request.params.get("keep", 0.0) * sum(node.capacity for node in best)
    return bool(free - request.ask.gpus >= keep)


WHOLE_GPUS: dict[str, Callable[[Request], Counts | None]] = {
    "consolidate": consolidate,
    "spread": spread,
    "first-fit": first_fit,
    "random": random,
    "rack": rack,
    "fragmentation": fragmentation,
    "balance": balance,
    "reserve-and-pack": reserve_and_pack,
}


# No GPU at all


def first_node(request: Request, nodes: list[Node]) -> Node:
    return nodes[0]


NO_GPUS: dict[str, Callable[[Request, list[Node]], Node]] = {"balance": least_loaded}


# Shares of one GPU

#: A GPU with enough free for a share: its node and its number there.
Spot = tuple[Node, int]


def _place_share(choose: Callable[[Request, list[Spot]], Spot | None], request: Request) -> Placement | None:
    spots = [
        (node, gpu)
        for node in request.up
        if node.has_room(request.ask, 1)
        for gpu, free in enumerate(node.free_milli)
        if free >= request.ask.share_milli
    ]
    if not spots:
        return None
    chosen = choose(request, spots)
    if chosen is None:
        return None
    node, gpu = chosen
    return {node.index: [gpu]}


def free_part(spot: Spot) -> int:
    node, gpu = spot
    return node.free_milli[gpu]


def least_free(request: Request, spots: list[Spot]) -> Spot:
    return min(spots, key=free_part)


def most_free(request: Request, spots: list[Spot]) -> Spot:
    return max(spots, key=free_part)


def first(request: Request, spots: list[Spot]) -> Spot:
    return spots[0]


def drawn(request: Request, spots: list[Spot]) -> Spot:
    return spots[request.draw(0, len(spots))]


def least_fragmenting(request: Request, spots: list[Spot]) -> Spot:
    return min(spots, key=lambda spot: raised_fragmentation(spot[0], request.ask, [spot[1]], request.trace_asks))


def on_least_loaded(request: Request, spots: list[Spot]) -> Spot:
    node = least_loaded(request, [node for node, _ in spots])
    return min((spot for spot in spots if spot[0] is node), key=free_part)


def first_plan(request: Request, spots: list[Spot]) -> Spot | None:
    for types in plans(request):
        fitting = [spot for spot in spots if spot[0].gpu_type in types]
        if fitting:
            return min(fitting, key=free_part)
    return None


SHARES: dict[str, Callable[[Request, list[Spot]], Spot | None]] = {
    "consolidate": least_free,
    "spread": most_free,
    "first-fit": first,
    "random": drawn,
    "rack": least_free,
    "fragmentation": least_fragmenting,
    "balance": on_least_loaded,
    "reserve-and-pack": first_plan,
}
