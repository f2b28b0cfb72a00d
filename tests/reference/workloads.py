"""Small random workloads: crowded clusters, many ties, and a bit of everything that can go wrong.

Times, shares and weights are binary fractions, so that sums of them are exact and two simulators that add in
a different order still agree on what is a tie. The feature "rough" gives that up.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from random import Random

import numpy as np

from fairlead.model.cluster import ClusterSpec, NodeSpec, TenantSpec
from fairlead.workload.trace import Names, Trace

from .simulator import Options

FEATURES = (
    "types",  #: nodes and jobs of GPU types
    "cpu",  #: CPU and memory, and jobs without a GPU
    "shares",
    "tenants",  #: with quotas and weights, and some jobs of nobody
    "priorities",
    "estimates",
    "failures",
    "node-events",
    "costs",
    "levels",  #: regions and racks
    "speeds",  #: GPU types of different speed
    "rough",  #: times and shares that binary fractions can't hold
    "fixed",  #: jobs that may not be preempted
    "bounds",  #: numbers of nodes, and levels of the topology
)
TYPES = ("V100", "T4", "A100")
TENANTS = ("red", "green", "blue")


def random_case(seed: int, features: Collection[str] = ()) -> tuple[Trace, ClusterSpec, Options]:
    unknown = set(features) - set(FEATURES)
    if unknown:
        raise ValueError(f"no such feature: {sorted(unknown)}")
    random = Random(seed)
    cluster = random_cluster(random, features)
    trace = random_trace(random, features, cluster)
    return trace, cluster, random_options(random, features, cluster, trace, seed)


def random_features(seed: int, among: Collection[str] = FEATURES) -> set[str]:
    """Some features: often one or two, sometimes nearly all."""
    random = Random(seed)
    often = random.choice((0.1, 0.2, 0.5, 0.9))
    return {feature for feature in FEATURES if feature in among and random.random() < often}


def random_cluster(random: Random, features: Collection[str]) -> ClusterSpec:
    count = random.randint(1, 6)
    same = random.choice((1, 2, 4, 4, 8, 8, random.randint(1, 8)))
    capacities = [same] * count
    if random.random() < 0.4:
        capacities = [random.choice((1, 2, 3, 4, 5, 6, 8, 8)) for _ in range(count)]
    types = [random.choice(TYPES[:2]) if "types" in features else "" for _ in range(count)]
    if "types" not in features and "speeds" in features:
        types = [random.choice(TYPES) for _ in range(count)]
    unlimited = 0.2 if random.random() < 0.3 else 0.0
    nodes = []
    for index, (gpus, gpu_type) in enumerate(zip(capacities, types)):
        limited = "cpu" in features and random.random() >= unlimited
        nodes.append(
            NodeSpec(
                name=f"node-{index}",
                gpus=0 if "cpu" in features and count > 1 and random.random() < 0.1 else gpus,
                gpu_type=gpu_type,
                cpu_milli=random.choice((2, 4, 4, 6)) * gpus * 1000 if limited else None,
                memory_mib=random.choice((4, 8, 8, 16)) * gpus * 1024 if limited else None,
                path=(f"region-{index // 3}", f"rack-{index % 3 // 2}") if "levels" in features else (),
            )
        )
    if "bounds" in features and random.random() < 0.4:
        # domains whose nodes do not stand together
        paths = [node.path for node in nodes]
        random.shuffle(paths)
        nodes = [replace(node, path=path) for node, path in zip(nodes, paths)]
    return ClusterSpec(
        nodes=tuple(nodes),
        levels=("region", "rack") if "levels" in features else (),
        tenants=random_tenants(random, sum(capacities)) if "tenants" in features else {},
        speeds={"V100": 0.5, "A100": 2.0} if "speeds" in features else {},
    )


def random_tenants(random: Random, gpus: int) -> dict[str, TenantSpec]:
    """Not all of them: a tenant that the cluster does not know has weight 1 and no quota."""
    return {
        name: TenantSpec(name, random.choice((None, random.randint(1, gpus))), random.choice((0.5, 1.0, 2.0)))
        for name in TENANTS
        if random.random() < 0.8
    }


def random_trace(random: Random, features: Collection[str], cluster: ClusterSpec) -> Trace:
    count = random.randint(3, 30)
    even = "bounds" in features
    gpus = [
        even_gang(random, cluster) if even and random.random() < 0.6 else random_gang(random, cluster)
        for _ in range(count)
    ]
    duration_s = random_durations(random, features, count)
    shares = [1000] * count
    if "shares" in features:
        sizes = (100, 300, 333, 500, 700) if "rough" in features else (125, 250, 500, 500, 625, 750)
        for job in range(count):
            if random.random() < 0.5:
                gpus[job], shares[job] = 1, random.choice(sizes)
    cpu_milli, memory_mib = [0] * count, [0] * count
    if "cpu" in features:
        for job in range(count):
            if shares[job] == 1000 and random.random() < 0.2:
                gpus[job] = 0
            cpu_milli[job] = random.choice((0, 1000, 2000, 3000, 1700)) * max(1, gpus[job])
            memory_mib[job] = random.choice((0, 1024, 4096, 6000)) * max(1, gpus[job])
            if random.random() < 0.2:
                cpu_milli[job] += random.randint(1, 999)
    types = [-1 if gpus[job] == 0 else random.choice((-1, -1, -1, 0, 0, 1, 1, 1, 0, 2)) for job in range(count)]
    tenants = [random.choice((-1, 0, 0, 1, 1, 2)) for _ in range(count)]
    preemptible = [int(random.random() < 0.6) for _ in range(count)] if "fixed" in features else None
    nodes, levels = random_bounds(random, cluster, gpus, shares) if "bounds" in features else (None, None)
    estimates = [random.choice((0.5, 1.0, 1.0, 1.5, 4.0)) * duration for duration in duration_s]
    return Trace(
        submit_s=np.array(random_submissions(random, features, count), np.float64),
        gpus=np.array(gpus, np.int32),
        duration_s=np.array(duration_s, np.float64),
        tenant=Names(np.array(tenants, np.int32), TENANTS) if "tenants" in features else None,
        gpu_type=Names(np.array(types, np.int32), TYPES) if "types" in features else None,
        gpu_share_milli=np.array(shares, np.int32) if "shares" in features else None,
        cpu_milli=np.array(cpu_milli, np.int64) if "cpu" in features else None,
        memory_mib=np.array(memory_mib, np.int64) if "cpu" in features else None,
        priority=_priorities(random, count) if "priorities" in features else None,
        estimate_s=np.array(estimates, np.float64) if "estimates" in features else None,
        preemptible=None if preemptible is None else np.array(preemptible, np.int8),
        num_nodes=nodes,
        topology=levels,
        source="random",
    )


def _priorities(random: Random, count: int) -> np.ndarray:
    return np.array([random.choice((-1, 0, 0, 0, 1, 5)) for _ in range(count)], np.int32)


def random_gang(random: Random, cluster: ClusterSpec) -> int:
    """Mostly small; now and then as large as a node, as several, as all, or larger."""
    largest = max(1, max(node.gpus for node in cluster.nodes))
    everything = max(1, cluster.gpus)
    kind = random.random()
    if kind < 0.55:
        return min(random.choice((1, 1, 1, 2, 2, 3, 4)), everything)
    if kind < 0.75:
        return random.randint(1, largest)
    if kind < 0.95:
        return random.randint(1, everything)
    return everything + random.randint(0, 2)


def even_gang(random: Random, cluster: ClusterSpec) -> int:
    """A size that some number of nodes could hold in equal parts."""
    nodes = random.randint(1, len(cluster.nodes))
    return nodes * random.randint(1, max(1, sorted((node.gpus for node in cluster.nodes), reverse=True)[nodes - 1]))


def random_bounds(
    random: Random, cluster: ClusterSpec, gpus: list[int], shares: list[int]
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int32]], Names]:
    """For some jobs how many nodes, for some which level, for some both, and now and then what can't be."""
    names = ("node", "rack", "region", "pod")
    nodes, levels = [], []
    for wanted, share in zip(gpus, shares):
        even = [n for n in (1, 1, 2, 3, 4, 5, 6) if wanted % n == 0] if wanted and share == 1000 else [1]
        nodes.append(random.choice(even[1:] or even) if random.random() < 0.5 else 0)
        known = [i for i, name in enumerate(names) if name == "node" or name in cluster.levels]
        level = random.choice(known) if random.random() < 0.97 else 3
        levels.append(level if random.random() < 0.5 else -1)
    return np.array(nodes, np.int32), Names(np.array(levels, np.int32), names)


def random_submissions(random: Random, features: Collection[str], count: int) -> list[float]:
    """In order, the first at 0."""
    kind = random.choice(("at once", "batches", "whole", "whole", "fractions"))
    if kind == "at once":
        return [0.0] * count
    span = random.choice((10, 40, 120))
    if kind == "batches":
        moments = [random.randint(0, span) for _ in range(3)]
        times = [float(random.choice(moments)) for _ in range(count)]
    elif kind == "whole":
        times = [float(random.randint(0, span)) for _ in range(count)]
    elif "rough" in features:
        times = [random.random() * span for _ in range(count)]
    else:
        times = [random.randint(0, 8 * span) / 8 for _ in range(count)]
    times = [time_s - min(times) for time_s in times]
    return sorted(times)


def random_durations(random: Random, features: Collection[str], count: int) -> list[float]:
    kind = random.choice(("few", "whole", "whole", "fractions"))
    longest = random.choice((5, 20, 60))
    if kind == "few":
        values = [float(random.randint(1, longest)) for _ in range(3)]
        durations = [random.choice(values) for _ in range(count)]
    elif kind == "whole":
        durations = [float(random.randint(1, longest)) for _ in range(count)]
    elif "rough" in features:
        durations = [random.random() * longest for _ in range(count)]
    else:
        durations = [random.randint(1, 8 * longest) / 8 for _ in range(count)]
    return [0.0 if random.random() < 0.02 else duration for duration in durations]


def random_options(random: Random, features: Collection[str], cluster: ClusterSpec, trace: Trace, seed: int) -> Options:
    costs = failures = {}
    if "costs" in features:
        costs = {
            "start_cost_s": random.choice((0.0, 1.0, 2.5)),
            "resume_cost_s": random.choice((0.0, 1.0, 4.0)),
        }
    if "failures" in features:
        failures = {"job_failures": random.choice((0.1, 0.3, 0.6)), "retries": random.randint(0, 3)}
    checkpoint_s = random.choice((None, 2.0, 5.0)) if {"failures", "node-events"} & set(features) else None
    node_events = random_node_events(random, cluster, trace) if "node-events" in features else []
    return Options(seed=seed, checkpoint_s=checkpoint_s, node_events=node_events, **costs, **failures)


def random_node_events(random: Random, cluster: ClusterSpec, trace: Trace) -> list[tuple[float, int, bool]]:
    """Each node goes down and up in turn, a few times or never; now and then for good."""
    last = int(trace.submit_s[-1]) + 30
    events = []
    for node in range(len(cluster.nodes)):
        moments = sorted(random.sample(range(1, last + 1), random.choice((0, 0, 1, 2, 2, 4))))
        events += [(float(moment), node, turn % 2 == 1) for turn, moment in enumerate(moments)]
    return sorted(events)
