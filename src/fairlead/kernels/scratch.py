"""A small heap of jobs in the scratch column, for the few places that need jobs in an order other than their rank."""

from __future__ import annotations

from fairlead.kernels.columns import (
    J_EXPECT,
    K_SCRATCH,
    Jobs,
)
from fairlead.kernels.jit import inner, int64


@inner
def _sooner(j: Jobs, a: int, b: int, now: float, by_end: bool) -> bool:
    if by_end:
        x, y = max(j.floats[J_EXPECT, a], now), max(j.floats[J_EXPECT, b], now)
        if x != y:
            return x < y
    return a < b


@inner
def _sift(j: Jobs, size: int, at: int, now: float, by_end: bool) -> None:
    job = int64(j.ints[K_SCRATCH, at])
    while True:
        kid = 2 * at + 1
        if kid >= size:
            break
        if kid + 1 < size and _sooner(j, int64(j.ints[K_SCRATCH, kid + 1]), int64(j.ints[K_SCRATCH, kid]), now, by_end):
            kid += 1
        if not _sooner(j, int64(j.ints[K_SCRATCH, kid]), job, now, by_end):
            break
        j.ints[K_SCRATCH, at] = int64(j.ints[K_SCRATCH, kid])
        at = kid
    j.ints[K_SCRATCH, at] = job


@inner
def heap_scratch(j: Jobs, size: int, now: float, by_end: bool) -> None:
    """Order the first `size` jobs of the scratch as a heap: by expected end (at least now) then index, or by index."""
    for at in range(size // 2 - 1, -1, -1):
        _sift(j, size, at, now, by_end)


@inner
def pop_scratch(j: Jobs, size: int, now: float, by_end: bool) -> int:
    """Take the first job out of a heap of `size`; the caller counts down."""
    job = int64(j.ints[K_SCRATCH, 0])
    j.ints[K_SCRATCH, 0] = int64(j.ints[K_SCRATCH, size - 1])
    _sift(j, size - 1, 0, now, by_end)
    return job
