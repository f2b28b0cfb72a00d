"""What the Ray executor makes of what Ray says, or fails to say."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead.backends.local.rundir import RunDir
from fairlead.backends.ray import RaySettings, RayWatcher, bridge, runs
from fairlead.runtime.protocols import Place, ReportKind, Scene, Suspension

from .ray_bench import RayBench, until
from .ray_pretended import PretendedRay, on_pretended, reports, write_state


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
        await until(lambda: any(one["message"]["op"] == "stop" for one in ray.told_of("tell")))  # half of a gang

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


def fail_once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """As a file server does that is started again."""
    works, errors = getattr(owner, name), [OSError(errno.ESTALE, "stale")]

    def flaky(*args: Any, **more: Any) -> Any:
        if errors:
            raise errors.pop()
        return works(*args, **more)

    monkeypatch.setattr(owner, name, flaky)


@pytest.mark.parametrize(("owner", "name"), [(RunDir, "state"), (RunDir, "is_claimed"), (runs, "write_off")])
def test_a_lost_run_is_told_though_its_directory_was_out_of_reach(
    path: Path, ray: PretendedRay, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    async def act(bench: RayBench) -> None:
        run = await running(bench, ray)
        fail_once(monkeypatch, owner, name)
        ray.say("gone", run, part=0, message="its actor was killed")
        assert (await bench.wait(ReportKind.LOST)).message == "its actor was killed"

    scene(path, act)


def test_who_is_stopped_before_it_began_is_written_off_though_its_directory_was_out_of_reach(
    path: Path, ray: PretendedRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(bench: RayBench) -> None:
        await bench.start("sleep", "60")
        fail_once(monkeypatch, runs, "write_off")
        await bench.executor.stop("job", 1)
        assert "stopped before it began" in (await bench.wait(ReportKind.FAILED_TO_START)).message

    scene(path, act)


def test_one_directory_out_of_reach_hides_no_other(
    path: Path, ray: PretendedRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(bench: RayBench) -> None:
        await running(bench, ray, job="bad")
        run = await running(bench, ray)
        works = RunDir.state

        def state(self: RunDir) -> Any:
            if "bad@1" in self.path:
                raise OSError(errno.EIO, "input/output error")
            return works(self)

        monkeypatch.setattr(RunDir, "state", state)
        write_state(run, phase="ended", exit_code=3, signal=None)
        ray.poll()
        assert (await bench.wait(ReportKind.ENDED)).exit_code == 3

    scene(path, act)


def test_the_process_that_talks_to_ray_is_tried_again_whatever_kept_it_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge, "_FIRST_PAUSE_S", 0.01)

    async def scenario() -> None:
        heard: list[str] = []
        settings = RaySettings(tmp_path, python=str(tmp_path / "no-python"))
        made = bridge.Bridge(settings, "ns", "", str(tmp_path), lambda message: heard.append(message["message"]))
        async with asyncio.timeout(5):
            while len(heard) < 2:
                await asyncio.sleep(0.01)
        assert "no-python" in made.trouble
        await made.close()

    asyncio.run(scenario())


def test_a_task_that_fails_is_heard_of(path: Path, ray: PretendedRay, caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> None:
        raise KeyError("node-9")

    async def act(bench: RayBench) -> None:
        bench.executor._spawn(fails())
        with caplog.at_level(logging.ERROR):
            await until(lambda: "a task of the Ray executor failed" in caplog.text)

    scene(path, act)


def asked(ray: PretendedRay) -> list[str]:
    """What was said to actors since it was looked at last."""
    found = [f"{one['message']['op']} {one['message']['run']}" for one in ray.told_of("tell")]
    ray.told.clear()
    return found


def test_what_was_asked_is_said_again_until_it_is_done(path: Path, ray: PretendedRay) -> None:
    async def act(bench: RayBench) -> None:
        run = await running(bench, ray)
        await bench.executor.suspend("job", 1)
        assert asked(ray) == ["suspend 1"]
        ray.poll()
        assert asked(ray) == ["suspend 1"]
        await bench.executor.stop("job", 1)
        ray.poll()
        assert asked(ray) == ["stop 1"] * 2
        write_state(run, phase="ended", exit_code=0, signal=None)
        ray.say("part", run, part=0, state=run.part(0).state())
        ray.poll()
        assert asked(ray) == []

    scene(path, act)


def test_who_goes_on_is_told_so_until_it_does_and_hears_nothing_of_what_was_asked_before(
    path: Path, ray: PretendedRay
) -> None:
    async def act(bench: RayBench) -> None:
        run = await running(bench, ray, suspend=(Suspension.STOP,))
        await bench.executor.suspend("job", 1)
        write_state(run, phase="suspended", method="stop")
        ray.say("part", run, part=0, state=run.part(0).state())
        asked(ray)
        ray.poll()
        assert asked(ray) == []
        await bench.start("sleep", "60", run=2, resumes=True, suspend=(Suspension.STOP,))
        ray.poll()
        ray.connect()
        assert asked(ray) == ["continue 2"] * 3
        follows = bench.executor._runs["job", 2]
        write_state(follows, continues=1, resumed_by="stop")
        ray.say("part", run, part=0, state=follows.part(0).state())
        await bench.wait(ReportKind.RESUMED, run=2)
        ray.poll()
        ray.connect()
        assert asked(ray) == []

    scene(path, act)


def test_an_order_that_could_not_be_written_down_is_not_carried_out_later(
    path: Path, ray: PretendedRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(bench: RayBench) -> None:
        fail_once(monkeypatch, runs, "sync_dir")
        await bench.start("sleep", "60")
        assert (await bench.wait(ReportKind.FAILED_TO_START)).retry
        await until(lambda: not (path / "ray/runs/job@1").exists())

    async def after(bench: RayBench) -> None:
        assert ray.told_of("start") == []

    scene(path, act)
    scene(path, after)


def test_a_stopped_run_stays_where_the_order_to_go_on_could_not_be_written_down(
    path: Path, ray: PretendedRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(bench: RayBench) -> None:
        run = await running(bench, ray, suspend=(Suspension.STOP,))
        write_state(run, phase="suspended", method="stop")
        ray.say("part", run, part=0, state=run.part(0).state())
        fail_once(monkeypatch, runs, "follow_on")
        await bench.start("sleep", "60", run=2, resumes=True, suspend=(Suspension.STOP,))
        await bench.wait(ReportKind.FAILED_TO_START, run=2)
        ray.poll()
        assert ray.told_of("release") == []
        await bench.start("sleep", "60", run=3, resumes=True, suspend=(Suspension.STOP,))
        assert asked(ray) == ["continue 3"]

    scene(path, act)


async def watch(path: Path) -> tuple[list[str], Scene]:
    watcher = await RayWatcher.open(RaySettings(path, connect_s=1.0))
    try:
        return [one.name for one in (await watcher.inventory()).nodes], await watcher.look()
    finally:
        await watcher.close()


def test_a_watcher_waits_for_the_cluster_whether_or_not_it_was_there_before(
    path: Path, ray: PretendedRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late() -> None:
        ray.hear({"event": "lost", "message": "the head is not there yet"})
        asyncio.get_running_loop().call_later(0.05, ray.poll)

    monkeypatch.setattr(ray, "connect", late)
    for _ in range(2):
        names, scene = asyncio.run(watch(path))
        assert (names, scene.down) == (["node-1", "node-2"], {})


@pytest.mark.parametrize(
    ("bundles", "asks", "has"),
    [
        ([(0.5, 1), (0.5, 1)], (1, 1000), (("node-1", 1),)),
        ([(0.1, 1)] * 10, (1, 1000), (("node-1", 1),)),
        ([(0.25, 1), (0.25, 1)], (1, 500), (("node-1", 1),)),
        ([(0.5, 1), (0.5, 2)], (1, 1000), (("node-1", 1), ("node-2", 1))),
        ([(0.75, 1), (1, 1), (1, 2)], (3, 1000), (("node-1", 2), ("node-2", 1))),
    ],
)
def test_fractions_of_gpus_are_summed_on_each_node(
    path: Path, ray: PretendedRay, bundles: list[tuple[float, int]], asks: tuple[int, int], has: Any
) -> None:
    thing = {"id": "g", "kind": "placement group", "name": "g", "job": "01", "phase": "running", "strategy": "PACK"}
    thing |= {"submit_ms": 1000, "start_ms": 2000, "end_ms": 0}
    ray.things = [{**thing, "bundles": [{"gpus": gpus, "node": f"id-{number}"} for gpus, number in bundles]}]
    _, scene = asyncio.run(watch(path))
    (one,) = scene.jobs
    assert (one.job.spec.gpus, one.job.spec.gpu_share_milli, one.gpus) == (*asks, has)
