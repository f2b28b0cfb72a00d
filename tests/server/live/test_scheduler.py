"""Jobs go through a real scheduler: they wait, run, are suspended, end; what is asked for happens, and what happens is written down."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fairlead.model.cluster import TenantSpec
from fairlead.model.errors import InputError
from fairlead.model.job import Dependency, When
from fairlead.server.gate import Gate

from .world import World, work, world


def play(path: Path, scenario: Callable[[World], Awaitable[Any]], **settings: Any) -> Any:
    async def run() -> Any:
        async with world(path, **settings) as here:
            return await scenario(here)

    return asyncio.run(run())


def test_a_job_runs_to_its_end(path: Path) -> None:
    async def scenario(here: World) -> None:
        job = await here.submit("sh", "-c", "echo on $CUDA_VISIBLE_DEVICES; exit 0", gpus=2)
        (row,) = await here.ended(job)
        assert (row.state, row.exit_code, row.run, row.places) == ("done", 0, 1, ())
        assert here.output(job) == "on 0,1\n"
        assert here.kinds(job) == ["submit", "start", "started", "end"]

    play(path, scenario)


@pytest.mark.parametrize(
    ("command", "code", "signal", "reason"),
    [("exit 3", 3, None, "exit-code"), ("kill -SEGV $$", None, 11, "signal")],
)
def test_how_a_program_failed_is_told(
    path: Path, command: str, code: int | None, signal: int | None, reason: str
) -> None:
    async def scenario(here: World) -> None:
        (row,) = await here.ended(await here.submit("sh", "-c", command))
        assert (row.state, row.exit_code, row.signal, row.reason) == ("failed", code, signal, reason)

    play(path, scenario)


def test_a_command_that_does_not_exist_fails_with_its_name(path: Path) -> None:
    async def scenario(here: World) -> None:
        (row,) = await here.ended(await here.submit("no-such-program-anywhere"))
        assert row.state == "failed"
        assert "no-such-program-anywhere" in row.message
        (after,) = await here.ended(await here.submit("true", gpus=8))
        assert after.state == "done"

    play(path, scenario)


def test_jobs_wait_for_gpus_and_get_them_in_turn(path: Path) -> None:
    async def scenario(here: World) -> None:
        ids = [await here.submit(*work(0.2), gpus=5) for _ in range(3)]
        rows = await here.ended(*ids)
        for before, after in pairwise(rows):
            assert before.finished_s is not None
            assert after.first_start_s is not None
            assert after.first_start_s >= before.finished_s

    play(path, scenario, policy="fifo")


def test_a_shorter_job_takes_the_gpus_and_the_longer_one_goes_on_later(path: Path) -> None:
    async def scenario(here: World) -> None:
        long = await here.submit(*work(1.0), gpus=8, estimate_s=100.0)
        await here.until(lambda: "started" in here.kinds(long))
        short = await here.submit(*work(0.2), gpus=8, estimate_s=1.0)
        first, second = await here.ended(short, long)
        assert first.finished_s < second.finished_s
        assert (second.state, second.preemptions, second.run, second.suspension) == ("done", 1, 2, "stop")
        kinds = here.kinds(long)
        assert kinds == ["submit", "start", "started", "suspend", "suspended", "start", "resumed", "end"]

    play(path, scenario, policy="srtf")


def test_the_next_job_starts_only_when_the_last_one_has_left(path: Path) -> None:
    """A job that takes a while over its checkpoint still holds its GPU; whoever gets it waits for that."""
    slow = "trap 'sleep 0.5; echo gone >> $MARK; exit 0' USR1; echo up > $READY; while :; do sleep 0.02; done"

    async def scenario(here: World) -> None:
        mark, ready = path / "mark", path / "ready"
        env = {"MARK": str(mark), "READY": str(ready)}
        first = await here.submit(
            "sh", "-c", slow, gpus=8, estimate_s=100.0, env=env, checkpoint_signal="SIGUSR1", name="slow"
        )
        await here.until(ready.exists)
        second = await here.submit("sh", "-c", "cat $MARK", gpus=8, estimate_s=1.0, env=env)
        await here.ended(second)
        assert here.output(second) == "gone\n"
        row = here.job(first)
        assert row.suspension == "checkpoint"
        await here.state(first, "running")
        await here.scheduler.cancel(first, "ann")
        await here.ended(first)

    play(path, scenario, policy="srtf")


def test_held_and_released(path: Path) -> None:
    async def scenario(here: World) -> None:
        runs, waits = await here.submit(*work(0.5), gpus=8), await here.submit(*work(0.1), gpus=8)
        await here.state(runs, "running")
        assert await here.scheduler.suspend(runs, "ann") == [runs]
        await here.ended(waits)
        assert here.job(runs).state == "held"
        await here.scheduler.resume(runs, "ann")
        (row,) = await here.ended(runs)
        assert (row.state, row.run, row.preemptions) == ("done", 2, 0)

    play(path, scenario)


def test_cancelled_while_it_waits_runs_and_is_held(path: Path) -> None:
    async def scenario(here: World) -> None:
        held, runs, waits = [await here.submit(*work(60), gpus=8) for _ in range(3)]
        await here.until(lambda: "started" in here.kinds(held))
        await here.scheduler.suspend(held, "ann")
        await here.until(lambda: "started" in here.kinds(runs))
        for job in (waits, held, runs):
            assert await here.scheduler.cancel(job, "bob") == [job]
        for row in await here.ended(held, runs, waits):
            assert (row.state, row.message) == ("cancelled", "cancelled by bob")
        with pytest.raises(InputError, match="has ended already"):
            await here.scheduler.cancel(runs, "bob")
        with pytest.raises(InputError, match="no job with this id"):
            await here.scheduler.cancel("4711", "bob")
        (after,) = await here.ended(await here.submit("true", gpus=8))
        assert after.state == "done"

    play(path, scenario)


def test_a_time_limit_counts_running_only_and_ends_the_job(path: Path) -> None:
    async def scenario(here: World) -> None:
        job = await here.submit(*work(60), gpus=8, time_limit_s=0.6)
        await here.until(lambda: "started" in here.kinds(job))
        await here.scheduler.suspend(job, "ann")
        await here.until(lambda: "suspended" in here.kinds(job))
        await asyncio.sleep(1.0)
        assert here.job(job).finished_s is None
        await here.scheduler.resume(job, "ann")
        (row,) = await here.ended(job)
        assert (row.state, row.reason) == ("failed", "time-limit")
        assert 0.6 <= row.ran_s < 3.0

    play(path, scenario)


def test_an_array_is_many_jobs_with_an_index_each(path: Path) -> None:
    async def scenario(here: World) -> None:
        array = await here.submit("sh", "-c", "echo $FAIRLEAD_ARRAY_INDEX of $FAIRLEAD_ARRAY_COUNT", array=(2, 5, 7))
        ids = [f"{array}_{index}" for index in (2, 5, 7)]
        await here.ended(*ids)
        assert [here.output(one) for one in ids] == ["2 of 3\n", "5 of 3\n", "7 of 3\n"]
        sleepers = await here.submit(*work(60), gpus=8, array=(0, 1, 2))
        await here.state(f"{sleepers}_0", "running")
        assert await here.scheduler.cancel(sleepers, "ann") == [f"{sleepers}_{i}" for i in range(3)]
        await here.ended(*(f"{sleepers}_{i}" for i in range(3)))

    play(path, scenario)


def test_dependencies_wait_and_fail_with_what_they_wait_for(path: Path) -> None:
    async def scenario(here: World) -> None:
        good, bad = await here.submit(*work(0.3)), await here.submit("sh", "-c", "sleep 0.3; exit 1")
        after_good = await here.submit("true", depends_on=(Dependency(good),))
        after_bad = await here.submit("true", depends_on=(Dependency(bad),))
        whatever = await here.submit("true", depends_on=(Dependency(bad, When.AFTER_ANY), Dependency(good)))
        chain = await here.submit("true", depends_on=(Dependency(after_bad),))
        assert here.job(after_good).state == "blocked"
        rows = await here.ended(good, bad, after_good, after_bad, whatever, chain)
        assert [row.state for row in rows] == ["done", "failed", "done", "cancelled", "done", "cancelled"]
        assert rows[3].message == f"job {bad}, which it waits for, did not end well"
        assert rows[2].first_start_s >= rows[0].finished_s
        late = await here.submit("true", depends_on=(Dependency(good),))
        lost = await here.submit("true", depends_on=(Dependency(bad),))
        assert [row.state for row in await here.ended(late, lost)] == ["done", "cancelled"]

    play(path, scenario)


def test_what_can_never_run_is_refused_at_the_door(path: Path) -> None:
    async def scenario(here: World) -> None:
        with pytest.raises(InputError, match=r"more GPUs than the cluster has.*got 9.*8 or fewer"):
            await here.submit("true", gpus=9)
        with pytest.raises(InputError, match=r"tenant vision may ever hold.*got 5.*4 or fewer"):
            await here.submit("true", gpus=5)
        with pytest.raises(InputError, match=r"tenant.*'visio'.*vision"):
            await here.submit("true", tenant="visio")
        with pytest.raises(InputError, match=r"no node here says of what type.*H200"):
            await here.submit("true", gpu_type="H200", tenant="speech")
        with pytest.raises(InputError, match="too many tasks"):
            await here.submit("true", array=tuple(range(11)))
        assert here.store.count() == 0

    play(path, scenario, tenants=(TenantSpec("vision", quota_gpus=4),), gate=Gate(most_tasks=10))


def test_a_quota_holds_and_can_be_changed_on_the_run(path: Path) -> None:
    async def scenario(here: World) -> None:
        first, second = await here.submit(*work(60), gpus=4), await here.submit("true", gpus=4)
        await here.state(first, "running")
        assert here.job(second).state == "waiting"
        await here.scheduler.put_tenant(TenantSpec("vision", quota_gpus=8), "root")
        (row,) = await here.ended(second)
        assert row.state == "done"
        await here.scheduler.cancel(first, "ann")
        await here.ended(first)

    play(path, scenario, tenants=(TenantSpec("vision", quota_gpus=4),))


def test_more_jobs_than_allowed(path: Path) -> None:
    async def scenario(here: World) -> None:
        ids = [await here.submit(*work(60), gpus=8, key=f"key-{i}") for i in range(3)]
        with pytest.raises(InputError, match="one user can't have so many jobs"):
            await here.submit("true")
        assert await here.submit(*work(60), gpus=8, key="key-1") == ids[1]  # asked for again, it is still the same job
        await here.submit(*work(0), user="bob")
        with pytest.raises(InputError, match="can't hold so many jobs"):
            await here.submit("true", user="bob")
        for one in ids:
            await here.scheduler.cancel(one, "ann")
        await here.ended(*ids)

    play(path, scenario, gate=Gate(most_jobs=4, most_per_user=3))


def test_the_same_key_is_the_same_job(path: Path) -> None:
    async def scenario(here: World) -> None:
        first = await here.submit("true", key="k")
        assert await here.submit("true", key="k") == first
        with pytest.raises(InputError, match="used for another job"):
            await here.submit("false", key="k")
        await here.ended(first)
        assert here.store.count() == 1

    play(path, scenario)


def test_a_drained_node_takes_no_more(path: Path) -> None:
    async def scenario(here: World) -> None:
        await here.scheduler.drain("node-0", "root", "fan")
        assert here.scheduler.drained()["node-0"].drain_reason == "fan"
        one, two = await here.submit(*work(0.1), gpus=8), await here.submit(*work(0.1), gpus=8)
        await here.until(lambda: here.job(one).places != ())
        assert here.job(one).nodes == ("node-1",)
        await here.ended(one, two)
        starts = [e.args["places"][0][0] for e in here.store.events(kinds=["start"])]
        assert starts == ["node-1", "node-1"]
        await here.scheduler.undrain("node-0", "root")
        three, four = await here.submit(*work(0.3), gpus=8), await here.submit(*work(0.3), gpus=8)
        await here.ended(three, four)
        starts = [e.args["places"][0][0] for e in here.store.events(kinds=["start"])]
        assert sorted(starts[2:]) == ["node-0", "node-1"]
        with pytest.raises(InputError, match="node-0"):
            await here.scheduler.drain("nod-0", "root")

    play(path, scenario, nodes=2)


def test_another_policy_on_the_run_loses_nothing(path: Path) -> None:
    async def scenario(here: World) -> None:
        ids = [await here.submit(*work(0.2), gpus=4, estimate_s=float(9 - i)) for i in range(8)]
        await here.state(ids[0], "running")
        for policy in ("srtf", "las", "tiresias", "fifo", "sjf"):
            await here.scheduler.set_policy(policy, None, "root")
            assert here.scheduler.policy == policy
            await asyncio.sleep(0.1)
        with pytest.raises(InputError, match="tiresias"):
            await here.scheduler.set_policy("tiresius", None, "root")
        assert here.scheduler.policy == "sjf"
        assert {row.state for row in await here.ended(*ids)} == {"done"}
        assert here.store.standing.settings()["policy"] == "sjf"

    play(path, scenario)


def test_shares_of_a_gpu(path: Path) -> None:
    async def scenario(here: World) -> None:
        ids = [await here.submit(*work(0.4), gpu_share_milli=500) for _ in range(2)]
        await here.until(lambda: all("started" in here.kinds(one) for one in ids))
        places = [here.job(one).places for one in ids]
        assert places[0] == places[1]
        assert places[0][0].milli == 500
        await here.ended(*ids)

    play(path, scenario, gpus=1)


def test_a_job_that_nobody_may_preempt_runs_to_its_end(path: Path) -> None:
    async def scenario(here: World) -> None:
        long = await here.submit(*work(0.8), gpus=8, estimate_s=100.0, preemptible=False)
        await here.until(lambda: "started" in here.kinds(long))
        short = await here.submit(*work(0.1), gpus=8, estimate_s=1.0)
        first, second = await here.ended(long, short)
        assert (first.preemptions, first.run) == (0, 1)
        assert second.first_start_s >= first.finished_s

    play(path, scenario, policy="srtf")


def test_a_job_on_several_nodes_has_a_rank_on_each(path: Path) -> None:
    say = "echo $FAIRLEAD_NODE rank $RANK of $WORLD_SIZE on $CUDA_VISIBLE_DEVICES at $MASTER_ADDR"

    async def scenario(here: World) -> None:
        job = await here.submit("sh", "-c", say, gpus=2, num_nodes=2)
        await here.ended(job)
        lines = sorted(here.output(job).splitlines())
        assert [line.split(" on ")[0] for line in lines] == ["[0] node-0 rank 0 of 2", "[1] node-1 rank 1 of 2"]
        with pytest.raises(InputError, match="fewer nodes than it must run on"):
            await here.submit("true", gpus=2, num_nodes=3)
        with pytest.raises(InputError, match=r"level.*'rack'.*node"):
            await here.submit("true", topology="rack")

    play(path, scenario, nodes=2, gpus=4)
