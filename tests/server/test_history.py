"""Use over time, folded from the journal, against the plain definition: at each moment, who holds what."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.model.cluster import parse_cluster_shape
from fairlead.server.history import History, Moments, Steps
from fairlead.server.store import Batch, HistoryRow, Store

from .build import submission, submit

SPEC = parse_cluster_shape("2x4")


def row(
    seq: int, time_s: float, kind: str, job: int = 1, run: int = 0, gpus: int = 0, node: str = "node-0"
) -> HistoryRow:
    args = json.dumps({"places": [[node, list(range(gpus)), 1000]]}) if gpus else "{}"
    return HistoryRow(seq, time_s, kind, job, run, args, f"tenant-{job % 2}", 0.0)


def test_a_job_holds_from_its_start_and_computes_from_when_it_is_there() -> None:
    history = History.of(SPEC)
    history.fold(
        [
            row(1, 0.0, "submit"),
            row(2, 10.0, "start", run=1, gpus=4),
            row(3, 15.0, "started", run=1),
            row(4, 20.0, "suspend", run=1),
            row(5, 30.0, "start", run=2, gpus=4, node="node-1"),
            row(6, 30.0, "started", run=2),
            row(7, 40.0, "end", run=2),
        ]
    )
    edges = np.arange(0.0, 60.0, 10.0)
    assert history.allocated.means(edges).tolist() == [0, 4, 0, 4, 0]
    assert history.computing.means(edges).tolist() == [0, 2, 0, 4, 0]
    assert history.waiting.means(edges).tolist() == [1, 0, 1, 0, 0]
    assert history.suspensions.counts(edges).tolist() == [0, 0, 1, 0, 0]
    assert history.waits["tenant-1"].since(0.0).tolist() == [10.0]  # of the first start alone
    assert len(history.ends.since(40.0)) == 1


def test_gpus_beside_others_on_a_node_are_broken_off() -> None:
    history = History.of(SPEC)
    history.fold([row(1, 0.0, "start", run=1, gpus=1), row(2, 10.0, "start", job=2, run=1, gpus=4, node="node-1")])
    history.fold([row(3, 20.0, "end"), row(4, 20.0, "end", job=2)])
    assert history.broken.means(np.array([0.0, 10.0, 20.0, 30.0])).tolist() == [3, 3, 0]


def test_a_held_job_neither_waits_nor_holds() -> None:
    history = History.of(SPEC)
    history.fold([row(1, 0.0, "submit"), row(2, 10.0, "hold"), row(3, 20.0, "release"), row(4, 30.0, "end")])
    assert history.waiting.means(np.array([0.0, 10.0, 20.0, 30.0, 40.0])).tolist() == [1, 0, 1, 0]


def test_a_job_waits_for_gpus_once_those_that_it_waited_for_have_ended() -> None:
    history = History.of(SPEC)
    submitted = HistoryRow(1, 0.0, "submit", 1, 0, json.dumps({"blocked": True}), "tenant-1", 0.0)
    history.fold([submitted, row(2, 10.0, "admit"), row(3, 20.0, "start", run=1, gpus=1)])
    assert history.waiting.means(np.array([0.0, 10.0, 20.0, 30.0])).tolist() == [0, 1, 0]
    assert history.waits["tenant-1"].since(0.0).tolist() == [10.0]


def test_what_is_forgotten_changes_nothing_that_came_later() -> None:
    steps, moments = Steps(), Moments()
    for i in range(100):
        steps.add(float(i), 1.0 if i % 3 else -0.5)
        moments.add(float(i), float(i))
    edges = np.array([50.0, 60.5, 99.0, 120.0])
    before = steps.means(edges), moments.counts(edges), moments.since(70.0)
    steps.forget(49.0)
    moments.forget(49.0)
    for was, now in zip(before, (steps.means(edges), moments.counts(edges), moments.since(70.0)), strict=True):
        assert was.tolist() == pytest.approx(now.tolist())


def test_the_most_since_then_counts_what_there_was_already() -> None:
    steps = Steps()
    assert steps.most(0.0) == 0.0
    for time_s, by in ((10.0, 5.0), (20.0, -4.0), (30.0, 2.0), (40.0, -3.0)):
        steps.add(time_s, by)
    assert [steps.most(since_s) for since_s in (0.0, 10.0, 19.0, 20.0, 35.0, 40.0, 99.0)] == [5, 5, 5, 3, 3, 0, 0]


changes = st.lists(st.tuples(st.integers(0, 20), st.integers(-3, 5)), min_size=1, max_size=30)


@settings(max_examples=200, deadline=None)
@given(changes, st.lists(st.integers(0, 400), min_size=2, max_size=8, unique=True))
def test_means_are_what_a_sum_over_small_steps_says(found: list[tuple[int, int]], edges: list[int]) -> None:
    steps, values, now, time = Steps(), np.zeros(4000), 0, 0
    for after, by in found:
        time += after
        now += by
        steps.add(time / 10, float(by))
        values[time:] = now
    at = np.array(sorted(edges), float)
    want = [values[int(10 * a) : int(10 * b)].mean() for a, b in pairwise(at)]
    assert steps.means(at).tolist() == pytest.approx(want, abs=1e-9)


# -- out of a store ---------------------------------------------------------------------------------------------------------------


def test_the_store_finds_where_a_time_begins_and_who_was_there_then(tmp_path: Path) -> None:
    with Store(tmp_path / "x.db") as store:
        jobs = [submit(store, submission(time_s=10.0 * i))[0] for i in range(10)]
        ended = Batch()
        ended.record("end", 200.0, jobs[0], 1, state="done")
        ended.change(jobs[0], state="done", finished_s=200.0)
        store.write(ended)
        assert [store.first_since(t) for t in (-1.0, 0.0, 5.0, 45.0, 90.0, 150.0, 200.0, 201.0)] == [
            1,
            1,
            2,
            6,
            10,
            11,
            11,
            12,
        ]
        rows = store.history(["submit"], 0, 5, alive_s=1000.0)
        assert [one.job for one in rows] == jobs[1:5]  # the first had ended by then
        assert [one.job for one in store.history(["submit", "end"], 0, 11, alive_s=45.0)] == [*jobs[:5], jobs[0]]
        assert [(one.kind, one.tenant, one.submit_s) for one in store.history(["end"], 3, 11)] == [
            ("end", "vision", 0.0)
        ]
