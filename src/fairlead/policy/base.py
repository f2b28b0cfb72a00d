"""What a policy is. A queue policy is an ordering and runs wholly inside the compiled core; a planner is Python that
returns a whole plan at the moments it asks to be woken. Both go through the same apply."""

from __future__ import annotations

import dis
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from fairlead.kernels.columns import (
    Desk,
)
from fairlead.kernels.desk import empty_desk
from fairlead.model.event import EventKind
from fairlead.model.plan import Plan
from fairlead.model.reason import Reason
from fairlead.policy.forecast import Labels
from fairlead.state.view import View

#: when a key can change: never, only while its job runs, or at any time
Changes = Literal["never", "running", "always"]

#: what a planner has noted of a job, for itself
Memo = tuple[float, ...]
#: in place of a job: what it has noted that is of no single one
BESIDE = -1
#: rows of the log that a planner causes itself, or that are of jobs it never sees
OWN_DOING = (EventKind.START, EventKind.START_AS, EventKind.SUSPEND, EventKind.REFUSE)

#: every queue policy takes these beside its own
COMMON_PARAMETERS = ("strict", "preempt", "quantum")


@dataclass(frozen=True)
class History:
    """What a policy may learn from before a run begins: the workload's sizes, as a log of past jobs would give them."""

    gpus: npt.NDArray[np.float64]
    duration_s: npt.NDArray[np.float64]
    labels: Labels | None = None  #: whose job each is, as is known at its submission


class QueuePolicy:
    """Subclass in one file: a name, a docstring of one line, `key`, and whatever else differs from these defaults.

    `key(job, now, p)` gives a number for a job (kernels.columns.JobRow), smallest first; `p` is the array of the policy's
    parameters. Ties go to the earlier submission. The functions are compiled, so they use numbers, `math`, `if` and loops.
    """

    name: ClassVar[str]
    parameters: ClassVar[Mapping[str, Any]] = {}
    strict: ClassVar[bool] = False  #: the first job that does not fit blocks all behind it
    preempts: ClassVar[bool] = False
    quantum: ClassVar[float] = 0.0  #: seconds between looks at running jobs' ranks, 0: at every event
    easy: ClassVar[bool] = False  #: the first job that does not fit gets a reservation
    by_tenant: ClassVar[bool] = False  #: `group` ranks tenants first
    queues: ClassVar[bool] = False  #: each tenant's queue is on its own: a strict one blocks nobody else
    borrows: ClassVar[bool] = False  #: and may hold more than its quota while nobody asks for its own
    half_life: ClassVar[str] = ""  #: name of the parameter that holds the half-life of tenants' use
    #: left out, it is read off what `key` and `level` look at
    changes: ClassVar[Changes | None] = None

    # functions without self; typed as Any because a plain function in a class body reads as a method to type checkers
    key: ClassVar[Any]
    level: ClassVar[Any] = None  #: a whole number that goes before the key, smallest first
    drift: ClassVar[Any] = None  #: how much a running job's key changes per second
    wake: ClassVar[Any] = None  #: when to look at the job's level and key again, inf: never
    resets: ClassVar[Any] = None  #: at such a moment: 1.0 to count the job's service from 0 again
    group: ClassVar[Any] = None  #: the tenant's rank, smallest first

    @classmethod
    def numbers(cls, values: Mapping[str, Any], history: History) -> list[float]:
        """The parameters as the array `p`: the numbers among them, in the order of `parameters`."""
        return [float(values[name]) for name, default in cls.parameters.items() if not isinstance(default, str)]

    @classmethod
    def variant(cls, values: Mapping[str, Any]) -> type[QueuePolicy]:
        """The class that these parameters really ask for, where one name stands for several."""
        return cls


class AnyPlanner:
    """What planners have in common, in Python or compiled: what the core must know of them before a run."""

    name: ClassVar[str]
    parameters: ClassVar[Mapping[str, Any]] = {}
    tenant_classes: ClassVar[bool] = False  #: jobs of different tenants wait in classes of their own
    priority_classes: ClassVar[bool] = False  #: and so do jobs of different priorities
    own_quotas: ClassVar[bool] = False  #: it sees to tenants' quotas itself, and may go beyond them
    packs: bool = False  #: it may put jobs on half of a GPU (SHARE, C_HALF)
    inside_nodes: ClassVar[bool] = False  #: it matters to it which GPUs of a node a job gets
    resizes: bool = False  #: it may give elastic jobs another number of GPUs (RESIZE, C_OTHER)
    #: it can begin with jobs that run already, which somebody else has started. Live it must: a core is built anew after a
    #: restart, for jobs of another kind, when the policy changes, and to look ahead
    takes_over: ClassVar[bool]

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = dict(values)

    @classmethod
    def order(cls, values: Mapping[str, Any]) -> str:
        """The queue policy whose rank orders the waiting jobs of each class, whose parameters it takes too; "" for none."""
        return ""

    def refuses(self, view: View) -> Mapping[int, Reason]:
        """Classes of jobs that it could never start, with the reason. Whatever else is wrong raises InputError."""
        return {}


class Planner(AnyPlanner):
    """A policy that is asked for a whole plan. It sees a read-only view and returns data; the core applies it.

    One that keeps notes of what it has done, and is lost where jobs run that are not in them, says `takes_over = False`.
    """

    takes_over = True
    #: wake every so many seconds while a job waits or runs, 0: at events only
    every_s: ClassVar[float] = 0.0

    def plan(self, view: View, now: float) -> Plan:
        raise NotImplementedError


class CompiledPlanner(AnyPlanner):
    """A planner inside the compiled loop, for schedulers that must decide a hundred thousand times a second.

    `plan(c, j, q, log, desk, now)` is compiled (PLAN_FUNCTION in kernels/signatures.py). It reads the state's columns, writes
    what is to be done to `desk.todo` and `desk.ids` with `kernels.desk.ask_start` and its siblings, and returns when it
    wants to be asked again if nothing happens before, inf for not at all, AGAIN for at once. It is asked at every instant at
    which something happens. It must not change the state: the core carries the plan out, and refuses what is illegal as it
    does for any planner. What happened since it was last asked it reads off the log, and arrivals off G_NEXT.

    One that `takes_over` can make its tables for a state in which jobs wait and run already. What the tables must say of
    them follows from the state; the rest `recall` notes per job (and under BESIDE), as numbers, for `take_over` in the next
    core to find. That may be missing, as after a restart: then it is as if the planner saw the job for the first time.
    """

    takes_over = False
    plan: ClassVar[Any]

    @classmethod
    def order(cls, values: Mapping[str, Any]) -> str:
        return "fifo"

    def desk(self, view: View) -> Desk:
        """Its tables, before anything has happened."""
        return empty_desk(view.jobs_in_all, view.cluster.gpus)

    def take_over(self, view: View, memos: Mapping[int, Memo]) -> Desk:
        """Its tables for the state as it stands, with what was recalled of some of the jobs. The rows that are in the log
        by now are part of that state, not news."""
        return self.desk(view)

    def recall(self, view: View, desk: Desk) -> Mapping[int, Memo]:
        """What it knows of jobs that can't be told from where they stand."""
        return {}


Policy = type[QueuePolicy] | type[Planner] | type[CompiledPlanner]

_WHILE_RUNNING = {"remaining_s", "ran_s", "first_start_s", "running"}
_KNOWN_GLOBALS = {"math", "abs", "min", "max", "float", "int", "round", "len", "range", "np"}


def changes_of(policy: type[QueuePolicy]) -> Changes:
    """When the policy's ranks can change, from what its functions look at; the safe answer where that is unclear."""
    if policy.changes is not None:
        return policy.changes
    answer: Changes = "never"
    for function in (policy.key, policy.level):
        if function is None:
            continue
        seen = _looks_at(function)
        if seen is None or "waiting_s" in seen:
            return "always"
        if seen & _WHILE_RUNNING:
            answer = "running"
    return answer


def _looks_at(function: Callable[..., Any]) -> set[str] | None:
    """The job fields a function reads; None where it reads the time or calls what can't be seen into."""
    code = function.__code__
    time_name = code.co_varnames[1]
    fields: set[str] = set()
    for step in dis.get_instructions(function):
        names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        if step.opname.startswith("LOAD_FAST") and time_name in names:
            return None
        if step.opname in ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME"):
            value = function.__globals__.get(step.argval)
            if step.argval not in _KNOWN_GLOBALS and (callable(value) or value is None):
                return None
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            fields.add(str(step.argval))
    return fields
