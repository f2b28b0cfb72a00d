"""Who owns which cells, from what people say: cells by level, or a number of GPUs that is turned into cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fairlead.model.cell_tree import GPU, cells_of
from fairlead.model.cells import CellQuota, CellsSpec, VirtualClusterSpec, around_pins, check_physical, check_virtual
from fairlead.model.cluster import ClusterSpec
from fairlead.model.errors import InputError

#: GPUs by tenant
Shares = Mapping[str, int]


def default_cells(cluster: ClusterSpec) -> CellsSpec:
    """The cluster's own cells; where it has none, its nodes, each split in halves down to single GPUs."""
    return cluster.cells if cluster.cells is not None else cells_of(cluster.nodes, cluster.levels, {}, ())


def owned_cells(cluster: ClusterSpec, shares: Shares, spec: CellsSpec | None = None) -> CellsSpec:
    """The cells with an owner for each: as the file says; else as many as the tenant's share, or its quota, of GPUs makes.

    `shares` are for tenants that have neither cells nor a quota; `spec` is default_cells(), if it is there already.
    """
    spec = spec or default_cells(cluster)
    asked = {name: tenant.quota_gpus for name, tenant in cluster.tenants.items() if tenant.quota_gpus is not None}
    gpus = {**shares, **asked}
    gpus = {name: count for name, count in gpus.items() if name not in spec.virtual}
    found = dict(spec.virtual)
    for name, quotas in _divide(spec, gpus).items():
        found[name] = VirtualClusterSpec(name, quotas)
    spec = replace(spec, virtual=found)
    if cluster.cells is not None:
        check_physical(spec)
    check_virtual(spec)
    return spec


def even_shares(names: tuple[str, ...], weights: tuple[float, ...], cluster: ClusterSpec) -> dict[str, int]:
    """All GPUs, in proportion to the weights, the largest remainders first: in whole nodes, at least one each, where nodes are
    of one size and enough for all; else GPU by GPU."""
    sizes = {node.gpus for node in cluster.nodes if node.gpus > 0}
    unit = min(sizes) if len(sizes) == 1 else 1
    if cluster.gpus // unit < len(names):
        unit = 1
    total, units = sum(weights) or 1.0, cluster.gpus // unit
    ideal = [weight / total * units for weight in weights]
    counts = [max(1, int(one)) for one in ideal]
    order = sorted(range(len(names)), key=lambda i: (-(ideal[i] - int(ideal[i])), i))
    turn = 0
    while sum(counts) < units:
        counts[order[turn % len(order)]] += 1
        turn += 1
    while sum(counts) > units:
        largest = max(range(len(names)), key=lambda i: (counts[i], -i))
        counts[largest] -= 1
    return {name: count * unit for name, count in zip(names, counts)}


@dataclass
class _Room:
    """How many cells of each level of a chain nobody owns yet, those that a larger one would be split for aside."""

    levels: tuple[str, ...]
    sizes: tuple[int, ...]
    fan_out: tuple[int, ...]
    free: list[int]

    def take(self, position: int) -> bool:
        at = position
        while at < len(self.free) and not self.free[at]:
            at += 1
        if at == len(self.free):
            return False
        while at > position:
            self.free[at] -= 1
            self.free[at - 1] += self.fan_out[at]
            at -= 1
        self.free[position] -= 1
        return True

    @property
    def gpus(self) -> int:
        return sum(count * size for count, size in zip(self.free, self.sizes))


def _divide(spec: CellsSpec, shares: Shares) -> dict[str, tuple[CellQuota, ...]]:
    """Each share as the fewest, largest cells no larger than a node: chains in order, the largest cells of all first."""
    rooms = {chain: _room(spec, chain) for chain in spec.chains}
    if sum(shares.values()) > sum(room.gpus for room in rooms.values()):
        names = ", ".join(f"{name} {count}" for name, count in shares.items())
        raise InputError(
            f"the tenants' quotas do not fit: {sum(shares.values())} GPUs for them, of"
            f" {sum(room.gpus for room in rooms.values())} that nobody owns by cells",
            column="quota_gpus",
            value=names,
            accepts="quotas within the cluster",
        )
    found: dict[str, list[CellQuota]] = {name: [] for name in shares}
    left = dict(shares)
    for chain, room in rooms.items():
        parts: dict[str, int] = {}
        gpus = room.gpus
        for name in left:
            parts[name] = min(left[name], gpus)
            gpus -= parts[name]
            left[name] -= parts[name]
        for position in range(spec.node_level(chain), -1, -1):
            for name in parts:
                count = 0
                while parts[name] >= room.sizes[position] and room.take(position):
                    parts[name] -= room.sizes[position]
                    count += 1
                if count:
                    found[name].append(CellQuota(chain, room.levels[position], count))
    return {name: tuple(quotas) for name, quotas in found.items()}


def _room(spec: CellsSpec, chain: str) -> _Room:
    levels, fan_out = spec.levels(chain), spec.fan_out(chain)
    whole, loose = around_pins(spec, chain)
    room = _Room(
        levels,
        tuple(spec.gpus(kind) for kind in levels),
        fan_out,
        [*(loose[kind] for kind in levels[:-1]), whole],
    )
    for position in range(len(levels) - 1, -1, -1):
        for vc in spec.virtual.values():
            for quota in vc.cells:
                if quota.chain == chain and quota.kind == levels[position]:
                    for _ in range(quota.count):
                        room.take(position)
    return room


def level_kind(base: str, level: str, spec: CellsSpec) -> tuple[str, str]:
    """The chain and type that a file means by a hardware label and a level's name."""
    for chain in spec.chains:
        if chain.rpartition("/")[0] == base:
            kind = spec.leaf(chain) if level == GPU else f"{base}/{level}"
            if kind in spec.levels(chain):
                return chain, kind
            known = [one.rpartition("/")[2] for one in reversed(spec.levels(chain)[1:])] + [GPU]
            raise InputError(
                f"cells of {base} have no such level", column="cells", value=level, accepts="one of " + ", ".join(known)
            )
    labels = [chain.rpartition("/")[0] for chain in spec.chains]
    raise InputError("there is no such hardware", column="cells", value=base, accepts="one of " + ", ".join(labels))
