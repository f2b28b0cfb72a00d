"""Claim 3: 480 synthetic jobs on the paper's testbed, simulated."""

from __future__ import annotations

from fairlead.sim.claims.measured import Measured, measured
from fairlead.sim.claims.result import JCT, Ask, Figure, Form, Result, over_seeds
from fairlead.sim.claims.workloads import TESTBED, TESTBED_THRESHOLD, offered_load, synthetic_480, synthetic_setting

LAS = f"tiresias:thresholds={TESTBED_THRESHOLD}"
GITTINS = f"tiresias:gittins=true,thresholds={TESTBED_THRESHOLD}"
NAMES = {LAS: "tiresias", GITTINS: "tiresias gittins"}
#: over tiresias: mean and p95 of JCT, by the paper's simulator
PAPER_JCT = {"fifo": (5.11, 1.50), "srtf": (0.74, 0.55), GITTINS: (1.01, 1.13)}
#: queueing delays on the real testbed (mean, p50, p95), and makespans
PAPER_WAIT: dict[str, tuple[float, float, float]] = {
    "fifo": (8146, 7464, 15327),
    "srtf": (593, 32, 3133),
    LAS: (963, 13, 7755),
    GITTINS: (1005, 39, 7933),
}
PAPER_MAKESPAN = {"fifo": 33270.0, LAS: 27400.0}
RELAXED = "consolidate:relaxed=true"
#: what the arrivals would be at if the 30 s were not the mean gap: half as dense
SPARSE_GAP_S = 60.0


def measure(ask: Ask) -> Result:
    traces = [synthetic_480(seed, ask.jobs) for seed in range(ask.seeds)]
    runs = [{policy: measured(trace, TESTBED, policy) for policy in PAPER_WAIT} for trace in traces]
    figures = [
        over_seeds(
            f"{NAMES.get(policy, policy)} / tiresias, JCT",
            ("mean", "p95"),
            paper,
            [_mean_p95(one[policy], one[LAS]) for one in runs],
        )
        for policy, paper in PAPER_JCT.items()
    ]
    as_yarn = [(PAPER_WAIT["fifo"][0] + _mean_run_s(one["fifo"])) / one[LAS].jct[0] for one in runs]
    figures.append(
        over_seeds(
            "fifo / tiresias, JCT, had fifo waited as YARN-CS on the testbed",
            ("mean",),
            (PAPER_JCT["fifo"][0],),
            as_yarn,
        )
    )
    loose = [(measured(trace, TESTBED, "fifo", RELAXED), measured(trace, TESTBED, LAS, RELAXED)) for trace in traces]
    figures.append(
        over_seeds(
            f"fifo / tiresias, JCT, {RELAXED}", ("mean", "p95"), PAPER_JCT["fifo"], [_mean_p95(*one) for one in loose]
        )
    )
    figures += _waits(runs)
    figures += _load(ask, [offered_load(trace, TESTBED) for trace in traces])
    return Result(
        claim=3,
        title="480 synthetic jobs on 15x4 GPUs",
        setting=(
            f"{synthetic_setting(ask)}; K=2, {TESTBED_THRESHOLD} GPU-s,"
            " preemption free, placer consolidate unless said; waits and makespans: the paper's are of its real testbed"
        ),
        figures=tuple(figures),
        differs=_DIFFERS,
    )


def _mean_p95(of: Measured, by: Measured) -> tuple[float, float]:
    mean, _, p95 = of.over(by)
    return mean, p95


def _mean_run_s(of: Measured) -> float:
    return of.jct[0] - of.wait[0]


def _waits(runs: list[dict[str, Measured]]) -> list[Figure]:
    waits = [
        over_seeds(f"{NAMES.get(policy, policy)}, wait s", JCT, paper, [one[policy].wait for one in runs], Form.seconds)
        for policy, paper in PAPER_WAIT.items()
    ]
    makespans = [
        over_seeds(
            f"{NAMES.get(policy, policy)}, makespan s",
            ("",),
            (paper,),
            [one[policy].makespan_s for one in runs],
            Form.seconds,
        )
        for policy, paper in PAPER_MAKESPAN.items()
    ]
    return waits + makespans


def _load(ask: Ask, loads: list[float]) -> list[Figure]:
    """Is the load plausible: what a mean gap of 30 s offers, and how long fifo would wait at twice the gap."""
    sparse = [
        measured(synthetic_480(seed, ask.jobs, SPARSE_GAP_S), TESTBED, "fifo").wait[0] for seed in range(ask.seeds)
    ]
    return [
        over_seeds("offered load while jobs arrive", ("",), (None,), loads),
        over_seeds(f"fifo, mean wait s, gaps of {SPARSE_GAP_S:.0f} s", ("",), (8146,), sparse, Form.seconds),
    ]


_DIFFERS = (
    "The order of the policies is the paper's, and tiresias itself comes out near the testbed in waits and makespan. The gap"
    " to fifo is smaller because our fifo waits less than the paper's YARN-CS did: that is capacity queues on a real"
    " cluster, ours is one strict queue that loses no GPU time between jobs; with YARN-CS's wait in place of fifo's the"
    " ratio of means is near the paper's. srtf gains more than in the paper: the 480 jobs were not released, and how durations"
    " spread within the bins is our choice. The Gittins variant is level with 2D-LAS, as in the paper's mean; its p95 of"
    " 1.13 does not show. Letting jobs spread over more nodes (relaxed) changes little. The load: a mean gap of 30 s offers"
    " half as much again as the cluster can do while jobs arrive, and the queue drains afterwards, which is how the"
    " testbed's waits of hours come about; at gaps of 60 s fifo would wait for minutes."
)
