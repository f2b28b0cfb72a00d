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


def test_what_runs_is_known_before_ray_says_a_word(path: Path, ray: PretendedRay) -> None:
    async def before(bench: RayBench) -> None:
        await running(bench, ray)

    async def after(bench: RayBench) -> None:
        assert ray.told_of("release") == []
        (followed,) = ray.told_of("start")
        assert not followed["create"]

    scene(path, before)
    ray.told.clear()
    scene(path, after)


def test_who_had_not_begun_when_we_died_begins_with_the_next_of_us_or_is_given_up(
    path: Path, ray: PretendedRay
) -> None:
    async def before(bench: RayBench) -> None:
        await bench.start("sleep", "60", places=[Place("node-1", (0,)), Place("node-2", (0,))])
        await bench.start("sleep", "60", job="half", places=[Place("node-1", (1,)), Place("node-2", (1,))])
        write_state(bench.executor._runs["half", 1], 0)

    async def after(bench: RayBench) -> None:
        assert sorted((one["name"][-6:], one["create"]) for one in ray.told_of("start")) == [
            ("/job@1", True),
            ("half@1", False),
        ]
        failed = await bench.wait(ReportKind.FAILED_TO_START)
        assert (failed.retry, "within 0.2 s" in failed.message) == (True, True)
        await until(lambda: any(one["message"] == {"op": "stop"} for one in ray.told_of("tell")))  # half of a gang

    scene(path, before)
    ray.told.clear()
    scene(path, after, start_s=0.2)


def test_who_runs_and_could_not_be_followed_is_followed_at_the_next_poll(path: Path, ray: PretendedRay) -> None:
    async def act(bench: RayBench) -> None:
        run = await running(bench, ray)
        ray.told.clear()
        ray.say("failed", run, message="the head is busy")
        await asyncio.sleep(0.05)
        assert ray.told == []
        ray.poll()
        ray.poll()
        (again,) = ray.told_of("start")
        assert (again["name"], again["create"]) == (run.name, False)
        assert ray.told_of("tell") == []
        await bench.start("sleep", "60", job="other")
        ray.say("failed", bench.executor._runs["other", 1], message="no such resource")
        assert "no such resource" in (await bench.wait(ReportKind.FAILED_TO_START, "other")).message

    scene(path, act)
