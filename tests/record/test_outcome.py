from __future__ import annotations

import math

import numpy as np
import pytest

from fairlead.model.event import EventKind
from fairlead.model.reason import Reason
from fairlead.record.outcome import fold_outcome, wait_s

from .brute import walk
from .build import Builder, random_journal


def test_a_job_that_ran_once_has_its_start_finish_and_seconds() -> None:
    build = Builder()
    job = build.job(10, gpus=2, duration=30)
    journal = build.start(15, job, [0, 1]).finish(45, job).build()
    outcome = fold_outcome(journal)
    assert outcome.start_s.tolist() == [15]
    assert outcome.finish_s.tolist() == [45]
    assert outcome.ran_s.tolist() == [30]
    assert wait_s(journal.jobs, outcome).tolist() == [5]


def test_a_suspended_job_keeps_its_first_start_and_adds_up_its_runs() -> None:
    build = Builder()
    job = build.job(0, gpus=1, duration=20)
    build.start(1, job, [0]).suspend(11, job).start(16, job, [4]).finish(26, job)
    journal = build.build()
    outcome = fold_outcome(journal)
    assert outcome.start_s.tolist() == [1]
    assert outcome.ran_s.tolist() == [20]
    assert outcome.preemptions.tolist() == [1]
    assert wait_s(journal.jobs, outcome).tolist() == [6]


def test_refused_unfinished_and_never_started_jobs_have_gaps() -> None:
    build = Builder()
    refused, running, waiting = build.job(0, 99, 5), build.job(0, 8, 50), build.job(2, 8, 5)
    build.row(0, EventKind.REFUSE, refused, Reason.TOO_MANY_GPUS).start(0, running, list(range(8)))
    build.row(7, EventKind.NODE_UP, 1)
    outcome = fold_outcome(build.build())
    assert outcome.refused.tolist() == [Reason.TOO_MANY_GPUS, 0, 0]
    assert np.isnan(outcome.finish_s).all()
    assert outcome.ran_s.tolist() == [0, 7, 0]
    assert math.isnan(outcome.start_s[waiting])


def test_a_journal_that_stops_a_job_twice_is_an_error_that_names_it() -> None:
    build = Builder()
    job = build.job(0, 1, 5)
    build.start(0, job, [0]).finish(5, job).finish(6, job)
    with pytest.raises(ValueError, match="job 0 does not start and stop in turn: -1"):
        fold_outcome(build.build())


def test_an_empty_journal_folds() -> None:
    assert len(fold_outcome(Builder().build()).start_s) == 0


@pytest.mark.parametrize("seed", range(60))
def test_outcome_equals_the_walk_second_by_second(seed: int) -> None:
    journal = random_journal(seed, complete=seed % 4 != 0)
    want, got = walk(journal).jobs, fold_outcome(journal)
    wait = wait_s(journal.jobs, got)
    for i, job in enumerate(want):
        assert got.start_s[i] == job.start or (job.start is None and np.isnan(got.start_s[i]))
        assert got.finish_s[i] == job.finish or (job.finish is None and np.isnan(got.finish_s[i]))
        assert got.ran_s[i] == job.ran
        assert got.preemptions[i] == job.preemptions
        assert got.refused[i] == job.refused
        assert wait[i] == job.waited or (job.finish is None and np.isnan(wait[i]))
