"""Jobs that people give to the engine itself, nodes that it closes, and what it can't do."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.backends.harness import python

from fairlead.backends.local.executor import LocalExecutor
from fairlead.model.errors import InputError
from fairlead.model.job import JobSpec
from fairlead.runtime.protocols import Arrival, Capabilities, ReportKind, Suspension
from fairlead.server.api.foresight import Foresight
from fairlead.server.jobs import why_it_stays
from server.live.engine import Engine
from server.live.world import World, work, world


def lived(test: Callable[[Path], Awaitable[None]]) -> Callable[[Path], None]:
    @functools.wraps(test)
    def run(tmp_path: Path) -> None:
        asyncio.run(test(tmp_path))  # type: ignore[arg-type]

    return run


def engine_of(one: World) -> Engine:
    executor = one.scheduler.executor
    assert isinstance(executor, Engine)
    return executor


def of(one: World, foreign: str) -> str:
    """What fairlead calls the engine's job."""
    return next(row.id for row in one.store.jobs(limit=100).jobs if row.memo.get("foreign") == foreign)


async def taken(one: World, foreign: str) -> str:
    await one.until(lambda: any(row.memo.get("foreign") == foreign for row in one.store.jobs(limit=100).jobs))
    return of(one, foreign)


@lived
async def test_a_job_given_to_the_engine_is_queued_placed_and_run_like_any_other(tmp_path: Path) -> None:
    async with world(tmp_path, gpus=2, engine=Engine.over) as one:
        first = await one.submit(*work(0.5), gpus=2)
        engine_of(one).give("e:1", *work(0.1), gpus=1, tenant="physics")
        adopted = await taken(one, "e:1")
        rows = await one.ended(first, adopted)
        assert [row.state for row in rows] == ["done", "done"]
        assert (rows[1].user, rows[1].tenant, rows[1].gpus) == ("eve", "physics", 1)
        assert rows[1].first_start_s is not None
        assert rows[0].finished_s is not None
        assert rows[1].first_start_s >= rows[0].finished_s - 1.0
        assert one.store.timeline(adopted)[0].args["foreign"] == "e:1"


@lived
async def test_it_is_taken_up_once_however_often_it_is_seen(tmp_path: Path) -> None:
    queue: dict[str, Arrival] = {}

    def again(local: LocalExecutor) -> Engine:
        return Engine.over(local, queue)

    async with world(tmp_path, gpus=1, engine=again) as one:
        blocker = await one.submit(*work(60), gpus=1)
        await one.state(blocker, "running")
        engine_of(one).give("e:7", *work(0.1), gpus=1)
        adopted = await taken(one, "e:7")
        engine_of(one).give("e:7", *work(0.1), gpus=1)
    async with world(tmp_path, gpus=1, engine=again) as one:  # started again: the engine still has it
        await one.scheduler.cancel(blocker, "ann")
        await one.ended(blocker, adopted)
        assert len([row for row in one.store.jobs(limit=100).jobs if row.memo.get("foreign")]) == 1
        assert one.kinds(adopted).count("start") == 1


@lived
async def test_taken_back_in_the_engine_it_is_cancelled_here(tmp_path: Path) -> None:
    queue: dict[str, Arrival] = {}

    def again(local: LocalExecutor) -> Engine:
        return Engine.over(local, queue)

    async with world(tmp_path, gpus=1, engine=again) as one:
        blocker = await one.submit(*work(60), gpus=1)
        await one.state(blocker, "running")
        for name in ("e:1", "e:2"):
            engine_of(one).give(name, *work(0.1), gpus=1)
        first, second = await taken(one, "e:1"), await taken(one, "e:2")
        engine_of(one).take_back("e:1")
        row = (await one.ended(first))[0]
        assert (row.state, row.reason, row.message) == ("cancelled", "withdrawn", "cancelled by its owner")
        assert engine_of(one).declined == {}
    del queue["e:2"]  # while nobody listened
    async with world(tmp_path, gpus=1, engine=lambda local: Engine.over(local, queue, ["e:2"])) as one:
        row = (await one.ended(second))[0]
        assert (row.state, row.reason) == ("cancelled", "withdrawn")
        await one.scheduler.cancel(blocker, "ann")
        await one.ended(blocker)


@lived
async def test_taken_back_while_it_waits_for_somebody_to_leave_nothing_is_begun(tmp_path: Path) -> None:
    slow = python(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    )
    async with world(tmp_path, gpus=1, policy="srtf", engine=Engine.over) as one:
        long = await one.submit(*slow, gpus=1, estimate_s=1000, suspend=("requeue",), grace_s=1.5)
        await one.state(long, "running")
        await one.until(
            lambda: one.scheduler.log_path(long).exists() and "deaf" in one.scheduler.log_path(long).read_text()
        )
        engine_of(one).give("e:1", *work(0.1), gpus=1, estimate_s=1)
        adopted = await taken(one, "e:1")
        await one.until(lambda: "start" in one.kinds(adopted))
        engine_of(one).take_back("e:1")
        assert (await one.ended(adopted))[0].reason == "withdrawn"
        await one.until(lambda: one.kinds(long).count("started") == 2)  # it has left, and has come back
        assert not one.scheduler.failure.done()
        await one.scheduler.cancel(long, "ann")
        await one.ended(long)


@lived
async def test_an_engine_keeps_the_time_limits_of_its_own_jobs(tmp_path: Path) -> None:
    async with world(tmp_path, gpus=2, engine=Engine.over) as one:
        engine_of(one).give("e:1", *work(1.5), gpus=1, time_limit_s=0.5)
        mine = await one.submit(*work(1.5), gpus=1, time_limit_s=0.5)
        theirs = await taken(one, "e:1")
        rows = await one.ended(mine, theirs)
        assert [(row.state, row.reason) for row in rows] == [("failed", "time-limit"), ("done", "")]


@lived
async def test_cancelled_here_it_is_cancelled_there_and_refused_it_stays_with_the_reason(tmp_path: Path) -> None:
    async with world(tmp_path, gpus=1, engine=Engine.over) as one:
        blocker = await one.submit(*work(60), gpus=1)
        await one.state(blocker, "running")
        engine = engine_of(one)
        engine.give("e:1", *work(0.1), gpus=1)
        engine.give("e:2", *work(0.1), gpus=9)
        adopted = await taken(one, "e:1")
        await one.until(lambda: "e:2" in engine.declined)
        why, cancel = engine.declined["e:2"]
        assert "more GPUs than the cluster has" in why
        assert not cancel
        assert any(
            event.kind == "declined" and event.args["foreign"] == "e:2" for event in one.store.events(0, limit=100)
        )
        await one.scheduler.cancel(adopted, "ann")
        await one.ended(adopted)
        await one.until(lambda: "e:1" in engine.declined)
        assert engine.declined["e:1"] == ("cancelled by ann", True)
        await one.scheduler.cancel(blocker, "ann")
        await one.ended(blocker)


@lived
async def test_what_was_cancelled_here_and_waits_there_still_is_cancelled_there(tmp_path: Path) -> None:
    """Somebody ended the scheduler after the cancellation was written, and before the engine was told."""
    queue: dict[str, Arrival] = {}

    def again(local: LocalExecutor) -> Engine:
        return Engine.over(local, queue)

    async with world(tmp_path, gpus=1, engine=again) as one:
        blocker = await one.submit(*work(60), gpus=1)
        await one.state(blocker, "running")
        engine_of(one).give("e:1", *work(0.1), gpus=1)
        adopted, arrival = await taken(one, "e:1"), queue["e:1"]
        await one.scheduler.cancel(adopted, "ann")
        await one.ended(adopted)
    queue["e:1"] = arrival
    async with world(tmp_path, gpus=1, engine=again) as one:
        engine = engine_of(one)
        await one.until(lambda: "e:1" in engine.declined)
        assert engine.declined["e:1"] == ("cancelled by ann", True)
        await one.scheduler.cancel(blocker, "ann")
        await one.ended(blocker)


@lived
async def test_a_node_is_open_only_where_nobody_has_closed_it(tmp_path: Path) -> None:
    async with world(tmp_path, gpus=1, nodes=2, engine=Engine.over) as one:
        engine, name = engine_of(one), one.scheduler.spec.nodes[0].name
        await one.scheduler.drain(name, "ada")
        engine.tell(ReportKind.NODE_DOWN, name, "power")
        await one.until(lambda: any(event.kind == "node-down" for event in one.store.events(0, limit=100)))
        await one.scheduler.undrain(name, "ada")
        assert one.scheduler.closed() == {name}
        await one.scheduler.drain(name, "ada")
        engine.tell(ReportKind.NODE_UP, name)
        await one.until(lambda: any(event.kind == "node-up" for event in one.store.events(0, limit=100)))
        assert one.scheduler.closed() == {name}
        await one.scheduler.undrain(name, "ada")
        assert one.scheduler.closed() == frozenset()


@lived
async def test_a_scheduler_that_begins_says_so_before_it_is_told_of_nodes(tmp_path: Path) -> None:
    def told(one: World) -> list[str]:
        return [event.kind for event in one.store.events() if event.job is None]

    for want in (["scheduler-up", "node-down"], ["scheduler-up", "node-down"] * 2):
        async with world(tmp_path, gpus=1, nodes=2, engine=Engine.over) as one:
            engine_of(one).tell(ReportKind.NODE_DOWN, one.scheduler.spec.nodes[0].name, "power")
            await one.until(lambda one=one, want=want: told(one) == want)


def able(**can: bool) -> Callable[[LocalExecutor], LocalExecutor]:
    def made(local: LocalExecutor) -> LocalExecutor:
        engine = Engine.over(local)
        engine.capabilities = replace(Capabilities(), **can)
        return engine

    return made


async def explained(one: World, job: str) -> dict[str, Any]:
    return await Foresight(one.scheduler).explained(one.job(job), lambda _: True)


@lived
async def test_what_can_not_be_suspended_is_not_and_explain_says_that(tmp_path: Path) -> None:
    async with world(tmp_path, gpus=1, policy="srtf", engine=able()) as one:
        long = await one.submit(*work(3), gpus=1, estimate_s=1000)
        await one.state(long, "running")
        short = await one.submit(*work(0.1), gpus=1, estimate_s=1)
        await one.until(lambda: short in one.scheduler.jobs)
        told = (await explained(one, short))["engine"]
        assert "srtf loses something on engine: it can't suspend jobs: each runs to its end" in told
        assert any(line.startswith("on engine it runs to its end once it has begun") for line in told)
        rows = await one.ended(long, short)
        assert [row.preemptions for row in rows] == [0, 0]


@pytest.mark.parametrize(
    ("spec", "stays"),
    [
        ({"suspend": ("driver",)}, True),
        ({"suspend": ("stop",)}, True),
        ({"suspend": ("checkpoint",)}, True),
        ({"suspend": ("checkpoint",), "checkpoint_signal": "SIGUSR1"}, False),
        ({"suspend": ("stop", "requeue")}, False),
        ({}, False),
    ],
)
def test_a_job_stays_where_no_way_that_it_allows_works(spec: dict[str, Any], stays: bool) -> None:
    can = Capabilities(suspend=True, migrate=True, ways=(Suspension.CHECKPOINT, Suspension.REQUEUE))
    why = why_it_stays(JobSpec(run="true", gpus=1, **spec), can)
    assert why == ("none of the ways that it allows works here" if stays else "")


@lived
async def test_what_can_not_be_shared_is_refused(tmp_path: Path) -> None:
    async with world(tmp_path, gpus=1, engine=able(suspend=True)) as one:
        with pytest.raises(InputError, match="can't be shared here"):
            await one.submit(*work(0.1), gpus=1, gpu_share_milli=500)
