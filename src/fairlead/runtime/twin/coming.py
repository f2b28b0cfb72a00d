"""The hours to come, point by point: GPUs in use, and jobs that wait, run and have ended."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead.model.event import EventKind
from fairlead.record.runs import Floats, fold_runs
from fairlead.record.steps import Bins, bin_averages
from fairlead.runtime.live_jobs import Status
from fairlead.runtime.twin.ahead import Ahead

POINTS = 96
#: nobody trusts a forecast further, and nothing is to be seen in less
LONGEST_S, SHORTEST_S = 24 * 3600.0, 60.0


@dataclass(frozen=True)
class Coming:
    """Averages over `POINTS` equal stretches from now on."""

    length_s: float
    held_gpus: Floats
    waiting_jobs: Floats
    ended_jobs: Floats
    gpus: int  #: that there are

    def to_json(self) -> dict[str, Any]:
        return {
            "length_s": self.length_s,
            "gpus": self.gpus,
            "held_gpus": _rounded(self.held_gpus),
            "waiting_jobs": _rounded(self.waiting_jobs),
            "ended_jobs": _rounded(self.ended_jobs),
        }


def _rounded(values: Floats) -> list[float]:
    return [round(max(value, 0.0), 3) for value in values.tolist()]


def fold_coming(ahead: Ahead, last_end_s: float, length_s: float | None = None) -> Coming:
    """Up to the last end, a day at most; `length_s` where it is to be compared with another."""
    now, journal = ahead.moment.now, ahead.journal()
    if length_s is None:
        needs_s = last_end_s - now if math.isfinite(last_end_s) else 0.0
        length_s = min(max(needs_s * 1.02, SHORTEST_S), LONGEST_S)
    bins = Bins(now, now + length_s, POINTS)
    runs = fold_runs(journal)
    back = np.isin(runs.end_kind, (EventKind.SUSPEND, EventKind.FAIL, EventKind.KILL))
    refused = journal.time_s[journal.kind == EventKind.REFUSE]
    ends = journal.time_s[journal.kind == EventKind.FINISH]
    there = sum(at.status != Status.HELD for _, at in ahead.moment.jobs)

    def averages(times: Floats, changes: Floats, begin: float = 0.0) -> Floats:
        inside = times < bins.end_s
        return begin + bin_averages(times[inside], changes[inside], bins)

    return Coming(
        length_s=length_s,
        held_gpus=averages(np.concatenate([runs.start_s, runs.end_s]), np.concatenate([runs.weight, -runs.weight])),
        waiting_jobs=averages(
            np.concatenate([runs.start_s, runs.end_s[back], refused]),
            np.concatenate([-np.ones(len(runs)), np.ones(int(back.sum())), -np.ones(len(refused))]),
            float(there),
        ),
        ended_jobs=averages(ends, np.ones(len(ends))),
        gpus=journal.cluster.gpus,
    )
