"""A core that runs ahead of the clock, from a moment on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fairlead.core.plugs import parse_choice
from fairlead.kernels.columns import (
    COMPILED_PLANNER,
    ENDED,
    F8,
    G_EVENTS,
    G_IDS,
    G_ROWS,
    I4,
    J_DONE,
    J_DUE,
    J_EXPECT,
    J_KEY,
    J_RAN,
    J_RATE,
    J_SINCE,
    K_LEVEL,
    K_STAMP,
    K_STATE,
    MORE,
    PAUSED,
    Q_WAKE,
    R_EASY,
    R_PLANNED,
    R_RATES,
    RUNNING,
)
from fairlead.kernels.events import END, code_of_from_python
from fairlead.model.cluster import NodeSpec
from fairlead.model.errors import InputError
from fairlead.model.event import EventKind
from fairlead.record.journal import JobTable, Journal
from fairlead.record.runs import STARTS
from fairlead.record.units import duration
from fairlead.runtime.live import LiveCore
from fairlead.runtime.live_jobs import UNKNOWN_S, LiveJob, Standing, Status
from fairlead.runtime.twin.moment import Moment, grown
from fairlead.state.state import State

#: nobody can say what will be in more than a year
FORESIGHT_S = 366 * 24 * 3600.0
#: nor does anybody wait for more than this to be decided
MOST_DECISIONS = 2_000_000
#: seconds: no choice that is tried takes shorter turns, since somebody waits for the answer
LEAST_QUANTUM = 1.0
UNKNOWN = f"assumed {duration(UNKNOWN_S)}, since the job gave no estimate"

Entry = tuple[LiveJob, Standing]


class Ahead:
    """The twin. `decide` brings it to the end of the present instant, `run` to the end of all jobs or of foresight."""

    def __init__(
        self,
        moment: Moment,
        *,
        policy: str | None = None,
        placer: str | None = None,
        add_nodes: Sequence[NodeSpec] = (),
        known: Mapping[str, float] | None = None,
    ) -> None:
        self.moment = moment
        self.spec = grown(moment.spec, add_nodes)
        self.policy, self.placer = policy or moment.policy, placer or moment.placer
        if self.policy != moment.policy:
            _refuse_files(self.policy)
        self.notes: dict[int, str] = {}  #: by job, what was assumed of its length
        self.cut = False  #: whether it ended for want of decisions
        entries = self._with_lengths(known or {})
        self.live = self._build(entries)
        if self.policy != moment.policy:
            _refuse_short_turns(self.live)
        self._put_off(entries)
        self.adopted = int(self.state.counter[G_ROWS])  #: rows of the log that only say where jobs stood

    @property
    def state(self) -> State:
        return self.live.core.state

    def _build(self, entries: Sequence[Entry]) -> LiveCore:
        m = self.moment
        return LiveCore(
            self.spec,
            self.policy,
            self.placer,
            jobs=entries,
            down=m.down,
            used=m.used,
            options=m.options,
            now=m.now,
            profiles=m.profiles,
            memo=m.memo,
            live=False,
        )

    # -- lengths ----------------------------------------------------------------------------------------------------------

    def _with_lengths(self, known: Mapping[str, float]) -> list[Entry]:
        """The jobs, each with a length: its estimate, else what the caller knows, else UNKNOWN_S."""
        entries = list(self.moment.jobs)
        for i, (job, at) in enumerate(entries):
            length = job.duration_s
            if length is None:
                length = known.get(job.id)
                self.notes[i] = UNKNOWN if length is None else f"assumed {duration(length)}, as jobs like it took"
                if length is not None:
                    entries[i] = replace(job, duration_s=length), at
                length = length or UNKNOWN_S
            if at.done_s >= length and at.status != Status.RUNNING:
                self._note_outlived(i, length, at.ran_s)
                entries[i] = replace(job, duration_s=at.done_s + max(at.ran_s, 1.0)), at
        return entries

    def _note_outlived(self, i: int, length: float, ran: float) -> None:
        """It has run longer than anybody said: it is taken to run as long again as it has."""
        said = "its estimate of" if self.moment.jobs[i][0].duration_s is not None else "the assumed"
        over = f"{said} {duration(length)}"
        self.notes[i] = f"assumed to run as long again as it has, {duration(ran)}, which is over {over}"

    def _put_off(self, entries: list[Entry]) -> None:
        """Running jobs that should have ended by now run as long again as they have.

        The live core goes on ranking them by what they had said. So where that makes a difference to their rank, only their
        end is put off; where it makes none, their length is changed, and they may be suspended and come back.
        """
        state, floats, now = self.state, self.state.jobs.floats, self.moment.now
        late = np.flatnonzero((state.jobs.ints[K_STATE] == RUNNING) & (floats[J_DUE] <= now)).astype(np.int32)
        if len(late) == 0:
            return
        rate = floats[J_RATE, late] if state.counter[R_RATES] else np.ones(len(late))
        since_s = np.maximum(now - floats[J_SINCE, late], 0.0)
        ran_s = np.maximum(floats[J_RAN, late] + since_s, 1.0)
        work = floats[J_DONE, late] + (since_s + ran_s) * rate
        for i, ran, length in zip(late.tolist(), ran_s.tolist(), work.tolist(), strict=True):
            self._note_outlived(i, float(state.jobs.work[i]), ran)
            entries[i] = replace(entries[i][0], duration_s=length), entries[i][1]
        longer = self._build(entries)
        if _rank(longer.core.state, late) == _rank(state, late):
            self.live = longer
        else:
            _end_at(state, late, now + ran_s)

    # -- running ----------------------------------------------------------------------------------------------------------

    def decide(self) -> None:
        self.live.core.run(self.moment.now)

    def run(self) -> None:
        core, counter, until = self.live.core, self.state.counter, self.moment.now + FORESIGHT_S
        stop, why = int(counter[G_ROWS]) + MOST_DECISIONS, MORE
        while why not in (ENDED, PAUSED) and not self.cut:
            why = core.advance(until, stop)
            self.cut = int(counter[G_ROWS]) >= stop
        planner_wakes = counter[R_PLANNED] == COMPILED_PLANNER and self.state.queue.limit[Q_WAKE] < math.inf
        if why == PAUSED and counter[G_EVENTS] == 0 and not planner_wakes:
            core.run()  # nothing will ever happen again: who still waits is told so

    # -- looking ----------------------------------------------------------------------------------------------------------

    def rows(self) -> tuple[F8, I4, I4, I4]:
        """What was written since the jobs were put where they stood: times, kinds, jobs (or nodes), arguments."""
        first, end, log = self.adopted, int(self.state.counter[G_ROWS]), self.state.log
        kind, job, arg = (log.what[column, first:end] for column in range(3))
        # an end that was put off, of a job that was then suspended, may be due before it is started again
        return np.maximum.accumulate(log.time[first:end]), kind, job, arg

    def journal(self) -> Journal:
        """The run from now on: jobs that run already start now, and everybody was submitted now. What a person holds back is
        in the table of jobs, and nothing happens to it."""
        state, now = self.state, self.moment.now
        jobs, rows = state.input, int(state.counter[G_ROWS])
        n = len(self.moment.jobs)
        table = JobTable(
            submit_s=np.full(n, now),
            gpus=jobs.gpus[:n],
            duration_s=jobs.duration_s[:n],
            share_milli=None if jobs.share_milli is None else jobs.share_milli[:n],
            tenant=None if jobs.tenant is None else jobs.tenant[:n],
            tenant_names=jobs.tenant_names,
        )
        time_s = np.maximum.accumulate(np.maximum(state.log.time[:rows], now))
        kind, job, arg = (state.log.what[column, :rows] for column in range(3))
        return Journal(self.spec, table, time_s, kind, job, arg, state.log.gpu_ids[: int(state.counter[G_IDS])])

    def starts(self) -> F8:
        """When each job starts next, NaN where it does not."""
        time_s, kind, job, _ = self.rows()
        found = np.full(len(self.moment.jobs), math.nan)
        at = np.flatnonzero(np.isin(kind, STARTS))[::-1]  # backwards, so that the first is what stays
        found[job[at]] = time_s[at]
        return found

    def ends(self) -> F8:
        time_s, kind, job, _ = self.rows()
        found = np.full(len(self.moment.jobs), math.nan)
        at = np.flatnonzero(kind == EventKind.FINISH)
        found[job[at]] = time_s[at]
        return found


def _rank(state: State, jobs: I4) -> list[float]:
    """All that the length of a running job may change about what is decided."""
    columns = [state.jobs.floats[J_KEY, jobs], state.jobs.ints[K_LEVEL, jobs]]
    if state.counter[R_EASY]:
        columns.append(state.jobs.floats[J_EXPECT, jobs])
    found: list[float] = np.concatenate(columns).tolist()
    return found


def _end_at(state: State, jobs: I4, times: F8) -> None:
    q, size = state.queue, int(state.counter[G_EVENTS])
    due = {
        int(code_of_from_python(END, i, int(state.jobs.ints[K_STAMP, i]))): t
        for i, t in zip(jobs.tolist(), times.tolist(), strict=True)
    }
    codes = q.event_code[:size].copy()
    moved = np.array([due.get(code, at) for code, at in zip(codes.tolist(), q.event_time[:size].tolist(), strict=True)])
    order = np.lexsort((codes, moved))  # what is in order is a heap
    q.event_time[:size], q.event_code[:size] = moved[order], codes[order]
    state.jobs.floats[J_DUE, jobs] = times


def _refuse_files(policy: str) -> None:
    """Asking what if must not run a file that somebody names."""
    name = parse_choice(policy).name
    if ".py" in name:
        raise InputError("a policy from a file can't be tried here", value=policy, accepts="a policy by its name")


def _refuse_short_turns(live: LiveCore) -> None:
    plugged = live.core.plugged
    planners = 0.0 if plugged.planner is None else plugged.planner.values.get("quantum", 0.0)
    for quantum in (plugged.traits.quantum, planners):
        if isinstance(quantum, float) and 0 < quantum < LEAST_QUANTUM:
            raise InputError(
                "turns as short as this are not looked ahead",
                column="quantum",
                value=quantum,
                accepts=f"{LEAST_QUANTUM:g} s or more",
            )


__all__ = ["FORESIGHT_S", "MOST_DECISIONS", "UNKNOWN", "Ahead"]
