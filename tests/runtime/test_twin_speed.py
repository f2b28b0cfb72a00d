"""The twin answers while somebody waits, with bounds that a slow machine meets too. `speed.py` has the figures."""

from __future__ import annotations

import pytest

from fairlead.runtime.twin import explain, forecast, moment_of

from .speed import NOW, busy_core, median_s, new_kind_s


@pytest.mark.parametrize("policy", ["fifo-backfill", "srtf"])
def test_ten_thousand_waiting_jobs_are_forecast_well_within_a_second(policy: str) -> None:
    core = busy_core(policy)
    moment = moment_of(core, NOW + 1000.0)
    assert median_s(lambda: forecast(moment), 3) < 0.5
    assert median_s(lambda: explain(moment, "9000"), 3) < 0.5
    assert new_kind_s(core, 3) < 0.25
