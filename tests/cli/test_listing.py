"""`fairlead policies`, `placers`, `--version`, completion, and how soon they answer."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from fairlead import __version__

from .command import fairlead


def test_policies_say_what_they_do_and_take() -> None:
    found = {one["name"]: one for one in fairlead("policies", "-o", "json").json()}
    assert {"fifo", "fifo-backfill", "easy-backfill", "sjf", "srtf", "srsf", "smallest-first", "las", "priority",
            "fair-share", "drf", "tiresias"} <= set(found)  # fmt: skip
    assert found["las"]["preempts"]
    assert found["las"]["parameters"]["quantum"] == 3600.0
    assert found["fifo"]["strict"]
    assert all(one["summary"] for one in found.values())
    assert "thresholds=3200" in fairlead("policies").out


def test_placers_are_listed() -> None:
    found = {one["name"]: one for one in fairlead("placers", "-o", "json").json()}
    assert found["consolidate"]["parameters"] == {"relaxed": False}
    assert "- name: consolidate" in fairlead("placers", "-o", "yaml").out


def test_the_version_is_printed() -> None:
    assert fairlead("--version").out == f"fairlead {__version__}\n"


def test_the_shell_completes_policies() -> None:
    # the console script, since completion goes by the program's name
    script = Path(sys.executable).with_name("fairlead")
    asked = {"_FAIRLEAD_COMPLETE": "complete_bash", "COMP_WORDS": "fairlead sim run x --policy sr", "COMP_CWORD": "5"}
    done = subprocess.run(
        [script], env={**os.environ, **asked}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == ["srsf", "srtf"]


@pytest.mark.parametrize("args", [("--help",), ("sim", "run", "--help"), ("trace", "--help")])
def test_help_imports_nothing_heavy(args: tuple[str, ...]) -> None:
    probe = (
        "import sys\nfrom fairlead.cli.main import main\n"
        f"sys.argv = ['fairlead', *{args!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'numba', 'polars', 'plotly', 'rich', 'scipy', 'yaml'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_a_small_run_imports_nothing_it_does_not_need(claim: Path) -> None:
    probe = (
        "import sys\nfrom fairlead.cli.main import main\n"
        f"sys.argv = ['fairlead', 'sim', 'run', {str(claim)!r}, '--cluster', '1x2', '--policy', 'fifo', '-o', 'json']\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code\n"
        "heavy = {'polars', 'plotly', 'rich', 'scipy', 'pyarrow', 'fairlead.policy.hived'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def test_a_small_run_from_a_warm_cache_takes_little_more_than_what_it_is_built_on(claim: Path) -> None:
    """`fairlead bench start` has its seconds. Here other tests run beside it, so it is measured by what takes half a second on a
    machine that does it within two."""
    words = ("sim", "run", claim, "--cluster", "1x2", "--policy", "fifo", "-o", "json")
    ask = [sys.executable, "-m", "fairlead", *words]
    built_on = [sys.executable, "-c", "import numba, typer"]
    _took(ask)  # compiles, where nothing has before
    took, least = (min(times) for times in zip(*((_took(ask), _took(built_on)) for _ in range(3))))
    assert took < 4 * least


def _took(command: Sequence[str | Path]) -> float:
    """Seconds of a processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
