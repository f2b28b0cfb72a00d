"""Compiled code that is kept: when it counts as there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.kernels.jit import DISABLED

_SOURCE = "def f(x: int) -> int:\n    return x + 1\n"
_ASK = """
import sys
sys.path.insert(0, sys.argv[1])
from kept import f
from fairlead.kernels.jit import compiled_as, i8, in_cache
print(in_cache(f))
print(compiled_as(i8(i8))(f)(41))
"""


def ask(folder: Path, cache: Path) -> list[str]:
    command = [sys.executable, "-c", _ASK, str(folder)]
    env = {**os.environ, "FAIRLEAD_CACHE_DIR": str(cache)}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.skipif(DISABLED, reason="nothing is compiled")
def test_only_what_will_be_found_again_counts_as_kept(tmp_path: Path) -> None:
    here, there, cache = tmp_path / "here", tmp_path / "there", tmp_path / "cache"
    for folder in (here, there):
        folder.mkdir()
        (folder / "kept.py").write_text(_SOURCE, encoding="utf-8")
    assert ask(here, cache) == ["False", "42"]
    assert ask(here, cache) == ["True", "42"]
    # compiled code is kept by its file's path, so another copy of the same has its own
    assert ask(there, cache) == ["False", "42"]
    # and by what is in the file
    (here / "kept.py").write_text(_SOURCE + "# more\n", encoding="utf-8")
    assert ask(here, cache) == ["False", "42"]
