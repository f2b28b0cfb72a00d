"""Building a live core from where every job stands: the tables, each job where it is, what the planner knew of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairlead.core.feasible import judge_classes
from fairlead.core.plugs import Plugged, parse_choice, plug_in
from fairlead.kernels import parts
from fairlead.kernels.columns import (
    C_HALF,
    C_OTHER,
    C_REASON,
    F8,
    G_EVENTS,
    G_IDS,
    G_LIVE,
    G_NEXT,
    J_DONE,
    J_DUE,
    J_FIRST,
    J_HELD,
    J_RAN,
    J_RATE,
    J_SINCE,
    K_CLASS,
    K_LEAST,
    K_MOST,
    K_PREEMPTS,
    K_PROFILE,
    K_RESUMES,
    K_STARTS,
    K_STATE,
    Q_NOW,
    Q_RANKS_AT,
    Q_WAKE,
    R_LIVE,
    R_RATES,
    R_RESHAPES,
    T_AT,
    T_USE,
    WHOLE,
    WITHDRAWN,
)
from fairlead.kernels.events import END, NODE_DOWN, code_of
from fairlead.kernels.live import ADMIT_ALL, CLOSE
from fairlead.model.cluster import ClusterSpec
from fairlead.model.errors import InputError
from fairlead.model.reason import Reason
from fairlead.policy.base import BESIDE, History
from fairlead.runtime.driver import Core
from fairlead.runtime.live_jobs import UNKNOWN_S, LiveJob, Memo, Profiles, Standing, Status, job_columns, most_gpus
from fairlead.runtime.planning import act
from fairlead.state.rules import Options
from fairlead.state.state import State, new_state
from fairlead.state.twins import HALF

_LEAST_ROOM = 256

Entries = Sequence[tuple[LiveJob, Standing]]


@dataclass(frozen=True)
class Setting:
    """What a core is built for, beside its jobs."""

    spec: ClusterSpec
    policy: str
    placer: str
    options: Options
    profiles: Profiles
    live: bool


@dataclass(frozen=True)
class Kind:
    """What jobs of a kind have in common in the core's columns."""

    number: int  #: their class
    least: int
    most: int
    profile: int


def plug(setting: Setting, jobs: Sequence[LiveJob]) -> Plugged:
    """A policy and a placer for a live run. What policies learn from history is what is known of the jobs at hand."""
    gpus = np.array([job.gpus for job in jobs] or [1], np.float64)
    durations = np.array([UNKNOWN_S if job.duration_s is None else job.duration_s for job in jobs] or [1.0])
    history = History(gpus=gpus, duration_s=durations)
    plugged = plug_in(parse_choice(setting.policy), parse_choice(setting.placer), history, setting.spec)
    if plugged.planner is not None and not plugged.planner.takes_over:
        raise InputError(
            "this policy can't go on with jobs that it has not started itself, as a live one must",
            value=setting.policy,
            accepts="a queue policy, or a planner that says takes_over = True",
        )
    return plugged


def build(
    setting: Setting,
    entries: Entries,
    now: float,
    *,
    tenants: Sequence[str],
    used: Mapping[str, tuple[float, float]],
    down: Iterable[int],
    memo: Memo | None,
) -> tuple[Core, dict[tuple[object, ...], Kind]]:
    """A core in which every job stands where its entry says, and the kinds of jobs that it knows."""
    jobs = [job for job, _ in entries]
    plugged = plug(setting, jobs)
    room = max(_LEAST_ROOM, 2 * len(entries)) if setting.live else max(len(entries), 1)
    columns = job_columns(jobs, setting.spec, tenants, room, setting.profiles)
    if plugged.uses_estimates:
        columns = replace(columns, estimate_s=columns.duration_s.copy())
    # who runs as something else than it asked for goes on with that under any policy
    traits = replace(
        plugged.traits,
        halves=any(_is_half(job, at) for job, at in entries),
        resizes=plugged.traits.resizes or any(_is_resized(job, at) for job, at in entries),
    )
    rates = setting.profiles.rates(setting.spec, most_gpus(jobs))
    state = new_state(setting.spec, columns, traits, setting.options, rates)
    # a job that was suspended before has no place in this log: its GPUs are those at the beginning, none in particular
    state.log.gpu_ids[:] = 0
    state.counter[G_IDS] = min(most_gpus(jobs), setting.spec.gpus)
    judge_classes(state, plugged)
    columns_of_kind = state.jobs.ints[[K_CLASS, K_LEAST, K_MOST, K_PROFILE]].T
    kinds = {job.kind(): Kind(*columns_of_kind[i].tolist()) for i, job in enumerate(jobs)}
    state.counter[R_LIVE], state.counter[G_LIVE] = setting.live, len(entries)
    state.counter[G_NEXT] = sum(at.status != Status.NEW for _, at in entries)  # these are the last
    # with a quantum, ranks are those of its last tick: the first pass takes them anew
    state.queue.limit[Q_NOW], state.queue.limit[Q_RANKS_AT] = now, -1.0 if plugged.traits.quantum else now
    state.queue.limit[Q_WAKE] = math.inf
    for t, name in enumerate(tenants):
        state.queue.tenants[[T_USE, T_AT], t] = used.get(name, (0.0, now))
    _place(state, plugged, entries, now)
    name = parse_choice(setting.policy).name
    noted = {BESIDE: memo, **{i: at.memo for i, (_, at) in enumerate(entries)}}
    memos = {i: numbers[1] for i, numbers in noted.items() if numbers is not None and numbers[0] == name}
    core = Core(state, plugged, plugged.take_over(state, now, memos))
    for node in sorted(down):
        intervene(core, CLOSE, 0, now, node)
    return core, kinds


def intervene(core: Core, what: int, i: int, now: float, node: int = 0) -> None:
    _intervene(core.state, core.plugged, what, i, now, node)


def _intervene(state: State, plugged: Plugged, what: int, i: int, now: float, node: int = 0) -> None:
    f = plugged.plug
    state.grow_log(4, 8)
    parts.intervene()(
        state.cluster, state.jobs, state.queue, state.log, f.p, f.pp,
        f.key, f.level, f.drift, f.wake, f.resets, f.group, f.place,
        what, i, now, node,
    )  # fmt: skip


def _is_half(job: LiveJob, at: Standing) -> bool:
    """Whether it runs on half of the one GPU that it asked for."""
    return at.status == Status.RUNNING and 0 < at.milli < job.share_milli


def _is_resized(job: LiveJob, at: Standing) -> bool:
    return at.status == Status.RUNNING and len(at.gpu_ids) != max(job.gpus, 1)


def _runs_as(state: State, i: int, job: LiveJob, at: Standing) -> int:
    """The class that running job i is of."""
    own, count = state.own_class(i), len(at.gpu_ids)
    if not _is_half(job, at) and not _is_resized(job, at):
        return own
    classes, ints = state.queue.classes, state.jobs.ints
    if state.counter[R_RESHAPES]:
        if count == 1 and at.milli == HALF and classes[C_HALF, own] >= 0:
            return int(classes[C_HALF, own])
        if at.milli in (0, WHOLE) and ints[K_LEAST, i] <= count <= ints[K_MOST, i]:
            return int(classes[C_OTHER, own]) + count
    raise ValueError(f"job {job.id} can't run on {at.milli or job.share_milli} milli-GPUs of each of {at.gpu_ids}")


def _place(state: State, plugged: Plugged, entries: Entries, now: float) -> None:
    """Put every job where it stands."""
    ints, floats = state.jobs.ints, state.jobs.floats
    running = [(i, job, at) for i, (job, at) in enumerate(entries) if at.status == Status.RUNNING]
    for i, (_, at) in enumerate(entries):
        ints[K_STARTS, i] = at.starts
        ints[K_PREEMPTS, i] = at.preemptions
        ints[K_RESUMES, i] = at.starts > 0
        floats[[J_DONE, J_RAN, J_HELD, J_SINCE], i] = at.done_s, at.ran_s, at.held_s, min(at.since_s, now)
        if at.first_start_s is not None:
            floats[J_FIRST, i] = at.first_start_s
        impossible = at.status == Status.WAITING and state.queue.classes[C_REASON, ints[K_CLASS, i]] != 0
        if at.status == Status.HELD or impossible:
            ints[K_STATE, i] = WITHDRAWN
    for i, _, at in running:
        ints[K_STARTS, i] = at.starts - 1
        ints[K_RESUMES, i] = 0
    _intervene(state, plugged, ADMIT_ALL, 0, now)
    for i, job, at in running:
        state.grow_log(4, 2 * len(at.gpu_ids) + 8)
        ids = np.array(sorted(at.gpu_ids), np.int32)
        act(state, plugged, i, _runs_as(state, i, job, at), ids, min(at.since_s, now), int(Reason.NONE))
    for i, _, at in running:
        # whoever shares its GPU may have changed what was counted so far
        floats[[J_DONE, J_RAN], i] = at.done_s, at.ran_s
        if at.counted_s is not None:
            floats[J_SINCE, i] = at.counted_s
        rate = float(floats[J_RATE, i]) if state.counter[R_RATES] else 1.0
        floats[J_DUE, i] = floats[J_SINCE, i] + (state.jobs.work[i] - at.done_s) / rate
    _bring_events_up(state, floats[J_DUE], now)


def _bring_events_up(state: State, due: F8, now: float) -> None:
    """Ends are due when they really are; what was due before now is due now."""
    size = int(state.counter[G_EVENTS])
    times, codes = state.queue.event_time[:size].copy(), state.queue.event_code[:size].copy()
    ends = codes < code_of(NODE_DOWN, 0, 0)  # ends come first
    times[ends] = due[codes[ends] // code_of(END, 1, 0)]
    times = np.maximum(times, now)
    order = np.lexsort((codes, times))  # what is in order is a heap
    state.queue.event_time[:size], state.queue.event_code[:size] = times[order], codes[order]
