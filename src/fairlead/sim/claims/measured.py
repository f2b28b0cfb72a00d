"""One run of a policy, as the numbers that claims are made of."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.model.cluster import ClusterSpec, parse_cluster_shape
from fairlead.record.metrics import core_metrics
from fairlead.record.spread import Spread
from fairlead.sim.profiles import Profiles
from fairlead.sim.run import simulate
from fairlead.state.rules import Options
from fairlead.workload.trace import Floats, Trace

Triple = tuple[float, float, float]


@dataclass(frozen=True)
class Measured:
    jct: Triple  #: mean, p50, p95
    wait: Triple
    makespan_s: float
    preemptions: int
    charged_gpu_s: float
    finish_s: tuple[float, ...]

    def over(self, other: Measured) -> Triple:
        """How many times the other's JCT."""
        (mean, p50, p95), by = self.jct, other.jct
        return mean / by[0], p50 / by[1], p95 / by[2]


def measured(
    trace: Trace, cluster: str | ClusterSpec, policy: str, placer: str = "consolidate", options: Options | None = None
) -> Measured:
    spec = parse_cluster_shape(cluster) if isinstance(cluster, str) else cluster
    run = simulate(trace, spec, policy, placer, options)
    core = core_metrics(run.journal.jobs, run.outcome, capacity_gpus=spec.gpus)
    return Measured(
        jct=_triple(core.jct_s),
        wait=_triple(core.wait_s),
        makespan_s=core.makespan_s,
        preemptions=core.preemptions,
        charged_gpu_s=run.charged_gpu_s,
        finish_s=tuple(run.outcome.finish_s.tolist()),
    )


def _triple(values: Spread) -> Triple:
    return values.mean, values.p50, values.p95


@dataclass(frozen=True)
class ByJob:
    """A run job by job, for claims about some of the jobs only. nan where a job was refused."""

    jct_s: Floats
    wait_s: Floats
    finish_s: Floats
    estimate_s: Floats | None


def by_job(
    trace: Trace, cluster: ClusterSpec, policy: str, placer: str = "consolidate", profiles: Profiles | None = None
) -> ByJob:
    run = simulate(trace, cluster, policy, placer, profiles=profiles)
    outcome = run.outcome
    jct_s = outcome.finish_s - trace.submit_s
    return ByJob(jct_s, jct_s - outcome.ran_s, outcome.finish_s, run.estimate_s)
