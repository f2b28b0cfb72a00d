"""Every command in README and docs runs, and prints what is shown.

A ```console block holds `$ ` lines and what they print on stdout; a block with `file=NAME` is written to that file first.
`fairlead up ... &` starts a scheduler, which ends with the document. In what is printed, numbers (and their units) may differ, `…` stands for anything, and a line of `…` for any lines.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from .live.daemon import daemon, environment

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = (
    *("README.md", "docs/commands.md", "docs/client.md", "docs/generators.md", "docs/reports.md"),
    *(f"docs/schedulers/{name}.md" for name in ("mlaas", "baselines", "tiresias", "hived", "gandiva")),
)
FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
UP = re.compile(r"fairlead up (.*)&")
NUMBER = re.compile(r"(?<![\w.])\d[\d,.]*(?:e[+-]?\d+)?(?: ?(?:s|min|h|d)\b)?")


@dataclass
class Step:
    """A file to write, or a command to run and what it should print."""

    file: str = ""
    text: str = ""
    command: str = ""
    shown: list[str] = field(default_factory=list)


def steps(document: str) -> list[Step]:
    found: list[Step] = []
    for fence in FENCE.finditer((ROOT / document).read_text(encoding="utf-8")):
        words = fence["info"].split()
        for word in words[1:]:
            if word.startswith("file="):
                found.append(Step(file=word.removeprefix("file="), text=fence["body"]))
        if words[:1] != ["console"]:
            continue
        for line in fence["body"].splitlines():
            if line.startswith("$ "):
                found.append(Step(command=line.removeprefix("$ ")))
            elif line.strip():
                found[-1].shown.append(line)
    return found


def plain(line: str) -> str:
    return " ".join(NUMBER.sub("#", line).split())


def matches(shown: list[str], printed: list[str]) -> bool:
    """Whether the lines shown stand for all the lines printed."""
    pattern = ""
    for line in shown:
        if line.strip() == "…":
            pattern += r"(?:[^\n]*\n)*"
        else:
            pattern += ".*".join(re.escape(part) for part in plain(line).split("…")) + "\n"
    text = "".join(f"{plain(line)}\n" for line in printed if line.strip())
    return re.fullmatch(pattern, text) is not None


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_commands_of_a_document_run_and_print_what_it_shows(document: str, tmp_path: Path) -> None:
    env = environment(tmp_path / "up" / "state")
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    found = steps(document)
    with ExitStack() as stack:
        for step in found:
            if step.file:
                (tmp_path / step.file).write_text(step.text, encoding="utf-8")
            elif begun := UP.fullmatch(step.command):
                up = stack.enter_context(daemon(tmp_path / "up", *begun[1].split()))
                env["FAIRLEAD_SERVER"] = up.url  # it would be the usual port, if tests had it to themselves
                assert matches(step.shown, up.told.splitlines())
            else:
                run(step, tmp_path, env)
    assert any(step.command for step in found), "no commands were found"


def run(step: Step, folder: Path, env: dict[str, str]) -> None:
    done = subprocess.run(
        step.command, shell=True, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{step.command}\n{done.stderr}"
    if step.shown:
        assert matches(step.shown, done.stdout.splitlines()), f"{step.command} printed\n{done.stdout}"


def test_what_is_shown_may_differ_in_numbers_but_not_in_words() -> None:
    assert matches(["wait  mean 3 s, p50 …", "…", "end"], ["wait mean 2.5 h, p50 1 min", "", "x", "y", "end"])
    assert matches(["…"], [])
    assert not matches(["wait mean 3 s"], ["wait median 3 s"])
    assert not matches(["one"], ["one", "two"])
