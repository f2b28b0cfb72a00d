"""Claim 1: three jobs on two GPUs, small enough to be worked out by hand. The only claim that must hold exactly."""

from __future__ import annotations

import numpy as np

from fairlead.sim.claims.measured import measured
from fairlead.sim.claims.result import Ask, Figure, Form, Result
from fairlead.workload.trace import Trace

CLUSTER = "1x2"
#: (GPUs, seconds), all submitted at 0
JOBS = ((2, 2.0), (1, 8.0), (2, 6.0))
#: when each job ends, and the mean as the paper rounds it
PAPER = {"srsf": ((2.0, 10.0, 16.0), 9.33), "las:quantum=1": ((5.0, 14.0, 16.0), 11.67)}


def measure(ask: Ask) -> Result:
    trace = Trace(
        submit_s=np.zeros(len(JOBS)),
        gpus=np.array([gpus for gpus, _ in JOBS], np.int32),
        duration_s=np.array([duration_s for _, duration_s in JOBS]),
        source="toy",
    )
    figures: list[Figure] = []
    holds = True
    for policy, (finish, mean) in PAPER.items():
        found = measured(trace, CLUSTER, policy)
        holds = holds and found.finish_s == finish and round(found.jct[0], 2) == mean
        figures.append(
            Figure(f"{policy} finish", ("job 1", "job 2", "job 3"), finish, found.finish_s, None, Form.whole)
        )
        figures.append(Figure(f"{policy} mean JCT", ("",), (mean,), (found.jct[0],)))
    return Result(
        claim=1,
        title="Three jobs on two GPUs, by hand",
        setting="2 GPUs; jobs of (GPUs, s) (2, 2), (1, 8), (2, 6), all at 0; LAS looks again every second",
        figures=tuple(figures),
        differs=(
            "Nothing: it must be equal, and the command fails if it is not. The paper's third schedule (Gittins, mean 10)"
            " is left out, since the formula that it prints does not give it."
        ),
        holds=holds,
    )
