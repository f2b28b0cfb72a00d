"""A run: one stretch of time in which a job held its GPUs. The journal's START rows paired with what ended
them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairlead.model.event import EventKind
from fairlead.record.journal import JobTable, Journal

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: the rows that put a job on GPUs
STARTS = (EventKind.START, EventKind.START_AS)
#: the rows that take a job off its GPUs
STOPS = (EventKind.SUSPEND, EventKind.FINISH, EventKind.FAIL, EventKind.GIVE_UP, EventKind.KILL)
#: the rows after which nothing more happens to a job
ENDS = (EventKind.FINISH, EventKind.GIVE_UP, EventKind.REFUSE)


@dataclass(frozen=True)
class Runs:
    """Columns, in order of start. A run that the journal leaves open ends at the journal's end with
    `end_kind` 0."""

    job: Ints
    start_s: Floats
    end_s: Floats
    end_kind: npt.NDArray[np.int32]
    offset: Ints  #: of its GPUs in the journal's gpu_ids
    gpus: Ints  #: how many it held, 0 for a CPU job
    weight: Floats  #: GPUs held, a part of one as its fraction

    def __len__(self) -> int:
        return len(self.job)


def rows_of(journal: Journal, kinds: tuple[EventKind, ...]) -> Longs:
    """The positions of the rows of these kinds."""
    wanted = np.zeros(max(EventKind) + 1, dtype=np.bool_)
    wanted[list(kinds)] = True
    return np.flatnonzero(wanted[journal.kind])


def horizon_s(journal: Journal) -> float:
    """When the record ends: its last row or its last submission."""
    last_row = float(journal.time_s[-1]) if len(journal) else 0.0
    last_submit = float(journal.jobs.submit_s.max()) if len(journal.jobs.submit_s) else 0.0
    return max(last_row, last_submit)


def gpu_weight(jobs: JobTable) -> Floats:
    """GPUs that each job asked for; a share counts as its fraction, a CPU job as none."""
    weight = jobs.gpus.astype(np.float64)
    if jobs.share_milli is not None:
        weight *= jobs.share_milli / 1000.0
    return weight


def fold_runs(journal: Journal) -> Runs:
    """Pair the k-th start of each job with the k-th row that stopped it."""
    starts = rows_of(journal, STARTS)
    stops = rows_of(journal, STOPS)
    start_job, stop_job = journal.job[starts], journal.job[stops]
    jobs = len(journal.jobs.submit_s)
    started = np.bincount(start_job, minlength=jobs)
    open_runs = started - np.bincount(stop_job, minlength=jobs)
    still_running = np.flatnonzero(open_runs).astype(np.int32)
    if len(still_running) and not np.all(open_runs[still_running] == 1):
        job = int(still_running[open_runs[still_running] != 1][0])
        raise ValueError(f"job {job} does not start and stop in turn: {int(open_runs[job]):+d} starts over stops")
    end_s, end_kind = journal.time_s[stops], journal.kind[stops]
    if len(still_running):
        stop_job = np.concatenate([stop_job, still_running])
        end_s = np.concatenate([end_s, np.full(len(still_running), horizon_s(journal))])
        end_kind = np.concatenate([end_kind, np.zeros(len(still_running), dtype=np.int32)])
    pair = _pair(start_job, stop_job, jobs, once=bool(started.max(initial=0) <= 1))
    gpus, weight = held_by(journal, starts)
    return Runs(start_job, journal.time_s[starts], end_s[pair], end_kind[pair], journal.arg[starts], gpus, weight)


def held_by(journal: Journal, starts: Longs) -> tuple[Ints, Floats]:
    """How many GPUs each of these start rows got, and what they come to: what was asked for, unless the row tells."""
    job = journal.job[starts]
    gpus, weight = journal.jobs.gpus[job], gpu_weight(journal.jobs)[job]
    told = np.flatnonzero(journal.kind[starts] == EventKind.START_AS)
    if len(told):
        at = journal.arg[starts[told]]
        gpus[told] = journal.gpu_ids[at - 2]
        weight[told] = gpus[told] * (journal.gpu_ids[at - 1] / 1000.0)
    return gpus, weight


def _pair(start_job: Ints, stop_job: Ints, jobs: int, *, once: bool) -> Longs:
    """For each start, the position of its stop. Most runs never preempt: then one scatter does."""
    pair = np.empty(len(start_job), dtype=np.int64)
    if once:
        at = np.empty(jobs, dtype=np.int64)
        at[stop_job] = np.arange(len(stop_job))
        return at[start_job]
    pair[order_by(start_job)] = order_by(stop_job)
    return pair


def order_by(ids: Ints) -> Longs:
    """A stable argsort of non-negative ids; sorting (id, position) as one number beats numpy's stable
    sort."""
    key = (ids.astype(np.int64) << 32) | np.arange(len(ids))
    key.sort()
    return key & 0xFFFFFFFF


def sum_by(codes: Ints | Longs, values: npt.ArrayLike, count: int) -> Floats:
    """The sum of `values` per code."""
    return np.bincount(codes, weights=values, minlength=count).astype(np.float64, copy=False)


def job_end_s(journal: Journal) -> Floats:
    """When each job left the system: finished, given up or refused; the journal's end where it never did."""
    end_s = np.full(len(journal.jobs.submit_s), horizon_s(journal))
    rows = rows_of(journal, ENDS)
    end_s[journal.job[rows]] = journal.time_s[rows]
    return end_s


def window_s(journal: Journal, runs: Runs) -> tuple[float, float]:
    """From the first submission to the moment the last run ended: the time that metrics and charts are
    about."""
    submit_s = journal.jobs.submit_s
    first = float(submit_s.min()) if len(submit_s) else 0.0
    return first, max(first, float(runs.end_s.max(initial=first)))
