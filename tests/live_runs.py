"""Live runs for tests: a machine that carries out what a core decides, and random workloads as somebody would submit them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fairlead.kernels import columns as g
from fairlead.kernels.columns import J_DUE, K_STATE, Q_NOW, RUNNING, Desk
from fairlead.model.cluster import ClusterSpec
from fairlead.model.event import EventKind
from fairlead.model.reason import Reason
from fairlead.policy.gandiva import tables as gandiva
from fairlead.policy.hived import tables as hived
from fairlead.runtime.live import Decision, LiveCore
from fairlead.runtime.live_jobs import LiveJob, Status
from fairlead.sim.jobs import job_input
from fairlead.sim.profiles import Profiles
from fairlead.sim.run import Run
from fairlead.state.check import check
from fairlead.state.cluster import gpu_types
from fairlead.state.state import State
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

    def level(out: int) -> str:
        known = ("node", *reversed(spec.levels))
        return "" if out < 0 else known[out] if out < len(known) else "no such level"

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
            preemptible=bool(at(jobs.preemptible, i, 1)),
            num_nodes=at(jobs.num_nodes, i, 0),
            topology=level(at(jobs.topology, i, -1)),
        )
        for i in range(len(trace))
    ]


class Machine:
    """Carries out what a live core decides, in no time, and keeps its own books. A job ends when it has done its work, at the
    rates that the core is told of by its profiles."""

    def __init__(self, core: LiveCore) -> None:
        self.core = core
        self.rows: list[Row] = []
        self.running: dict[str, tuple[tuple[int, ...], int]] = {}  #: GPUs, and milli-GPUs of each
        self.known: set[str] = set()
        self.ended: set[str] = set()  #: or refused
        self.closed: set[int] = set()
        self.fixed: set[str] = set()  #: nobody may take their GPUs
        self.node_of = [n for n, node in enumerate(core.spec.nodes) for _ in range(node.gpus)]

    def step(self, now: float) -> list[Decision]:
        return self.carry_out(self.core.step(now))

    def carry_out(self, decided: list[Decision]) -> list[Decision]:
        for one in decided:
            self.rows.append((one.time_s, int(one.kind), one.job, one.gpu_ids, one.milli))
            assert one.job not in self.ended, f"{one} comes after the end of the job"
            if one.kind in (K.START, K.START_AS):
                assert one.job not in self.running, f"{one}: it runs already"
                nodes = {self.node_of[gpu] if gpu >= 0 else -1 - gpu for gpu in one.gpu_ids}
                assert not nodes & self.closed, f"{one} is on a closed node"
                self.running[one.job] = one.gpu_ids, one.milli
            elif one.kind == K.SUSPEND:
                assert one.job not in self.fixed, f"{one}: it may not be preempted"
                del self.running[one.job]
            else:
                self.ended.add(one.job)
        self.check()
        return decided

    def check(self) -> None:
        """Nobody has what somebody else has, and the core knows who has what."""
        taken: Counter[int] = Counter()
        for job, (gpus, milli) in self.running.items():
            assert self.core.status(job) == Status.RUNNING, f"the core has lost {job}"
            assert sorted(self.core.held_by(job)) == sorted(gpus), f"{job} runs elsewhere than the core thinks"
            taken.update({gpu: milli for gpu in gpus if gpu >= 0})
        assert all(milli <= 1000 for milli in taken.values()), f"overbooked: {taken}"
        check(self.core.core.state)
        check_desk(self.core)

    def check_jobs(self) -> None:
        """Nobody is lost between two cores."""
        there = {job.id for job, _ in self.core.snapshot(self.now())}
        assert there == self.known - self.ended, f"lost: {sorted(self.known - self.ended - there)}"

    def due(self) -> dict[str, float]:
        due, index = self.core.core.state.jobs.floats[J_DUE], self.core._index
        return {job: max(float(due[index[job]]), self.now()) for job in self.running}

    def now(self) -> float:
        return float(self.core.core.state.queue.limit[Q_NOW])

    def run(
        self, jobs: list[LiveJob], disturb: Callable[[float], object] | None = None, until: float = math.inf
    ) -> list[LiveJob]:
        """Until then, or until nothing more happens: who is still to come."""
        coming = list(jobs)
        while True:
            due = self.due()
            now = min([*due.values(), self.core.next_wake(self.now()), *(job.submit_s for job in coming[:1])])
            if now == math.inf or now > until or not (coming or self.known - self.ended):
                return coming
            for job in sorted(job for job, at in due.items() if at == now):
                self.finish(job, now)
            while coming and coming[0].submit_s <= now:
                self.submit(coming.pop(0), now)
            self.step(now)
            if disturb is not None:
                disturb(now)

    def run_late(self, jobs: list[LiveJob], late: Callable[[], float]) -> None:
        """As `run` on a busy machine: nobody looks when something is due, but so much later, and then at all of it."""
        coming = list(jobs)
        while coming or self.known - self.ended:
            due = self.due()
            now = min([*due.values(), self.core.next_wake(self.now()), *(job.submit_s for job in coming[:1])])
            if now == math.inf:
                return
            now += late()
            self.carry_out(self.core.catch_up(now))
            for job in sorted(job for job, at in due.items() if at <= now):
                if job in self.running:
                    self.finish(job, now)
                else:  # it was to be suspended, and had ended before anybody could do that
                    self.ended.add(job)
                    self.core.forget(job, now)
            while coming and coming[0].submit_s <= now:
                self.submit(coming.pop(0), now)
            self.step(now)

    # -- what happens from outside -------------------------------------------------------------------------------------------

    def submit(self, job: LiveJob, now: float) -> None:
        self.known.add(job.id)
        self.fixed.update(() if job.preemptible else (job.id,))
        if not self.core.knows(job.id):
            self.core.submit(job, now)

    def finish(self, job: str, now: float) -> None:
        del self.running[job]
        self.ended.add(job)
        self.rows.append((now, int(K.FINISH), job, (), 1000))
        self.core.end(job, now)

    def withdraw(self, job: str, now: float) -> None:
        self.running.pop(job, None)
        self.core.withdraw(job, now)

    def requeue(self, job: str, now: float) -> None:
        self.running.pop(job, None)
        self.core.requeue(job, now)

    def close(self, node: int, now: float) -> None:
        self.closed.add(node)
        self.core.close_node(node, now)

    def open(self, node: int, now: float) -> None:
        self.closed.discard(node)
        self.core.open_node(node, now)

    def rebuild(self, now: float, forget: bool = False) -> list[Decision]:
        """Go on with another core, as after a restart; `forget`: with nothing but where the jobs stand."""
        old, setting = self.core, self.core._setting
        jobs, memo = old.snapshot(now), old.memo()
        if forget:
            jobs, memo = [(job, replace(at, memo=None)) for job, at in jobs], None
        self.core = LiveCore(
            setting.spec, setting.policy, setting.placer, jobs=jobs, down=self.closed, used=old.used(),
            options=setting.options, now=now, profiles=setting.profiles, memo=memo,
        )  # fmt: skip
        self.core._early = old._early
        self.check_jobs()
        return self.step(now)


def check_desk(core: LiveCore) -> None:
    """A planner's tables say the same as the state, once it has been asked."""
    name = core.policy.partition(":")[0]
    state, desk = core.core.state, core.core.desk
    if name == "gandiva":
        _check_gandiva(state, desk)
    elif name == "hived":
        _check_hived(state, desk)


def _check_gandiva(state: State, desk: Desk) -> None:
    t, c = desk.ints, state.cluster
    nodes = c.node.shape[1]
    sits: dict[int, set[int]] = {}
    want = {g.WAITING: (gandiva.QUEUED, gandiva.READY), g.RUNNING: (gandiva.RUNS,), g.WITHDRAWN: (gandiva.NOT_HERE,)}
    load, ready, parts = ([0] * nodes for _ in range(3))
    for i in range(int(state.counter[g.G_NEXT])):
        status, now = int(state.jobs.ints[K_STATE, i]), int(t[gandiva.A_STATE, i])
        assert now in want.get(status, (gandiva.NOT_HERE,)), f"job {i} is {status}, gandiva thinks {now}"
        held = state.gpus_of(i) if status == RUNNING else ()
        for gpu in held:
            sits.setdefault(gpu, set()).add(i)
        if t[gandiva.A_ASK, i] == 0 or now not in (gandiva.READY, gandiva.RUNS):
            continue
        e, where = i + 1, []
        while e != 0:
            n = int(t[gandiva.E_NODE, e - 1])
            load[n] += int(t[gandiva.E_COUNT, e - 1])
            ready[n] += now == gandiva.READY
            parts[n] += 1
            where.append(n)
            e = int(t[gandiva.E_MORE, e - 1])
        assert len(where) == t[gandiva.A_PARTS, i]
        assert not held or set(where) == {int(c.gpu[g.U_NODE, gpu]) for gpu in held}, f"job {i} is not at home"
    for column, counted in ((gandiva.V_LOAD, load), (gandiva.V_READY, ready), (gandiva.V_PARTS, parts)):
        assert t[column, :nodes].tolist() == counted
    assert not any(ready[n] and not t[gandiva.V_IS_DUE, n] for n in range(nodes)), (
        "somebody waits, and nobody takes turns"
    )
    assert not any(ready[n] and not c.node[g.N_UP, n] for n in range(nodes)), "somebody waits at a closed node"
    for gpu in range(c.gpu.shape[1]):
        link, there = int(t[gandiva.O_FIRST, gpu]), set()
        while link != 0:
            there.add(link - 1)
            link = int(t[gandiva.A_BESIDE, link - 1])
        assert there == sits.get(gpu, set()), f"GPU {gpu}"


def _check_hived(state: State, desk: Desk) -> None:
    t, c = desk.ints, state.cluster
    sits: dict[int, set[int]] = {}
    for i in range(int(state.counter[g.G_NEXT])):
        for gpu in state.gpus_of(i) if state.jobs.ints[K_STATE, i] == RUNNING else ():
            sits.setdefault(gpu, set()).add(i)
    for gpu in range(c.gpu.shape[1]):
        there = {int(owner) for owner in t[gpu, [hived.X_OWNER, hived.X_ALSO]] if owner >= 0}
        assert there == sits.get(gpu, set()), f"GPU {gpu}"
        assert (t[gpu, hived.X_SLOT] == hived.NOBODY) == (not there), f"GPU {gpu}"
    assert desk.cells[hived.H_BROKEN] == 0


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
