"""What the process that talks to Ray says of it, with a Ray that is pretended."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Iterator
from typing import Any
from unittest.mock import MagicMock

import pytest

NAME = "fairlead.backends.ray.bridge_main"


@pytest.fixture
def bridge_main(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    ray = MagicMock()
    for name in ("ray", "ray.exceptions", "ray.util.placement_group", "ray.util.scheduling_strategies"):
        monkeypatch.setitem(sys.modules, name, ray)
    sys.modules.pop(NAME, None)
    yield importlib.import_module(NAME)
    del sys.modules[NAME]


def test_what_is_gone_is_not_said_again_for_ever(bridge_main: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bridge = bridge_main.Bridge({"namespace": "ns", "code": "", "poll_s": 1.0}, 1)
    groups = [("ns/a@1", "CREATED"), ("ns/b@1", "REMOVED"), ("other", "CREATED")]
    table = {str(number): {"name": name, "state": state} for number, (name, state) in enumerate(groups)}
    monkeypatch.setattr(bridge_main, "placement_group_table", lambda: table)
    bridge_main.ray.nodes.return_value = []
    bridge_main.ray.util.list_named_actors.return_value = ["ns/c@1#0", "somebody"]
    standing = bridge._standing()
    assert standing == {"nodes": [], "groups": {"ns/a@1": "CREATED"}, "actors": ["ns/c@1#0"]}
    bridge._released = {"ns/a@1", "ns/b@1", "ns/c@1", "ns/d@1"}
    bridge._tasks["start ns/d@1"] = MagicMock()  # it is just being made
    bridge._forget_released(standing)
    assert bridge._released == {"ns/a@1", "ns/c@1", "ns/d@1"}


def test_a_part_that_cannot_be_reached_keeps_no_other_from_hearing(
    bridge_main: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class RayError(Exception): ...

    monkeypatch.setattr(bridge_main.ray.exceptions, "RayError", RayError)
    heard: list[str] = []

    async def hears(message: dict[str, str]) -> None:
        heard.append(message["op"])

    async def scenario() -> None:
        bridge = bridge_main.Bridge({"namespace": "ns", "code": "", "poll_s": 1.0}, 1)
        away, there = MagicMock(), MagicMock()
        away.tell.remote.side_effect = RayError("it can't be reached")
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        stuck = MagicMock()
        stuck.tell.remote.return_value = never
        there.tell.remote.side_effect = hears
        bridge._actors_at = {"ns/a@1#0": away, "ns/a@1#1": stuck, "ns/a@1#2": there}
        stop = {"op": "tell", "name": "ns/a@1", "parts": [0, 1, 2], "message": {"op": "stop"}}
        for _ in range(3):  # as polls do, while the first is still under way
            bridge.hear(stop)
            await asyncio.sleep(0.01)
        assert heard == ["stop"]
        never.set_result(None)
        await bridge.finish()

    asyncio.run(scenario())
