"""All of Slurm's jobs and nodes at a moment, from one call of squeue and one of sinfo, however many there are."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from fairlead.backends.slurm import parse
from fairlead.backends.slurm.commands import Slurm
from fairlead.backends.slurm.inventory import closed

log = logging.getLogger(__name__)
#: a job's number, a task of an array, a component of a job of several
_ID = re.compile(r"\d+(_\d+|\+\d+)?")
_SEP = "\x1f"
#: what squeue calls them, and what we do
_FIELDS = {
    "JobArrayID": "id",
    "JobID": "number",
    "State": "state",
    "Reason": "reason",
    "Partition": "partition",
    "exit_code": "status",
    "SubmitTime": "submit",
    "StartTime": "start",
    "EndTime": "end",
    "EligibleTime": "eligible",
    "NodeList": "nodes",
    "PriorityLong": "priority",
    "RestartCnt": "restarts",
    "Requeue": "requeue",
    "BatchFlag": "batch",
    "UserName": "user",
    "Account": "account",
    "tres-per-job": "per_job",
    "tres-per-node": "per_node",
    "tres-per-socket": "per_socket",
    "tres-per-task": "per_task",
    "tres-alloc": "tres",
    "NumNodes": "num_nodes",
    "NumCPUs": "cpus",
    "NumTasks": "tasks",
    "TimeLimit": "limit",
    "Nice": "nice",
    "Dependency": "dependency",
    "Feature": "features",
    "ReqNodes": "wanted",
    "Name": "name",
    "Comment": "comment",
}
_NOTHING = ("(null)", "N/A", "NONE", "None", "Unknown")

TERMINAL = frozenset(
    [
        "COMPLETED",
        "FAILED",
        "CANCELLED",
        "TIMEOUT",
        "NODE_FAIL",
        "BOOT_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "DEADLINE",
        "REVOKED",
    ]
)
ACTIVE = frozenset(
    ["RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "CONFIGURING", "STAGE_OUT", "SIGNALING", "RESIZING"]
)
#: ended because of the machine, not of the job
NODE_LOST = frozenset(("NODE_FAIL", "BOOT_FAIL"))


@dataclass(frozen=True)
class Row:
    """A job, or a task of an array, as squeue prints it. An empty text: it has none."""

    fields: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        value = self.fields.get(name, "")
        return "" if value in _NOTHING else value

    @property
    def id(self) -> str:
        return self.fields["id"].removesuffix("+0")

    @property
    def is_component(self) -> bool:
        """One of several that a heterogeneous job has."""
        return "+" in self.fields["id"]

    @property
    def state(self) -> str:
        return self.fields["state"]

    @property
    def is_held(self) -> bool:
        return self.state == "PENDING" and self["priority"] == "0"

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL

    def time_s(self, name: str) -> float | None:
        value = self[name]
        return float(value) if value.replace(".", "").isdigit() and float(value) > 0 else None

    def count(self, name: str) -> int:
        """The least where it is a range: 2 of "2-4"."""
        found = re.match(r"-?\d+", self[name], re.ASCII)
        return int(found[0]) if found else 0

    @property
    def ending(self) -> tuple[int | None, int | None]:
        """Exit code and signal. Slurm gives what wait(2) gave, or CODE:SIGNAL where it is newer."""
        status = self["status"]
        if ":" in status:
            return parse.exit_status(status)
        if not status.isdigit():
            return None, None
        number = int(status)
        if os.WIFSIGNALED(number):
            return None, os.WTERMSIG(number)
        return os.WEXITSTATUS(number), None


async def all_jobs(slurm: Slurm) -> dict[str, Row]:
    """By number, tasks of arrays by ARRAY_TASK. Those that have ended too, as long as Slurm remembers them."""
    sep, end = _separators()
    layout = ",".join(f"{name}:{sep}" for name in list(_FIELDS)[:-1]) + f",Comment:{end}"
    # by way of the environment, which other users can't read as they can a command line
    told = {"SQUEUE_FORMAT2": layout}
    return parse_rows(await slurm.call("squeue", "--noheader", "--all", "--array", "--states=all", env=told), sep, end)


def _separators() -> tuple[str, str]:
    """Names and comments are users' own text, and squeue prints them as they are: only what nobody could have known tells where a
    field ends."""
    mark = os.urandom(12).hex()
    return f"{_SEP}{mark}{_SEP}", f"{_SEP}{mark}."


def parse_rows(text: str, sep: str, end: str) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    names = list(_FIELDS.values())
    for line in text.split(end)[:-1]:
        values = [value.strip() for value in line.strip("\n").split(sep)]
        if len(values) != len(names) or not _ID.fullmatch(values[0]):
            log.error("squeue printed what is no job: %r", line[:200])
            continue
        row = Row(dict(zip(names, values, strict=True)))
        rows[row.id] = row
    return rows


async def excluded_nodes(slurm: Slurm) -> dict[str, str]:
    """By job which nodes it must not have, where it says so: the one thing that `all_jobs` can't ask for."""
    lines = (await slurm.call("squeue", "--noheader", "--all", "--array", "--format=%i %x")).splitlines()
    pairs = (line.strip().partition(" ") for line in lines)
    return {number: nodes.strip() for number, _, nodes in pairs if nodes.strip() not in ("", *_NOTHING)}


async def node_states(slurm: Slurm, partition: str) -> dict[str, str]:
    """By node why it takes no jobs, "" where it does."""
    text = await slurm.call("sinfo", "--noheader", "-N", f"--partition={partition}", "--format=%N\x1f%T\x1f%E")
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(_SEP)
        state, _, reason = rest.partition(_SEP)
        if name:
            states = parse.words(state) | (frozenset(("NOT_RESPONDING",)) if state.endswith("*") else frozenset())
            found[name] = closed(states, reason.strip())
    return found
