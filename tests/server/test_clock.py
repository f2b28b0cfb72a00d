"""Local time, as explanations say it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from fairlead.server.clock import ahead_of_utc


@pytest.fixture(params=[("Europe/Berlin", 3600.0, 7200.0), ("America/St_Johns", -12600.0, -9000.0), ("UTC", 0.0, 0.0)])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[float, float]]:
    """Ahead of UTC in winter and in summer."""
    name, winter, summer = request.param
    monkeypatch.setenv("TZ", name)
    time.tzset()
    yield winter, summer
    monkeypatch.undo()
    time.tzset()


def test_local_time_is_ahead_of_utc_by_what_holds_at_that_moment(zone: tuple[float, float]) -> None:
    january, july = 1_768_478_400.0, 1_784_116_800.0  # the 15th at noon, 2026
    assert (ahead_of_utc(january), ahead_of_utc(july)) == zone
