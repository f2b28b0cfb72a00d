"""`fairlead bench`: what it prints and when it fails. How fast it is, is for the command itself to say."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pytest

from fairlead.cli.bench import CASES, CELLS, CELLS_BAR, GANDIVA_BAR, JOBS_VARIABLE, POLICIES, Row, overloaded, peak_gib
from fairlead.sim.yardstick import Yardstick, machine_facts, rounds_per_s

from .command import fairlead

TINY = {JOBS_VARIABLE: "400"}


def bench(*args: str) -> dict[str, Any]:
    """At a tiny size the bars mean nothing, so both outcomes are fine if the exit code tells which it was."""
    ran = fairlead("bench", *args, "-o", "json", **TINY)
    result: dict[str, Any] = json.loads(ran.out)
    assert ran.code == (0 if result["ok"] else 1), ran.err
    return result


def test_quick_measures_every_case_but_compiling() -> None:
    result = bench("--quick")
    assert set(result) == {"machine", "jobs", "quick", "yardstick", "rows", "ok"}
    assert result["quick"] is True
    assert result["jobs"] == 400
    assert set(result["machine"]) == {"cpu", "cores", "system", "python", "numba", "numpy"}
    assert 0 < result["yardstick"]["lowest"] <= result["yardstick"]["rounds_per_s"] <= result["yardstick"]["highest"]
    rows = result["rows"]
    assert len(rows) == 5 * len(POLICIES) + 4 + 3 + 3
    for row in rows:
        assert set(row) == {"case", "measured", "unit", "bar", "bound", "ok", "detail"}
        assert row["measured"] > 0
    names = [row["case"] for row in rows]
    assert names[: len(POLICIES)] == [f"{policy}, 400 jobs on 800x8" for policy in POLICIES]
    assert "tiresias, 40 to 400 jobs" in names
    assert "las, 800 to 8,000 nodes" in names
    assert "sjf, 2 to 20 jobs waiting" in names
    assert f"{CELLS}, 400 jobs on 800x8" in names
    assert "gandiva, 400 jobs on 800x8 at 92% load" in names
    assert "gandiva, 20 to 200 jobs finished" in names
    assert "peak memory, fifo-backfill, 400 jobs" in names
    assert "a small run from a warm cache" in names
    assert result["ok"] == all(row["ok"] for row in rows)


def test_one_case_can_be_asked_for_as_a_table_or_yaml() -> None:
    ran = fairlead("bench", "start", **TINY)
    assert "a small run from a warm cache" in ran.out
    assert "yardstick" in ran.out
    assert "unit: s" in fairlead("bench", "start", "-o", "yaml", **TINY).out


def test_a_case_that_is_not_there_is_wrong_usage() -> None:
    ran = fairlead("bench", "sped", **TINY)
    assert ran.code == 2
    assert "speed" in ran.err
    assert fairlead("bench", "start", **{JOBS_VARIABLE: "few"}).code == 2


def test_the_cases_are_those_that_are_promised() -> None:
    plain = ["speed", "jobs", "nodes", "queue", "hived", "gandiva", "memory", "start", "compile"]
    assert list(CASES) == [*plain, "live", "live-memory"]
    assert CELLS_BAR == 0.01
    assert GANDIVA_BAR == 0.002
    assert POLICIES == {"fifo-backfill": 0.5, "sjf": 0.5, "srtf": 0.1, "las": 0.1, "tiresias": 0.1}


@pytest.mark.parametrize(("measured", "at_least", "ok"), [(2.0, True, True), (0.5, True, False), (2.0, False, False)])
def test_a_bar_is_a_floor_or_a_ceiling(measured: float, at_least: bool, ok: bool) -> None:
    assert Row("x", measured, "s", 1.0, at_least).ok is ok


def test_the_overloaded_cluster_keeps_its_queue() -> None:
    from fairlead.model.cluster import parse_cluster_shape
    from fairlead.sim.run import simulate

    trace = overloaded(waiting=2000, jobs=8000)
    outcome = simulate(trace, parse_cluster_shape("800x8"), "fifo-backfill").outcome
    while_they_come = float(trace.submit_s[-1])
    waited = np.minimum(outcome.start_s, while_they_come) - trace.submit_s
    assert 1000 < waited.sum() / while_they_come < 4000


def test_the_yardstick_is_the_median_of_all_its_samples() -> None:
    yardstick = Yardstick(rounds=100)
    before, after = yardstick.measure(), yardstick.measure()
    assert yardstick.samples == before + after
    assert min(yardstick.samples) <= yardstick.rounds_per_s <= max(yardstick.samples)
    assert rounds_per_s(100) > 0
    assert machine_facts()["cpu"]


def test_peak_memory_is_of_the_child_alone() -> None:
    ballast = bytearray(512 * 2**20)
    ballast[:: 2**12] = b"x" * len(ballast[:: 2**12])
    assert peak_gib([sys.executable, "-c", "pass"]) < 0.25
    assert peak_gib([sys.executable, "-c", "x = b'x' * (300 * 2**20)"]) > 0.28
