"""Tiresias (NSDI'19): two-dimensional least attained service in a few queues, so that jobs are seldom preempted.

Service is GPUs × time run. A job starts in the first queue and is demoted each time its service reaches the next of
`thresholds` (GPU-seconds, joined by '/'). Within a queue, 2D-LAS goes by first start; `gittins=true` goes by the Gittins
index of the service so far against the workload's own distribution, except in the last queue. With a `knob`, a job that has
waited for knob × the time it ran returns to the first queue and its service counts from 0 again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fairlead.kernels.columns import (
    F8,
    JobRow,
)
from fairlead.kernels.jit import compiled
from fairlead.model.errors import InputError
from fairlead.policy.base import History, QueuePolicy

# the array p: number of thresholds, knob, the thresholds
_COUNT, _KNOB, _FIRST = 0, 1, 2
#: a service this close below a threshold has reached it: the moment was computed in floating point
_REACHED = 1.0 - 1e-9


@compiled
def queue_of(service: float, p: F8) -> int:
    k = 0
    while k < p[_COUNT] and service >= p[_FIRST + k] * _REACHED:
        k += 1
    return k


def _thresholds(values: Mapping[str, Any]) -> list[float]:
    text = str(values["thresholds"])
    try:
        found = [float(part) for part in text.split("/")]
    except ValueError:
        found = []
    if not found or found != sorted(found) or found[0] <= 0:
        raise InputError(
            "thresholds must be positive and rising", column="thresholds", value=text, accepts="e.g. 3200 or 3250/7200"
        )
    return found


class Tiresias(QueuePolicy):
    """Discretised 2D-LAS (gittins=true: 2D-Gittins); thresholds=A/B GPU-seconds, knob=promotion (0: off)."""

    name = "tiresias"
    preempts = True
    changes = "running"
    parameters = {"thresholds": "3200", "knob": 0.0, "gittins": False}

    @classmethod
    def numbers(cls, values: Mapping[str, Any], history: History) -> list[float]:
        limits = _thresholds(values)
        return [float(len(limits)), float(values["knob"]), *limits]

    @classmethod
    def variant(cls, values: Mapping[str, Any]) -> type[QueuePolicy]:
        from fairlead.policy.tiresias_gittins import TiresiasGittins

        return TiresiasGittins if values["gittins"] else cls

    @staticmethod
    def level(job: JobRow, now: float, p: F8) -> float:
        return queue_of(job.ran_s * job.gpus, p)

    @staticmethod
    def key(job: JobRow, now: float, p: F8) -> float:
        return job.first_start_s

    @staticmethod
    def drift(job: JobRow, now: float, p: F8) -> float:
        return 0.0

    @staticmethod
    def wake(job: JobRow, now: float, p: F8) -> float:
        if job.running != 0.0:
            k = queue_of(job.ran_s * job.gpus, p)
            if k >= p[_COUNT] or job.gpus == 0.0:
                return math.inf
            return now + (p[_FIRST + k] - job.ran_s * job.gpus) / job.gpus
        if p[_KNOB] > 0.0 and job.ran_s > 0.0:
            return now + (p[_KNOB] * job.ran_s - job.waiting_s)
        return math.inf

    @staticmethod
    def resets(job: JobRow, now: float, p: F8) -> float:
        due = p[_KNOB] > 0.0 and job.running == 0.0 and job.ran_s > 0.0
        return 1.0 if due and job.waiting_s >= p[_KNOB] * job.ran_s * _REACHED else 0.0
