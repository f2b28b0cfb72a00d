"""Building a live core from where every job stands: the tables, each job where it is, what the planner knew of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

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
    K_ALLOC,
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
from fairlead.kernels.events import END, NODE_DOWN, code_of_from_python
from fairlead.kernels.live import ADMIT_ALL, ADOPT_ALL, CLOSE
from fairlead.model.cluster import ClusterSpec
from fairlead.model.errors import InputError
from fairlead.policy.base import BESIDE, History
from fairlead.runtime.driver import Core, compile_all
from fairlead.runtime.live_jobs import (
    UNKNOWN_S,
    KindOf,
    LiveJob,
    Memo,
    Profiles,
    Standing,
    Status,
    job_columns,
    most_gpus,
    sort_into_kinds,
)
from fairlead.state.rules import Options
from fairlead.state.state import State, new_state
from fairlead.state.twins import HALF

_LEAST_ROOM = 256
_placed = attrgetter(
    "status", "since_s", "first_start_s", "starts", "preemptions", "ran_s", "done_s", "held_s"
)  # of a Standing

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
) -> tuple[Core, dict[KindOf, Kind]]:
    """A core in which every job stands where its entry says, and the kinds of jobs that it knows."""
    jobs = [job for job, _ in entries]
    plugged = plug(setting, jobs)
    compile_all(plugged, plain=False, nodes_fail=setting.options.nodes_fail)
    room = max(_LEAST_ROOM, 2 * len(entries)) if setting.live else max(len(entries), 1)
    names, kind_of = sort_into_kinds(jobs)
    columns = job_columns(jobs, names, kind_of, setting.spec, tenants, room, setting.profiles)
    if plugged.uses_estimates:
        columns = replace(columns, estimate_s=columns.duration_s.copy())
    # who runs as something else than it asked for goes on with that under any policy
    traits = replace(
        plugged.traits,
        halves=any(_is_half(job, at) for job, at in entries),
        resizes=plugged.traits.resizes or any(_is_resized(job, at) for job, at in entries),
    )
    rates = setting.profiles.rates(setting.spec, most_gpus(names))
    state = new_state(setting.spec, columns, traits, setting.options, rates)
    # a job that was suspended before has no place in this log: its GPUs are those at the beginning, none in particular
    state.log.gpu_ids[:] = 0
    state.counter[G_IDS] = min(most_gpus(names), setting.spec.gpus)
    judge_classes(state, plugged)
    first = np.unique(kind_of, return_index=True)[1]
    in_common = state.jobs.ints[[K_CLASS, K_LEAST, K_MOST, K_PROFILE]][:, first].T.tolist()
    kinds = {name: Kind(*numbers) for name, numbers in zip(names, in_common, strict=True)}
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
    ints, floats, n = state.jobs.ints, state.jobs.floats, len(entries)
    if not entries:
        return
    columns: tuple[Any, ...] = tuple(zip(*(_placed(at) for _, at in entries), strict=True))
    status, since, first, starts, preemptions, ran, done, on_gpus = columns
    ints[K_STARTS, :n], ints[K_PREEMPTS, :n] = starts, preemptions
    ints[K_RESUMES, :n] = ints[K_STARTS, :n] > 0
    floats[J_DONE, :n], floats[J_RAN, :n], floats[J_HELD, :n] = done, ran, on_gpus
    floats[J_SINCE, :n] = np.minimum(since, now)
    floats[J_FIRST, :n] = [0.0 if at is None else at for at in first]
    out = np.array([one == Status.HELD for one in status])
    can_not = state.queue.classes[C_REASON, ints[K_CLASS, :n]] != 0
    ints[K_STATE, :n][out | (can_not & [one == Status.WAITING for one in status])] = WITHDRAWN
    # not looked at yet: they arrive now, also where the core that was told of them had no time to
    new = [one == Status.NEW for one in status]
    state.jobs.submit[:n][new] = np.maximum(state.jobs.submit[:n][new], now)
    _intervene(state, plugged, ADMIT_ALL, 0, now)
    _adopt(state, plugged, [(i, *entry) for i, entry in enumerate(entries) if status[i] == Status.RUNNING], now)
    _bring_events_up(state, floats[J_DUE], now)


def _adopt(state: State, plugged: Plugged, running: Sequence[tuple[int, LiveJob, Standing]], now: float) -> None:
    """These wait no longer: they run on what they hold. All at once, since calling compiled code costs as much as many jobs."""
    if not running:
        return
    ints, floats = state.jobs.ints, state.jobs.floats
    which = np.array([i for i, _, _ in running])
    stands = [at for _, _, at in running]
    counts = np.array([len(at.gpu_ids) + 1 for at in stands])
    total = int(counts.sum())
    # they stand in the log behind all that adopting them writes there, each with its class before its GPUs
    behind = int(state.counter[G_IDS]) + total + 2 * len(running) + 8
    state.grow_log(len(running) + 4, 2 * total + 2 * len(running) + 16)
    told = [(_runs_as(state, i, job, at), *sorted(at.gpu_ids)) for i, job, at in running]
    state.log.gpu_ids[behind : behind + total] = [number for one in told for number in one]
    ints[K_ALLOC, which] = behind + np.cumsum(counts) - counts + 1
    ints[K_STARTS, which] -= 1
    ints[K_RESUMES, which] = 0
    _intervene(state, plugged, ADOPT_ALL, 0, now)
    # whoever shares its GPU may have changed what was counted so far
    floats[J_DONE, which] = [at.done_s for at in stands]
    floats[J_RAN, which] = [at.ran_s for at in stands]
    counted = [at.counted_s for at in stands]
    since = floats[J_SINCE, which].tolist()
    floats[J_SINCE, which] = [s if at is None else at for s, at in zip(since, counted, strict=True)]
    rate = floats[J_RATE, which] if state.counter[R_RATES] else 1.0
    floats[J_DUE, which] = floats[J_SINCE, which] + (state.jobs.work[which] - floats[J_DONE, which]) / rate


def _bring_events_up(state: State, due: F8, now: float) -> None:
    """Ends are due when they really are; what was due before now is due now."""
    size = int(state.counter[G_EVENTS])
    times, codes = state.queue.event_time[:size].copy(), state.queue.event_code[:size].copy()
    ends = codes < code_of_from_python(NODE_DOWN, 0, 0)  # ends come first
    times[ends] = due[codes[ends] // code_of_from_python(END, 1, 0)]
    times = np.maximum(times, now)
    order = np.lexsort((codes, times))  # what is in order is a heap
    state.queue.event_time[:size], state.queue.event_code[:size] = times[order], codes[order]
