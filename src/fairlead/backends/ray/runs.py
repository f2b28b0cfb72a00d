"""A run on Ray as the executor knows it, and its directory in the state directory:

order.json  what was ordered, written down before anything is done
0, 1, …     a directory per node, made and kept by the node's supervisor (`local.rundir`): what became of its part
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from dataclasses import dataclass, field

from fairlead.backends.local.rundir import SUSPENDED, Doc, RunDir, sync_dir
from fairlead.backends.ray.whole import is_over, phase_of, report_of, whole
from fairlead.runtime.protocols import Found, Suspension


@dataclass
class Run:
    job: str
    run: int
    path: str
    plan: Doc
    parts: list[Doc] = field(default_factory=list)  #: a state per node; {} where it has not begun
    is_silent: bool = False  #: adopted, and nobody has asked yet what was found: `found` will tell
    told: str = ""  #: the phase that was reported last
    asked: str = ""  #: it is to "stop" or to "suspend"
    is_unfollowed: bool = False  #: it has begun, and its actors could not be asked for news
    rest_told: bool = False  #: a part has failed, and the others were told to stop
    gone: dict[int, str] = field(default_factory=dict)  #: parts whose actor is no more, and what Ray says about it
    fencing: set[int] = field(default_factory=set)
    waited: set[int] = field(default_factory=set)  #: lost parts of which Ray may say within a poll why

    def __post_init__(self) -> None:
        self.parts = self.parts or [{} for _ in self.plan["places"]]

    @property
    def name(self) -> str:
        """Of its placement group and, with the part's number, its actors."""
        return str(self.plan["name"])

    @property
    def actors(self) -> list[str]:
        return [f"{self.name}#{number}" for number in range(len(self.parts))]

    @property
    def continues(self) -> int | None:
        """The stopped run whose processes, actors and placement group it is to go on with."""
        number = self.plan.get("continues")
        return None if number is None else int(number)

    @property
    def nodes(self) -> list[str]:
        return [place["node"] for place in self.plan["places"]]

    @property
    def state(self) -> Doc:
        return whole(self.parts)

    @property
    def is_over(self) -> bool:
        return all(map(is_over, self.parts))

    @property
    def alive(self) -> list[int]:
        return [number for number, part in enumerate(self.parts) if not is_over(part)]

    @property
    def has_begun(self) -> bool:
        return any(self.parts)

    def part(self, number: int) -> RunDir:
        return RunDir(os.path.join(self.path, str(number)))

    def found(self) -> Found:
        state = self.state
        phase = phase_of(state)
        if not self.is_over and phase != SUSPENDED:
            return Found(self.job, self.run, running=True)
        method = Suspension(state["method"]) if phase == SUSPENDED else None
        return Found(self.job, self.run, running=False, suspended=method, report=report_of(self.job, self.run, state))


def write_down(parent: str, name: str, plan: Doc) -> str:
    """The order, durable: its machines may run on when ours has lost power. Raises OSError."""
    with contextlib.suppress(FileExistsError):
        RunDir.create(parent, name, plan)
    path = os.path.join(parent, name)
    fd = os.open(os.path.join(path, "order.json"), os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    sync_dir(path)
    sync_dir(parent)
    return path


def follow_on(run: Run, before: Run) -> None:
    """A directory for each part of a run that goes on with the processes of the one before it: the supervisors take them up.
    Raises OSError."""
    for number, place in enumerate(run.plan["places"]):
        order = before.part(number).order() | {"run": run.run, "resumes": True}
        order |= {key: place["order"][key] for key in ("grace_s", "log", "methods", "checkpoint_signal")}
        with contextlib.suppress(FileExistsError):
            RunDir.create(run.path, str(number), order)


def read(path: str) -> Run | None:
    """What is in a run's directory; None where nothing of use is."""
    plan = RunDir(path).order()
    if not {"job", "run", "name", "places"} <= plan.keys():
        return None
    run = Run(plan["job"], plan["run"], path, plan, is_silent=True)
    run.parts = [run.part(number).state() or {} for number in range(len(plan["places"]))]
    return run


def read_all(parent: str) -> list[Run]:
    """Every run that is written down there; what is of no use is taken away. Raises OSError."""
    found = []
    for name in sorted(os.listdir(parent)):
        path = os.path.join(parent, name)
        run = None if name.startswith(".") else read(path)
        if run is None:
            remove(path)
        else:
            found.append(run)
    return found


def read_part(run: Run, number: int) -> Doc | None:
    """Its state; None where it has none, or can't be read at present."""
    try:
        return run.part(number).state()
    except OSError:
        return None


def remove(path: str) -> None:
    with contextlib.suppress(OSError):
        take_back(path)


def take_back(path: str) -> None:
    """When it returns, nobody finds the run any more; what is left of its directory is removed at the next opening. Raises
    OSError."""
    grave = os.path.join(os.path.dirname(path), f".gone-{os.path.basename(path)}")
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, grave)
    shutil.rmtree(grave, ignore_errors=True)


def write_off(run: Run, number: int, phase: str, why: str, *, retry: bool = False, force: bool = False) -> Doc | None:
    """A part that no supervisor has, or ever will: whoever holds its lock decides what it is called. None where a supervisor
    has it. `phase` is for one that had begun; one that had not has failed to start. `force`: the machine with that supervisor
    is known to be gone."""
    place = run.plan["places"][number]
    with contextlib.suppress(FileExistsError):
        RunDir.create(run.path, str(number), place["order"])
    rundir = run.part(number)
    if not rundir.claim() and not force:
        return None
    try:
        state = rundir.state()
        if state is None or (not is_over(state)):
            begun = state is not None
            state = {**(state or {}), "job": run.job, "run": run.run, "node": place["node"]}
            state |= {"phase": phase if begun else "failed", "time_s": time.time(), "message": why}
            if not begun:
                state["retry"] = retry
            rundir.write_state(state, durable=True)
        return state
    finally:
        rundir.release()
