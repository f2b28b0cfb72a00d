"""One job: what it asks for, what it has done, and where it runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, auto

from fairlead.workload.trace import Trace

from .cluster import WHOLE, Ask, Placement


class State(Enum):
    TO_COME = auto()
    WAITING = auto()
    RUNNING = auto()
    OVER = auto()  #: finished, refused or given up


@dataclass
class Job:
    index: int
    submit_s: float
    duration_s: float
    ask: Ask
    priority: int
    estimate_s: float | None
    preemptible: bool = True

    state: State = State.TO_COME
    # As of the last start while it runs, up to date while it waits.
    remaining_s: float = 0.0  #: work that is left, in seconds at rate 1
    ran_s: float = 0.0

    # While it runs.
    placement: Placement | None = None
    work_from_s: float = math.nan  #: when the cost of this start is over
    rate: float = 1.0
    end_s: float = math.inf  #: when it finishes, or when this attempt fails

    # Attempts. The first is attempt 0; one is open from its first start until it fails or is killed.
    attempt: int = -1
    attempt_open: bool = False
    failed_attempts: int = 0
    until_failure_s: float = math.inf  #: work until the open attempt fails

    first_start_s: float = math.nan
    finish_s: float = math.nan
    starts: int = 0
    suspended: bool = False  #: the last thing that stopped it was a suspension
    preemptions: int = 0
    refused: int = 0

    # For policies that promote.
    waits_since_s: float = math.nan
    ran_at_reset_s: float = 0.0

    @property
    def gpus(self) -> float:
        """How many GPUs it counts as: a share counts as its fraction."""
        return self.ask.gpu_milli / WHOLE

    def worked_s(self, now: float) -> float:
        """Seconds of this start in which work was done: those after its cost."""
        return max(0.0, now - self.work_from_s) if self.state is State.RUNNING else 0.0

    def remaining_at(self, now: float) -> float:
        return self.remaining_s - self.rate * self.worked_s(now)

    def ran_at(self, now: float) -> float:
        return self.ran_s + self.worked_s(now)


def jobs_of(trace: Trace) -> list[Job]:
    """The trace's jobs, in its order, which is the order of submission."""
    return [_job(trace, index) for index in range(len(trace))]


def _job(trace: Trace, index: int) -> Job:
    def number(column: object, default: int) -> int:
        return default if column is None else int(column[index])  # type: ignore[index]

    def name(column: object) -> str | None:
        if column is None or column.codes[index] < 0:  # type: ignore[attr-defined]
            return None
        return column.values[column.codes[index]]  # type: ignore[attr-defined, no-any-return]

    ask = Ask(
        gpus=int(trace.gpus[index]),
        share_milli=number(trace.gpu_share_milli, WHOLE),
        cpu_milli=number(trace.cpu_milli, 0),
        memory_mib=number(trace.memory_mib, 0),
        gpu_type=name(trace.gpu_type),
        tenant=name(trace.tenant) or "",
        num_nodes=number(trace.num_nodes, 0),
        topology=name(trace.topology) or "",
    )
    duration_s = float(trace.duration_s[index])
    return Job(
        index=index,
        submit_s=float(trace.submit_s[index]),
        duration_s=duration_s,
        ask=ask,
        priority=number(trace.priority, 0),
        estimate_s=None if trace.estimate_s is None else float(trace.estimate_s[index]),
        remaining_s=duration_s,
        preemptible=bool(number(trace.preemptible, 1)),
    )
