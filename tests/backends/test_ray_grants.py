"""Borrowing GPUs from Ray programs: what goes wrong around it ends no loan."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cli.live.daemon import until

from fairlead.client import Unreachable
from fairlead.integrations import ray as integration
from fairlead.integrations.ray import Resources, fairlead_resources


class Scheduler:
    """As a client sees one that is away for the first few questions."""

    def __init__(self, away: int = 0) -> None:
        self.away = away
        self.asked = 0

    def submit(self, spec: Any) -> Any:
        return SimpleNamespace(id="7")

    def job(self, job: str) -> Any:
        self.asked += 1
        if self.asked <= self.away:
            raise Unreachable("nothing listens there")
        return SimpleNamespace(ended=False)

    def cancel(self, job: str) -> None: ...

    def wait(self, job: str, timeout_s: float) -> None: ...


def lend(resources: Resources) -> None:
    """As a whole, as the job that lends does: whoever waits may look at any moment."""
    doc = {"node": "node-1", "node_id": "f0", "gpus": 2, "parts": 1}
    written = resources._folder / ".granted"
    written.write_text(json.dumps(doc))
    written.rename(resources._folder / "granted-1-0")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_LOOK_S", "_TOUCH_S", "_ASK_S"):
        monkeypatch.setattr(integration, name, 0.01)


def test_a_program_shows_that_it_lives_whatever_it_does_when_its_gpus_are_wanted_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called, goes_on = threading.Event(), threading.Event()

    def saves(_: object) -> None:
        called.set()
        goes_on.wait(60)

    with fairlead_resources(2, folder=tmp_path, client=Scheduler(), on_recall=saves) as resources:  # type: ignore[arg-type]
        lend(resources)
        grant = next(iter(resources))
        (resources._folder / "asked-1").touch()
        assert called.wait(60)
        assert grant.recalled.is_set()
        touches, errors = resources._touch, [OSError("stale")]
        monkeypatch.setattr(resources, "_touch", lambda: (_ for _ in ()).throw(errors.pop()) if errors else touches())
        alive = resources._folder / "alive"
        os.utime(alive, (0, 0))
        until(lambda: alive.stat().st_mtime > 0, 10)
        assert errors == []
        goes_on.set()


def test_a_program_that_waits_outlasts_a_restart_of_the_scheduler(tmp_path: Path) -> None:
    scheduler = Scheduler(away=3)
    with fairlead_resources(2, folder=tmp_path, client=scheduler) as resources:  # type: ignore[arg-type]
        later = threading.Thread(target=lambda: (until(lambda: scheduler.asked > 3, 10), lend(resources)))
        later.start()
        assert next(iter(resources)).gpus == 2
        later.join()
