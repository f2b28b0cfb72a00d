"""Random small workloads for gandiva: everything that the reference's have, and elastic jobs, profiles and GPU memory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from random import Random

import numpy as np

from fairlead.model.cluster import ClusterSpec
from fairlead.sim.profiles import Profile, Profiles
from fairlead.sim.run import Run, simulate
from fairlead.state.rules import Options
from fairlead.workload.trace import Names, Trace
from reference.workloads import FEATURES, random_case, random_features

#: jobs that say where they must be or that they stay leave less to decide: they have tests of their own
USUAL = tuple(feature for feature in FEATURES if feature not in ("fixed", "bounds"))
#: quanta are short where jobs are
QUANTUM = 4.0


@dataclass(frozen=True)
class Case:
    trace: Trace
    cluster: ClusterSpec
    options: Options
    profiles: Profiles
    policy: str

    def run(self) -> Run:
        return simulate(self.trace, self.cluster, self.policy, "first-fit", self.options, self.profiles)


def random_gandiva(seed: int, among: Collection[str] = USUAL, policy: str | None = None) -> Case:
    trace, cluster, wanted = random_case(seed, random_features(seed, among))
    random = Random(seed + 1_000_000)
    options = Options(
        seed=seed,
        start_cost_s=wanted.start_cost_s,
        resume_cost_s=min(wanted.resume_cost_s, 1.0),
        job_failures=wanted.job_failures,
        retries=wanted.retries,
        checkpoint_s=wanted.checkpoint_s or 0.0,
        node_events=tuple(wanted.node_events),
        profiler_noise=random.choice((0.0, 0.02, 0.2)),
    )
    stretch = random.choice((1.0, 4.0))
    trace = replace(trace, duration_s=trace.duration_s * stretch)
    if random.random() < 0.5:
        trace = _elastic(random, trace)
    profiles = Profiles()
    if random.random() < 0.7:
        names = ("vae", "lstm", "resnet")
        codes = np.array([random.randint(-1, 2) for _ in range(len(trace))], np.int32)
        trace = replace(trace, profile=Names(codes, names))
        profiles = Profiles({name: random_profile(random) for name in names}, random_profile(random))
    if random.random() < 0.5:
        memory = np.array([1024 * random.randint(1, 12) for _ in range(len(trace))], np.int64)
        trace = replace(trace, gpu_memory_mib=memory)
        cluster = replace(cluster, nodes=tuple(replace(node, gpu_memory_mib=16384) for node in cluster.nodes))
    if policy is None:
        switches = ",".join(
            f"{name}={random.choice(('true', 'true', 'false'))}" for name in ("pack", "migrate", "grow")
        )
        policy = f"gandiva:quantum={QUANTUM:g},idle={random.choice((0, 4, 10))},{switches}"
    return Case(trace, cluster, options, profiles, policy)


def _elastic(random: Random, trace: Trace) -> Trace:
    least, most = trace.gpus.copy(), trace.gpus.copy()
    for job in range(len(trace)):
        if random.random() < 0.6 and trace.gpus[job] > 0:
            least[job] = random.randint(1, trace.gpus[job])
            most[job] = trace.gpus[job] + random.randint(0, 4)
    return replace(trace, min_gpus=least, max_gpus=most)


def random_profile(random: Random) -> Profile:
    return Profile(
        sharing=random.choice(((), (1.0, 1.0), (1.0, 0.75), (1.0, 0.5), (1.0, 0.25), (1.0, 0.515625))),
        scale=random.choice(((), (1.0, 1.5, 1.75, 2.0), (1.0,))),
        locality=random.choice(((1.0,), (1.0, 0.5))),
        utilization=random.choice((0.1, 0.5, 0.9, 1.0)),
    )
