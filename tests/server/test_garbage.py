"""What the garbage collector costs a process that decides."""

from __future__ import annotations

import subprocess
import sys

MEASURE = """
import gc, time
import fairlead.cli.live.daemon
from fairlead.server import garbage

def took():
    began = time.perf_counter()
    gc.collect()
    return time.perf_counter() - began

took()
before = min(took() for _ in range(5))
garbage.settle()
print(before, min(took() for _ in range(5)))
"""


def test_a_settled_scheduler_no_longer_looks_at_everything_that_it_has_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True)
    before_s, after_s = map(float, done.stdout.split())
    assert after_s < before_s / 4
