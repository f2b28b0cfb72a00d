"""Runs as the scheduler sees them, by files made by hand: what users write there, full disks, and what a restart must know."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from fairlead.backends.slurm import runfiles
from fairlead.runtime.protocols import ReportKind

from .slurm_paper import Paper, PaperSlurm, paper

RUNNING = {"phase": "running", "time_s": 10.0, "began_s": 10.0}


def say(one: Paper, job: str = "job", run: int = 1, part: int = 0, **doc: Any) -> None:
    """As its agent does."""
    out = Path(one.executor.runs[job, run].path) / "out"
    (out / runfiles.claim(part)).touch()
    (out / runfiles.part(part)).write_text(json.dumps(doc))


def kinds(one: Paper) -> list[ReportKind]:
    return [report.kind for report in one.reports() if report.job]


async def submitted(one: Paper, job: str = "job", **more: Any) -> str:
    """Its number in Slurm, which has it running."""
    await one.start(job, **more)
    while not one.executor.runs[job, more.get("run", 1)].slurm_id:
        await asyncio.sleep(0.01)
    number = one.executor.runs[job, more.get("run", 1)].slurm_id
    one.slurm.jobs[number] |= {"state": "RUNNING", "priority": "1", "reason": "None"}
    return number


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"phase": "running", "message": ' + "[" * 900 + "]" * 900 + "}",
        '{"phase": "running", "why": "' + "x" * 1_000_000 + '"}',
        '{"phase": "running", "time_s": 1e999, "exit_code": ' + "9" * 5000 + "}",
    ],
)
def test_one_users_file_stops_nobody_else(tmp_path: Path, text: str) -> None:
    async def check() -> None:
        async with paper(tmp_path) as one:
            await submitted(one, "bad")
            await submitted(one, "good")
            (Path(one.executor.runs["bad", 1].path) / "out" / "part-0.json").write_text(text)
            say(one, "good", phase="ended", exit_code=0, time_s=5.0, began_s=4.0)
            await one.scan()
            assert ReportKind.ENDED in [report.kind for report in one.reports() if report.job == "good"]
            slurm = one.slurm
        async with paper(tmp_path, slurm) as one:  # nor the next one
            assert {found.job for found in await one.executor.found()} == {"bad", "good"}

    asyncio.run(check())


def test_words_of_a_user_are_plain(tmp_path: Path) -> None:
    async def check() -> None:
        async with paper(tmp_path) as one:
            await submitted(one)
            say(one, phase="ended", exit_code=1, message="a\x00b\ud800c", began_s=4.0)
            await one.scan()
            assert one.reports()[-1].message == "a b c"

    asyncio.run(check())


def test_a_run_that_can_not_be_judged_does_not_keep_others_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check() -> None:
        async with paper(tmp_path) as one:
            await submitted(one, "bad")
            await submitted(one, "good")
            monkeypatch.setattr(one.executor.runs["bad", 1], "read", lambda: 1 / 0)
            say(one, "good", **RUNNING)
            await one.scan()
            await one.poll()
            assert kinds(one) == [ReportKind.STARTED]

    asyncio.run(check())


def test_a_loop_that_dies_ends_the_reports_with_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        async with paper(tmp_path, PaperSlurm(), poll_s=0.01) as one:
            monkeypatch.setattr(one.executor, "_learn", lambda *_: 1 / 0)
            one.executor._follow()
            with pytest.raises(ZeroDivisionError):
                async with asyncio.timeout(5):
                    async for _ in one.executor.reports():
                        pass

    asyncio.run(check())
