"""A stretch of what a live scheduler lived through, put together from its jobs and the rows of its journal.

The simulator's journal has one kind of wait and knows every job's length. Here people hold jobs back, jobs wait for other jobs, fail
for reasons of their own, and some were there before the stretch began and are still there when it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairlead.model.cluster import ClusterSpec, NodeSpec
from fairlead.model.event import EventKind
from fairlead.record.journal import JobTable, Journal
from fairlead.record.runs import Floats, Ints

#: node, its GPUs by their numbers, thousandths of each
Place = tuple[str, tuple[int, ...], int]
#: rows after which a job holds nothing
_STOPS = ("suspend", "hold", "requeue", "end")
#: rows that open a node, and what they undo
_OPENS = {"undrain": "drain", "node-up": "node-down"}
#: rows that say which nodes take jobs. A scheduler that comes up is told anew which ones are down
NODE_KINDS = ("scheduler-up", *_OPENS, *_OPENS.values())


@dataclass(frozen=True)
class LivedJob:
    id: str
    tenant: str
    user: str
    gpus: int
    submit_s: float
    finished_s: float | None  #: None: not by the end of the stretch
    state: str
    reason: str = ""
    blocked: bool = False  #: it waits for other jobs; of one that did, the row of its submission says so


@dataclass(frozen=True)
class Row:
    """Of the journal."""

    time_s: float
    kind: str
    job: str | None = None
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Stretch:
    """Of one job: on GPUs, or in the queue."""

    job: int
    begin_s: float
    end_s: float
    places: tuple[Place, ...] = ()

    @property
    def gpus(self) -> float:
        return sum(len(gpus) * milli for _, gpus, milli in self.places) / 1000.0


@dataclass(frozen=True)
class Suspension:
    """By the policy, of a job that had GPUs."""

    time_s: float
    job: int
    why: str


@dataclass(frozen=True)
class Lived:
    cluster: ClusterSpec
    begin_s: float
    end_s: float
    jobs: tuple[LivedJob, ...]
    runs: tuple[Stretch, ...]
    queued: tuple[Stretch, ...]
    #: seconds from when a job could have run until it first did, by job; those that first ran in this stretch
    starts_s: Mapping[int, float]
    #: seconds in the queue in all, suspended or not yet started, by job; those that ran and ended in this stretch
    waits_s: Mapping[int, float]
    suspensions: tuple[Suspension, ...]
    requeues: int  #: runs that broke off for no fault of the policy's: a lost node, no process to be had
    down: tuple[tuple[str, float, float], ...]  #: nodes that took no jobs: drained or lost
    weights: Mapping[str, float]  #: of tenants in a fair division, 1 where nothing is said
    whose: str = ""  #: whose jobs these are, if not everybody's

    @property
    def window_s(self) -> float:
        return self.end_s - self.begin_s

    @property
    def tenants(self) -> list[str]:
        """Those with jobs in this stretch, by name."""
        return sorted({job.tenant for job in self.jobs})

    def ended(self) -> list[int]:
        """Jobs that ended in this stretch."""
        return [
            i
            for i, job in enumerate(self.jobs)
            if job.finished_s is not None and self.begin_s <= job.finished_s <= self.end_s
        ]

    def down_gpu_s(self) -> float:
        gpus = {node.name: node.gpus for node in self.cluster.nodes}
        return sum(gpus.get(node, 0) * (end_s - begin_s) for node, begin_s, end_s in self.down)

    def journal(self) -> Journal:
        """The runs as a simulator would have written them: for charts of who held which GPU."""
        first = dict(zip((n.name for n in self.cluster.nodes), _first_gpus(self.cluster.nodes), strict=True))
        sizes = {node.name: node.gpus for node in self.cluster.nodes}
        rows: list[tuple[float, int, int, int, int]] = []
        ids: list[int] = []
        for run in self.runs:
            held = [
                (first[node] + gpu, milli)
                for node, gpus, milli in run.places
                if node in first
                for gpu in gpus
                if gpu < sizes[node]
            ]
            if not held or run.end_s <= run.begin_s:
                continue
            ids += [len(held), held[0][1]]
            rows.append((run.begin_s, 1, EventKind.START_AS, run.job, len(ids)))
            rows.append((run.end_s, 0, EventKind.SUSPEND, run.job, 0))
            ids += [gpu for gpu, _ in held]
        number = {node.name: i for i, node in enumerate(self.cluster.nodes)}
        for node, begin_s, end_s in self.down:
            if node in number:
                rows.append((begin_s, 2, EventKind.NODE_DOWN, number[node], 0))
                rows.append((end_s, 2, EventKind.NODE_UP, number[node], 0))
        rows.sort(key=lambda row: row[:2])  # what ends before what begins at the same moment
        kind, who, arg = (np.array([row[i] for row in rows], dtype=np.int32) for i in (2, 3, 4))
        time_s = np.array([row[0] for row in rows], dtype=np.float64)
        return Journal(self.cluster, self._table(), time_s, kind, who, arg, np.array(ids, np.int32))

    def _table(self) -> JobTable:
        code = {name: i for i, name in enumerate(self.tenants)}
        tenant: Ints = np.array([code[job.tenant] for job in self.jobs], np.int32)
        submit_s: Floats = np.array([max(job.submit_s, self.begin_s) for job in self.jobs])
        if len(submit_s):
            submit_s[0] = self.begin_s  # a chart begins with the first submission, and this one with the stretch
        gpus = np.array([job.gpus for job in self.jobs], np.int32)
        return JobTable(submit_s, gpus, np.zeros(len(gpus)), None, tenant, tuple(self.tenants))


def _first_gpus(nodes: Sequence[NodeSpec]) -> list[int]:
    sizes = [node.gpus for node in nodes]
    return [sum(sizes[:i]) for i in range(len(sizes))]


def put_together(
    cluster: ClusterSpec,
    begin_s: float,
    end_s: float,
    jobs: Iterable[LivedJob],
    rows: Iterable[Row],
    *,
    weights: Mapping[str, float] | None = None,
    whose: str = "",
) -> Lived:
    """`rows` in order of time: all of nodes and of each job that was there before the stretch began, and everything in it. Rows of jobs
    that are not listed do not count."""
    listed = tuple(jobs)
    number = {job.id: i for i, job in enumerate(listed)}
    stories = [_Story(i, job) for i, job in enumerate(listed)]
    suspensions: list[Suspension] = []
    requeues = 0
    nodes = _Nodes()
    for row in rows:
        if row.time_s > end_s:
            break
        if row.job is not None:
            at = number.get(row.job)
            if at is not None:
                stories[at].tell(row)
                if row.time_s >= begin_s:
                    if row.kind == "suspend":
                        suspensions.append(Suspension(row.time_s, at, str(row.args.get("why", ""))))
                    requeues += row.kind == "requeue"
        else:
            nodes.tell(row)
    starts: dict[int, float] = {}
    waits: dict[int, float] = {}
    for story in stories:
        story.close(end_s)
        if story.first_s is not None and begin_s <= story.first_s <= end_s:
            starts[story.number] = story.start_wait_s
        ended_s = story.job.finished_s
        if story.first_s is not None and ended_s is not None and begin_s <= ended_s <= end_s:
            waits[story.number] = sum(one.end_s - one.begin_s for one in story.queued)
    return Lived(
        cluster,
        begin_s,
        end_s,
        listed,
        tuple(_cut([one for story in stories for one in story.runs], begin_s, end_s)),
        tuple(_cut([one for story in stories for one in story.queued], begin_s, end_s)),
        starts,
        waits,
        tuple(suspensions),
        requeues,
        tuple(
            (node, max(b, begin_s), min(e, end_s)) for node, b, e in nodes.closed(end_s) if e > begin_s and b < end_s
        ),
        dict(weights or {}),
        whose,
    )


class _Story:
    """One job, row by row."""

    def __init__(self, number: int, job: LivedJob) -> None:
        self.number, self.job = number, job
        self.runs: list[Stretch] = []
        self.queued: list[Stretch] = []
        self.first_s: float | None = None
        self.start_wait_s = 0.0  #: in the queue before that
        self._places: tuple[Place, ...] | None = None  #: None: it has no GPUs
        self._since_s = job.submit_s
        self._waits = not job.blocked

    def tell(self, row: Row) -> None:
        if row.kind == "start":
            self._stop(row.time_s)
            self._places, self._since_s = places_of(row.args), row.time_s
            if self.first_s is None:
                self.first_s = row.time_s
                self.start_wait_s = sum(one.end_s - one.begin_s for one in self.queued)
        elif row.kind == "submit" and row.args.get("blocked"):
            self._waits = False
        elif row.kind in _STOPS:
            self._stop(row.time_s)
            self._waits, self._since_s = row.kind in ("suspend", "requeue"), row.time_s
        elif row.kind in ("admit", "release"):
            self._waits = False  # until now it waited for other jobs, or for whoever held it
            self._stop(row.time_s)
            self._waits, self._since_s = True, row.time_s

    def _stop(self, time_s: float) -> None:
        if self._places is not None:
            self.runs.append(Stretch(self.number, self._since_s, time_s, self._places))
            self._places = None
        elif self._waits:
            self.queued.append(Stretch(self.number, self._since_s, time_s))
        self._waits = False

    def close(self, end_s: float) -> None:
        done_s = self.job.finished_s
        self._stop(end_s if done_s is None else min(done_s, end_s))


class _Nodes:
    """Which nodes take no jobs, row by row. People drain one, the executor says that one is down: either alone keeps it closed."""

    def __init__(self) -> None:
        self._causes: dict[str, set[str]] = {}
        self._since_s: dict[str, float] = {}
        self._done: list[tuple[str, float, float]] = []

    def tell(self, row: Row) -> None:
        node = str(row.args.get("node", ""))
        if row.kind in _OPENS.values():
            self._causes.setdefault(node, set()).add(row.kind)
            self._since_s.setdefault(node, row.time_s)
        elif row.kind in _OPENS:
            self._undo(node, _OPENS[row.kind], row.time_s)
        elif row.kind == "scheduler-up":
            for one in self._causes:
                self._undo(one, "node-down", row.time_s)

    def _undo(self, node: str, cause: str, time_s: float) -> None:
        left = self._causes.get(node, set())
        left.discard(cause)
        if not left and node in self._since_s:
            self._done.append((node, self._since_s.pop(node), time_s))

    def closed(self, end_s: float) -> list[tuple[str, float, float]]:
        return [*self._done, *((node, since_s, end_s) for node, since_s in self._since_s.items())]


def places_of(args: Mapping[str, Any]) -> tuple[Place, ...]:
    return tuple((str(node), tuple(gpus), int(milli)) for node, gpus, milli in args.get("places", ()))


def _cut(stretches: Sequence[Stretch], begin_s: float, end_s: float) -> list[Stretch]:
    return [
        Stretch(one.job, max(one.begin_s, begin_s), min(one.end_s, end_s), one.places)
        for one in stretches
        if one.end_s > begin_s and one.begin_s < end_s
    ]
