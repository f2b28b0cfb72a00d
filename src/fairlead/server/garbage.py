"""Python's garbage collector in a process that decides: nothing else goes on in it while a collection does."""

from __future__ import annotations

import gc

#: objects more than before until the youngest are looked at, and of those looks how many until the older ones are. Of Python's own 700 a
#: page of jobs sets off several
_THRESHOLDS = 10_000, 10, 10


def settle() -> None:
    """Once everything is in its place. A full collection looks at every object: with the libraries that we load that stops all decisions
    for 0.2 s, so what is there now is left out from here on."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
