"""What the Ray executor makes of what Ray says, or fails to say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead.runtime.protocols import Place, ReportKind

from .ray_bench import RayBench, until
from .ray_pretended import PretendedRay, node, on_pretended, reports, write_state


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> PretendedRay:
    return PretendedRay(monkeypatch)


def scene(path: Path, act: Callable[[RayBench], Awaitable[None]], **settings: Any) -> None:
    async def scenario() -> None:
        async with on_pretended(path, **settings) as bench:
            await act(bench)

    asyncio.run(scenario())


async def running(bench: RayBench, ray: PretendedRay, **more: Any) -> Any:
    """A run that has begun on all its nodes."""
    await bench.start("sleep", "60", **more)
    run = bench.executor._runs[more.get("job", "job"), more.get("run", 1)]
    ray.has(run)
    for number in range(len(run.parts)):
        write_state(run, number)
        ray.say("part", run, part=number, state=run.part(number).state())
    await bench.wait(ReportKind.STARTED, run.job, run.run)
    return run


def test_a_node_that_was_away_when_we_began_may_still_have_its_runs(path: Path, ray: PretendedRay) -> None:
    async def before(bench: RayBench) -> None:
        await running(bench, ray)

    async def after(bench: RayBench) -> None:
        run = bench.executor._runs["job", 1]
        supervisor = run.part(0)  # on a machine that only lost its way to the head
        assert supervisor.claim()
        ray.say("gone", run, part=0, message="its node is away")
        await asyncio.sleep(0.5)
        assert [report for report in reports(bench) if report.job] == []
        assert not run.is_over
        supervisor.release()

    scene(path, before)
    ray.nodes[0]["alive"] = False
    scene(path, after, fence_s=60.0)
