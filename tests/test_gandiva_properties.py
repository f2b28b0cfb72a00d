"""What must hold of every run of gandiva, on random small workloads with everything that can be asked for and can go wrong."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

import numpy as np
import pytest

from fairlead.core.feasible import judge_classes
from fairlead.kernels.columns import ENDED, G_ROWS, K_STATE, NEED_SPACE
from fairlead.model.event import EventKind
from fairlead.record.metrics import fold_metrics
from fairlead.record.outcome import held_gpu_s
from fairlead.record.runs import fold_runs, sum_by
from fairlead.record.series import fold_lines
from fairlead.runtime.driver import Core
from fairlead.sim.jobs import job_input, most_gpus
from fairlead.sim.run import prepare
from fairlead.state.check import check
from fairlead.state.state import State, new_state
from fairlead.state.transitions import FINAL, JobState, follow
from gandiva_cases import USUAL, Case, random_gandiva
from reference.ledger import Ledger
from reference.workloads import FEATURES

CASES = 40 * int(os.environ.get("FAIRLEAD_REFERENCE_CASES", "8"))
BLOCKS = 8


def cases(block: int) -> Iterator[tuple[int, Case]]:
    for seed in range(block, CASES, BLOCKS):
        yield seed, random_gandiva(seed, FEATURES if seed % 3 == 0 else USUAL)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_gpu_is_overbooked_and_work_is_conserved(block: int) -> None:
    """No GPU beyond 1000 milli, no CPU, memory or quota beyond what there is, gangs whole, every job's work done once."""
    reshaped = 0
    for seed, case in cases(block):
        run = case.run()
        reshaped += int((run.journal.kind == EventKind.START_AS).sum())
        set_back = case.options.job_failures > 0 or bool(case.options.node_events)
        try:
            ledger = Ledger(case.trace, case.cluster, case.options, case.profiles).replay(run.journal)
            ledger.check_work(run.outcome.finish_s.tolist(), set_back=set_back)
        except AssertionError as wrong:
            raise AssertionError(f"seed {seed}: {wrong}") from wrong
        columns = (run.journal.time_s, run.journal.kind, run.journal.job)
        states = follow(case.trace.submit_s.tolist(), *(column.tolist() for column in columns))
        assert set(states) <= FINAL, f"seed {seed}"
        assert states == [JobState(s) for s in run.state.jobs.ints[K_STATE].tolist()], f"seed {seed}"
    assert reshaped >= 1


def stops(case: Case, every: int) -> Iterator[State]:
    """The state at the end of an instant, every so many rows."""
    plugged = prepare(case.policy, "first-fit", case.trace, case.cluster)
    jobs = job_input(case.trace, case.cluster, case.profiles, estimates=False)
    rates = case.profiles.rates(case.cluster, most_gpus(jobs))
    state = new_state(case.cluster, jobs, plugged.traits, case.options, rates)
    judge_classes(state, plugged)
    core = Core(state, plugged)
    while True:
        why = core.advance(math.inf, int(state.counter[G_ROWS]) + every)
        if why == NEED_SPACE:
            continue
        yield state
        if why == ENDED:
            return


@pytest.mark.parametrize("block", range(BLOCKS))
def test_what_must_hold_of_a_state_holds_wherever_a_run_is_stopped(block: int) -> None:
    for seed in range(block, CASES // 4, BLOCKS):
        for state in stops(random_gandiva(seed, FEATURES if seed % 3 == 0 else USUAL), 7):
            check(state)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_metrics_count_what_was_really_held(block: int) -> None:
    for seed in range(block, CASES // 2, BLOCKS):
        case = random_gandiva(seed)
        run = case.run()
        runs = fold_runs(run.journal)
        held = sum_by(runs.job, (runs.end_s - runs.start_s) * runs.weight, len(case.trace))
        np.testing.assert_allclose(held_gpu_s(run.journal.jobs, run.outcome), held, atol=1e-6, err_msg=f"seed {seed}")
        metrics = fold_metrics(run.journal, run.outcome)
        assert metrics.held_gpu_s == pytest.approx(float(held.sum()))
        assert metrics.computing_gpu_s <= metrics.held_gpu_s + 1e-6
        lines = fold_lines(run.journal, run.outcome)
        if metrics.core.makespan_s > 0:
            width = np.diff(lines.bins.edges_s)
            assert float((lines.allocated_gpus * width).sum()) == pytest.approx(metrics.held_gpu_s, abs=1e-6)
            assert lines.allocated_gpus.max() <= case.cluster.gpus + 1e-9


@pytest.mark.parametrize("block", range(BLOCKS))
def test_the_same_run_twice_gives_the_same_journal(block: int) -> None:
    for seed in range(block, CASES // 4, BLOCKS):
        case = random_gandiva(seed)
        assert case.run().journal.sha256 == case.run().journal.sha256, f"seed {seed}"
