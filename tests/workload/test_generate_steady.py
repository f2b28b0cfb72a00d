"""`steady=true`: a trace at the load asked for from its first second."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.workload.generate import generate
from fairlead.workload.trace import Trace


def load_over(trace: Trace, gpus: int, first_s: float, last_s: float) -> float:
    """What the jobs would hold between two moments if each began when it was submitted, over what there is."""
    share = 1.0 if trace.gpu_share_milli is None else trace.gpu_share_milli / 1000.0
    begin, end = np.maximum(trace.submit_s, first_s), np.minimum(trace.submit_s + trace.duration_s, last_s)
    return float((trace.gpus * share * np.maximum(end - begin, 0.0)).sum() / (gpus * (last_s - first_s)))


@pytest.mark.parametrize("name", ["philly-like", "helios-like", "pai-like"])
def test_the_load_holds_over_the_whole_span(name: str) -> None:
    steady = generate(name, seed=1, jobs=20_000, gpus=800, load=0.9, steady=True)
    span = float(steady.submit_s[-1])
    assert load_over(steady, 800, 0.0, span) == pytest.approx(0.9, rel=0.002)


def test_the_first_tenth_is_as_full_as_the_whole_where_it_would_be_half_empty() -> None:
    args = {"seed": 1, "jobs": 100_000, "gpus": 6400, "load": 0.92}
    steady, empty = generate("philly-like", **args, steady=True), generate("philly-like", **args)
    span = float(empty.submit_s[-1])
    assert load_over(steady, 6400, 0.0, span / 10) == pytest.approx(0.92, rel=0.15)
    assert load_over(empty, 6400, 0.0, span / 10) < 0.5


def test_what_is_added_stands_first_and_the_rest_is_as_without_it() -> None:
    args = {"seed": 1, "jobs": 5_000, "gpus": 800, "load": 0.9}
    steady, plain = generate("helios-like", **args, steady=True), generate("helios-like", **args)
    added = len(steady) - len(plain)
    assert 0 < added < 500
    assert (steady.submit_s[:added] == 0).all()
    for column in ("submit_s", "gpus", "duration_s"):
        np.testing.assert_array_equal(getattr(steady, column)[added:], getattr(plain, column))
