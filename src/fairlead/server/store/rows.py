"""What goes into the store and what comes out of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlead.model.job import JobSpec, When
from fairlead.runtime.protocols import Place

SUBMIT = "submit"  #: the kind of the event that every submitted job begins with
BLOCKED = "blocked"  #: the state of a job that waits for others


@dataclass(frozen=True, slots=True)
class Submission:
    """One request: a job, or an array with a job for each index."""

    spec: JobSpec
    user: str
    tenant: str
    time_s: float
    state: str = "waiting"
    key: str | None = None  #: the same user and key again: the same jobs, nothing new
    foreign: str = ""  #: the engine's name for it, where it was submitted there


@dataclass(frozen=True, slots=True)
class Event:
    kind: str
    time_s: float
    job: int | None = None  #: its seq; None: of a node, of the scheduler
    run: int = 0
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredEvent(Event):
    seq: int = 0
    job_id: str | None = None  #: what people call the job


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """A row of the journal about a job, with what of the job it takes to say who used what."""

    seq: int
    time_s: float
    kind: str
    job: int
    run: int
    args: str  #: JSON, for who needs it
    tenant: str
    submit_s: float


@dataclass(slots=True)
class Batch:
    """What becomes durable together. Events keep their order, after those of the submissions."""

    submissions: list[Submission] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    changes: dict[int, dict[str, Any]] = field(default_factory=dict)
    usage: dict[str, tuple[float, float]] = field(default_factory=dict)

    def submit(self, submission: Submission) -> None:
        self.submissions.append(submission)

    def record(self, kind: str, time_s: float, job: int | None = None, run: int = 0, **args: Any) -> None:
        self.events.append(Event(kind, time_s, job, run, args))

    def change(self, job: int, **columns: Any) -> None:
        """Columns of `CHANGEABLE`; `places` as Places, `memo` as a mapping. `finished_s` ends it: nothing changes after."""
        unknown = columns.keys() - CHANGEABLE
        if unknown:
            raise TypeError(f"no column of a job may be changed that is called {', '.join(sorted(unknown))}")
        self.changes.setdefault(job, {}).update(columns)

    def charge(self, tenant: str, gpu_s: float, as_of_s: float) -> None:
        """The tenant's use so far, with everything in it that happened up to this batch's last event."""
        self.usage[tenant] = (gpu_s, as_of_s)

    def __bool__(self) -> bool:
        return bool(self.submissions or self.events or self.changes or self.usage)


CHANGEABLE = frozenset(
    {
        *("state", "reason", "message", "first_start_s", "started_s", "finished_s", "exit_code", "signal", "run"),
        *("preemptions", "suspension", "places", "ran_s", "memo", "priority", "tenant"),
    }
)


@dataclass(frozen=True, slots=True)
class JobKey:
    seq: int
    id: str


@dataclass(frozen=True, slots=True)
class Submitted:
    jobs: tuple[JobKey, ...]
    array_id: str | None = None
    duplicate: bool = False  #: it was there already


@dataclass(frozen=True, slots=True)
class Written:
    submitted: tuple[Submitted, ...]
    last_event: int  #: the journal's last row once this was written


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job without its specification."""

    seq: int
    id: str
    name: str
    tenant: str
    user: str
    submit_s: float
    array_id: str | None
    array_index: int | None
    gpus: int
    priority: int
    state: str
    reason: str
    message: str
    first_start_s: float | None
    started_s: float | None
    finished_s: float | None
    exit_code: int | None
    signal: int | None
    run: int
    preemptions: int
    suspension: str
    held_milli: int
    places: tuple[Place, ...]
    ran_s: float  #: in runs before the present one
    memo: Mapping[str, Any]  #: what the scheduler wants to find again after a restart
    changed_seq: int

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(place.node for place in self.places)

    @property
    def live(self) -> bool:
        return self.finished_s is None


@dataclass(frozen=True, slots=True)
class Waited:
    """A job that another waits for, and what became of it."""

    on: int
    on_id: str
    when: When
    finished: bool
    exit_code: int | None
    state: str


@dataclass(frozen=True, slots=True)
class LiveJob:
    row: JobRow
    spec: JobSpec
    waits_for: tuple[Waited, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    tenant: str
    gpu_s: float
    as_of_s: float
    event_seq: int


@dataclass(frozen=True, slots=True)
class NodeRow:
    name: str
    drained_s: float | None
    drained_by: str
    drain_reason: str


def places_json(places: Sequence[Place]) -> str:
    return json.dumps([[place.node, list(place.gpus), place.milli] for place in places], separators=(",", ":"))


def places_from(text: str) -> tuple[Place, ...]:
    if text == "[]":
        return ()
    return tuple(Place(node, tuple(gpus), milli) for node, gpus, milli in json.loads(text))


def held_milli(places: Sequence[Place]) -> int:
    return sum(len(place.gpus) * place.milli for place in places)


def clean(text: str) -> str:
    """What a program said may hold anything; a database holds UTF-8 without zero bytes."""
    if "\0" in text:
        text = text.replace("\0", "�")
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
