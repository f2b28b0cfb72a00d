"""What the runtime needs of the world: a clock, and an executor that carries decisions out and tells what happened.

The simulator needs neither, since its clock is the next event. Live, the same core runs on a wall clock, and an executor
starts programs: here, through Slurm, through Ray. An executor decides nothing. It is told what to do in orders, and tells
what became of them in reports; what it was told and what it reported is in the journal before anything is done about it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from fairlead.model.cluster import ClusterSpec


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch of this scheduler's journal, never falling back even where the wall clock does."""
        ...

    async def sleep_until(self, time_s: float) -> None: ...


@dataclass(frozen=True)
class Capabilities:
    """What an executor can do. The core plans within it; `explain` says where that changed a decision."""

    suspend: bool = False  #: a running job can be made to wait and go on later
    frees_memory: bool = False  #: and its GPU memory is free meanwhile
    migrate: bool = False  #: and it may go on elsewhere
    resize: bool = False
    share: bool = False  #: several jobs on one GPU
    choose_gpus: bool = True  #: it takes the very GPUs it is told, not just their number


class Suspension(StrEnum):
    """How a job was suspended, in order of preference."""

    CHECKPOINT = "checkpoint"  #: its own: it was signalled, wrote its checkpoint and left
    DRIVER = "driver"  #: the GPU driver took its memory to the host
    STOP = "stop"  #: its processes are stopped, its GPU memory stays taken
    REQUEUE = "requeue"  #: killed; it starts again from its last checkpoint


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


class ReportKind(StrEnum):
    STARTED = "started"  #: its processes run
    ENDED = "ended"  #: all its processes are gone: `exit_code` or `signal`
    SUSPENDED = "suspended"  #: it holds no GPU any more, by `method`
    RESUMED = "resumed"
    FAILED_TO_START = "failed-to-start"  #: it never ran: `message` says why
    LOST = "lost"  #: nobody knows what became of it
    NODE_DOWN = "node-down"
    NODE_UP = "node-up"


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

    def reports(self) -> AsyncIterator[Report]:
        """What happens, as it happens, from now on."""
        ...

    async def close(self) -> None:
        """Let go of everything without stopping anything: running jobs run on and can be adopted."""
        ...
