"""A lived stretch, put together from rows and folded: by hand, and against the simulator's own numbers."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.cluster import ClusterSpec, NodeSpec
from fairlead.record.lived import LivedJob, Row, put_together
from fairlead.record.lived_numbers import fair_division, fold_lived
from fairlead.record.report.lived import lived_report

TWO = ClusterSpec((NodeSpec("n0", 4), NodeSpec("n1", 4)))


def start(time_s: float, job: str, *gpus: int, node: str = "n0", milli: int = 1000) -> Row:
    return Row(time_s, "start", job, {"places": [[node, list(gpus), milli]]})


def lived(begin_s: float = 100.0, end_s: float = 200.0):  # type: ignore[no-untyped-def]
    jobs = [
        LivedJob("a", "vision", "ann", 2, 50.0, 150.0, "done"),
        LivedJob("b", "speech", "bob", 1, 110.0, None, "running"),
        LivedJob("c", "vision", "ann", 4, 120.0, 180.0, "failed", "exit-code"),
        LivedJob("d", "speech", "bob", 1, 130.0, 140.0, "refused", "too-many-gpus"),
        LivedJob("e", "speech", "bob", 8, 160.0, None, "waiting"),
        LivedJob("f", "speech", "bob", 1, 105.0, None, "blocked", blocked=True),
    ]
    rows = [
        start(60.0, "a", 0, 1),
        Row(90.0, "drain", None, {"node": "n1"}),
        start(115.0, "b", 2, milli=500),
        Row(120.0, "undrain", None, {"node": "n1"}),
        Row(125.0, "admit", "c"),
        start(130.0, "c", 0, 1, 2, 3, node="n1"),
        Row(140.0, "suspend", "c", {"why": "outranked"}),
        Row(140.0, "end", "d", {}),
        Row(150.0, "end", "a", {}),
        start(160.0, "c", 0, 1, 2, 3, node="n1"),
        Row(170.0, "hold", "b", {}),
        Row(175.0, "release", "b", {}),
        Row(180.0, "end", "c", {}),
        start(190.0, "b", 2, milli=500),
        Row(250.0, "end", "b", {}),
        Row(260.0, "start", "nobody", {"places": []}),
    ]
    return put_together(TWO, begin_s, end_s, jobs, rows, weights={"vision": 3.0})


def test_runs_and_queues_are_cut_to_the_stretch() -> None:
    it = lived()
    ran = {(it.jobs[run.job].id, run.begin_s, run.end_s, run.gpus) for run in it.runs}
    assert ran == {
        ("a", 100.0, 150.0, 2.0),
        ("b", 115.0, 170.0, 0.5),
        ("b", 190.0, 200.0, 0.5),
        ("c", 130.0, 140.0, 4.0),
        ("c", 160.0, 180.0, 4.0),
    }
    queued = {(it.jobs[one.job].id, one.begin_s, one.end_s) for one in it.queued}
    # c waited for other jobs until 125, b was held from 170 to 175, f waits for others all the while
    assert queued == {
        ("b", 110.0, 115.0),
        ("b", 175.0, 190.0),
        ("c", 125.0, 130.0),
        ("c", 140.0, 160.0),
        ("d", 130.0, 140.0),
        ("e", 160.0, 200.0),
    }
    assert it.down == (("n1", 100.0, 120.0),)
    assert {it.jobs[job].id: wait for job, wait in it.starts_s.items()} == {"b": 5.0, "c": 5.0}
    assert {it.jobs[job].id: wait for job, wait in it.waits_s.items()} == {"a": 10.0, "c": 25.0}


def test_a_node_is_closed_while_people_or_the_executor_keep_it_closed() -> None:
    def of(time_s: float, kind: str, node: str) -> Row:
        return Row(time_s, kind, None, {"node": node})

    rows = [
        of(10.0, "drain", "n0"),  # long before, and drained still
        of(20.0, "node-down", "n1"),
        of(110.0, "node-up", "n0"),
        of(120.0, "drain", "n1"),
        of(130.0, "node-up", "n1"),
        of(140.0, "undrain", "n1"),
        of(150.0, "node-down", "n1"),
        Row(160.0, "scheduler-up"),
        of(161.0, "node-down", "n0"),
        of(170.0, "undrain", "n0"),
    ]
    it = put_together(TWO, 100.0, 200.0, [], rows)
    assert it.down == (("n1", 100.0, 140.0), ("n1", 150.0, 160.0), ("n0", 100.0, 200.0))


def test_the_wait_until_the_first_start_has_the_queue_before_a_hold() -> None:
    nine = 9 * 3600.0
    job = LivedJob("a", "t", "u", 1, nine, None, "running")
    rows = [
        Row(nine, "submit", "a"),
        Row(nine + 5 * 3600, "hold", "a"),
        Row(nine + 5 * 3600 + 300, "release", "a"),
        start(nine + 5 * 3600 + 310, "a", 0),
        Row(nine + 6 * 3600, "suspend", "a"),
        start(nine + 7 * 3600, "a", 0),
    ]
    it = put_together(TWO, nine, nine + 86400.0, [job], rows)
    assert it.starts_s == {0: 5 * 3600.0 + 10.0}


def test_a_job_that_waited_for_others_to_its_end_was_in_no_queue() -> None:
    jobs = [LivedJob(id, "t", "u", 4, 10.0, 90.0, "cancelled", "dependency") for id in "ab"]
    rows = [
        Row(10.0, "submit", "a", {"blocked": True}),
        Row(10.0, "submit", "b"),
        Row(90.0, "end", "a"),
        Row(90.0, "end", "b"),
    ]
    it = put_together(TWO, 0.0, 100.0, jobs, rows)
    assert [(it.jobs[one.job].id, one.begin_s, one.end_s) for one in it.queued] == [("b", 10.0, 90.0)]
    assert fold_lived(it).tenants[0].fair_gpu_s == pytest.approx(4 * 80.0)


def test_a_job_that_waited_for_others_waits_in_the_queue_from_when_it_is_let_in() -> None:
    job = LivedJob("a", "t", "u", 4, 10.0, 90.0, "done")
    rows = [
        Row(10.0, "submit", "a", {"blocked": True}),
        Row(40.0, "admit", "a"),
        start(45.0, "a", 0),
        Row(90.0, "end", "a"),
    ]
    it = put_together(TWO, 0.0, 100.0, [job], rows)
    assert (it.starts_s, it.waits_s) == ({0: 5.0}, {0: 5.0})


def test_the_numbers_add_up() -> None:
    n = fold_lived(lived())
    held = {row.name: row.held_gpu_s for row in n.tenants}
    assert held == pytest.approx({"vision": 2 * 50 + 4 * 30, "speech": 0.5 * 65})
    assert n.utilization == pytest.approx(sum(held.values()) / 800)
    assert n.states == {"done": 1, "failed": 1, "refused": 1}
    assert (n.ended, n.failed) == (3, 1)
    assert n.reasons == {"exit-code": 1, "refused: too-many-gpus": 1}
    assert n.reason_gpu_s == {"exit-code": 120.0, "refused: too-many-gpus": 0.0}
    assert n.users_gpu_s == pytest.approx({"ann": 220.0, "bob": 32.5})
    assert n.lived.down_gpu_s() == 80.0
    data = n.to_json()
    assert (data["jobs"], data["submitted"], data["suspensions"]) == (6, 5, 1)


def test_a_job_without_gpus_counts_for_nothing_but_itself() -> None:
    job = LivedJob("a", "t", "u", 0, 0.0, 9.0, "done")
    n = fold_lived(
        put_together(
            TWO, 0.0, 10.0, [job], [Row(1.0, "start", "a", {"places": [["n0", [], 1000]]}), Row(9.0, "end", "a")]
        )
    )
    assert (n.held_gpu_s, n.ended) == (0.0, 1)
    assert lived_report(n, lambda _: 0.0).html()


def test_an_empty_stretch_is_reported_as_one() -> None:
    report = lived_report(fold_lived(put_together(TWO, 0.0, 10.0, [], [])), lambda _: 0.0)
    assert report.lead.sentences == ["There were no jobs."]
    assert report.html()


def test_every_chart_of_the_report_has_units_and_a_sentence_with_numbers() -> None:
    report = lived_report(fold_lived(lived(100.0, 100.0 + 3 * 86400)), lambda _: 3600.0, notes=["A note."])
    titles = [section[0]["title"] for section in report.charts]
    assert titles == [
        "GPUs in use",
        "Use",
        "Fair share against actual share",
        "Waits by tenant",
        "How long jobs wait",
        "Queue",
        "How jobs ended",
        "Why jobs failed or were refused",
        "Suspensions by the policy",
        "When the cluster is busy",
        "Who held which GPU when",
    ]
    for section in report.charts:
        for chart in section:
            assert re.search(r"\d", chart["sentence"]), chart
            assert chart["sentence"].endswith(".")
            assert chart["x_title"]
    assert report.lead.sentences[-1] == "A note."
    assert ("from", "1970-01-01 01:01") in report.facts
    assert "speech: GPUs in use" in report.tables()["gpus-in-use"].splitlines()[0]


def test_the_first_numbers_of_the_report_agree_with_its_charts() -> None:
    states = ["done"] * 6 + ["failed", "cancelled", "cancelled", "cancelled"]
    jobs = [LivedJob(str(i), "t", "u", 1, 0.0, 10.0, state) for i, state in enumerate(states)]
    report = lived_report(fold_lived(put_together(TWO, 0.0, 20.0, jobs, [])), lambda _: 0.0)
    (ended,) = (tile for tile in report.lead.tiles if tile.label == "jobs ended")
    assert (ended.value, ended.note) == ("10", "60.0 % of them well, 3 cancelled")
    (chart,) = (section[0] for section in report.charts if section[0]["title"] == "How jobs ended")
    assert chart["sentence"].startswith("6 of 10 jobs ended well; 1 failed and 3 cancelled")


@pytest.mark.parametrize("ahead_s", [0.0, 5.75 * 3600, -8 * 3600.0])
def test_an_hour_of_the_day_has_what_was_in_use_in_it_however_long_the_stretch_is(ahead_s: float) -> None:
    """Thirty days and a bit, the cluster full from two to three each day, by the clock on the wall."""
    two = [day * 86400.0 + 14 * 3600 - ahead_s for day in range(1, 31)]
    jobs = [LivedJob(str(i), "t", "u", 8, at_s, at_s + 3600, "done") for i, at_s in enumerate(two)]
    rows = []
    for i, at_s in enumerate(two):
        rows.append(Row(at_s, "start", str(i), {"places": [["n0", [0, 1, 2, 3], 1000], ["n1", [0, 1, 2, 3], 1000]]}))
        rows.append(Row(at_s + 3600, "end", str(i)))
    it = put_together(TWO, 86400.0 - ahead_s + 1000.0, 31 * 86400.0 - ahead_s + 1000.0, jobs, rows)
    charts = [section[0] for section in lived_report(fold_lived(it), lambda _: ahead_s).charts]
    (chart,) = (chart for chart in charts if chart["title"] == "When the cluster is busy")
    full = np.zeros((7, 24))
    full[:, 14] = 1.0
    assert chart["z"] == pytest.approx(full, abs=1e-6)
    assert "at 14:00 with 100.0 % of the GPUs in use" in chart["sentence"]


@given(
    st.integers(1, 5).flatmap(
        lambda rows: st.tuples(
            st.lists(st.lists(st.floats(0, 20), min_size=3, max_size=3), min_size=rows, max_size=rows),
            st.lists(st.floats(0.1, 5), min_size=rows, max_size=rows),
        )
    ),
    st.floats(0, 30),
)
def test_a_fair_division_gives_all_there_is_and_nobody_more_than_it_asks(
    given_: tuple[list[list[float]], list[float]], gpus: float
) -> None:
    demand, weights = np.array(given_[0]), given_[1]
    got = fair_division(demand, weights, gpus)
    assert (got <= demand + 1e-9).all()
    assert np.allclose(got.sum(axis=0), np.minimum(demand.sum(axis=0), gpus))
    # whoever did not get all it asked for has, by weight, no less than anybody
    level = got / np.array(weights).reshape(-1, 1)
    for column in range(demand.shape[1]):
        short = got[:, column] < demand[:, column] - 1e-6
        if short.any():
            assert level[short, column].min() >= level[:, column].max() - 1e-6
