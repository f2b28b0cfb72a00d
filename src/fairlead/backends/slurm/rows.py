"""All of Slurm's jobs and nodes at a moment, from one call of squeue and one of sinfo, however many there are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from fairlead.backends.slurm import parse
from fairlead.backends.slurm.commands import Slurm
from fairlead.backends.slurm.inventory import closed

_SEP, _END = "\x1f", "\x1e"
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
    "Name": "name",
    "Comment": "comment",
}
_FORMAT = ",".join(f"{name}:{_SEP}" for name in list(_FIELDS)[:-1]) + f",Comment:{_END}"
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
        value = self[name].partition("-")[0]
        return int(value) if value.lstrip("-").isdigit() else 0

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
    text = await slurm.call("squeue", "--noheader", "--all", "--array", "--states=all", f"--Format={_FORMAT}")
    rows: dict[str, Row] = {}
    names = list(_FIELDS.values())
    for line in text.split(_END):
        values = [value.strip() for value in line.strip("\n").split(_SEP)]
        if len(values) == len(names):
            row = Row(dict(zip(names, values, strict=True)))
            rows[row.id] = row
    return rows


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
