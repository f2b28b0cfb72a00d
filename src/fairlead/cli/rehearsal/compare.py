"""How a simulated run and a lived one agree.

A lived run is late by a few hundredths of a second at every start: a program must be begun and its end be noticed. Where two things
happen at nearly the same moment, that can change who comes first. An order of two jobs is called settled where it stays the same
in every one of many simulations whose jobs are late by as much as the lived ones were, drawn at random; only there can the lived
run be held to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fairlead.model.cluster import ClusterSpec
from fairlead.sim.run import simulate
from fairlead.state.rules import Options

if TYPE_CHECKING:
    from fairlead.cli.rehearsal.live_run import Latencies, Lived
    from fairlead.workload.trace import Trace

SHAKEN = 1000  #: simulations that say which orders are settled: a rare coincidence among thousands of pairs is not one of few runs
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Agreement:
    policy: str
    jobs: int
    sim_jct_s: float
    live_jct_s: float
    sim_makespan_s: float
    live_makespan_s: float
    sim_preemptions: int
    live_preemptions: int
    late_s: float  #: how late a run's end is on average, and at the 95th percentile
    late_p95_s: float
    pairs: int
    settled: int  #: pairs of jobs whose order of first starts does not hang on being late
    swapped: int  #: of those, how many were the other way round
    latencies: Latencies  #: that the simulation was given

    @property
    def jct_off(self) -> float:
        """By how much the lived mean completion time is longer, as a part of the simulated one."""
        return self.live_jct_s / self.sim_jct_s - 1.0

    def holds(self, within: float) -> bool:
        return abs(self.jct_off) <= within and self.swapped == 0


def lateness(trace: Trace, lived: Sequence[Lived]) -> Floats:
    """By how much longer than its work a job held its GPUs: those that nobody suspended, as they show it best."""
    held = np.array([one.finish_s - one.first_start_s for one in lived])
    alone = np.array([one.runs == 1 for one in lived])
    late: Floats = np.maximum(held - trace.duration_s, 0.0)
    return late[alone] if alone.any() else late


def agree(
    trace: Trace,
    cluster: ClusterSpec,
    policy: str,
    placer: str,
    lived: Sequence[Lived],
    seed: int,
    latencies: Latencies,
) -> Agreement:
    plain = simulate(trace, cluster, policy, placer, latencies.costs())
    finish, start = plain.outcome.finish_s, plain.outcome.start_s
    live_start = np.array([one.first_start_s for one in lived])
    live_finish = np.array([one.finish_s for one in lived])
    late = lateness(trace, lived)
    settled = _settled(trace, cluster, policy, placer, start, late, seed, latencies)
    swapped = settled & (live_start[:, None] > live_start[None, :])
    return Agreement(
        policy=policy,
        jobs=len(trace),
        sim_jct_s=float((finish - trace.submit_s).mean()),
        live_jct_s=float((live_finish - np.array([one.submit_s for one in lived])).mean()),
        sim_makespan_s=float(finish.max() - trace.submit_s.min()),
        live_makespan_s=float(live_finish.max() - min(one.submit_s for one in lived)),
        sim_preemptions=plain.preemptions,
        live_preemptions=sum(one.runs - 1 for one in lived),
        late_s=float(late.mean()),
        late_p95_s=float(np.quantile(late, 0.95)),
        pairs=len(trace) * (len(trace) - 1) // 2,
        settled=int(settled.sum()),
        swapped=int(swapped.sum()),
        latencies=latencies,
    )


def _settled(
    trace: Trace,
    cluster: ClusterSpec,
    policy: str,
    placer: str,
    start: Floats,
    late: Floats,
    seed: int,
    latencies: Latencies,
) -> npt.NDArray[np.bool_]:
    """[a, b] where a starts before b however late things are. What is known of an engine's lateness is a cost, which no policy counts as
    service; the rest is drawn, and makes a job longer or shorter."""
    before = start[:, None] < start[None, :]
    known = latencies.costs()
    rng = np.random.Generator(np.random.PCG64(seed))
    for _ in range(SHAKEN):
        drawn = rng.choice(late, (2, len(trace)))
        resume_s = known.resume_cost_s + float(rng.choice(late)) - known.start_cost_s
        costs = Options(start_cost_s=known.start_cost_s, resume_cost_s=max(resume_s, 0.0))
        shaken = replace(
            trace,
            submit_s=np.maximum.accumulate(trace.submit_s + 0.1 * drawn[1]),
            duration_s=np.maximum(trace.duration_s + drawn[0] - known.start_cost_s, 0.1),
        )
        first = simulate(shaken, cluster, policy, placer, costs).outcome.start_s
        before &= first[:, None] < first[None, :]
    return before
