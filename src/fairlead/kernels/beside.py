"""A second process that compiles a part of the core while the first compiles the rest. In threads that would not do: numba's work is
Python's, one thread at a time.

It leaves what it has compiled in the cache, where whoever asked for it finds it. Nothing depends on that: what is not there is
compiled after all.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from operator import attrgetter
from typing import Any


def start(plain: bool, place: Callable[..., int] | None) -> Callable[[], object] | None:
    """Have those functions of the loop compiled that are kept by themselves, then a placer of ours. Returns what waits for the first
    of it; None where there is no second core for it, or no way."""
    if _cores() < 2 or not sys.executable:
        return None
    named = () if place is None else (f"{place.__module__}:{place.__qualname__}",)
    # -P: nothing is imported from the folder that somebody happens to be in
    command = (sys.executable, "-P", "-m", __name__, str(int(plain)), *named)
    nothing = subprocess.DEVNULL
    try:
        process = subprocess.Popen(command, stdin=nothing, stdout=subprocess.PIPE, stderr=nothing)
    except OSError:
        return None
    told = process.stdout
    assert told is not None
    threading.Thread(target=process.wait, daemon=True).start()  # so that it is gone when it has ended

    def wait() -> bytes:
        with told:
            return told.readline()

    return wait


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def main(plain: str, *named: str) -> None:
    from fairlead.kernels.jit import compiled_as, one_compiles
    from fairlead.kernels.loop import compile_kept
    from fairlead.kernels.signatures import PLACE_FUNCTION

    compile_kept(plain == "1")
    os.write(1, b"done\n")
    for name in named:
        module, _, path = name.partition(":")
        place: Any = attrgetter(path)(importlib.import_module(module))
        with one_compiles(place):
            compiled_as(PLACE_FUNCTION)(place)


if __name__ == "__main__":
    main(*sys.argv[1:])
