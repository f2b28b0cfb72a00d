"""The studio when much comes at once and the disk is full."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fairlead.server.studio import Full, KeptRun, KeptTrace, Limits, Studio
from fairlead.server.studio import studio as module
from fairlead.server.studio.shelf import Shelf


@pytest.fixture
def studio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Studio:
    """Two traces for each user; whatever is asked of its process is done at once."""

    async def work(task: Mapping[str, Any], *_: Any, **__: Any) -> Mapping[str, Any]:
        return {"results": [{"name": task["task"]}]}

    monkeypatch.setattr(module, "work", work)
    return Studio(tmp_path, Limits(1000, 1 << 20, 10.0, traces=2), lambda: 5.0)


async def sent(text: bytes = b"a trace") -> AsyncIterator[bytes]:
    yield text


def begun(studio: Studio, user: str = "ann") -> KeptRun:
    return studio.start(user, {}, {}, workload="w", cluster="1x1", names=["fifo"])


def full_disk(*_: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


async def until_idle(studio: Studio) -> None:
    assert studio._consumer is not None
    await asyncio.wait_for(studio._consumer, 60)


def test_uploads_under_way_count_among_those_that_a_user_may_keep(studio: Studio) -> None:
    async def story() -> None:
        go_on = asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            yield b"a"
            await go_on.wait()
            yield b"b"

        async def broken() -> AsyncIterator[bytes]:
            yield b"a"
            await go_on.wait()
            raise ConnectionResetError

        coming = [asyncio.create_task(studio.add_trace("ann", "x", body)) for body in (slow(), broken())]
        await asyncio.sleep(0)
        with pytest.raises(Full, match="you keep 0 traces and send 2 more, and no more than 2 may be kept"):
            await studio.add_trace("ann", "y", sent())
        assert (await studio.add_trace("bob", "z", sent())).user == "bob"
        go_on.set()
        kept, lost = await asyncio.gather(*coming, return_exceptions=True)
        assert isinstance(kept, KeptTrace)
        assert isinstance(lost, Full)
        await studio.add_trace("ann", "y", sent())  # the one that broke off has left its place
        with pytest.raises(Full, match="you keep 2 traces, and"):
            await studio.add_trace("ann", "y", sent())

    asyncio.run(story())


def test_a_comparison_that_a_full_disk_ends_says_so_and_the_next_one_runs(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        first, second = begun(studio), begun(studio)
        write = Shelf.keep

        def keep(shelf: Shelf, one: KeptTrace | KeptRun) -> None:
            if one.id == first.id:
                full_disk()
            write(shelf, one)

        monkeypatch.setattr(Shelf, "keep", keep)
        await until_idle(studio)
        ended = studio.shelf.runs[first.id]
        assert (ended.state, ended.ended_s) == ("failed", 5.0)
        assert ended.problem == {"detail": "it could not be run: No space left on device"}
        assert studio.shelf.runs[second.id].state == "done"

    asyncio.run(story())


def test_a_mistake_in_one_comparison_does_not_hold_up_the_next(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        first, second = begun(studio), begun(studio)
        plain = module.work

        async def work(task: Mapping[str, Any], folder: Path, **more: Any) -> Mapping[str, Any]:
            if folder.name == first.id:
                raise ValueError("a line that is no JSON")
            return await plain(task, folder, **more)

        monkeypatch.setattr(module, "work", work)
        await until_idle(studio)
        assert [studio.shelf.runs[run.id].state for run in (first, second)] == ["failed", "done"]

    asyncio.run(story())


def test_a_trace_that_can_not_be_written_is_not_there(
    studio: Studio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(Full, match="it can't be kept here: No space left on device"):
        asyncio.run(studio.add_trace("ann", "x", sent()))
    assert studio.shelf.traces == {}
    assert list(tmp_path.rglob("data")) == []


def test_what_was_not_finished_when_the_scheduler_was_killed_takes_no_room(studio: Studio, tmp_path: Path) -> None:
    kept = asyncio.run(studio.add_trace("ann", "x", sent()))
    unfinished = studio.shelf.make_folder(KeptTrace, "ann", "half")
    (unfinished / "data").write_bytes(b"x" * 100)
    empty = studio.shelf.make_folder(KeptRun, "ann", "begun")
    shelf = Shelf(tmp_path)
    shelf.load()
    assert shelf.traces == {kept.id: kept}
    assert (unfinished.exists(), empty.exists(), shelf.data_of(kept).exists()) == (False, False, True)


def test_a_scheduler_starts_on_a_full_disk_and_says_which_comparisons_were_not_ended(
    studio: Studio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> KeptRun:
        studio.stop()  # nothing is begun
        return begun(studio)

    run = asyncio.run(story())
    monkeypatch.setattr(os, "replace", full_disk)
    shelf = Shelf(tmp_path)
    shelf.load()
    assert shelf.runs[run.id].state == "failed"
