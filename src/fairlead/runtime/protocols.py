"""What the runtime needs of the world: a clock, and an executor that carries decisions out and tells what happened.

The simulator needs neither, since its clock is the next event. Live, the same core runs on a wall clock, and an executor
starts programs: here, through Slurm, through Ray. An executor decides nothing. It is told what to do in orders, and tells
what became of them in reports; what it was told and what it reported is in the journal before anything is done about it.

An engine may have jobs of its own, which people gave to it and not to us. An executor reports those that it is to have ordered and
placed as arrivals; a watcher only looks at all of them, and can do nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from fairlead.model.cluster import ClusterSpec
from fairlead.model.job import JobSpec


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch of this scheduler's journal, never falling back even where the wall clock does."""
        ...

    async def sleep_until(self, time_s: float) -> None: ...


class Suspension(StrEnum):
    """How a job was suspended, in order of preference."""

    CHECKPOINT = "checkpoint"  #: its own: it was signalled, wrote its checkpoint and left
    DRIVER = "driver"  #: the GPU driver took its memory to the host
    STOP = "stop"  #: its processes are stopped, its GPU memory stays taken
    REQUEUE = "requeue"  #: killed; it starts again from its last checkpoint


@dataclass(frozen=True)
class Capabilities:
    """What an executor can do. The core plans within it; `explain` says where that changed a decision."""

    suspend: bool = False  #: a running job can be made to wait and go on later
    frees_memory: bool = False  #: and its GPU memory is free meanwhile
    migrate: bool = False  #: and it may go on elsewhere
    resize: bool = False
    share: bool = False  #: several jobs on one GPU
    choose_gpus: bool = True  #: it takes the very GPUs it is told, not just their number
    ways: tuple[Suspension, ...] = tuple(Suspension)  #: to suspend a job that holds GPUs, where the job allows them


#: what to measure an executor by
EVERYTHING = Capabilities(suspend=True, frees_memory=True, migrate=True, resize=True, share=True, choose_gpus=True)


@dataclass(frozen=True)
class Place:
    """GPUs of one node that a task gets. `milli` below 1000: a share of the one GPU."""

    node: str
    gpus: tuple[int, ...]  #: indices on that node, () for a CPU job
    milli: int = 1000


@dataclass(frozen=True)
class Order:
    """One run of a job: from a start to whatever ends or suspends it. (job, run) is unique for ever, so that an order that
    is given twice is carried out once."""

    job: str  #: the job's id
    run: int  #: 1 for its first start
    command: Sequence[str]
    places: Sequence[Place]  #: a task per node, rank 0 first
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    user: str = ""  #: the Unix user to run as; "": whoever the executor runs as
    log: str = ""  #: where its output goes
    grace_s: float = 30.0  #: between asking it to stop and killing it
    memory_mib: int | None = None
    gpu_memory_mib: int | None = None
    #: ways to suspend it that may be used; its executor knows which of them can be
    suspend: tuple[Suspension, ...] = tuple(Suspension)
    checkpoint_signal: str = ""  #: "SIGUSR1": it writes a checkpoint and exits by itself; "": it does not know how
    resumes: bool = False  #: it goes on from a suspension, where the method allows that
    per_gpu: bool = False  #: a process per GPU rather than one per place
    foreign: str = (
        ""  #: it is the engine's own job of this name (`Arrival.foreign`): that is released, and no command started
    )


class ReportKind(StrEnum):
    STARTED = "started"  #: its processes run
    ENDED = "ended"  #: all its processes are gone: `exit_code` or `signal`
    SUSPENDED = "suspended"  #: it holds no GPU any more, by `method`
    RESUMED = "resumed"
    FAILED_TO_START = "failed-to-start"  #: it never ran: `message` says why
    LOST = "lost"  #: nobody knows what became of it
    NODE_DOWN = "node-down"
    NODE_UP = "node-up"
    APPEARED = "appeared"  #: somebody gave a job to the engine itself: `arrival`
    WITHDRAWN = "withdrawn"  #: and took it back before it was released: `foreign`


@dataclass(frozen=True)
class Arrival:
    """A job that somebody gave to the engine, into what is handed to us. It waits there until an order names it. An executor that
    is opened again reports once more who waits, and who was withdrawn meanwhile."""

    foreign: str  #: the engine's name for it, unique for ever
    spec: JobSpec  #: what it asks for; `run` is only shown
    user: str
    tenant: str  #: "": the user's own
    submit_s: float  #: in seconds since 1970


@dataclass(frozen=True)
class Report:
    kind: ReportKind
    time_s: float  #: by the executor's own knowledge of when it happened, in seconds since 1970
    job: str = ""
    run: int = 0
    exit_code: int | None = None
    signal: int | None = None
    method: Suspension | None = None
    message: str = ""
    node: str = ""
    retry: bool = False  #: FAILED_TO_START for no fault of the job's: it may work later
    foreign: str = ""
    arrival: Arrival | None = None


@dataclass(frozen=True)
class Found:
    """A run that is really there, or was and has left its result: what adoption after a restart goes by."""

    job: str
    run: int
    running: bool
    suspended: Suspension | None = None
    report: Report | None = None  #: how it ended, where it has


class Executor(Protocol):
    """Every call may be repeated: a second order, stop or suspend of the same run changes nothing."""

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...

    async def inventory(self) -> ClusterSpec:
        """The nodes and GPUs there are."""
        ...

    async def start(self, order: Order) -> None:
        """Begin, or go on after a suspension (`order.resumes`). Returns once that is under way; reports follow."""
        ...

    async def suspend(self, job: str, run: int) -> None: ...

    async def stop(self, job: str, run: int) -> None:
        """Ask it to end, and kill what is left of it after its grace period."""
        ...

    async def found(self) -> Sequence[Found]:
        """Everything that this executor ever started and has not been told to forget."""
        ...

    async def forget(self, job: str, run: int) -> None:
        """Its end is in the journal: what was kept for adoption may go. Logs stay."""
        ...

    async def decline(self, foreign: str, why: str, *, cancel: bool) -> None:
        """The engine's own job of this name will not be released. Where somebody cancelled it here it is cancelled there too;
        where it was refused it stays as it is, with the reason beside it where its owner looks."""
        ...

    def reports(self) -> AsyncIterator[Report]:
        """What happens, as it happens, from now on."""
        ...

    async def close(self) -> None:
        """Let go of everything without stopping anything: running jobs run on and can be adopted."""
        ...


class Phase(StrEnum):
    """Of an engine's own job."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True)
class Sighting:
    """A job of an engine as it is at present, whoever started it."""

    job: Arrival
    phase: Phase
    start_s: float | None = None  #: of its present or last run, in seconds since 1970
    end_s: float | None = None
    gpus: tuple[tuple[str, int], ...] = ()  #: by node, how many it holds (or held)


@dataclass(frozen=True)
class Scene:
    """An engine at one moment."""

    time_s: float
    jobs: tuple[Sighting, ...]  #: all that wait and run, and those that ended since the look before
    down: Mapping[str, str] = field(default_factory=dict)  #: nodes that take no jobs, and why


class Watcher(Protocol):
    """Looks and never touches: what shadow mode goes by."""

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities:
        """What the engine's executor could do."""
        ...

    async def inventory(self) -> ClusterSpec: ...

    async def look(self) -> Scene: ...

    async def close(self) -> None: ...
