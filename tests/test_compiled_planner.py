"""Compiled planners: called inside the loop, their plans carried out and refused as any planner's are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fairlead.kernels.columns import (
    C_LIST,
    C_ROOT,
    C_SHAPE,
    F8,
    G_ACTIVE,
    G_LISTED,
    G_WAITING,
    K_CLASS,
    K_RUNLIST,
    K_STATE,
    N_FREE,
    N_GPU0,
    N_WORD0,
    NEVER,
    S_GPUS,
    WAITING,
    Cluster,
    Desk,
    Jobs,
    Log,
    Queue,
)
from fairlead.kernels.desk import ask_start, ask_suspend, empty_desk
from fairlead.model.cluster import parse_cluster_shape
from fairlead.model.event import EventKind
from fairlead.policy.base import CompiledPlanner
from fairlead.policy.registry import policies
from fairlead.runtime.planning import IllegalPlan
from fairlead.sim.run import Run, simulate
from fairlead.state.view import View
from fairlead.workload.generate import generate
from fairlead.workload.trace import Trace
from test_against_reference import rows_of


class Greedy(CompiledPlanner):
    """In order of submission, every job that fits one node goes to the first that has room."""

    name = "compiled-greedy"

    @staticmethod
    def plan(c: Cluster, j: Jobs, q: Queue, log: Log, desk: Desk, now: float) -> float:
        for n in range(c.node.shape[1]):
            desk.ints[0, n] = c.node[N_FREE, n]
            desk.ints[1, n] = c.cells[c.node[N_WORD0, n]]
        written = 0
        for i in range(j.submit.shape[0]):
            if j.ints[K_STATE, i] != WAITING:
                continue
            gpus = c.shape[S_GPUS, q.classes[C_SHAPE, j.ints[K_CLASS, i]]]
            for n in range(c.node.shape[1]):
                if desk.ints[0, n] < gpus:
                    continue
                ask_start(q, desk, i, written)
                desk.ints[0, n] -= gpus
                for g in range(32):
                    if gpus > 0 and (desk.ints[1, n] >> g) & 1:
                        desk.ints[1, n] ^= 1 << g
                        desk.ids[written] = c.node[N_GPU0, n] + g
                        written += 1
                        gpus -= 1
                break
        return NEVER

    def desk(self, view: View) -> Desk:
        return empty_desk(view.jobs_in_all, view.cluster.gpus, np.zeros((2, len(view.cluster.nodes)), np.int64))


class TakeTurns(CompiledPlanner):
    """One GPU, a new turn every ten seconds."""

    name = "compiled-turns"

    @staticmethod
    def plan(c: Cluster, j: Jobs, q: Queue, log: Log, desk: Desk, now: float) -> float:
        turn = math.floor(now / 10.0)
        if q.counter[G_LISTED] > 0 and desk.ints[0, 0] == turn:
            return (turn + 1.0) * 10.0
        desk.ints[0, 0] = turn
        last = -1
        if q.counter[G_LISTED] > 0:
            last = j.ints[K_RUNLIST, 0]
            if q.counter[G_WAITING] == 0:
                return (turn + 1.0) * 10.0
            ask_suspend(q, desk, last, 21)
        desk.ids[0] = 0
        for i in range(last + 1, j.submit.shape[0]):
            if j.ints[K_STATE, i] == WAITING:
                ask_start(q, desk, i, 0)
                return (turn + 1.0) * 10.0
        for i in range(last + 1):
            if j.ints[K_STATE, i] == WAITING or i == last:
                ask_start(q, desk, i, 0)
                return (turn + 1.0) * 10.0
        return NEVER


class Mistaken(CompiledPlanner):
    """Starts everything on GPU 0, or wants to be woken in the past, or suspends who does not run."""

    name = "compiled-mistake"
    parameters = {"kind": "busy"}

    @staticmethod
    def plan(c: Cluster, j: Jobs, q: Queue, log: Log, desk: Desk, now: float) -> float:
        if desk.floats[0, 0] == 1.0:
            return now
        for a in range(q.counter[G_ACTIVE]):
            i = q.classes[C_ROOT, q.classes[C_LIST, a]]
            if desk.floats[0, 0] == 2.0:
                ask_suspend(q, desk, i, 21)
            else:
                desk.ids[a] = 0
                ask_start(q, desk, i, a)
        return NEVER

    def desk(self, view: View) -> Desk:
        kind: F8 = np.full((1, 1), float(["busy", "past", "idle"].index(self.values["kind"])))
        return empty_desk(view.jobs_in_all, view.jobs_in_all, floats=kind)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for planner in (Greedy, TakeTurns, Mistaken):
        monkeypatch.setitem(policies(), planner.name, planner)


def run(policy: str, jobs: list[tuple[float, int, float]], cluster: str, **kwargs: Any) -> Run:
    submit, gpus, duration = zip(*jobs)
    trace = Trace(np.array(submit, float), np.array(gpus, np.int32), np.array(duration, float))
    return simulate(trace, parse_cluster_shape(cluster), policy, **kwargs)


def test_a_compiled_planner_decides_as_the_queue_policy_it_imitates() -> None:
    trace = generate("poisson", seed=3, jobs=400, gpus=32, load=1.1, sizes=(1,))
    spec = parse_cluster_shape("4x8")
    ours, theirs = simulate(trace, spec, Greedy.name), simulate(trace, spec, "fifo-backfill", "first-fit")
    assert rows_of(ours) == rows_of(theirs)


def test_turns_are_taken_at_the_times_asked_for() -> None:
    done = run(TakeTurns.name, [(0, 1, 15), (0, 1, 15)], "1x1")
    events = [(t, k, i) for t, k, i in zip(done.journal.time_s, done.journal.kind, done.journal.job)]
    start, suspend, finish = EventKind.START, EventKind.SUSPEND, EventKind.FINISH
    assert events == [
        (0, start, 0), (10, suspend, 0), (10, start, 1), (20, suspend, 1), (20, start, 0), (25, finish, 0),
        (25, start, 1), (30, finish, 1),
    ]  # fmt: skip


def test_a_plan_longer_than_the_log_is_carried_out_all_the_same() -> None:
    done = run(Greedy.name, [(0, 1, 5)] * 3000, "400x8")
    assert done.outcome.start_s.tolist() == [0.0] * 3000


@pytest.mark.parametrize(
    ("kind", "words"),
    [("busy", "0 are free"), ("past", "woken at 0.0"), ("idle", "does not run")],
)
def test_an_illegal_plan_says_what_is_wrong(kind: str, words: str) -> None:
    with pytest.raises(IllegalPlan, match=words):
        run(f"{Mistaken.name}:kind={kind}", [(0, 1, 5), (1, 1, 5)], "1x4")
