"""The core on a wall clock: jobs come and go as they please, and nobody knows when one will end.

It is the loop that the simulator runs. Only what the simulator knows beforehand is told here as it happens: submissions,
ends, nodes. `step(now)` handles all of it and returns what was decided, in order.

A core has room for a number of jobs and for the kinds of jobs it has seen. When a job of a new kind comes, or the room is
used up, it is built anew from where every job stands; so are a core with another policy, a core after a restart, and the
twin that looks ahead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairlead.core.plugs import parse_choice
from fairlead.kernels.columns import (
    C_REASON,
    C_SHAPE,
    COMPILED_PLANNER,
    ENDED,
    G_EVENTS,
    G_LIVE,
    G_ROWS,
    G_WAITING,
    GIVEN_UP,
    J_BEGUN,
    J_DONE,
    J_ESTIMATE,
    J_FIRST,
    J_GIB,
    J_HELD,
    J_RAN,
    J_SINCE,
    K_CLASS,
    K_LEAST,
    K_MOST,
    K_OWN,
    K_PREEMPTS,
    K_PRIORITY,
    K_PROFILE,
    K_STAMP,
    K_STARTS,
    K_STATE,
    PAUSED,
    PENDING,
    Q_NOW,
    Q_QUANTUM,
    Q_WAKE,
    R_PLANNED,
    R_PREEMPTS,
    RUNNING,
    S_MILLI,
    T_AT,
    T_USE,
    WAITING,
    WITHDRAWN,
)
from fairlead.kernels.events import END, WAKE_UP, code_of_from_python, push_event_from_python
from fairlead.kernels.live import ADMIT, CLOSE, OPEN, REQUEUE, WITHDRAW
from fairlead.model.cluster import ClusterSpec, TenantSpec
from fairlead.model.event import EventKind
from fairlead.model.reason import Reason
from fairlead.policy.base import BESIDE
from fairlead.runtime.live_build import Setting, build, intervene
from fairlead.runtime.live_jobs import UNKNOWN_S, LiveJob, Memo, NoProfiles, Profiles, Standing, Status
from fairlead.state.rules import Options

#: rows of the log after which a core is built anew, so that a scheduler that runs for months stays small
MOST_ROWS = 500_000
_STATUS = {PENDING: Status.NEW, WAITING: Status.WAITING, RUNNING: Status.RUNNING, WITHDRAWN: Status.HELD}


@dataclass(frozen=True, slots=True)
class Decision:
    """A row of the core's log that somebody must act on."""

    time_s: float
    kind: EventKind  #: START, START_AS, SUSPEND or REFUSE
    job: str
    gpu_ids: tuple[int, ...] = ()  #: of a start
    milli: int = 1000  #: of each of them
    reason: Reason = Reason.NONE


def judge(spec: ClusterSpec, policy: str, placer: str, job: LiveJob) -> Reason:
    """Why a job like this can never run here, NONE if it can."""
    return LiveCore(spec, policy, placer, jobs=[(job, Standing())], live=False).refused(job.id)


def _tenants_of(spec: ClusterSpec, jobs: Sequence[LiveJob], used: Mapping[str, tuple[float, float]]) -> list[str]:
    """Those that the cluster names, those that have jobs, and those whose use is not forgotten yet."""
    spent = (name for name, (use, _) in used.items() if use > 0)
    names = list(dict.fromkeys([*spec.tenants, *spent, *(job.tenant for job in jobs)]))
    owners = [] if spec.cells is None else list(spec.cells.virtual)
    return names or owners[:1] or [""]


class LiveCore:
    def __init__(
        self,
        spec: ClusterSpec,
        policy: str,
        placer: str = "consolidate",
        *,
        jobs: Iterable[tuple[LiveJob, Standing]] = (),
        down: Iterable[int] = (),
        used: Mapping[str, tuple[float, float]] | None = None,
        options: Options | None = None,
        now: float = 0.0,
        profiles: Profiles | None = None,
        memo: Memo | None = None,
        live: bool = True,
    ) -> None:
        """Jobs in order of submission; `down`: nodes that are not to be used; `used`: tenants'
        decayed GPU-seconds, and as of when; `profiles`: how fast jobs run where, and what they use of a GPU; `memo`: what
        another core has noted for this one, beside what is in the jobs' standings."""
        self._setting = Setting(spec, policy, placer, options or Options(), profiles or NoProfiles(), live)
        self._down = set(down)
        self._ending: set[str] = set()  #: told of, and not handled yet
        self._early: list[Decision] = []  #: decided between two steps
        self._memos: Mapping[int, tuple[float, ...]] | None = None
        #: who waits, but not in the core's queues, where it would be in others' way: under this policy it can never run
        self._aside: set[str] = set()
        self._build(self._setting, list(jobs), now, used or {}, memo)

    @property
    def spec(self) -> ClusterSpec:
        return self._setting.spec

    @property
    def options(self) -> Options:
        return self._setting.options

    @property
    def policy(self) -> str:
        return self._setting.policy

    @property
    def placer(self) -> str:
        return self._setting.placer

    # -- building ---------------------------------------------------------------------------------------------------------

    def _build(
        self,
        setting: Setting,
        entries: list[tuple[LiveJob, Standing]],
        now: float,
        used: Mapping[str, tuple[float, float]],
        memo: Memo | None,
    ) -> None:
        """Raises InputError, with nothing changed, where the policy can't do with these jobs."""
        jobs = [job for job, _ in entries]
        tenants = _tenants_of(setting.spec, jobs, used)
        core, kinds = build(setting, entries, now, tenants=tenants, used=used, down=self._down, memo=memo)
        self._setting, self._jobs, self._tenants = setting, jobs, tenants
        self.core, self._kinds, self._memos = core, kinds, None
        self._index = {job.id: i for i, job in enumerate(jobs)}
        self._aside = set()
        if core.state.queue.classes[C_REASON].any():
            self._aside = {job.id for job, at in entries if at.status == Status.WAITING and self.refused(job.id)}
        self._seen = int(core.state.counter[G_ROWS]) if setting.live else 0
        for ending in sorted(self._ending):
            self._push_end(self._index[ending], now)
        self._kick(now)

    def _push_end(self, i: int, now: float) -> None:
        state = self.core.state
        push_event_from_python(state.queue, now, code_of_from_python(END, i, int(state.jobs.ints[K_STAMP, i])))

    def _rebuild(self, now: float, more: Sequence[tuple[LiveJob, Standing]] = ()) -> None:
        self._build(self._setting, [*self.snapshot(now), *more], now, self.used(), self.memo())

    def change(
        self,
        now: float,
        *,
        policy: str | None = None,
        placer: str | None = None,
        tenants: Mapping[str, TenantSpec] | None = None,
        options: Options | None = None,
    ) -> None:
        """Go on with another policy, placer, other quotas or costs: nobody is stopped by that alone. Raises InputError, with nothing
        changed, for one that does not exist or can't do with the jobs that are there."""
        spec = self.spec if tenants is None else replace(self.spec, tenants=tenants)
        setting = replace(
            self._setting,
            spec=spec,
            policy=policy or self.policy,
            placer=placer or self.placer,
            options=options or self.options,
        )
        self._build(setting, self.snapshot(now), now, self.used(), self.memo())

    # -- what happens from outside ------------------------------------------------------------------------------------------

    def _intervene(self, what: int, i: int, now: float, node: int = 0) -> None:
        self._early, self._memos = self.catch_up(now), None
        intervene(self.core, what, i, now, node)

    def _clock(self, now: float) -> float:
        """Time does not go back, whatever the wall clock does."""
        return max(now, float(self.core.state.queue.limit[Q_NOW]))

    def _kick(self, now: float) -> None:
        push_event_from_python(self.core.state.queue, now, code_of_from_python(WAKE_UP, 0, 0))

    def submit(self, job: LiveJob, now: float) -> None:
        """It arrives at the next step. Raises InputError, with nothing changed, where the policy can't do with such jobs."""
        if job.id in self._index:
            raise ValueError(f"job {job.id} is known already")
        now = self._clock(now)
        state, i = self.core.state, len(self._jobs)
        job = replace(job, submit_s=now)
        kind = self._kinds.get(job.kind())
        if kind is None or i >= len(state.input):
            self._rebuild(now, [(job, Standing())])
            return
        self._jobs.append(job)
        self._index[job.id] = i
        ints, floats, duration = state.jobs.ints, state.jobs.floats, job.duration_s
        state.jobs.work[i] = UNKNOWN_S if duration is None else duration
        ints[[K_CLASS, K_OWN], i] = kind.number
        ints[[K_LEAST, K_MOST, K_PROFILE], i] = kind.least, kind.most, kind.profile
        ints[K_PRIORITY, i] = job.priority
        floats[J_ESTIMATE, i], floats[J_GIB, i] = state.jobs.work[i], job.gpu_memory_gib
        state.jobs.submit[i] = now
        state.counter[G_LIVE] += 1

    def end(self, job: str, now: float) -> None:
        """Its run has ended by itself."""
        self._early = self.catch_up(now)
        i, now = self._index[job], self._clock(now)
        if int(self.core.state.jobs.ints[K_STATE, i]) == RUNNING:
            self._ending.add(job)
            self._push_end(i, now)
        else:  # just now it was to be suspended, as of a moment ago: it has ended all the same
            self.forget(job, now)

    def _settle(self, job: str, now: float) -> Status | None:
        """Handle first what was reported of it before, so that this comes after: where it stands then."""
        if job in self._ending or self.status(job) == Status.NEW:
            self._early = self.step(now)
        return self.status(job)

    def withdraw(self, job: str, now: float) -> None:
        """Take it out of the queue or off its GPUs, until it is let in again."""
        now = self._clock(now)
        standing = self._settle(job, now)
        if job in self._aside:
            self._aside.remove(job)
        elif standing in (Status.WAITING, Status.RUNNING):
            self._intervene(WITHDRAW, self._index[job], now)
            # nobody has acted on what was decided of it just now, and nobody shall
            self._early = [one for one in self._early if one.job != job]
            self._kick(now)

    def forget(self, job: str, now: float) -> None:
        """It will never run again, whatever it does now."""
        if self.knows(job) and self.status(job) is not None:
            self.withdraw(job, now)
            self.core.state.jobs.ints[K_STATE, self._index[job]] = GIVEN_UP
            self.core.state.counter[G_LIVE] -= 1

    def admit(self, job: str, now: float) -> None:
        now = self._clock(now)
        if self.status(job) == Status.HELD and self.refused(job):
            self._aside.add(job)
        elif self.status(job) == Status.HELD:
            self._intervene(ADMIT, self._index[job], now)
            self._kick(now)

    def requeue(self, job: str, now: float, node: int = 0) -> None:
        """Its run was lost: it waits again."""
        now = self._clock(now)
        if self._settle(job, now) == Status.RUNNING:
            self._intervene(REQUEUE, self._index[job], now, node)
            if self.refused(job):
                self._intervene(WITHDRAW, self._index[job], now)
                self._aside.add(job)
            self._kick(now)

    def close_node(self, node: int, now: float) -> None:
        """It takes no more jobs; those that run there run on."""
        self._down.add(node)
        self._intervene(CLOSE, 0, self._clock(now), node)
        self._kick(self._clock(now))

    def open_node(self, node: int, now: float) -> None:
        self._down.discard(node)
        self._intervene(OPEN, 0, self._clock(now), node)
        self._kick(self._clock(now))

    # -- deciding -----------------------------------------------------------------------------------------------------------

    def catch_up(self, now: float) -> list[Decision]:
        """Handle what is due before now: that goes before anything that is told as of now, however late anybody looks."""
        before = math.nextafter(self._clock(now), -math.inf)
        if self.next_wake(self.reached_s) > before:
            early, self._early = self._early, []
            return early
        return self.step(before)

    def step(self, now: float) -> list[Decision]:
        """Handle everything up to now."""
        now, self._memos = self._clock(now), None
        why = self.core.run(now)
        assert why in (PAUSED, ENDED)
        self._ending.clear()
        self.core.state.queue.limit[Q_NOW] = max(now, float(self.core.state.queue.limit[Q_NOW]))
        found, self._early = [*self._early, *self._decisions()], []
        if self._seen > MOST_ROWS:
            self._rebuild(now)
        return found

    def _decisions(self) -> list[Decision]:
        state = self.core.state
        rows, first = int(state.counter[G_ROWS]), self._seen
        self._seen = rows
        found = []
        for time_s, kind, subject, arg in zip(
            state.log.time[first:rows].tolist(),
            *(state.log.what[column, first:rows].tolist() for column in range(3)),
            strict=True,
        ):
            if kind in (EventKind.START, EventKind.START_AS):
                ids, milli = self._given(kind, subject, arg)
                found.append(Decision(time_s, EventKind(kind), self._jobs[subject].id, ids, milli))
            elif kind in (EventKind.SUSPEND, EventKind.REFUSE):
                found.append(Decision(time_s, EventKind(kind), self._jobs[subject].id, reason=Reason(arg)))
        return found

    def _given(self, kind: int, job: int, at: int) -> tuple[tuple[int, ...], int]:
        """The GPUs of a start, and how much of each."""
        ids, asked = self.core.state.log.gpu_ids, self._jobs[job]
        count, milli = max(asked.gpus, 1), asked.share_milli
        if kind == EventKind.START_AS:
            count, milli = int(ids[at - 2]), int(ids[at - 1])
        return tuple(ids[at : at + count].tolist()), milli

    def next_wake(self, now: float) -> float:
        """When something will have to be decided even if nothing happens, inf if never."""
        state = self.core.state
        q, at = state.queue, math.inf
        if state.counter[G_EVENTS] > 0:
            at = float(q.event_time[0])
        quantum = float(q.limit[Q_QUANTUM])
        if quantum > 0 and state.counter[R_PREEMPTS] and state.counter[G_WAITING]:
            at = min(at, (math.floor(now / quantum) + 1) * quantum)
        if state.counter[R_PLANNED] == COMPILED_PLANNER:
            at = min(at, float(q.limit[Q_WAKE]))
        return at

    # -- looking ------------------------------------------------------------------------------------------------------------

    def knows(self, job: str) -> bool:
        return job in self._index

    def status(self, job: str) -> Status | None:
        """None once it has ended or been refused. One that waits may wait for another policy, see `refused`."""
        if job in self._aside:
            return Status.WAITING
        return _STATUS.get(int(self.core.state.jobs.ints[K_STATE, self._index[job]]))

    def held_by(self, job: str) -> tuple[int, ...]:
        i = self._index[job]
        return self.core.state.gpus_of(i) if self.status(job) == Status.RUNNING else ()

    def _milli(self, i: int) -> int:
        """How much of each of its GPUs running job i holds."""
        state = self.core.state
        return int(state.cluster.shape[S_MILLI, state.queue.classes[C_SHAPE, state.jobs.ints[K_CLASS, i]]])

    def refused(self, job: str) -> Reason:
        """Why jobs like this one can never run under this policy, NONE if they can. One that came under another waits on."""
        state = self.core.state
        return Reason(int(state.queue.classes[C_REASON, state.own_class(self._index[job])]))

    @property
    def profiles(self) -> Profiles:
        return self._setting.profiles

    @property
    def reached_s(self) -> float:
        """The moment up to which everything was handled."""
        return float(self.core.state.queue.limit[Q_NOW])

    def closed(self) -> frozenset[int]:
        """Nodes that take no more jobs."""
        return frozenset(self._down)

    def ending(self) -> frozenset[str]:
        """Jobs that were told to have ended since the last step."""
        return frozenset(self._ending)

    def used(self) -> dict[str, tuple[float, float]]:
        """Each tenant's decayed GPU-seconds, and as of when: what it holds since then comes on top."""
        tenants = self.core.state.queue.tenants
        return {name: (float(tenants[T_USE, t]), float(tenants[T_AT, t])) for t, name in enumerate(self._tenants)}

    def _recall(self) -> Mapping[int, tuple[float, ...]]:
        """What the policy's planner knows beyond where jobs stand; it is asked once between two steps."""
        if self._memos is None:
            self._memos = self.core.plugged.recall(self.core.state, 0.0, self.core.desk)
        return self._memos

    def memo(self) -> Memo | None:
        """What the policy's planner has noted beside what it knows of each job, for a core that goes on from this one."""
        memos = self._recall()
        return (parse_choice(self.policy).name, memos[BESIDE]) if BESIDE in memos else None

    def snapshot(self, now: float) -> list[tuple[LiveJob, Standing]]:
        """Where every job stands that has not ended, in order of submission."""
        state, jobs = self.core.state, self._jobs
        ints, floats = state.jobs.ints[:, : len(jobs)], state.jobs.floats[:, : len(jobs)]
        name = parse_choice(self.policy).name
        memos = self._recall()
        there = np.flatnonzero(np.isin(ints[K_STATE], list(_STATUS)))
        runs, starts = ints[K_STATE, there] == RUNNING, ints[K_STARTS, there]
        begun = np.where(starts == 1, floats[J_FIRST, there], floats[J_BEGUN, there])
        columns = zip(
            there.tolist(),
            ints[K_STATE, there].tolist(),
            starts.tolist(),
            np.where(runs, begun, floats[J_SINCE, there]).tolist(),
            *(floats[column, there].tolist() for column in (J_FIRST, J_RAN, J_DONE, J_HELD, J_SINCE)),
            ints[K_PREEMPTS, there].tolist(),
            strict=True,
        )
        return [
            (
                jobs[i],
                Standing(
                    Status.WAITING if jobs[i].id in self._aside else _STATUS[status],
                    state.gpus_of(i) if status == RUNNING else (),
                    since if begun else jobs[i].submit_s,
                    first if begun else None,
                    begun,
                    preemptions,
                    ran,
                    done,
                    held,
                    self._milli(i) if status == RUNNING else 0,
                    counted if status == RUNNING else None,
                    (name, memos[i]) if i in memos else None,
                ),
            )
            for i, status, begun, since, first, ran, done, held, counted, preemptions in columns
        ]
