"""Claim 7, simulated: six jobs take turns on four GPUs."""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import parse_cluster_shape
from fairlead.model.event import EventKind
from fairlead.record.journal import Journal
from fairlead.record.runs import fold_runs, sum_by
from fairlead.sim.claims.result import Ask, Figure, Form, Result
from fairlead.sim.run import simulate
from fairlead.state.rules import Options
from fairlead.workload.trace import Trace

CLUSTER = "1x4"
JOBS = 6
WORK_S = 4 * 3600.0
#: suspending and resuming take less than 0.1 s for image models and up to 1 s for large translation models
COSTS_S = (0.1, 1.0)


def measure(ask: Ask) -> Result:
    trace = Trace(np.zeros(JOBS), np.ones(JOBS, np.int32), np.full(JOBS, WORK_S), source="six equal jobs")
    figures: list[Figure] = []
    losses = []
    for cost_s in COSTS_S:
        run = simulate(trace, parse_cluster_shape(CLUSTER), "gandiva", options=Options(resume_cost_s=cost_s))
        shares, loss = _shares(run.journal, cost_s)
        losses.append(loss)
        what = f"cost {cost_s:g} s"
        figures.append(
            Figure(
                f"share of a GPU, {what}",
                ("least", "most"),
                (4 / 6, 4 / 6),
                (min(shares), max(shares)),
                None,
                Form.share,
            )
        )
        figures.append(Figure(f"aggregate loss (paper: less than), {what}", ("",), (0.02,), (loss,), None, Form.share))
    return Result(
        claim=7,
        title="Six jobs on four GPUs, simulated",
        setting=f"{JOBS} jobs of one GPU and {WORK_S / 3600:.0f} h each on {CLUSTER}, turns of 60 s; while all six are there",
        figures=tuple(figures),
        differs=(
            "Nothing in kind. The paper measured real training on its testbed; here a resumption costs what it says, and the"
            " loss is that cost: two of four GPUs change hands every minute."
        ),
        holds=max(losses) < 0.02,
    )


def _shares(journal: Journal, cost_s: float) -> tuple[list[float], float]:
    """What part of a GPU each job had until the first one ended, and what part of all GPU time went into resuming."""
    runs = fold_runs(journal)
    until_s = float(runs.end_s[runs.end_kind == EventKind.FINISH].min())
    begin, end = np.minimum(runs.start_s, until_s), np.minimum(runs.end_s, until_s)
    held = sum_by(runs.job, end - begin, JOBS)
    resumptions = int(np.count_nonzero(runs.start_s < until_s)) - JOBS
    return (held / until_s).tolist(), resumptions * cost_s / (4 * until_s)
