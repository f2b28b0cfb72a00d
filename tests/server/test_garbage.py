"""What the garbage collector costs a process that decides."""

from __future__ import annotations

import subprocess
import sys

MEASURE = """
import asyncio, gc, time, weakref
import fairlead.cli.live.daemon
from fairlead.server import garbage

class Knot:
    def __init__(self):
        self.self = self

def took():
    began = time.perf_counter()
    gc.collect()
    return time.perf_counter() - began

async def main():
    took()
    before = min(took() for _ in range(5))
    task = asyncio.create_task(garbage.collect())
    await asyncio.sleep(0)
    after = min(took() for _ in range(5))
    knots = [weakref.ref(Knot()) for _ in range(100_000)]
    assert all(knot() for knot in knots), "collected in the middle of something"
    while any(knot() for knot in knots):
        await asyncio.sleep(0.05)
    old, young = Knot(), weakref.ref(Knot())
    old_too = weakref.ref(old)
    while young():
        await asyncio.sleep(0.05)
    gc.collect(1)
    del old
    garbage._ALL_S = 0.0
    while old_too():
        await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert gc.isenabled() and not gc.get_freeze_count()
    print(before, after)

garbage._ALL_S = 3.0
asyncio.run(asyncio.wait_for(main(), 60))
"""


def test_garbage_is_collected_between_decisions_and_what_was_loaded_before_is_not_looked_at() -> None:
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before_s, after_s = map(float, done.stdout.split())
    assert after_s < before_s / 4
