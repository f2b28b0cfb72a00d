"""Python's garbage collector, out of the way for a while."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collecting() -> Iterator[None]:
    """For what makes many small objects that are hardly ever garbage: looking for some among them all, again and again, takes
    long. A sixth of the time of compiling, and longer than making the cells of a large cluster."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        # what was made counts as old at once, or all of it would be looked through now; what is frozen stays so
        if gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()
        if was:
            gc.enable()
