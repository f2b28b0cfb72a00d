"""The cluster-like generators against the public traces, where those are at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.workload.generate.calibration import Comparison, calibration_report, calibration_table

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the public traces are not here")


@pytest.fixture(scope="module")
def report() -> tuple[Comparison, ...]:
    return calibration_report(DATA)


@pytest.mark.parametrize("generator", ["philly-like", "helios-like", "pai-like"])
def test_every_fitted_statistic_is_within_its_bound(report: tuple[Comparison, ...], generator: str) -> None:
    rows = [row for row in report if row.generator == generator]
    assert sum(row.bound is not None for row in rows) >= 10
    far = [f"{r.statistic}: {r.generated:.4g}, not {r.reference:.4g}" for r in rows if not r.close]
    assert far == []


def test_the_documented_numbers_are_the_measured_ones(report: tuple[Comparison, ...]) -> None:
    page = (ROOT / "docs" / "generators.md").read_text(encoding="utf-8")
    assert calibration_table(report) in page
