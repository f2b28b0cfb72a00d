"""A description's numbers, by hand on a small trace, and its table and charts."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import pytest
from rich.console import Console

from fairlead.model.errors import InputError
from fairlead.workload.describe import Description, charts, describe, facts, headlines, render_table
from fairlead.workload.generate import generate
from fairlead.workload.trace import Names, Status, Trace


def codes(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(values, dtype=np.int32)


@pytest.fixture
def small() -> Trace:
    """Five jobs from Friday 22:00: 1 GPU for 30 s, 2 for 100 s, 8 for 1 h, half a GPU for 1000 s, CPU for 5 s."""
    return Trace(
        submit_s=np.array([0.0, 0.5, 7200.0, 7260.0, 90000.0]),
        gpus=codes(1, 2, 8, 1, 0),
        duration_s=np.array([30.0, 100.0, 3600.0, 1000.0, 5.0]),
        tenant=Names(codes(0, 0, 0, 1, 1), ("a", "b", "unused")),
        user=Names(codes(0, 0, 1, -1, -1), ("u", "v")),
        group=Names(codes(0, 0, 1, -1, 1), ("g", "h")),
        gpu_share_milli=codes(1000, 1000, 1000, 500, 1000),
        status=np.array([1, 2, 1, 3, 1], dtype=np.int8),
        attempts=codes(1, 3, 1, 1, 1),
        origin="2020-09-04T22:00:00",
        source="small",
    )


def test_totals(small: Trace) -> None:
    it = describe(small)
    assert (it.jobs, it.cpu_jobs, it.tenants, it.users) == (5, 1, 2, 2)
    assert it.span_s == 90000
    # 30 + 200 + 28800 + 500 GPU seconds
    assert it.gpu_hours == pytest.approx(29530 / 3600)
    assert it.mean_busy_gpus == pytest.approx(29530 / 90000)
    assert it.duration_s.p50 == 100
    assert it.duration_s.mean == pytest.approx(947)


def test_sizes_and_buckets_share_jobs_and_gpu_time(small: Trace) -> None:
    it = describe(small)
    assert [(row.label, row.jobs) for row in it.sizes] == [
        *(("CPU only", 1), ("<1", 1), ("1", 1), ("2", 1), ("5-8", 1))
    ]
    assert {row.label: row.gpu_time_share for row in it.sizes}["5-8"] == pytest.approx(28800 / 29530)
    assert sum(row.jobs_share for row in it.buckets) == pytest.approx(1)
    jobs = {row.label: row.jobs for row in it.buckets}
    assert (jobs["under 1 min"], jobs["1-10 min"], jobs["10-60 min"], jobs["1-6 h"]) == (2, 1, 1, 1)


def test_arrivals_follow_the_calendar(small: Trace) -> None:
    it = describe(small).arrivals
    assert it.clock == "calendar"
    # two on Friday at 22, two on Saturday at 0, one on Saturday at 23
    assert (it.by_weekday[4], it.by_weekday[5]) == pytest.approx((0.4, 0.6))
    assert (it.by_hour[22], it.by_hour[0], it.by_hour[23]) == pytest.approx((0.4, 0.4, 0.2))
    assert it.same_second_share == pytest.approx(1 / 4)
    assert it.gap_mean_s == pytest.approx(22500)


def test_without_an_origin_hours_count_from_the_start(small: Trace) -> None:
    bare = Trace(small.submit_s, small.gpus, small.duration_s)
    it = describe(bare)
    assert it.arrivals.clock == "since start"
    assert it.arrivals.by_hour[0] == pytest.approx(0.4)
    assert (it.tenant_skew, it.user_skew, it.repeats, it.statuses, it.attempts_mean) == (None,) * 5


def test_skew_counts_who_has_jobs(small: Trace) -> None:
    it = describe(small)
    assert it.tenant_skew is not None
    assert it.tenant_skew.count == 2
    assert it.tenant_skew.top1_jobs == pytest.approx(0.6)
    assert it.tenant_skew.gini_jobs == pytest.approx(0.1)
    assert [holder.name for holder in it.tenant_skew.largest] == ["a", "b"]
    assert it.user_skew is not None
    # jobs without a user are not a user's
    assert it.user_skew.top1_jobs == pytest.approx(2 / 3)


def test_gini_of_equals_is_zero_and_of_one_holder_nearly_one() -> None:
    def gini(owner: list[int]) -> float:
        count = len(owner)
        trace = Trace(
            np.arange(count, dtype=float),
            np.ones(count, dtype=np.int32),
            np.ones(count),
            user=Names(codes(*owner), tuple(f"u{i}" for i in range(100))),
        )
        found = describe(trace).user_skew
        assert found is not None
        return found.gini_jobs

    assert gini(list(range(100))) == pytest.approx(0)
    assert gini(list(range(100)) + [0] * 9900) == pytest.approx(0.98, abs=0.01)


def test_repeats_and_outcomes(small: Trace) -> None:
    it = describe(small)
    assert it.repeats is not None
    assert (it.repeats.groups, it.repeats.in_groups_of_2, it.repeats.largest_group) == (2, 0.8, 2)
    assert it.statuses is not None
    shares = {row.status: row.jobs_share for row in it.statuses}
    assert shares == pytest.approx({"passed": 0.6, "failed": 0.2, "killed": 0.2})
    assert (it.attempts_mean, it.retried_share) == pytest.approx((1.4, 0.2))
    unknown = Trace(small.submit_s, small.gpus, small.duration_s, status=np.zeros(5, dtype=np.int8))
    assert describe(unknown).statuses is None
    assert Status.UNKNOWN == 0


def test_one_job_and_none() -> None:
    one = Trace(np.zeros(1), np.ones(1, dtype=np.int32), np.full(1, 60.0))
    it = describe(one)
    assert (it.span_s, it.mean_busy_gpus, it.arrivals.gap_cv) == (0, 0, 0)
    assert charts(it)
    with pytest.raises(InputError, match="no jobs"):
        describe(Trace(np.zeros(0), np.zeros(0, dtype=np.int32), np.zeros(0)))


@pytest.fixture(scope="module", params=["philly-like", "pai-like", "tiresias-480"])
def generated(request: pytest.FixtureRequest) -> Description:
    return describe(generate(request.param, seed=1, jobs=5000))


def test_quantiles_are_numpys() -> None:
    trace = generate("philly-like", seed=1, jobs=5000)
    it = describe(trace).duration_s
    want = np.quantile(trace.duration_s, [0.25, 0.5, 0.75, 0.9, 0.95, 0.99])
    assert [it.p25, it.p50, it.p75, it.p90, it.p95, it.p99] == pytest.approx(want.tolist())


def test_a_description_is_json(generated: Description) -> None:
    again = json.loads(json.dumps(generated.to_dict(), allow_nan=False))
    assert again["jobs"] == 5000


def test_the_table_prints(generated: Description) -> None:
    out = io.StringIO()
    Console(file=out, width=140).print(render_table(generated))
    assert "5,000" in out.getvalue()
    assert "by size" in out.getvalue()


def test_charts_are_plain_and_say_what_to_see(generated: Description) -> None:
    found = charts(generated)
    json.dumps(found, allow_nan=False)
    assert {chart["kind"] for chart in found} <= {"cdf", "bar", "line", "heatmap"}
    assert len({chart["title"] for chart in found}) == len(found) >= 5
    for chart in found:
        assert any(letter.isdigit() for letter in chart["sentence"])
        assert chart["sentence"].endswith(".")
        assert chart["x_title"]
        assert chart["y_title"]
        for series in chart.get("series", []):
            assert len(series["y"]) == len(series.get("x", chart.get("x")))
        if chart["kind"] == "heatmap":
            assert [len(row) for row in chart["z"]] == [len(chart["x"])] * len(chart["y"])


def test_every_chart_has_units_and_a_sentence_with_numbers_and_the_page_begins_with_the_main_ones() -> None:
    found = describe(generate("philly-like", seed=1, jobs=400, gpus=64, load=0.9))
    for chart in charts(found):
        assert re.search(r"\d", chart["sentence"]), chart["title"]
        assert chart["sentence"].endswith(".")
        assert chart["x_title"]
        assert chart["y_title"]
    assert [label for label, _, _ in headlines(found)][:2] == ["jobs", "span"]
    assert headlines(found)[0][1] == "400"
    assert dict(facts(found))["busiest day"].endswith("jobs")
