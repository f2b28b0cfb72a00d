"""A Slurm on paper: what its commands would print, and what they were told. For all that needs no real one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fairlead.backends.local.rundir import RunDir
from fairlead.backends.slurm import SlurmExecutor, SlurmSettings
from fairlead.backends.slurm.commands import SlurmError
from fairlead.backends.slurm.inventory import Machine, Site
from fairlead.backends.slurm.rows import _FIELDS, Row
from fairlead.model.cluster import ClusterSpec, NodeSpec
from fairlead.runtime.protocols import Order, Place, Report

SUBMIT = "1700000000"


def site(adopts: bool = True) -> Site:
    specs = tuple(NodeSpec(f"node{i}", 8, "v100", cpu_milli=16000, memory_mib=64000) for i in (1, 2, 3))
    nodes = {one.name: Machine(one, "127.0.0.1", 16, 64000, "") for one in specs}
    return Site("test", "gpu", "gpu-fairlead" if adopts else "gpu", adopts, nodes, ClusterSpec(specs), "0")


def fields(number: str, **more: str) -> dict[str, str]:
    """A job of a user that waits in the partition that people submit to, unless it is said otherwise."""
    usual = dict.fromkeys(_FIELDS.values(), "") | {"id": number, "number": number.partition("_")[0], "state": "PENDING"}
    usual |= {"reason": "PartitionDown", "partition": "gpu", "submit": SUBMIT, "eligible": SUBMIT, "priority": "100"}
    usual |= {"restarts": "0", "requeue": "1", "batch": "1", "user": "eve", "per_job": "gres:gpu:1", "num_nodes": "1"}
    return usual | {"cpus": "1", "tasks": "1", "limit": "UNLIMITED", "nice": "0", "name": "train"} | more


def row(number: str, **more: str) -> Row:
    return Row(fields(number, **more))


def foreign(number: str) -> str:
    return f"slurm:test:{number}:{SUBMIT}"


class PaperSlurm:
    """`jobs` by number, as squeue would print them; `said` is everything that it was told to do."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, str]] = {}
        #: nodes that take no jobs, and why; they are "down" if `states` does not say otherwise
        self.down: dict[str, str] = {}
        self.states: dict[str, str] = {}
        self.excluded: dict[str, str] = {}
        self.said: list[str] = []
        self.calls: Counter[str] = Counter()
        self.numbers = iter(range(1000, 2000))
        self.refuses: Callable[[str], bool] = lambda words: False

    def add(self, number: str, **more: str) -> None:
        self.jobs[number] = fields(number, **more)

    async def call(
        self, *words: str, stdin: str | None = None, patient: bool = False, env: Mapping[str, str] | None = None
    ) -> str:
        self.calls[words[0]] += 1
        if words[0] == "squeue" and env:
            names = [name.partition(":") for name in env["SQUEUE_FORMAT2"].split(",")]
            lines = ["".join(one[_FIELDS[name]] + end for name, _, end in names) for one in self.jobs.values()]
            return "".join(f"{line}\n" for line in lines)
        if words[0] == "squeue":
            return "".join(f"{number} {self.excluded.get(number, '')}\n" for number in self.jobs)
        if words[0] == "sinfo":
            states = {name: ("down" if name in self.down else "idle") for name in site().nodes} | self.states
            return "".join(f"{name}\x1f{state}\x1f{self.down.get(name, 'none')}\n" for name, state in states.items())
        if words[0] == "sbatch":
            number = str(next(self.numbers))
            comment = next(word.partition("=")[2] for word in words if word.startswith("--comment="))
            self.add(number, comment=comment, partition="gpu-fairlead", priority="0")
            return f"{number}\n"
        return self._hear(" ".join(words))

    async def each(self, commands: list[str]) -> str:
        for command in commands:
            self._hear(f"scontrol {command}")
        return ""

    def _hear(self, words: str) -> str:
        self.said.append(words)
        if self.refuses(words):
            raise SlurmError(f"no: {words}")
        return ""


class Paper:
    """An executor on such a Slurm. Its loops are not started: each step is taken by hand."""

    def __init__(self, executor: SlurmExecutor, slurm: PaperSlurm) -> None:
        self.executor, self.slurm = executor, slurm

    async def poll(self) -> None:
        """As it is done every two seconds, and all that follows from it."""
        await self.executor._poll()
        await self.executor.chores.do()

    async def scan(self) -> None:
        await self.executor._at_desk(self.executor._scan)
        await self.executor.chores.do()

    async def start(self, job: str = "job", run: int = 1, node: str = "node1", **more: Any) -> None:
        more.setdefault("command", ("true",))
        await self.executor.start(Order(job, run, places=[Place(node, (0,))], **more))
        await self.executor.chores.do()

    def reports(self) -> list[Report]:
        """Those that nobody has had yet."""
        found = []
        while not self.executor._reports.empty():
            report = self.executor._reports.get_nowait()
            assert isinstance(report, Report)
            found.append(report)
        return found


@asynccontextmanager
async def paper(folder: Path, slurm: PaperSlurm | None = None, **settings: Any) -> AsyncIterator[Paper]:
    """What was there is adopted, as when an executor is opened."""
    slurm = slurm or PaperSlurm()
    path = folder / "slurm"
    (path / "runs").mkdir(parents=True, exist_ok=True)
    lock = RunDir(str(path))
    assert lock.claim()
    chosen = SlurmSettings(folder, **settings)
    executor = SlurmExecutor(chosen, slurm, site(chosen.mode == "jobs"), lock)  # type: ignore[arg-type]
    try:
        await executor._take_up()
        yield Paper(executor, slurm)
    finally:
        await executor.close()


def later(run: Any, seconds: float) -> None:
    """As if so much time had passed for it."""
    now_s = time.monotonic()
    run.beats = {number: (text, since_s - seconds) for number, (text, since_s) in run.beats.items()}
    for name in ("known_s", "asked_s", "begun_s", "gone_s", "fenced_s", "odd_s"):
        value = getattr(run, name, None)
        if value:
            setattr(run, name, min(value, now_s) - seconds)
