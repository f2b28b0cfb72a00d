"""Live runs for tests: a machine that carries out what a core decides, and random workloads as somebody would submit them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fairlead.kernels.columns import J_DUE, K_STATE, Q_NOW, RUNNING
from fairlead.model.cluster import ClusterSpec
from fairlead.model.event import EventKind
from fairlead.model.reason import Reason
from fairlead.runtime.live import Decision, LiveCore
from fairlead.runtime.live_jobs import LiveJob
from fairlead.sim.jobs import job_input
from fairlead.sim.profiles import Profiles
from fairlead.sim.run import Run
from fairlead.state.cluster import gpu_types
from fairlead.workload.trace import Trace

K = EventKind
#: time, kind, job, GPUs, milli-GPUs of each
Row = tuple[float, int, str, tuple[int, ...], int]


def submissions(trace: Trace, spec: ClusterSpec, profiles: Profiles | None = None) -> list[LiveJob]:
    """The jobs of a trace, as they would be submitted."""
    profiles = profiles or Profiles()
    jobs, types = job_input(trace, spec, profiles, estimates=True), gpu_types(spec)

    def at(column: Any, i: int, usual: Any) -> Any:
        return usual if column is None else column[i].item()

    def name(number: int) -> str:
        return "" if number < 0 else types[number] if number < len(types) else "no such type"

    names = ("", *profiles.by_name)
    return [
        LiveJob(
            id=f"j{i}",
            submit_s=float(jobs.submit_s[i]),
            gpus=int(jobs.gpus[i]),
            duration_s=float(jobs.duration_s[i]),
            share_milli=at(jobs.share_milli, i, 1000),
            cpu_milli=at(jobs.cpu_milli, i, 0),
            memory_mib=at(jobs.memory_mib, i, 0),
            gpu_type=name(at(jobs.gpu_type, i, -1)),
            tenant=jobs.tenant_names[jobs.tenant[i]] if jobs.tenant is not None else "",
            priority=at(jobs.priority, i, 0),
            gpu_memory_gib=at(jobs.gpu_memory_gib, i, 0.0),
            min_gpus=at(jobs.min_gpus, i, 0),
            max_gpus=at(jobs.max_gpus, i, 0),
            profile=names[at(jobs.profile, i, 0)],
        )
        for i in range(len(trace))
    ]


class Machine:
    """Carries out what a live core decides, in no time. A job ends when it has done its work, at the rates that the core is
    told of by its profiles."""

    def __init__(self, core: LiveCore) -> None:
        self.core = core
        self.rows: list[Row] = []
        self.running: set[str] = set()
        self.ended: set[str] = set()

    def step(self, now: float) -> list[Decision]:
        decided = self.core.step(now)
        for one in decided:
            self.rows.append((one.time_s, int(one.kind), one.job, one.gpu_ids, one.milli))
            if one.kind in (K.START, K.START_AS):
                assert one.job not in self.running, f"{one.job} is started twice"
                assert one.job not in self.ended, f"{one.job} is started after its end"
                self.running.add(one.job)
            elif one.kind == K.SUSPEND:
                self.running.remove(one.job)
        return decided

    def due(self) -> dict[str, float]:
        state = self.core.core.state
        found = {}
        for job in self.running:
            i = self.core._index[job]
            assert state.jobs.ints[K_STATE, i] == RUNNING, f"the core has lost {job}"
            found[job] = max(float(state.jobs.floats[J_DUE, i]), self.now())
        return found

    def now(self) -> float:
        return float(self.core.core.state.queue.limit[Q_NOW])

    def run(self, jobs: list[LiveJob], disturb: Callable[[float], None] | None = None, until: float = math.inf) -> None:
        coming = list(jobs)
        while True:
            due = self.due()
            now = min([*due.values(), self.core.next_wake(self.now()), *(job.submit_s for job in coming[:1])])
            if now == math.inf or now > until or not (coming or self.running or self.core.snapshot(now)):
                return
            for job in sorted(job for job, at in due.items() if at == now):
                self.finish(job, now)
            while coming and coming[0].submit_s == now:
                job = coming.pop(0)
                if not self.core.knows(job.id):
                    self.core.submit(job, now)
            self.step(now)
            if disturb is not None:
                disturb(now)

    def finish(self, job: str, now: float) -> None:
        self.running.remove(job)
        self.ended.add(job)
        self.rows.append((now, int(K.FINISH), job, (), 1000))
        self.core.end(job, now)


def simulated(run: Run) -> list[Row]:
    """The rows of a simulation, as a machine would have seen them."""
    journal, rows = run.journal, []
    for time_s, kind, job, arg in zip(journal.time_s, journal.kind, journal.job, journal.arg):
        ids, milli = (), 1000
        if kind in (K.START, K.START_AS):
            count = max(int(journal.jobs.gpus[job]), 1)
            milli = 1000 if journal.jobs.share_milli is None else int(journal.jobs.share_milli[job])
            if kind == K.START_AS:
                count, milli = (int(number) for number in journal.gpu_ids[arg - 2 : arg])
            ids = tuple(journal.gpu_ids[arg : arg + count].tolist())
        if kind == K.REFUSE and arg == Reason.NOT_ENOUGH_FREE:
            continue  # nothing can happen any more, which nobody knows live
        rows.append((float(time_s), int(kind), f"j{job}", ids, milli))
    return rows


def in_order(rows: list[Row]) -> list[Row]:
    """Ends stand before decisions here as there, but in the machine's order."""
    return sorted(rows, key=lambda row: (row[0], row[1] != K.FINISH, row[2] if row[1] == K.FINISH else ""))
