"""kill -9 at any moment, and start again: no job is lost, started twice or double-booked."""

from __future__ import annotations

from pathlib import Path

import pytest

from .crash import Crash


@pytest.mark.parametrize("kills", [8, pytest.param(200, marks=pytest.mark.long)])
def test_a_killed_scheduler_loses_and_doubles_nothing(path: Path, kills: int) -> None:
    crash = Crash(path, seed=kills)
    try:
        crash.play(kills)
    finally:
        crash.end()
    assert len(crash.acknowledged) > kills
    assert crash.findings() == []
