"""What squeue prints is partly users' own text, and what scontrol is told is obeyed as root: neither may become the other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

import pytest

from fairlead.backends.slurm.chores import Chores
from fairlead.backends.slurm.commands import Slurm, SlurmError
from fairlead.backends.slurm.rows import all_jobs, parse_rows
from fairlead.backends.slurm.settings import SlurmSettings

from .slurm_paper import PaperSlurm, row


def test_a_name_can_not_make_rows_nor_hide_its_own() -> None:
    slurm = PaperSlurm()
    slurm.add("7", name="x\x1f\x1e", comment="\x1e\n99\x1f99\x1fRUNNING" + "\x1f" * 27 + "\x1e")
    slurm.add("8")
    rows = asyncio.run(all_jobs(slurm))  # type: ignore[arg-type]
    assert list(rows) == ["7", "8"]
    assert rows["7"]["name"].startswith("x")


def test_what_separates_fields_can_not_be_known() -> None:
    seen: list[str] = []

    class Asked(PaperSlurm):
        async def call(
            self, *words: str, stdin: str | None = None, patient: bool = False, env: Mapping[str, str] | None = None
        ) -> str:
            assert env is not None
            assert not any("\x1f" in word for word in words)  # a command line is everybody's to read
            seen.append(env["SQUEUE_FORMAT2"])
            return await super().call(*words, env=env)

    for _ in range(2):
        asyncio.run(all_jobs(Asked()))  # type: ignore[arg-type]
    assert seen[0] != seen[1]


@pytest.mark.parametrize(
    ("number", "is_one"),
    [("12", True), ("12_3", True), ("12+1", True), ("12\nshutdown", False), ("12_[1-3]", False), ("", False)],
)
def test_a_number_is_a_number(number: str, is_one: bool) -> None:
    line = "|".join(row(number).fields.values()) + ";"
    assert list(parse_rows(line, "|", ";")) == ([number] if is_one else [])


@pytest.mark.parametrize("command", ["hold 1\nshutdown", "hold 1\rshutdown", "hold \x1f1"])
def test_a_command_is_a_line(command: str, tmp_path: object, caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        slurm = Slurm(SlurmSettings(tmp_path))  # type: ignore[arg-type]
        with pytest.raises(SlurmError, match="no command"):
            await slurm.each(["hold 2", command])
        assert not slurm.calls
        paper = PaperSlurm()
        chores = Chores(paper, lambda: None)  # type: ignore[arg-type]
        with caplog.at_level(logging.ERROR):
            chores.line(command)
        chores.line("hold 3")
        await chores.do()
        assert paper.said == ["scontrol hold 3"]

    asyncio.run(check())


@pytest.mark.parametrize(("text", "count"), [("-100", -100), ("7", 7), ("2-4", 2), ("", 0), ("N/A", 0)])
def test_counts_may_be_ranges_and_below_zero(text: str, count: int) -> None:
    assert row("1", nice=text).count("nice") == count
