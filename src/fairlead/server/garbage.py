"""Python's garbage collector in a process that decides: nothing else goes on in it while it collects, so that is done between
decisions, and not in the middle of one as soon as some page has made enough objects."""

from __future__ import annotations

import asyncio
import gc
import time

#: how often what is new is looked at: a few milliseconds where much was asked, nothing to speak of elsewhere
_YOUNG_S = 0.5
_ALL_S = 60.0  #: the soonest that everything is
_SHARE = 0.001  #: of the time, for looking at everything


async def collect() -> None:
    """Until it is cancelled. What is there when it begins is never looked at again: with the libraries that we load, that takes 0.2 s."""
    gc.collect()
    gc.freeze()
    gc.disable()
    due_s = time.perf_counter() + _ALL_S
    try:
        while True:
            await asyncio.sleep(_YOUNG_S)
            began_s = time.perf_counter()
            if began_s < due_s:
                gc.collect(1)
            else:
                gc.collect()
                ended_s = time.perf_counter()
                due_s = ended_s + max(_ALL_S, (ended_s - began_s) / _SHARE)
    finally:
        gc.enable()
        gc.unfreeze()
