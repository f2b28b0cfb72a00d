"""Users' own jobs against our books, with a Slurm on paper: what is released, taken back, sent back and cancelled."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from fairlead.backends.slurm import guests, runfiles
from fairlead.backends.slurm.guests import ODD_S
from fairlead.backends.slurm.matching import STRAY_S
from fairlead.runtime.protocols import Report, ReportKind, Suspension

from .slurm_paper import Paper, foreign, later, paper

OURS = "gpu-fairlead"


async def ordered(one: Paper, **more: Any) -> None:
    """A user's job 7, ordered onto node1, and released as far as Slurm can tell."""
    one.slurm.add("7")
    await one.poll()
    await one.start(foreign=foreign("7"), **more)
    one.slurm.jobs["7"] |= {"partition": OURS, "reason": "None"}
    await one.poll()
    one.reports()
    one.slurm.said.clear()


def of_runs(one: Paper) -> list[Report]:
    return [report for report in one.reports() if report.job]


def releases(one: Paper) -> list[str]:
    return [said for said in one.slurm.said if said.startswith("scontrol release")]


def test_a_released_job_whose_node_goes_down_is_taken_back(tmp_path: Path) -> None:
    async def check() -> None:
        async with paper(tmp_path) as one:
            await ordered(one)
            one.slurm.down["node1"] = "a bad fan"
            one.slurm.jobs["7"]["reason"] = "ReqNodeNotAvail"
            await one.poll()
            assert one.slurm.said == ["scontrol hold 7"]
            assert of_runs(one) == []
            one.slurm.jobs["7"] |= {"priority": "0", "reason": "JobHeldAdmin"}
            await one.poll()
            (failed,) = of_runs(one)
            assert (failed.kind, failed.retry, "a bad fan" in failed.message) == (
                ReportKind.FAILED_TO_START,
                True,
                True,
            )
            await one.start(run=2, node="node2", foreign=foreign("7"))
            assert releases(one) == ["scontrol release 7"]

    asyncio.run(check())


@pytest.mark.parametrize(
    ("state", "is_over"),
    [("drained", True), ("draining", True), ("drained*", False), ("down", False), ("down*", False)],
)
def test_a_job_that_comes_back_is_started_elsewhere_once_nothing_of_it_can_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, is_over: bool
) -> None:
    """Slurm drains a node that could not launch a job and queues the job again, held: the node answers, and waiting for somebody to
    resume it would be for ever. Of one that does not answer nobody knows what runs there."""
    monkeypatch.setattr(guests, "BACK_S", 0.0)

    async def check() -> None:
        async with paper(tmp_path) as one:
            await ordered(one)
            one.slurm.jobs["7"] |= {"priority": "0", "restarts": "1", "reason": "launch failed requeued held"}
            one.slurm.down["node1"], one.slurm.states["node1"] = "batch job complete failure", state
            await one.poll()
            assert [report.kind for report in of_runs(one)] == [ReportKind.SUSPENDED] * is_over
            if is_over:
                await one.start(run=2, node="node2", foreign=foreign("7"))
                assert releases(one) == ["scontrol release 7"]

    asyncio.run(check())


@pytest.mark.parametrize("reason", ["QOSMaxGRESPerUser", "Licenses", "Priority", "Resources", "BeginTime", "None"])
def test_a_job_that_slurm_will_not_start_is_taken_back_after_a_while(tmp_path: Path, reason: str) -> None:
    async def check() -> None:
        is_odd = reason in ("QOSMaxGRESPerUser", "Licenses")
        async with paper(tmp_path) as one:
            await ordered(one)
            one.slurm.jobs["7"]["reason"] = reason
            await one.poll()
            assert one.slurm.said == []
            later(one.executor.runs["job", 1], ODD_S + 1)
            await one.poll()
            assert one.slurm.said == (["scontrol hold 7"] if is_odd else [])
            one.slurm.jobs["7"] |= {"priority": "0"} if is_odd else {}
            await one.poll()
            assert [(report.kind, reason in report.message) for report in of_runs(one)] == (
                [(ReportKind.FAILED_TO_START, True)] if is_odd else []
            )

    asyncio.run(check())


def test_an_owners_hold_is_its_owners(tmp_path: Path) -> None:
    async def check() -> None:
        async with paper(tmp_path) as one:
            await ordered(one)
            one.slurm.jobs["7"] |= {"priority": "0", "reason": "JobHeldUser"}
            await one.poll()
            (failed,) = of_runs(one)
            assert (failed.kind, failed.retry) == (ReportKind.FAILED_TO_START, True)
            await one.start(run=2, foreign=foreign("7"))
            await one.poll()
            assert releases(one) == []
            assert [report.kind for report in of_runs(one)] == [ReportKind.FAILED_TO_START]

    asyncio.run(check())


def test_one_that_we_have_requeued_held_is_released_again(tmp_path: Path) -> None:
    async def check() -> None:
        async with paper(tmp_path) as one:
            await ordered(one, suspend=(Suspension.REQUEUE,))
            one.slurm.jobs["7"] |= {"state": "RUNNING", "nodes": "node1", "start": "1700"}
            await one.poll()
            await one.executor.suspend("job", 1)
            one.slurm.jobs["7"] |= {"state": "PENDING", "nodes": "", "priority": "0", "reason": "JobHeldUser"}
            one.slurm.jobs["7"]["restarts"] = "1"
            await one.poll()
            assert [report.kind for report in of_runs(one)] == [ReportKind.STARTED, ReportKind.SUSPENDED]
            await one.start(run=2, foreign=foreign("7"))
            assert releases(one) == ["scontrol release 7"]

    asyncio.run(check())


@pytest.mark.parametrize(
    ("more", "option"),
    [
        ({"features": "bigmem"}, "--constraint=bigmem"),
        ({"wanted": "node2"}, "--nodelist=node2"),
        ({"id": "7+0"}, "several components"),
        ({"excluded": "node3"}, "--exclude=node3"),
    ],
)
def test_whoever_chooses_the_nodes_is_declined_at_first_sight(
    tmp_path: Path, more: dict[str, str], option: str
) -> None:
    async def check() -> None:
        async with paper(tmp_path) as one:
            one.slurm.add("7", **{name: value for name, value in more.items() if name != "excluded"})
            one.slurm.excluded = {"7": more.get("excluded", "")}
            await one.poll()
            assert [said for said in one.slurm.said if "Comment" in said and option in said]
            assert one.reports() == []
            slurm = one.slurm
        slurm.said.clear()
        async with paper(tmp_path, slurm) as one:  # and that is known from then on
            await one.poll()
            assert (one.reports(), slurm.said) == ([], [])

    asyncio.run(check())


@pytest.mark.parametrize(
    "more",
    [
        {"partition": OURS},
        {"partition": OURS, "comment": "fairlead:component"},
        {"partition": f"gpu,{OURS}"},
    ],
)
def test_whoever_goes_past_us_is_sent_back_whatever_it_says(tmp_path: Path, more: dict[str, str]) -> None:
    async def check() -> None:
        async with paper(tmp_path) as one:
            one.slurm.add("7", **more)
            await one.poll()
            assert "scontrol update JobId=7 Partition=gpu" in one.slurm.said

    asyncio.run(check())


def test_a_job_that_waits_for_us_and_is_moved_is_sent_back_and_ours_are_left_alone(tmp_path: Path) -> None:
    async def check() -> None:
        async with paper(tmp_path) as one:
            await ordered(one)
            one.slurm.add("8")
            await one.poll()
            await one.start("own", node="node2")
            while not (own := one.executor.runs["own", 1].slurm_id):
                await asyncio.sleep(0.01)
            one.slurm.jobs[own]["priority"] = "1"
            one.slurm.add(f"{own}+1", partition=OURS, comment="fairlead:component")
            one.slurm.jobs["8"]["partition"] = OURS
            one.slurm.add("9", partition=OURS, priority="0")  # held: it starts nowhere
            await one.poll()
            moved = [said for said in one.slurm.said if "Partition=gpu" in said and OURS not in said]
            assert moved == ["scontrol update JobId=8 Partition=gpu"]

    asyncio.run(check())


def test_a_job_on_other_nodes_than_it_was_given_is_taken_off_them(tmp_path: Path) -> None:
    async def check() -> None:
        async with paper(tmp_path) as one:
            await ordered(one, suspend=(Suspension.REQUEUE,))
            one.slurm.jobs["7"] |= {"state": "RUNNING", "nodes": "node3", "start": "1700"}
            await one.poll()
            assert one.slurm.said == ["scontrol requeuehold 7"]
            assert of_runs(one) == []
            one.slurm.jobs["7"] |= {"state": "PENDING", "nodes": "", "priority": "0", "restarts": "1"}
            for _ in range(2):
                await one.poll()
                one.executor.guests._back_s = dict.fromkeys(one.executor.guests._back_s, time.monotonic() - 60)
            await one.poll()
            assert [report.kind for report in of_runs(one)] == [ReportKind.SUSPENDED]

    asyncio.run(check())


def test_what_names_a_run_that_is_none_is_cancelled(tmp_path: Path) -> None:
    async def check() -> None:
        async with paper(tmp_path) as one:
            name = f"fairlead:{one.executor.instance}:"
            one.slurm.add("7", comment=f"{name}no-such-job@1", partition=OURS, state="RUNNING")
            one.slurm.add("8", comment=f"{name}pilot:node1", partition=OURS, state="RUNNING")
            await one.poll()
            await one.poll()
            assert one.slurm.said == []
            one.executor.matching._strays = {"7": time.monotonic() - STRAY_S - 1}
            await one.poll()
            assert one.slurm.said == ["scancel 7"]

    asyncio.run(check())


def test_nobody_is_stopped_where_no_agent_stops(tmp_path: Path) -> None:
    """Its user says so, and would keep the GPUs that others are then given."""

    async def check() -> None:
        async with paper(tmp_path) as one:
            await one.start()
            out = Path(one.executor.runs["job", 1].path) / "out"
            (out / runfiles.part(0)).write_text(json.dumps({"phase": "suspended", "method": "stop"}))
            await one.scan()
            assert of_runs(one) == []

    asyncio.run(check())
