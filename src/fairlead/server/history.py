"""How the cluster was used over time, folded from the journal: each row once, however many people look at it how often.

GPUs are *allocated* from a start to the suspension or end that frees them, and *computing* while the job's processes are there:
the difference is what starting, moving and resuming cost. Nothing is sampled, so a scheduler that was down leaves no hole.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fairlead.model.cluster import ClusterSpec
from fairlead.server.store import HistoryRow
from fairlead.server.way import giving_way

Floats = npt.NDArray[np.float64]
#: rows of the journal that say who holds what
KINDS = ("submit", "admit", "start", "started", "resumed", "suspend", "requeue", "hold", "release", "end")


class Steps:
    """A value that changes at moments and stays in between."""

    def __init__(self) -> None:
        self._time, self._value = array("d"), array("d")
        self.now = 0.0

    def add(self, time_s: float, by: float) -> None:
        self.now += by
        if self._time and self._time[-1] >= time_s:
            self._value[-1] = self.now
        else:
            self._time.append(time_s)
            self._value.append(self.now)

    def means(self, edges: Floats) -> Floats:
        """Its mean between each edge and the next; the last value lasts on."""
        if not self._time:
            return np.zeros(len(edges) - 1)
        time, value = np.array(self._time), np.array(self._value)
        area = np.concatenate(([0.0], np.cumsum(np.diff(time) * value[:-1])))
        at = np.maximum(np.searchsorted(time, edges, side="right") - 1, 0)
        # before the first change it was nothing
        upto = np.where(edges < time[0], 0.0, area[at] + (edges - time[at]) * value[at])
        return np.diff(upto) / np.diff(edges)

    def most(self, since_s: float) -> float:
        """The largest that it was from then on."""
        first = int(np.searchsorted(np.array(self._time), since_s, side="right")) - 1
        # before the first change it was nothing
        return max((0.0, *self._value) if first < 0 else self._value[first:])

    def forget(self, before_s: float) -> None:
        keep = int(np.searchsorted(np.array(self._time), before_s, side="right")) - 1
        if keep > 0:
            del self._time[:keep], self._value[:keep]


class Moments:
    """Times at which something happened, each with a number."""

    def __init__(self) -> None:
        self._time, self._value = array("d"), array("d")

    def add(self, time_s: float, value: float = 1.0) -> None:
        self._time.append(time_s)
        self._value.append(value)

    def since(self, time_s: float) -> Floats:
        first = int(np.searchsorted(np.array(self._time), time_s))
        return np.array(self._value[first:])

    def counts(self, edges: Floats) -> Floats:
        return np.diff(np.searchsorted(np.array(self._time), edges)).astype(np.float64)

    def forget(self, before_s: float) -> None:
        first = int(np.searchsorted(np.array(self._time), before_s))
        del self._time[:first], self._value[:first]


@dataclass
class _Held:
    tenant: str
    submit_s: float
    waits: bool = False  #: in the queue
    computes: bool = False
    gpus: float = 0.0
    nodes: tuple[tuple[str, int], ...] = ()  #: and how many milli-GPUs there


@dataclass
class History:
    """What `fold` was given, in order. `last_event`: the number of the last row."""

    node_milli: Mapping[str, int]  #: what each node has
    last_event: int = 0
    first_s: float | None = None  #: from when on it is known
    allocated: Steps = field(default_factory=Steps)
    computing: Steps = field(default_factory=Steps)
    waiting: Steps = field(default_factory=Steps)
    broken: Steps = field(default_factory=Steps)  #: free GPUs of nodes that are partly used
    of_tenant: dict[str, Steps] = field(default_factory=dict)
    waits: dict[str, Moments] = field(default_factory=dict)  #: how long jobs waited, by tenant, at their first start
    suspensions: Moments = field(default_factory=Moments)
    starts: Moments = field(default_factory=Moments)
    ends: Moments = field(default_factory=Moments)
    _jobs: dict[int, _Held] = field(default_factory=dict)
    _used: dict[str, int] = field(default_factory=dict)
    _time_s: float = 0.0

    @classmethod
    def of(cls, spec: ClusterSpec) -> History:
        return cls({node.name: 1000 * node.gpus for node in spec.nodes})

    def fold(self, rows: Iterable[HistoryRow]) -> None:
        for row in giving_way(rows):
            self._time_s = max(self._time_s, row.time_s)  # clocks may be set back; a journal goes forward
            if self.first_s is None:
                self.first_s = self._time_s
            self._fold(row)
            self.last_event = max(self.last_event, row.seq)

    def _fold(self, row: HistoryRow) -> None:
        job = self._jobs.get(row.job)
        if job is None:
            if row.kind == "end":
                return
            job = self._jobs[row.job] = _Held(row.tenant, row.submit_s)
        if row.kind == "submit":
            self._queue(job, not json.loads(row.args).get("blocked", False))
        elif row.kind == "admit":  # the jobs that it waited for have ended: its own wait begins
            job.submit_s = self._time_s
            self._queue(job, True)
        elif row.kind == "release":
            self._queue(job, True)
        elif row.kind == "start":
            self._leave(job)  # a run that is begun afresh takes its own place
            self._queue(job, False)
            self._enter(job, row)
        elif row.kind in ("started", "resumed"):
            self._compute(job, job.gpus > 0)
        elif row.kind in ("suspend", "requeue"):
            if row.kind == "suspend":
                self.suspensions.add(self._time_s)
            self._leave(job)
            self._queue(job, True)
        elif row.kind == "hold":
            self._leave(job)
            self._queue(job, False)
        elif row.kind == "end":
            self._leave(job)
            self._queue(job, False)
            self.ends.add(self._time_s)
            del self._jobs[row.job]

    def _queue(self, job: _Held, waits: bool) -> None:
        if job.waits != waits:
            job.waits = waits
            self.waiting.add(self._time_s, 1 if waits else -1)

    def _compute(self, job: _Held, computes: bool) -> None:
        if job.computes != computes:
            job.computes = computes
            self.computing.add(self._time_s, job.gpus if computes else -job.gpus)

    def _enter(self, job: _Held, row: HistoryRow) -> None:
        if row.run == 1:
            self.waits.setdefault(job.tenant, Moments()).add(self._time_s, max(self._time_s - job.submit_s, 0.0))
            self.starts.add(self._time_s)
        job.nodes = tuple((node, len(gpus) * milli) for node, gpus, milli in json.loads(row.args).get("places", ()))
        job.gpus = sum(milli for _, milli in job.nodes) / 1000
        self._hold(job, 1)

    def _leave(self, job: _Held) -> None:
        self._compute(job, False)
        self._hold(job, -1)
        job.gpus, job.nodes = 0.0, ()

    def _hold(self, job: _Held, sign: int) -> None:
        if not job.gpus:
            return
        self.allocated.add(self._time_s, sign * job.gpus)
        self.of_tenant.setdefault(job.tenant, Steps()).add(self._time_s, sign * job.gpus)
        change = 0.0
        for node, milli in job.nodes:
            before = self._used.get(node, 0)
            self._used[node] = after = before + sign * milli
            change += self._broken(node, after) - self._broken(node, before)
        if change:
            self.broken.add(self._time_s, change)

    def _broken(self, node: str, used: int) -> float:
        """Free GPUs that a job of the node's full size can't have, since others are on it."""
        return (self.node_milli.get(node, 0) - used) / 1000 if used > 0 else 0.0

    def forget(self, before_s: float) -> None:
        steps: Sequence[Steps] = (self.allocated, self.computing, self.waiting, self.broken, *self.of_tenant.values())
        for one in steps:
            one.forget(before_s)
        for two in (self.suspensions, self.starts, self.ends, *self.waits.values()):
            two.forget(before_s)
