"""A scheduler that goes away and comes back goes on where it was: nothing lost, nothing started twice."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import pytest
from tests.backends.harness import clean_up

from fairlead.model.cluster import TenantSpec
from fairlead.model.errors import InputError
from fairlead.model.job import Dependency

from .world import work, world


def test_running_jobs_are_adopted_with_their_logs_and_exit_codes(path: Path) -> None:
    async def before() -> list[str]:
        async with world(path) as here:
            ids = [
                await here.submit("sh", "-c", "echo one; sleep 1; echo two; exit 4", gpus=4),
                await here.submit("sh", "-c", "echo short; exit 3", gpus=2),
                await here.submit(*work(0.2), gpus=8),
            ]
            await here.until(lambda: all("started" in here.kinds(one) for one in ids[:2]))
            return ids

    async def after(ids: list[str]) -> None:
        async with world(path) as here:
            rows = await here.ended(*ids)
            assert [(row.state, row.exit_code, row.run) for row in rows] == [
                ("failed", 4, 1),
                ("failed", 3, 1),
                ("done", 0, 1),
            ]
            assert here.output(ids[0]) == "one\ntwo\n"
            assert here.output(ids[1]) == "short\n"
            assert [here.kinds(one).count("start") for one in ids] == [1, 1, 1]

    ids = asyncio.run(before())
    asyncio.run(after(ids))


def test_suspended_held_blocked_and_stopping_jobs_go_on(path: Path) -> None:
    stubborn = "trap '' TERM; echo up; while :; do sleep 0.05; done"

    async def before() -> list[str]:
        async with world(path, policy="srtf") as here:
            long = await here.submit(*work(1.5), gpus=8, estimate_s=100.0)
            await here.until(lambda: "started" in here.kinds(long))
            short = await here.submit(*work(0.5), gpus=6, estimate_s=5.0)
            await here.until(lambda: "started" in here.kinds(short))
            held = await here.submit(*work(0.1), gpus=1, estimate_s=200.0)
            await here.scheduler.suspend(held, "ann")
            blocked = await here.submit("true", depends_on=(Dependency(short),))
            stopping = await here.submit("sh", "-c", stubborn, gpus=1, estimate_s=1.0, grace_s=1.0)
            await here.until(lambda: here.output(stopping) == "up\n")
            await here.scheduler.cancel(stopping, "ann")
            return [long, short, held, blocked, stopping]

    async def after(ids: list[str]) -> None:
        long, short, held, blocked, stopping = ids
        async with world(path, policy="srtf") as here:
            rows = await here.ended(long, short, blocked, stopping)
            assert [row.state for row in rows] == ["done", "done", "done", "cancelled"]
            assert rows[0].run == 2
            assert here.job(held).state == "held"
            await here.scheduler.resume(held, "ann")
            await here.ended(held)

    ids = asyncio.run(before())
    asyncio.run(after(ids))


def test_use_is_not_charged_twice(path: Path) -> None:
    async def first() -> float:
        async with world(path, policy="fair-share") as here:
            job = await here.submit(*work(0.5), gpus=8)
            await here.ended(job)
            await here.ended(await here.submit("true"))
            return {row.tenant: row.gpu_s for row in here.store.standing.usage()}["vision"]

    async def again() -> float:
        async with world(path, policy="fair-share") as here:
            return here.scheduler.usage()["vision"][0]

    used = asyncio.run(first())
    assert used > 8 * 0.4
    for _ in range(3):
        assert asyncio.run(again()) == used


def test_drained_nodes_policy_and_tenants_stay(path: Path) -> None:
    async def first() -> None:
        async with world(path, nodes=2) as here:
            await here.scheduler.drain("node-1", "root", "fan")

    async def again() -> None:
        async with world(path, nodes=2) as here:
            assert list(here.scheduler.drained()) == ["node-1"]
            one, two = await here.submit(*work(0.2), gpus=8), await here.submit(*work(0.1), gpus=8)
            await here.ended(one, two)
            assert {e.args["places"][0][0] for e in here.store.events(kinds=["start"])} == {"node-0"}

    asyncio.run(first())
    asyncio.run(again())


def test_after_a_reboot_jobs_that_may_be_requeued_are(path: Path) -> None:
    async def before() -> list[str]:
        async with world(path) as here:
            ids = [
                await here.submit(*work(60), gpus=2, name="again", env={"MARK": str(path / "mark")}),
                await here.submit(*work(60), gpus=2, name="never", preemptible=False),
                await here.submit(*work(60), gpus=2, name="leaving"),
            ]
            await here.until(lambda: all("started" in here.kinds(one) for one in ids))
            await here.scheduler.cancel(ids[2], "ann")
            return ids

    async def after(ids: list[str]) -> None:
        async with world(path) as here:
            again, never, leaving = ids
            await here.until(lambda: here.job(again).run == 2 and "started" in here.kinds(again)[3:])
            lost, cancelled = await here.ended(never, leaving)
            assert (lost.state, lost.message) == ("lost", "the machine was started again meanwhile")
            assert cancelled.state == "cancelled"
            assert "requeue" in here.kinds(again)
            await here.scheduler.cancel(again, "ann")
            await here.ended(again)

    ids = asyncio.run(before())
    clean_up(path)  # no process survives a reboot
    for file in path.rglob("state.json"):  # and what is left was written before it
        file.write_text(re.sub(r'"boot_id": ?"[^"]+"', '"boot_id":"another"', file.read_text()))
    asyncio.run(after(ids))


def test_a_job_that_ended_while_nobody_looked_has_its_own_end_and_length(path: Path) -> None:
    async def before() -> str:
        async with world(path) as here:
            job = await here.submit(*work(0.5))
            await here.until(lambda: "started" in here.kinds(job))
            return job

    async def after(job: str) -> None:
        async with world(path) as here:
            (row,) = await here.ended(job)
            assert row.started_s is not None
            assert row.finished_s is not None
            assert 0.4 < row.ran_s < 1.5
            assert row.finished_s - row.started_s < 1.5

    job = asyncio.run(before())
    time.sleep(2.0)  # it ends in the meantime
    asyncio.run(after(job))


def test_a_tenant_with_jobs_is_not_removed(path: Path) -> None:
    async def scenario() -> None:
        async with world(path, tenants=(TenantSpec("vision", quota_gpus=4),)) as here:
            job = await here.submit(*work(60))
            await here.state(job, "running")
            with pytest.raises(InputError, match=f"1 jobs that wait or run.*cancel {job}"):
                await here.scheduler.remove_tenant("vision", "root")
            await here.scheduler.cancel(job, "ann")
            await here.ended(job)
            await here.scheduler.remove_tenant("vision", "root")
            assert "vision" not in here.scheduler.spec.tenants

    asyncio.run(scenario())
