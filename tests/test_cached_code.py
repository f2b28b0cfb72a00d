"""Compiled code that is kept: when it counts as there."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairlead.kernels import beside
from fairlead.kernels.jit import DISABLED, in_cache
from fairlead.placement.consolidate import place

_SOURCE = "def f(x: int) -> int:\n    return x + 1\n"
_ASK = """
import sys
sys.path.insert(0, sys.argv[1])
from kept import f
from fairlead.kernels.jit import compiled_as, i8, in_cache
print(in_cache(f))
print(compiled_as(i8(i8))(f)(41))
"""
_TAKE_TURNS = """
import sys
sys.path.insert(0, sys.argv[1])
from kept import f
from fairlead.kernels.jit import compiled_as, i8, one_compiles
print("asks", flush=True)
with one_compiles(f) as missing:
    print(missing, flush=True)
    if missing:
        sys.stdin.readline()
    print(compiled_as(i8(i8))(f)(41), flush=True)
"""


_INNER = """
from __future__ import annotations

from fairlead.kernels.jit import hot, inner, kept

@inner
def twice(x: int) -> int:
    return 2 * x

@kept
def far(x: int) -> int:
    return twice(x) + 1

@hot
def near(x: int) -> int:
    return x - 1

@inner
def both(x: int) -> int:
    return far(near(x))

def root(x: int) -> int:
    return both(x) * near(11) + max(x, 7)
"""
_BESIDE = """
import subprocess, sys
sys.path.insert(0, sys.argv[1])
import inner
from fairlead.kernels.jit import compiled_as, i8, settle_kept, settle_types
TYPES = {"int": i8}
if sys.argv[2] == "theirs":
    settle_kept(TYPES, inner.root)
    sys.exit()
def beside():
    print(len(inner.near.overloads), len(inner.far.overloads), len(inner.both.overloads))
    if sys.argv[2] == "helped":
        subprocess.run([sys.executable, sys.argv[0], sys.argv[1], "theirs"], check=True)
settle_types(TYPES, inner.root, beside)
print(compiled_as(i8(i8))(inner.root)(5), len(inner.twice.overloads))
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


@pytest.mark.skipif(DISABLED, reason="nothing is compiled")
def test_who_wants_what_another_process_is_compiling_waits_for_it(tmp_path: Path) -> None:
    (tmp_path / "kept.py").write_text(_SOURCE, encoding="utf-8")
    with turns(tmp_path) as one:
        assert [said(one), said(one)] == ["asks", "True"]
        with turns(tmp_path) as other:
            assert said(other) == "asks"
            assert not select.select([other.stdout], [], [], 2.0)[0], "it should wait"
            assert one.communicate(b"go on\n", 60)[0] == b"42\n"
            assert [said(other), said(other)] == ["False", "42"]


@pytest.mark.skipif(DISABLED, reason="nothing is compiled")
@pytest.mark.parametrize("how", ["helped", "alone"])
def test_another_process_compiles_what_is_kept_by_itself_and_else_it_is_compiled_here(tmp_path: Path, how: str) -> None:
    (tmp_path / "inner.py").write_text(_INNER, encoding="utf-8")
    script = tmp_path / "script.py"
    script.write_text(_BESIDE, encoding="utf-8")
    env = {**os.environ, "FAIRLEAD_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, str(script), str(tmp_path), how]
    told = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.splitlines()
    # what others will have compiled, and what waits for that, is left; what is called only there is not compiled here at all
    assert told == ["1 0 0", f"97 {0 if how == 'helped' else 1}"]


@pytest.mark.skipif(DISABLED, reason="nothing is compiled")
@pytest.mark.parametrize("plain", [False, True])
def test_the_process_beside_compiles_what_it_is_to(plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it all would be well, and slower: nobody would notice."""
    monkeypatch.setattr(beside, "_cores", lambda: 2)
    wait = beside.start(plain, place)
    assert wait is not None
    assert wait() == b"done\n"
    deadline = time.monotonic() + 60
    while not in_cache(place):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_with_one_core_nobody_compiles_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "_cores", lambda: 1)
    assert beside.start(False, None) is None


@contextmanager
def turns(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that compiles when it is told to."""
    command = [sys.executable, "-c", _TAKE_TURNS, str(folder)]
    env = {**os.environ, "FAIRLEAD_CACHE_DIR": str(folder / "cache")}
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()
