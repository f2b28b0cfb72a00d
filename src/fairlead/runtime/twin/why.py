"""Why a job waits, when it is expected to start and whose end makes room for it: an enum and a sentence with numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairlead.kernels.columns import R_QUEUES
from fairlead.model.errors import InputError
from fairlead.model.event import EventKind
from fairlead.model.reason import Reason
from fairlead.record.journal import Journal
from fairlead.record.places import node_of_gpu
from fairlead.record.runs import STARTS, STOPS, held_by
from fairlead.record.story import where
from fairlead.record.units import count
from fairlead.runtime.live_jobs import LiveJob, Standing, Status
from fairlead.runtime.twin import sentences
from fairlead.runtime.twin.ahead import Ahead
from fairlead.runtime.twin.foresee import HELD, Expected, expectations
from fairlead.runtime.twin.look import Look, look_at
from fairlead.runtime.twin.moment import Moment
from fairlead.runtime.twin.words import AheadOfUtc, Clock, MaySee, Part, everything, named, nodes_named, others, utc

#: of the jobs before it, how many are named
MOST_AHEAD = 10


@dataclass(frozen=True)
class Explanation:
    job: str
    status: Status
    reason: Reason  #: NONE for a job that runs, starts now or is held
    parts: tuple[Part, ...]  #: of the sentence
    expected: Expected
    rank: int  #: its place in the queue under the present policy, from 1; 0 where it does not wait
    waiting: int  #: how many wait in that queue, itself included
    ahead: tuple[str, ...]  #: the first of those that go before it, at most ten
    waits_for: tuple[str, ...]  #: whose end or suspension makes room for it
    nodes: tuple[str, ...]  #: where it runs
    since_s: float | None  #: running: since when
    free_gpus: int  #: of those that it could use
    tenant: str
    tenant_gpus: float  #: what its tenant holds
    quota_gpus: int | None  #: and may hold; None: no limit

    @property
    def sentence(self) -> str:
        """For whoever may see every job."""
        return self.told(everything)

    def told(self, may_see: MaySee) -> str:
        return "; ".join(part.told(may_see) for part in self.parts)

    def to_json(self, may_see: MaySee = everything) -> dict[str, Any]:
        """Of other jobs only what may be seen."""
        return {
            "job": self.job,
            "status": self.status.value,
            "reason": self.reason.name.lower(),
            "message": self.told(may_see),
            "expected_start_s": self.expected.start_s,
            "expected_finish_s": self.expected.finish_s,
            "note": self.expected.note,
            "rank": self.rank,
            "waiting": self.waiting,
            "ahead": [job for job in self.ahead if may_see(job)],
            "waits_for": [job for job in self.waits_for if may_see(job)],
            "nodes": list(self.nodes),
            "since_s": self.since_s,
            "free_gpus": self.free_gpus,
            "tenant": self.tenant,
            "tenant_gpus": self.tenant_gpus,
            "quota_gpus": self.quota_gpus,
        }


@dataclass(frozen=True)
class Makers:
    """Whose end or suspension lets a job start."""

    at_s: float
    jobs: tuple[int, ...]
    ends: bool  #: they end; else some are suspended for it
    gpus: int  #: what they give back on the nodes that it starts on
    nodes: tuple[str, ...]


def explain(
    moment: Moment, job_id: str, *, known: Mapping[str, float] | None = None, ahead_of_utc: AheadOfUtc = utc
) -> Explanation:
    """`known` as in `forecast`; `ahead_of_utc`: by how many seconds local time is ahead of UTC at a moment, for the times in
    the sentence."""
    index = next((i for i, (job, _) in enumerate(moment.jobs) if job.id == job_id), None)
    if index is None:
        raise InputError("no such job waits or runs", value=job_id, accepts="a job that has not ended")
    ahead = Ahead(moment, known=known)
    ahead.decide()
    look = look_at(ahead, index)
    ahead.run()
    return _Teller(ahead, index, look, Clock(moment.now, ahead_of_utc)).explanation()


class _Teller:
    def __init__(self, ahead: Ahead, index: int, look: Look, clock: Clock) -> None:
        self.ahead, self.index, self.look, self.clock = ahead, index, look, clock
        self.job: LiveJob = ahead.moment.jobs[index][0]
        self.at: Standing = ahead.moment.jobs[index][1]
        self.expected = expectations(ahead)[index]
        self.makers = makers_of(ahead, index) if look.waits else None

    def explanation(self) -> Explanation:
        running, look = self.at.status == Status.RUNNING, self.look
        return Explanation(
            job=self.job.id,
            status=self.at.status,
            reason=Reason.NONE if running or self.at.status == Status.HELD else look.reason,
            parts=tuple(self._parts()),
            expected=self.expected,
            rank=look.rank if not running else 0,
            waiting=len(look.queue) if not running else 0,
            ahead=tuple(self._id(i) for i in look.ahead[:MOST_AHEAD]) if not running else (),
            waits_for=() if self.makers is None or running else tuple(self._id(i) for i in self.makers.jobs),
            nodes=_nodes_of(self.ahead, self.at.gpu_ids) if running else (),
            since_s=self.at.since_s if running else None,
            free_gpus=look.free_gpus,
            tenant=self.job.tenant,
            tenant_gpus=look.tenant_gpus,
            quota_gpus=look.limit_gpus,
        )

    def _id(self, i: int) -> str:
        return self.ahead.moment.jobs[i][0].id

    def _parts(self) -> list[Part]:
        if self.at.status == Status.HELD:
            return [Part(f"is {HELD}")]
        if self.at.status == Status.RUNNING:
            return self._running()
        if self.look.reason in sentences.REFUSED:
            return [Part(sentences.refused(self.ahead, self.job, self.look.reason))]
        if not self.look.waits:
            return [Part("starts now"), *self._finish()]
        return self._waiting()

    def _running(self) -> list[Part]:
        since = self.clock.text(self.at.since_s)
        return [Part(f"runs on {where(self.ahead.moment.spec, self.at.gpu_ids)} since {since}"), *self._finish()]

    def _finish(self) -> list[Part]:
        if self.expected.finish_s is None:
            return [Part(self.expected.note)] if self.expected.note else []
        note = f" ({self.expected.note})" if self.expected.note else ""
        return [Part(f"expected to end at about {self.clock.text(self.expected.finish_s)}{note}")]

    def _waiting(self) -> list[Part]:
        parts = [Part(f"waits again since {self.clock.text(self.at.since_s)}")] if self.at.starts else []
        parts.append(self._hindrance())
        if self.expected.start_s is None:
            parts.append(Part(self._never()))
        elif self.makers is not None:
            parts.append(self._room(self.makers))
        else:
            parts.append(Part(f"expected to start at about {self.clock.text(self.expected.start_s)}"))
        whose = f" of tenant {self.job.tenant}" if self.ahead.state.counter[R_QUEUES] else ""
        parts.append(Part(f"number {self.look.rank} of {len(self.look.queue)} in the queue{whose}"))
        return parts

    def _hindrance(self) -> Part:
        job, look = self.job, self.look
        if look.reason not in (Reason.BEHIND_HEAD, Reason.RESERVED):
            return Part(sentences.hindrance(self.ahead, job, look))
        head = self.ahead.moment.jobs[look.queue[0]][0]
        start = self.ahead.starts()[look.queue[0]]
        when = "" if start != start else self.clock.text(float(start))
        return sentences.behind(job, look, head, when)

    def _never(self) -> str:
        if self.expected.reason == Reason.NONE:
            return f"expected to start {self.expected.note}"
        closed = self.look.closed_gpus
        why = f"; {count(closed, 'GPU is', 'GPUs are')} on nodes that take no jobs" if closed else ""
        return f"not even the end of all that runs makes room for it{why}"

    def _room(self, m: Makers) -> Part:
        jobs = tuple(self._id(i) for i in m.jobs)
        several = len(jobs) > 1
        stop = ("end" if several else "ends") if m.ends else ("stop" if several else "is suspended for it")
        assumed = [self.ahead.notes[i] for i in m.jobs if i in self.ahead.notes]
        notes = set(assumed)
        note = f" ({notes.pop()})" if len(notes) == 1 else f" ({len(notes)} lengths are assumed)" if notes else ""
        # a note has the length of its job
        veiled_note = f" ({count(len(assumed), 'length is', 'lengths are')} assumed)" if assumed else ""
        at = f"at about {self.clock.text(m.at_s)} when"
        when, veiled = f"{at} {named(jobs)} {stop}{note}", f"{at} {others(jobs)} {stop}{veiled_note}"
        if not m.nodes:
            return Part(f"expected to start {when}", jobs, f"expected to start {veiled}")
        where_, one = nodes_named(m.nodes), len(m.nodes) == 1
        room = f"{where_} {'has' if one else 'have'} room"
        whole = self.job.gpus > 0 and self.job.share_milli == 1000
        frees = f"{where_} {'frees' if one else 'free'} {m.gpus}" if whole else room
        return Part(f"{frees} {when}", jobs, f"{room} {veiled}")


def _node_numbers(node_of: npt.NDArray[np.int32], gpu_ids: Sequence[int]) -> list[int]:
    """A job without a GPU has a number below 0 that tells its node."""
    return [-1 - gpu if gpu < 0 else int(node_of[gpu]) for gpu in gpu_ids]


def _nodes_of(ahead: Ahead, gpu_ids: Sequence[int]) -> tuple[str, ...]:
    """In the cluster's order."""
    numbers = _node_numbers(node_of_gpu(ahead.spec), gpu_ids)
    return tuple(ahead.spec.nodes[number].name for number in sorted(set(numbers)))


def _held(journal: Journal, starts: npt.NDArray[np.int64]) -> list[list[int]]:
    """The GPUs of each of these starts."""
    gpus, at = held_by(journal, starts)[0], journal.arg[starts]
    return [
        journal.gpu_ids[first : first + max(n, 1)].tolist() for first, n in zip(at.tolist(), gpus.tolist(), strict=True)
    ]


def _began(journal: Journal, starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Of each of these stops, the start before it."""
    rows = len(journal)
    keys = np.sort(journal.job[starts].astype(np.int64) * rows + starts)
    return np.asarray(keys[np.searchsorted(keys, journal.job[stops].astype(np.int64) * rows + stops) - 1] % rows)


def makers_of(ahead: Ahead, i: int) -> Makers | None:
    """Who stops at the instant at which job i starts next, on the nodes that it starts on; if nobody does there, whoever of
    its own tenant does, since its quota may be what it waits for. None where its start has another cause."""
    journal = ahead.journal()
    starts = np.flatnonzero(np.isin(journal.kind, STARTS))
    own = starts[(journal.job[starts] == i) & (starts >= ahead.adopted)]
    if len(own) == 0:
        return None
    row = int(own[0])
    at_s = float(journal.time_s[row])
    # those of one instant are beside each other
    since = max(int(np.searchsorted(journal.time_s[:row], at_s)), ahead.adopted)
    stops = since + np.flatnonzero(np.isin(journal.kind[since:row], STOPS))
    node_of = node_of_gpu(ahead.spec)
    mine = set(_node_numbers(node_of, _held(journal, own[:1])[0]))
    on_nodes: list[tuple[int, list[int]]] = []
    for r, gpus in zip(stops.tolist(), _held(journal, _began(journal, starts, stops)), strict=True):
        there = [gpu for gpu, node in zip(gpus, _node_numbers(node_of, gpus), strict=True) if node in mine]
        if there:
            on_nodes.append((r, there))
    chosen = [r for r, _ in on_nodes]
    if not chosen:
        tenant = ahead.moment.jobs[i][0].tenant
        chosen = [r for r in stops.tolist() if ahead.moment.jobs[journal.job[r]][0].tenant == tenant]
    if not chosen:
        return None
    freed = [gpu for _, there in on_nodes for gpu in there]
    return Makers(
        at_s=at_s,
        jobs=tuple(int(journal.job[r]) for r in chosen),
        ends=all(journal.kind[r] == EventKind.FINISH for r in chosen),
        gpus=sum(gpu >= 0 for gpu in freed),
        nodes=_nodes_of(ahead, freed) if freed else (),
    )
