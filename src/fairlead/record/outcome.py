"""What became of each job."""

from __future__ import annotations

import math

import numpy as np

from fairlead.model.event import EventKind
from fairlead.record.journal import JobTable, Journal, Outcome
from fairlead.record.runs import Floats, Runs, fold_runs, gpu_weight, sum_by

#: jobs that are summed up at a time, so that what is computed of them stays in the cache
_PART = 1 << 15


def fold_outcome(journal: Journal, runs: Runs | None = None) -> Outcome:
    """Pass `runs` where they are folded already. A job that never ran has `ran_s` 0; one that is still
    running when the journal ends has run until then."""
    if runs is None:
        runs = fold_runs(journal)
    jobs = len(journal.jobs.submit_s)
    start_s = np.full(jobs, np.nan)
    # backwards, so that the first start is what stays
    start_s[runs.job[::-1]] = runs.start_s[::-1]
    finished = runs.end_kind == EventKind.FINISH
    finish_s = np.full(jobs, np.nan)
    finish_s[runs.job[finished]] = runs.end_s[finished]
    suspended = runs.end_kind == EventKind.SUSPEND
    refusals = np.flatnonzero(journal.kind == EventKind.REFUSE)
    refused = np.zeros(jobs, dtype=np.int8)
    refused[journal.job[refusals]] = journal.arg[refusals]
    return Outcome(
        start_s=start_s,
        finish_s=finish_s,
        ran_s=sum_by(runs.job, runs.end_s - runs.start_s, jobs),
        preemptions=np.bincount(runs.job[suspended], minlength=jobs).astype(np.int32),
        refused=refused,
        held_gpu_s=_held_gpu_s(journal, runs, jobs),
    )


def _held_gpu_s(journal: Journal, runs: Runs, jobs: int) -> Floats | None:
    if not (journal.kind == EventKind.START_AS).any():
        return None
    return sum_by(runs.job, (runs.end_s - runs.start_s) * runs.weight, jobs)


def held_gpu_s(jobs: JobTable, outcome: Outcome) -> Floats:
    """GPU-seconds that each job held, parts of GPUs as fractions."""
    if outcome.held_gpu_s is not None:
        return outcome.held_gpu_s
    held: Floats = outcome.ran_s * gpu_weight(jobs)
    return held


def total_held_gpu_s(jobs: JobTable, outcome: Outcome) -> float:
    """All of that together. A part of the jobs at a time, so that it takes no memory to speak of; and not by np.dot, whose threads
    wait for each other on a busy machine, and whose digits depend on how many there are."""
    if outcome.held_gpu_s is not None:
        return float(np.nansum(outcome.held_gpu_s))
    sums = []
    for part in (slice(x, x + _PART) for x in range(0, len(jobs.gpus), _PART)):
        held = outcome.ran_s[part] * jobs.gpus[part]
        if jobs.share_milli is not None:
            held *= jobs.share_milli[part] / 1000.0
        sums.append(float(np.nansum(held)))
    return math.fsum(sums)


def wait_s(jobs: JobTable, outcome: Outcome) -> Floats:
    """Seconds that a finished job was submitted but not on its GPUs: (finish − submit) − ran; NaN for the
    others.

    For a job that ran once it is start − submit, and is computed so: the other way round loses digits.
    """
    once = outcome.ran_s == outcome.finish_s - outcome.start_s
    wait = outcome.start_s - jobs.submit_s
    if once.all():
        return wait
    off_gpus = outcome.finish_s - jobs.submit_s
    off_gpus -= outcome.ran_s
    np.maximum(off_gpus, 0.0, out=off_gpus)
    np.copyto(wait, off_gpus, where=~once)
    return wait
