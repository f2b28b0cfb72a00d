"""Runs in pilots that nobody would ever conclude, by files made by hand and a Slurm on paper."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairlead.backends.slurm import judge, runfiles
from fairlead.runtime.protocols import Order, Place, Report, ReportKind, Suspension

from .slurm_paper import Paper, PaperSlurm, later, paper

RUNNING = {"phase": "running", "time_s": 10.0, "began_s": 10.0}
GANG = [Place("node1", (0,)), Place("node2", (0,))]
LEASE_S = 60.0


def say(one: Paper, part: int, doc: Mapping[str, Any]) -> None:
    out = Path(one.executor.runs["job", 1].path) / "out"
    (out / runfiles.claim(part)).touch()
    (out / runfiles.part(part)).write_text(json.dumps(doc))


def beat(one: Paper, part: int, text: str) -> None:
    (Path(one.executor.runs["job", 1].path) / "out" / runfiles.beat(part)).write_text(text)


def ends(one: Paper) -> list[Report]:
    return [report for report in one.reports() if report.job and report.kind != ReportKind.STARTED]


def asked(one: Paper) -> str:
    return (Path(one.executor.runs["job", 1].path) / runfiles.ASK).read_text()


async def begun(one: Paper, places: list[Place]) -> None:
    """With pilots that run."""
    for number, node in (("51", "node1"), ("52", "node2"), ("53", "node3")):
        name = f"fairlead:{one.executor.instance}:pilot:{node}"
        one.slurm.add(number, comment=name, state="RUNNING", partition="gpu", nodes=node)
    await one.poll()
    await one.executor.start(Order("job", 1, ("true",), places))


def take(folder: Path, node: str) -> None:
    """As its pilot does."""
    at = folder / "slurm" / "pilots" / node
    (at / "inbox" / "job@1").rename(at / "taken" / "job@1")


def test_a_step_that_somebody_cancelled_has_ended(tmp_path: Path) -> None:
    async def check() -> None:
        async with paper(tmp_path, PaperSlurm(), mode="pilot") as one:
            await begun(one, GANG[:1])
            say(one, 0, {"phase": "ended", "why": "outside", "exit_code": 0, "time_s": 20.0, "began_s": 10.0})
            await one.poll()
            assert ends(one) == []
            later(one.executor.runs["job", 1], judge.SETTLE_S + 1)
            await one.poll()
            (ended,) = ends(one)
            assert (ended.kind, ended.signal) == (ReportKind.ENDED, signal.SIGTERM)
            assert "cancelled in Slurm" in ended.message

    asyncio.run(check())


def test_where_the_pilot_itself_was_cancelled_it_is_lost(tmp_path: Path) -> None:
    async def check() -> None:
        async with paper(tmp_path, PaperSlurm(), mode="pilot") as one:
            await begun(one, GANG[:1])
            say(one, 0, {"phase": "ended", "why": "outside", "exit_code": 0, "time_s": 20.0, "began_s": 10.0})
            one.slurm.jobs["51"]["state"] = "COMPLETING"
            for _ in range(2):
                await one.poll()
                assert ends(one) == []
                later(one.executor.runs["job", 1], judge.SETTLE_S + 1)
            one.slurm.jobs["51"]["state"] = "CANCELLED"
            await one.poll()
            assert [report.kind for report in ends(one)] == [ReportKind.LOST]

    asyncio.run(check())


def test_a_gang_of_which_one_part_was_taken_is_called_off_as_a_whole(tmp_path: Path) -> None:
    async def check() -> None:
        async with paper(tmp_path, PaperSlurm(), mode="pilot") as one:
            await begun(one, GANG)
            take(tmp_path, "node1")
            await one.executor.suspend("job", 1)
            await one.scan()
            assert ends(one) == []
            say(one, 0, {"phase": "failed", "called_off": True})
            await one.scan()
            (suspended,) = ends(one)
            assert (suspended.kind, suspended.method) == (ReportKind.SUSPENDED, Suspension.REQUEUE)

    asyncio.run(check())


def test_a_part_that_was_stopped_while_another_never_came_is_ended(tmp_path: Path) -> None:
    async def check() -> None:
        async with paper(tmp_path, PaperSlurm(), mode="pilot") as one:
            await begun(one, GANG)
            take(tmp_path, "node1")
            await one.executor.suspend("job", 1)
            say(one, 0, {"phase": "suspended", "method": "stop", "began_s": 10.0})
            await one.scan()
            assert (ends(one), asked(one)) == ([], "stop")
            say(one, 0, {"phase": "ended", "why": "stop", "signal": 15, "began_s": 10.0})
            await one.scan()
            assert [report.kind for report in ends(one)] == [ReportKind.SUSPENDED]

    asyncio.run(check())


def test_a_run_whose_agent_is_never_heard_of_again_is_fenced_and_lost(tmp_path: Path) -> None:
    async def check() -> None:
        async with paper(tmp_path, PaperSlurm(), mode="pilot", lease_s=LEASE_S) as one:
            await begun(one, GANG)
            run = one.executor.runs["job", 1]
            for part in (0, 1):
                say(one, part, RUNNING)
            for text in ("1", "2", "3", "4"):  # both are there, then only one of them
                beat(one, 0, text)
                if text < "3":
                    beat(one, 1, text)
                run.beats_s = 0.0
                await one.poll()
                assert (ends(one), asked(one)) == ([], "")
                later(run, LEASE_S / 2)
            await one.poll()
            assert (ends(one), asked(one)) == ([], "fence")
            later(run, LEASE_S + judge.MARGIN_S + 1)
            await one.poll()
            (lost,) = ends(one)
            assert (lost.kind, "not been heard of" in lost.message) == (ReportKind.LOST, True)

    asyncio.run(check())
