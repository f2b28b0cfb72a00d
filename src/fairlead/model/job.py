"""What a person asks for when submitting a job. What is inconsistent can't be built: the error names the field.

Names are those of the job YAML, with units: amounts in milli-GPU, milli-CPU, MiB and seconds. `workload.job_document` turns the
written form into this and back.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from fairlead.model.errors import InputError

WHOLE_MILLI = 1000
MOST_GPUS = 1_000_000  #: no cluster has more; a larger count is a unit gone wrong
MOST_TASKS = 100_000  #: of one array
LONGEST_NAME = 200
_INT32 = 2**31 - 1
_FAR = 2.0**53
#: how a job may be suspended, in the order in which it is tried; the executor's `Suspension`s
SUSPEND_METHODS = ("checkpoint", "driver", "stop", "requeue")
#: signals that no program can handle
_DEAF = ("SIGKILL", "SIGSTOP")
SIGNALS = tuple(sorted(one.name for one in signal.Signals if one.name not in _DEAF))
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class When(StrEnum):
    """When a job that another waits for lets it go."""

    AFTER_OK = "after_ok"  #: once it has ended well; where it ends otherwise, the waiting job never runs
    AFTER_ANY = "after_any"  #: once it has ended


@dataclass(frozen=True, slots=True)
class Dependency:
    job: str  #: its id, or that of a whole array
    when: When = When.AFTER_OK


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    run: str | tuple[str, ...]  #: a line for the shell, or a program and its arguments
    name: str = ""
    tenant: str = ""  #: "": the submitting user's own
    gpus: int = 1  #: whole GPUs: of the whole job, or of each node where `num_nodes` is set
    gpu_type: str = ""  #: "": any
    gpu_share_milli: int = WHOLE_MILLI  #: below 1000: a part of one GPU
    gpu_memory_mib: int | None = None  #: on each GPU
    cpu_milli: int | None = None  #: counted as `gpus` are
    memory_mib: int | None = None
    num_nodes: int | None = None  #: exactly so many, each with what is asked for; None: as the placer likes
    min_gpus: int | None = None  #: an elastic job runs on min_gpus to max_gpus
    max_gpus: int | None = None
    setup: str = ""  #: shell, before `run` in every run of the job
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    priority: int = 0  #: larger goes first
    preemptible: bool = True  #: the policy may suspend it
    suspend: tuple[str, ...] = SUSPEND_METHODS  #: what may be tried, in this order
    time_limit_s: float | None = None  #: it is stopped after running so long, all its runs together
    estimate_s: float | None = None  #: how long its owner thinks it runs
    deadline_s: float | None = None  #: wanted by so long after submission
    deadline_at_s: float | None = None  #: wanted by this time, in seconds since 1970
    topology: str = ""  #: the level of the cluster's tree inside one domain of which it must fit: "node", "rack"
    grace_s: float = 30.0  #: between being asked to stop and being killed
    checkpoint_signal: str = ""  #: "SIGUSR1": it then writes a checkpoint and exits; "": it does not know how
    checkpoint_every_s: float | None = None  #: it checkpoints by itself so often: what starting again loses at most
    array: tuple[int, ...] = ()  #: a task for each index
    depends_on: tuple[Dependency, ...] = ()

    def __post_init__(self) -> None:
        _check_command(self)
        _check_resources(self)
        _check_times(self)
        _check_rest(self)

    @property
    def total_gpus(self) -> int:
        return self.gpus * (self.num_nodes or 1)

    @property
    def may_requeue(self) -> bool:
        """Whether it may be started again from its beginning or last checkpoint when its processes are lost."""
        return self.preemptible and "requeue" in self.suspend

    @property
    def command(self) -> tuple[str, ...]:
        """The program and arguments to start."""
        if not self.setup:
            return ("/bin/sh", "-c", self.run) if isinstance(self.run, str) else self.run
        before = f"set -e\n{self.setup}\nset +e\n"
        if isinstance(self.run, str):
            return ("/bin/sh", "-c", before + self.run)
        return ("/bin/sh", "-c", before + 'exec "$@"', "sh", *self.run)

    def without_secrets(self) -> JobSpec:
        """As it may be shown: which variables it sets, but not to what."""
        return replace(self, env=dict.fromkeys(self.env, "***"))

    def array_env(self, array_id: str, index: int) -> dict[str, str]:
        """What tells a task which of the array's it is."""
        return {
            "FAIRLEAD_ARRAY_ID": array_id,
            "FAIRLEAD_ARRAY_INDEX": str(index),
            "FAIRLEAD_ARRAY_COUNT": str(len(self.array)),
            "FAIRLEAD_ARRAY_MIN": str(min(self.array)),
            "FAIRLEAD_ARRAY_MAX": str(max(self.array)),
        }


def _wrong(what: str, column: str, value: object, accepts: str) -> InputError:
    return InputError(what, column=column, value=value, accepts=accepts)


def _check_command(spec: JobSpec) -> None:
    form = "a shell line (run: python train.py) or a list (run: [python, train.py])"
    if not spec.run or not (spec.run if isinstance(spec.run, str) else spec.run[0]).strip():
        raise _wrong("the job has nothing to run", "run", spec.run or None, form)
    for part in (spec.run,) if isinstance(spec.run, str) else spec.run:
        _check_text("run", part)
    _check_text("setup", spec.setup)
    for name, value in spec.env.items():
        if not _VARIABLE.fullmatch(name):
            raise _wrong("this can't name a variable", "env", name, "letters, digits and _, no digit first")
        # the value may be a secret: it is not repeated
        if not _sound(value):
            raise _wrong("the variable's value can't be passed to a program", f"env.{name}", None, _TEXT)
    _check_text("workdir", spec.workdir)
    if spec.workdir and not spec.workdir.startswith("/"):
        raise _wrong("the working directory is not an absolute path", "workdir", spec.workdir, "/a/folder")


_TEXT = "text in UTF-8 without zero bytes"


def _sound(text: str) -> bool:
    """Whether every system that it must pass through can hold it."""
    return "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text)


def _check_text(column: str, text: str) -> None:
    if not _sound(text):
        raise _wrong("this can't be passed to a program", column, text, _TEXT)


def _check_resources(spec: JobSpec) -> None:
    gpus = spec.gpus
    if not 0 <= gpus <= MOST_GPUS:
        raise _wrong("a job can't have so many GPUs", "resources.gpus", gpus, f"0 (none) to {MOST_GPUS:,}")
    milli = spec.gpu_share_milli
    if not 1 <= milli <= WHOLE_MILLI:
        what = "a share is a part of one GPU"
        raise _wrong(what, "resources.gpu_share", milli / WHOLE_MILLI, "more than 0 and less than 1, such as 0.5")
    if milli < WHOLE_MILLI and (gpus != 1 or (spec.num_nodes or 1) != 1):
        what = "a job with a share of a GPU has one GPU on one node"
        raise _wrong(what, "resources.gpu_share", milli / WHOLE_MILLI, "gpus: 1 and no num_nodes, or no gpu_share")
    if gpus == 0 and (spec.gpu_type or spec.gpu_memory_mib):
        column = "gpu_type" if spec.gpu_type else "gpu_memory"
        raise _wrong("a job without GPUs needs none of a kind", f"resources.{column}", None, "gpus: 1 or more")
    for column, amount in (("gpu_memory", spec.gpu_memory_mib), ("memory", spec.memory_mib)):
        if amount is not None and not 1 <= amount < _FAR:
            raise _wrong("this is no amount of memory", f"resources.{column}", amount, "1 MiB or more, such as 16GiB")
    if spec.cpu_milli is not None and not 0 <= spec.cpu_milli <= _INT32:
        raise _wrong("this is no number of CPUs", "resources.cpus", spec.cpu_milli / 1000, "0 or more, such as 1.5")
    _check_name("resources.gpu_type", spec.gpu_type)
    if spec.num_nodes is not None and not 1 <= spec.num_nodes <= MOST_GPUS:
        raise _wrong("a job runs on at least one node", "num_nodes", spec.num_nodes, f"1 to {MOST_GPUS:,}")
    if gpus == 0 and (spec.num_nodes or 1) > 1:
        raise _wrong("a job without GPUs runs on one node", "num_nodes", spec.num_nodes, "1, or gpus: 1 or more")
    if spec.total_gpus > MOST_GPUS:
        raise _wrong("a job can't have so many GPUs", "num_nodes", spec.num_nodes, f"{MOST_GPUS:,} GPUs in all")
    _check_range(spec)


def _check_range(spec: JobSpec) -> None:
    least, most = spec.min_gpus, spec.max_gpus
    if least is None and most is None:
        return
    column, given = ("min_gpus", least) if least is not None else ("max_gpus", most)
    if spec.gpu_share_milli < WHOLE_MILLI or (spec.num_nodes or 1) > 1:
        what = "an elastic job has whole GPUs and no fixed number of nodes"
        raise _wrong(what, column, given, "min_gpus and max_gpus without gpu_share and num_nodes")
    if least is not None and not 1 <= least <= spec.gpus:
        raise _wrong("this is not between 1 and the job's gpus", "min_gpus", least, f"1 to {spec.gpus}")
    if most is not None and not spec.gpus <= most <= MOST_GPUS:
        raise _wrong("this is less than the job's gpus", "max_gpus", most, f"{spec.gpus} or more")
    if spec.gpus == 0:
        raise _wrong("an elastic job has at least one GPU", column, given, "gpus: 1 or more")


def _check_times(spec: JobSpec) -> None:
    for column, value in (
        ("time_limit", spec.time_limit_s),
        ("estimate", spec.estimate_s),
        ("deadline", spec.deadline_s),
        ("deadline", spec.deadline_at_s),
        ("checkpoint.every", spec.checkpoint_every_s),
    ):
        if value is not None and not 0 < value < _FAR:
            raise _wrong("this is no time to go by", column, value, "more than 0, such as 2h30m")
    if not 0 <= spec.grace_s < _FAR:
        raise _wrong("this is no time to wait", "grace_period", spec.grace_s, "0 or more, such as 30s")
    if spec.deadline_s is not None and spec.deadline_at_s is not None:
        raise _wrong("a job has one deadline", "deadline", None, "a duration after submission or a time, not both")


def _check_rest(spec: JobSpec) -> None:
    _check_name("name", spec.name)
    _check_name("tenant", spec.tenant)
    _check_name("topology", spec.topology)
    if not -_INT32 <= spec.priority <= _INT32:
        raise _wrong("this is no priority", "priority", spec.priority, "a whole number, larger goes first")
    if len(set(spec.suspend)) < len(spec.suspend) or not set(spec.suspend) <= set(SUSPEND_METHODS):
        accepts = "each once of " + ", ".join(SUSPEND_METHODS)
        raise _wrong("this is no order of ways to suspend", "suspend", list(spec.suspend), accepts)
    if spec.checkpoint_signal and spec.checkpoint_signal not in SIGNALS:
        what = "this is no signal that a program can handle"
        raise _wrong(what, "checkpoint.signal", spec.checkpoint_signal, "such as SIGUSR1")
    if len(spec.array) > MOST_TASKS or list(spec.array) != sorted({i for i in spec.array if i >= 0}):
        raise _wrong("these are no indices", "array", None, f"up to {MOST_TASKS:,} from 0, rising")
    seen: set[str] = set()
    for dependency in spec.depends_on:
        _check_name("depends_on", dependency.job)
        if not dependency.job or dependency.job in seen:
            raise _wrong("this is no list of jobs to wait for", "depends_on", dependency.job, "ids of jobs, each once")
        seen.add(dependency.job)


def _check_name(column: str, text: str) -> None:
    if len(text) > LONGEST_NAME or text != text.strip() or not (text.isprintable() and _sound(text)):
        raise _wrong("this is no name", column, text[:LONGEST_NAME], f"up to {LONGEST_NAME} printable characters")
