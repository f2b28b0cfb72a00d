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
from dataclasses import dataclass, fields, replace
from operator import attrgetter

import numpy as np

from fairlead.core.feasible import judge_classes
from fairlead.core.plugs import Plugged, parse_choice, plug_in
from fairlead.kernels import parts
from fairlead.kernels.columns import (
    C_REASON,
    COMPILED_PLANNER,
    ENDED,
    G_EVENTS,
    G_IDS,
    G_LIVE,
    G_NEXT,
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
    K_ALLOC,
    K_CLASS,
    K_OWN,
    K_PREEMPTS,
    K_PRIORITY,
    K_RESUMES,
    K_STAMP,
    K_STARTS,
    K_STATE,
    PAUSED,
    PENDING,
    Q_NOW,
    Q_QUANTUM,
    Q_RANKS_AT,
    Q_WAKE,
    R_LIVE,
    R_PREEMPTS,
    RUNNING,
    T_AT,
    T_USE,
    WAITING,
    WITHDRAWN,
)
from fairlead.kernels.events import END, WAKE_UP, code_of, push_event
from fairlead.kernels.live import ADMIT, ADMIT_ALL, ADOPT_ALL, CLOSE, OPEN, REQUEUE, WITHDRAW
from fairlead.model.cluster import ClusterSpec, TenantSpec
from fairlead.model.errors import InputError
from fairlead.model.event import EventKind
from fairlead.model.reason import Reason
from fairlead.policy.base import History
from fairlead.runtime.driver import Core
from fairlead.runtime.live_jobs import UNKNOWN_S, LiveJob, Standing, Status, job_columns, sort_into_kinds
from fairlead.state.rules import Options, Rates
from fairlead.state.state import new_state

#: rows of the log after which a core is built anew, so that a scheduler that runs for months stays small
MOST_ROWS = 500_000
_LEAST_ROOM = 256
_columns_of = attrgetter(*(field.name for field in fields(Standing)))
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


def plug(policy: str, placer: str, spec: ClusterSpec, jobs: Sequence[LiveJob]) -> Plugged:
    """A policy and a placer for a live run. What policies learn from history is what is known of the jobs at hand."""
    gpus = np.array([job.gpus for job in jobs] or [1], np.float64)
    durations = np.array([UNKNOWN_S if job.duration_s is None else job.duration_s for job in jobs] or [1.0])
    plugged = plug_in(parse_choice(policy), parse_choice(placer), History(gpus=gpus, duration_s=durations), spec)
    if plugged.traits.planned == COMPILED_PLANNER:
        # its tables know only what it has started itself
        raise InputError("this policy can't take over running jobs yet", value=policy, accepts="a queue policy")
    return plugged


def judge(spec: ClusterSpec, policy: str, placer: str, job: LiveJob) -> Reason:
    """Why a job like this can never run here, NONE if it can."""
    return LiveCore(spec, policy, placer, jobs=[(job, Standing())], live=False).refused(job.id)


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
        live: bool = True,
    ) -> None:
        """Jobs in order of submission; `down`: nodes that are not to be used; `used`: tenants'
        decayed GPU-seconds, and as of when."""
        self.spec, self.policy, self.placer = spec, policy, placer
        self.options = options or Options()
        self._live = live
        self._down = set(down)
        self._ending: set[str] = set()  #: told of, and not handled yet
        self._early: list[Decision] = []  #: decided before the step that will return it
        self._build(list(jobs), now, used or {})

    # -- building ---------------------------------------------------------------------------------------------------------

    def _build(
        self, entries: list[tuple[LiveJob, Standing]], now: float, used: Mapping[str, tuple[float, float]]
    ) -> None:
        self._jobs = [job for job, _ in entries]
        self._index = {job.id: i for i, job in enumerate(self._jobs)}
        self._tenants = list(dict.fromkeys([*self.spec.tenants, *used, *(job.tenant for job in self._jobs)])) or [""]
        plugged = plug(self.policy, self.placer, self.spec, self._jobs)
        room = len(entries) if not self._live else max(_LEAST_ROOM, 2 * len(entries))
        kinds, kind_of = sort_into_kinds(self._jobs)
        columns = job_columns(self._jobs, self.spec, self._tenants, max(room, 1), (kinds, kind_of))
        if plugged.uses_estimates:
            columns = replace(columns, estimate_s=columns.duration_s.copy())
        state = new_state(self.spec, columns, plugged.traits, self.options, Rates())
        state.log.gpu_ids[:] = 0  # a job that was suspended before has no place in this log
        judge_classes(state, plugged)
        self.core = Core(state, plugged)
        first = np.unique(kind_of, return_index=True)[1]
        self._kinds = dict(zip(kinds, state.jobs.ints[K_CLASS, first].tolist(), strict=True))
        state.counter[R_LIVE], state.counter[G_LIVE] = self._live, len(entries)
        state.counter[G_NEXT] = sum(at.status != Status.NEW for _, at in entries)  # these are the last
        # with a quantum, ranks are those of its last tick: the first pass takes them anew
        state.queue.limit[Q_NOW], state.queue.limit[Q_RANKS_AT] = now, -1.0 if plugged.traits.quantum else now
        state.queue.limit[Q_WAKE] = math.inf
        for t, name in enumerate(self._tenants):
            state.queue.tenants[[T_USE, T_AT], t] = used.get(name, (0.0, now))
        self._place(entries, now)
        for node in sorted(self._down):
            self._intervene(CLOSE, 0, now, node)
        self._seen = int(state.counter[G_ROWS])
        if not self._live:
            self._seen = 0
        for ending in sorted(self._ending):
            self._push_end(self._index[ending], now)
        push_event(state.queue, now, code_of(WAKE_UP, 0, 0))

    def _push_end(self, i: int, now: float) -> None:
        state = self.core.state
        push_event(state.queue, now, code_of(END, i, int(state.jobs.ints[K_STAMP, i])))

    def _place(self, entries: list[tuple[LiveJob, Standing]], now: float) -> None:
        """Put every job where it stands."""
        state = self.core.state
        ints, floats = state.jobs.ints, state.jobs.floats
        if entries:
            columns = zip(*(_columns_of(at) for _, at in entries), strict=True)
            status, held, since, first, starts, preemptions, ran, done, on_gpus = columns
            n = len(entries)
            ints[K_STARTS, :n], ints[K_PREEMPTS, :n] = starts, preemptions
            ints[K_RESUMES, :n] = ints[K_STARTS, :n] > 0
            floats[J_DONE, :n], floats[J_RAN, :n], floats[J_HELD, :n] = done, ran, on_gpus
            floats[J_SINCE, :n] = np.minimum(since, now)
            floats[J_FIRST, :n] = [0.0 if at is None else at for at in first]
            out = np.array([one == Status.HELD for one in status])
            ints[K_STATE, :n][out] = WITHDRAWN
            # not looked at yet: they arrive now, also where the core that was told of them had no time to
            new = np.array([one == Status.NEW for one in status])
            state.jobs.submit[:n][new] = np.maximum(state.jobs.submit[:n][new], now)
            self._intervene(ADMIT_ALL, 0, now)
            self._adopt([i for i, one in enumerate(status) if one == Status.RUNNING], held, now)
        # what was due before now is due now
        size = int(state.counter[G_EVENTS])
        times, codes = np.maximum(state.queue.event_time[:size], now), state.queue.event_code[:size].copy()
        order = np.lexsort((codes, times))  # what is in order is a heap
        state.queue.event_time[:size], state.queue.event_code[:size] = times[order], codes[order]

    def _adopt(self, running: list[int], held: Sequence[tuple[int, ...]], now: float) -> None:
        """These wait no longer: they run on what they hold. All at once, since a call of compiled code costs as much as many
        jobs."""
        if not running:
            return
        state = self.core.state
        ints = state.jobs.ints
        counts = np.array([len(held[i]) for i in running])
        total = int(counts.sum())
        # their ids stand in the log behind all that adopting them writes there
        behind = int(state.counter[G_IDS]) + total + 8
        state.grow_log(len(running) + 4, 2 * total + 16)
        state.log.gpu_ids[behind : behind + total] = [gpu for i in running for gpu in sorted(held[i])]
        ints[K_ALLOC, running] = behind + np.cumsum(counts) - counts
        ints[K_STARTS, running] -= 1
        ints[K_RESUMES, running] = 0
        self._intervene(ADOPT_ALL, 0, now)

    def _rebuild(self, now: float, more: Sequence[tuple[LiveJob, Standing]] = ()) -> None:
        self._build([*self.snapshot(now), *more], now, self.used())

    def change(
        self,
        now: float,
        *,
        policy: str | None = None,
        placer: str | None = None,
        tenants: Mapping[str, TenantSpec] | None = None,
    ) -> None:
        """Go on with another policy, placer or other quotas: nobody is stopped by that alone. Raises InputError, with nothing
        changed, for one that does not exist."""
        spec = self.spec if tenants is None else replace(self.spec, tenants=tenants)
        plug(policy or self.policy, placer or self.placer, spec, self._jobs)
        self.policy, self.placer, self.spec = policy or self.policy, placer or self.placer, spec
        self._rebuild(now)

    # -- what happens from outside ------------------------------------------------------------------------------------------

    def _intervene(self, what: int, i: int, now: float, node: int = 0) -> None:
        state, f = self.core.state, self.core.plugged.plug
        state.grow_log(4, 8)
        parts.intervene()(
            state.cluster, state.jobs, state.queue, state.log, f.p, f.pp,
            f.key, f.level, f.drift, f.wake, f.resets, f.group, f.place,
            what, i, now, node,
        )  # fmt: skip

    def _clock(self, now: float) -> float:
        """Time does not go back, whatever the wall clock does."""
        return max(now, float(self.core.state.queue.limit[Q_NOW]))

    def _kick(self, now: float) -> None:
        push_event(self.core.state.queue, now, code_of(WAKE_UP, 0, 0))

    def submit(self, job: LiveJob, now: float) -> None:
        """It arrives at the next step."""
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
        ints[[K_CLASS, K_OWN], i] = kind
        ints[K_PRIORITY, i] = job.priority
        floats[J_ESTIMATE, i], floats[J_GIB, i] = state.jobs.work[i], job.gpu_memory_gib
        state.jobs.submit[i] = now
        state.counter[G_LIVE] += 1

    def end(self, job: str, now: float) -> None:
        """Its run has ended by itself."""
        i, now = self._index[job], self._clock(now)
        state = self.core.state
        if int(state.jobs.ints[K_STATE, i]) == RUNNING:
            self._ending.add(job)
            self._push_end(i, now)

    def withdraw(self, job: str, now: float) -> None:
        """Take it out of the queue or off its GPUs, until it is let in again."""
        i, now = self._index[job], self._clock(now)
        if int(self.core.state.jobs.ints[K_STATE, i]) == PENDING:
            self._early = self.step(now)
        self._intervene(WITHDRAW, i, now)
        self._kick(now)

    def forget(self, job: str, now: float) -> None:
        """It will never run again, whatever it does now."""
        if self.knows(job) and self.status(job) is not None:
            self.withdraw(job, now)
            self.core.state.jobs.ints[K_STATE, self._index[job]] = GIVEN_UP

    def admit(self, job: str, now: float) -> None:
        i, now = self._index[job], self._clock(now)
        if int(self.core.state.jobs.ints[K_STATE, i]) == WITHDRAWN:
            self._intervene(ADMIT, i, now)
            self._kick(now)

    def requeue(self, job: str, now: float, node: int = 0) -> None:
        """Its run was lost: it waits again."""
        i, now = self._index[job], self._clock(now)
        if int(self.core.state.jobs.ints[K_STATE, i]) == RUNNING:
            self._intervene(REQUEUE, i, now, node)
            self._kick(now)

    def close_node(self, node: int, now: float) -> None:
        """It takes no more jobs; those that run there run on."""
        self._down.add(node)
        self._intervene(CLOSE, 0, self._clock(now), node)

    def open_node(self, node: int, now: float) -> None:
        self._down.discard(node)
        self._intervene(OPEN, 0, self._clock(now), node)
        self._kick(self._clock(now))

    # -- deciding -----------------------------------------------------------------------------------------------------------

    def step(self, now: float) -> list[Decision]:
        """Handle everything up to now."""
        now = self._clock(now)
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
        return at

    # -- looking ------------------------------------------------------------------------------------------------------------

    def knows(self, job: str) -> bool:
        return job in self._index

    def status(self, job: str) -> Status | None:
        """None once it has ended or been refused."""
        return _STATUS.get(int(self.core.state.jobs.ints[K_STATE, self._index[job]]))

    def held_by(self, job: str) -> tuple[int, ...]:
        i = self._index[job]
        return self.core.state.gpus_of(i) if self.status(job) == Status.RUNNING else ()

    def refused(self, job: str) -> Reason:
        """Why jobs like this one can never run, NONE if they can."""
        state = self.core.state
        return Reason(int(state.queue.classes[C_REASON, state.jobs.ints[K_CLASS, self._index[job]]]))

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

    def snapshot(self, now: float) -> list[tuple[LiveJob, Standing]]:
        """Where every job stands that has not ended, in order of submission."""
        state, jobs = self.core.state, self._jobs
        ints, floats = state.jobs.ints[:, : len(jobs)], state.jobs.floats[:, : len(jobs)]
        there = np.flatnonzero(np.isin(ints[K_STATE], list(_STATUS)))
        status = [_STATUS[code] for code in ints[K_STATE, there].tolist()]
        starts = ints[K_STARTS, there]
        begun = np.where(starts == 1, floats[J_FIRST, there], floats[J_BEGUN, there])
        since = np.where(ints[K_STATE, there] == RUNNING, begun, floats[J_SINCE, there]).tolist()
        columns = zip(
            there.tolist(),
            status,
            starts.tolist(),
            since,
            *(floats[column, there].tolist() for column in (J_FIRST, J_RAN, J_DONE, J_HELD)),
            ints[K_PREEMPTS, there].tolist(),
            strict=True,
        )
        return [
            (
                jobs[i],
                Standing(
                    one,
                    state.gpus_of(i) if one is Status.RUNNING else (),
                    at if begun else jobs[i].submit_s,
                    first if begun else None,
                    begun,
                    preemptions,
                    ran,
                    done,
                    held,
                ),
            )
            for i, one, begun, at, first, ran, done, held, preemptions in columns
        ]
