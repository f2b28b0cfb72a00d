"""The nodes of the partition that is handed to us, as Slurm describes them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from fairlead.backends.slurm import parse
from fairlead.backends.slurm.commands import Slurm, SlurmError
from fairlead.backends.slurm.settings import RUNS
from fairlead.model.cluster import ClusterSpec, NodeSpec
from fairlead.model.errors import InputError
from fairlead.model.suggest import unknown

#: a node in one of these takes no jobs; one that is powered down to save power takes them
_CLOSED = frozenset(
    [
        "DOWN",
        "DRAIN",
        "DRAINED",
        "DRAINING",
        "FAIL",
        "FAILING",
        "ERROR",
        "UNKNOWN",
        "FUTURE",
        "MAINT",
        "MAINTENANCE",
        "NOT_RESPONDING",
        "NO_RESPOND",
        "RESERVED",
        "REBOOT_ISSUED",
        "REBOOT_REQUESTED",
        "INVALID",
        "INVALID_REG",
        "PERFCTRS",
    ]
)
#: of these, those in which Slurm is still on speaking terms with the node: what it has ended there is over
_ANSWERS = frozenset(["DRAIN", "DRAINED", "DRAINING", "MAINT", "MAINTENANCE", "RESERVED"])
_IN_SLURM = " in Slurm"


@dataclass(frozen=True)
class Machine:
    spec: NodeSpec
    address: str
    cpus: int
    memory_mib: int
    closed: str  #: why it takes no jobs; "": it does


@dataclass(frozen=True)
class Site:
    """A Slurm as we use it."""

    cluster: str
    partition: str  #: where people submit
    runs_in: str  #: where jobs run; the same where nothing is adopted
    adopts: bool
    nodes: Mapping[str, Machine]
    spec: ClusterSpec
    time_limit: str  #: the longest that the partition allows, "0" for none


async def survey(slurm: Slurm, partition: str, *, only_looks: bool = False) -> Site:
    """InputError where there is no such partition, or one that nothing could run in."""
    try:
        config = await slurm.call("scontrol", "show", "config")
        partitions = _partitions(await slurm.call("scontrol", "-o", "-a", "show", "partition"))
        nodes = await slurm.call("scontrol", "-o", "-a", "show", "node")
    except SlurmError as error:
        raise InputError(
            f"Slurm can't be asked: {error}", accepts="a machine on which scontrol, squeue and sbatch work"
        ) from None
    try:
        switches = await slurm.call("scontrol", "show", "topology")
    except SlurmError:  # it has none
        switches = ""
    found = re.search(r"^ClusterName\s*=\s*(\S+)", config, re.MULTILINE)
    chosen = _choose(partitions, partition)
    name = chosen["PartitionName"]
    beside = partitions.get(name + RUNS)
    is_closed = chosen.get("State", "UP").upper() != "UP"
    if is_closed and beside is None and not only_looks:
        raise InputError(
            f"the partition is {chosen['State']}, so nothing in it would run",
            value=name,
            accepts=f"a second one in slurm.conf: PartitionName={name}{RUNS} Nodes={chosen.get('Nodes', 'ALL')} Hidden=YES",
        )
    runs = beside if is_closed and beside else chosen
    own = set(parse.hosts(chosen.get("Nodes", "")))
    machines = _machines(nodes, own)
    if not machines:
        raise InputError("the partition has no nodes", value=name, accepts="a partition with nodes")
    spec = _spec(machines, switches)
    limit = runs.get("MaxTime", "UNLIMITED")
    return Site(
        cluster=found[1] if found else "slurm",
        partition=name,
        runs_in=runs["PartitionName"],
        adopts=runs is not chosen,
        nodes={node.name: replaced for node, replaced in zip(spec.nodes, machines, strict=True)},
        spec=spec,
        time_limit="0" if limit.upper() in ("UNLIMITED", "INFINITE") else limit,
    )


def _partitions(text: str) -> dict[str, dict[str, str]]:
    found = [parse.pairs(line) for line in text.splitlines() if line.startswith("PartitionName=")]
    return {one["PartitionName"]: one for one in found}


def _choose(partitions: Mapping[str, dict[str, str]], name: str) -> dict[str, str]:
    if name:
        if name not in partitions:
            raise unknown("partition", name, partitions)
        return partitions[name]
    for one in partitions.values():
        if one.get("Default", "NO").upper() == "YES":
            return one
    raise InputError("Slurm has no default partition", accepts="--partition and one of " + ", ".join(partitions))


def _machines(text: str, names: set[str]) -> list[Machine]:
    """From `scontrol -o show node`, which every version has and none has changed."""
    found = []
    for line in text.splitlines():
        node = parse.pairs(line)
        name = node.get("NodeName", "")
        if name not in names:
            continue
        gpus, kind = parse.gres_gpus(node.get("Gres", ""))
        cpus, memory = parse.whole(node.get("CPUEfctv") or node.get("CPUTot")), parse.whole(node.get("RealMemory"))
        spec = NodeSpec(name, gpus, kind, cpu_milli=1000 * cpus, memory_mib=memory)
        why = closed(parse.words(node.get("State", "")), node.get("Reason", ""))
        found.append(Machine(spec, node.get("NodeAddr") or node.get("NodeHostName") or name, cpus, memory, why))
    return sorted(found, key=lambda machine: _natural(machine.spec.name))


def closed(states: frozenset[str], reason: str) -> str:
    """Why a node in these states takes no jobs; "" where it does."""
    why = sorted(states & _CLOSED)
    if not why:
        return ""
    said = f": {reason}" if reason and reason.lower() not in ("none", "(null)") else ""
    return f"{'+'.join(why).lower()}{_IN_SLURM}{said}"


def answers(why: str) -> bool:
    """Whether a node that takes no jobs for this reason, as `closed` gives it, can be relied on to run only what Slurm says."""
    return frozenset(why.partition(_IN_SLURM)[0].upper().split("+")) <= _ANSWERS


def _natural(name: str) -> list[tuple[int, str]]:
    """node2 before node10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _spec(machines: list[Machine], topology: str) -> ClusterSpec:
    paths = _paths(topology)
    depth = max((len(paths.get(machine.spec.name, ())) for machine in machines), default=0)
    nodes = []
    for machine in machines:
        path = paths.get(machine.spec.name, ())
        # where some switches have more above them than others, the innermost stands for what is missing
        path = path + (path[-1:] or (machine.spec.name,)) * (depth - len(path))
        one = machine.spec
        nodes.append(NodeSpec(one.name, one.gpus, one.gpu_type, one.cpu_milli, one.memory_mib, path=path))
    levels = ("switch",) if depth == 1 else tuple(f"switch{depth - i}" for i in range(depth))
    return ClusterSpec(tuple(nodes), levels)


def _paths(text: str) -> dict[str, tuple[str, ...]]:
    """By node its switches, outermost first."""
    rows = [parse.pairs(line) for line in text.splitlines() if line.startswith("SwitchName=")]
    above: dict[str, str] = {}
    leaves: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        for child in parse.hosts(row.get("Switches", "")):
            above[child] = row["SwitchName"]
    for row in rows:
        if not row.get("Switches") or row["Switches"] == "(null)":
            leaves[row["SwitchName"]] = parse.hosts(row.get("Nodes", ""))
    paths: dict[str, tuple[str, ...]] = {}
    for leaf, names in leaves.items():
        path = [leaf]
        while path[0] in above and len(path) < 20:
            path.insert(0, above[path[0]])
        paths |= dict.fromkeys(names, tuple(path))
    return paths
