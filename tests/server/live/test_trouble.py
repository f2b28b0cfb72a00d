"""A full disk, a clock that jumps: a clear word about it, and nothing lost."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.model.errors import InputError
from fairlead.server import floor, scheduler
from fairlead.server.clock import WallClock
from fairlead.server.store import StoreError, StoreFull

from .world import work, world


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path) -> Path:
    path = disk / "filler"
    with path.open("wb", buffering=0) as out:
        for size in (65536, 4096, 512, 1):
            try:
                while True:
                    out.write(b"x" * size)
            except OSError:
                continue
    return path


def test_a_full_disk_stops_deciding_not_running(path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "TRY_AGAIN_S", 0.05)

    async def scenario() -> None:
        async with world(path, store=small_disk / "fairlead.db") as here:
            runs = await here.submit(*work(0.5), gpus=8)
            await here.until(lambda: "started" in here.kinds(runs))
            waits = await here.submit(*work(0.1), gpus=8)
            filler = fill(small_disk)

            async def submit_many() -> None:
                while True:  # a page that was there already may hold a few more
                    await here.submit("true", gpus=8)

            with pytest.raises(StoreFull, match=r"no space left.*free some space"):
                await submit_many()
            await asyncio.sleep(1.0)  # the job ends, and that can't be written down
            assert here.job(runs).state == "running"
            assert "no space left" in here.scheduler.trouble
            with pytest.raises(StoreError, match="no space left"):
                await here.scheduler.cancel(waits, "ann")
            filler.unlink()
            first, second = await here.ended(runs, waits)
            assert [(row.state, row.exit_code, row.run) for row in (first, second)] == [("done", 0, 1), ("done", 0, 1)]
            assert here.scheduler.trouble == ""
            (after,) = await here.ended(await here.submit("true"))
            assert after.state == "done"
            await here.until(lambda: not here.scheduler.jobs)

    asyncio.run(scenario())


def test_a_job_that_a_full_disk_kept_from_starting_is_tried_again(
    path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(floor, "RETRY_S", 0.2)

    async def scenario() -> None:
        async with world(small_disk / "state", store=path.with_name("fairlead.db")) as here:
            filler = fill(small_disk)
            job = await here.submit("echo", "here I am")
            await here.until(lambda: here.kinds(job).count("requeue") > 1)
            row = here.job(job)
            assert row.finished_s is None
            assert "No space left" in row.message
            filler.unlink()
            (row,) = await here.ended(job)
            assert row.state == "done"
            assert here.output(job) == "here I am\n"

    asyncio.run(scenario())


def test_the_clock_goes_on_when_the_wall_clock_jumps(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = WallClock()
    before = clock.now()
    for jump_s in (-3600.0, 3600.0):
        real = time.time
        monkeypatch.setattr(time, "time", lambda real=real, jump_s=jump_s: real() + jump_s)
        assert 0.0 <= clock.now() - before < 60.0
    assert WallClock(before + 1e6).now() >= before + 1e6


def test_a_scheduler_whose_wall_clock_was_set_back_goes_on_from_its_last_event(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def first() -> str:
        async with world(path) as here:
            job = await here.submit(*work(1.0))
            await here.until(lambda: "started" in here.kinds(job))
            return job

    async def again(job: str) -> list[float]:
        async with world(path) as here:
            (row,) = await here.ended(job)
            assert row.state == "done"
            assert row.finished_s >= row.first_start_s >= row.submit_s
            return [event.time_s for event in here.store.events()]

    job = asyncio.run(first())
    real = time.time
    monkeypatch.setattr("fairlead.server.clock.time.time", lambda: real() - 3600.0)
    times = asyncio.run(again(job))
    assert times == sorted(times)


def test_a_user_without_an_account_on_this_machine(path: Path) -> None:
    from fairlead.server.unix_user import SELF, UnixUsers

    with pytest.raises(InputError, match=r"no such user.*nobody-here.*run_as: self"):
        UnixUsers(euid=0).of("nobody-here")
    assert UnixUsers(euid=0).of("daemon") == "daemon"
    assert UnixUsers(SELF, euid=0).of("nobody-here") == ""
    assert UnixUsers(euid=1000).of("nobody-here") == ""
