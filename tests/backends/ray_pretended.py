"""A Ray executor without a Ray: what it tells Ray is written down, and a test says what Ray says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fairlead.backends.local.rundir import Doc
from fairlead.backends.ray import RayExecutor, RaySettings
from fairlead.backends.ray.runs import Run
from fairlead.runtime.protocols import Report

from .ray_bench import RayBench


def node(id: str, name: str, gpus: int = 4, alive: bool = True, **labels: str) -> Doc:
    return {
        "id": id,
        "name": name,
        "alive": alive,
        "message": "" if alive else "it died",
        "resources": {"GPU": gpus, "CPU": 8.0, "memory": 4 << 30, "accelerator_type:A100": 1.0},
        "labels": labels,
    }


class PretendedRay:
    """It has what a test gives it, and outlives executors. Who connects is told at once how everything stands."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.nodes = [node("id-1", "node-1"), node("id-2", "node-2")]
        self.groups: dict[str, str] = {}
        self.actors: list[str] = []
        self.things: list[Doc] = []  #: what a watcher sees
        self.told: list[Doc] = []
        self.hear: Callable[[Doc], None] = lambda message: None
        for user in ("executor", "watch"):
            monkeypatch.setattr(f"fairlead.backends.ray.{user}.Bridge", self._bridge)

    def _bridge(self, settings: RaySettings, namespace: str, code: str, folder: str, hear: Any) -> PretendedBridge:
        self.hear = hear
        asyncio.get_running_loop().call_soon(self.connect)
        return PretendedBridge(self)

    def connect(self) -> None:
        self.hear({"event": "connected"})
        self.poll()

    def poll(self) -> None:
        self.hear({"event": "poll", "nodes": self.nodes, "groups": dict(self.groups), "actors": list(self.actors)})

    def say(self, event: str, run: Run, **more: Any) -> None:
        self.hear({"event": event, "name": run.name, **more})

    def has(self, run: Run) -> None:
        """Its group and its actors are there."""
        self.groups[run.name] = "CREATED"
        self.actors += run.actors

    def told_of(self, operation: str) -> list[Doc]:
        return [message for message in self.told if message["op"] == operation]


class PretendedBridge:
    connected = True
    trouble = ""

    def __init__(self, ray: PretendedRay) -> None:
        self._ray = ray

    def tell(self, **message: Any) -> bool:
        self._ray.told.append(message)
        answer: Doc = {}
        if message["op"] == "look":
            answer = {"event": "scene", "nodes": self._ray.nodes, "jobs": {}, "things": self._ray.things}
        elif message["op"] == "sweep":
            answer = {"event": "swept", "name": message["name"], "part": message["part"]}
        if answer:
            asyncio.get_running_loop().call_soon(lambda: self._ray.hear(answer))
        return True

    async def close(self) -> None:
        self._ray.hear = lambda message: None


def write_state(run: Run, part: int = 0, **state: Any) -> None:
    """What a supervisor writes down."""
    state = {"job": run.job, "run": run.run, "phase": "running", "time_s": time.time(), **state}
    file = Path(run.part(part).path)
    if not file.exists():
        run.part(part).create(run.path, str(part), run.plan["places"][part]["order"])
    run.part(part).write_state(state)


def reports(bench: RayBench) -> list[Report]:
    """Those that have come so far."""
    waiting = bench.executor._reports
    while not waiting.empty():
        report = waiting.get_nowait()
        assert report is not None
        bench.seen.append(report)
    return bench.seen


@asynccontextmanager
async def on_pretended(path: Path, **more: Any) -> AsyncIterator[RayBench]:
    more.setdefault("poll_s", 60.0)  # a test says when
    executor = await RayExecutor.open(RaySettings(path, **more))
    try:
        await executor.found()
        yield RayBench(executor)
    finally:
        await executor.close()
