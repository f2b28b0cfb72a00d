"""Sets of small integers as bits, with summary words above, so that the first member is found in a few steps.

A set over `size` members takes `words(size)` words at some offset of a flat array: the members' words (32 to a word), then
the summaries of those, up to a single word. 32 bits in an int64 keep every operation positive in plain Python too.
"""

from __future__ import annotations

from fairlead.kernels.columns import (
    I8,
)
from fairlead.kernels.jit import compiled, from_python, hot, inner, lowest_bit


@compiled
def words(size: int) -> int:
    """How many words a set over `size` members takes."""
    total = 0
    while True:
        size = (size + 31) >> 5
        total += size
        if size <= 1:
            return max(total, 1)


@hot
def add(bits: I8, at: int, size: int, i: int) -> None:
    while True:
        w = i >> 5
        old = bits[at + w]
        bits[at + w] = old | (1 << (i & 31))
        size = (size + 31) >> 5
        if old != 0 or size <= 1:
            return
        at += size
        i = w


add_from_python = from_python(add)


@hot
def remove(bits: I8, at: int, size: int, i: int) -> None:
    while True:
        w = i >> 5
        new = bits[at + w] & ~(1 << (i & 31))
        bits[at + w] = new
        size = (size + 31) >> 5
        if new != 0 or size <= 1:
            return
        at += size
        i = w


@hot
def first(bits: I8, at: int, size: int) -> int:
    """The lowest member, -1 if there is none."""
    if size <= 32:
        w = bits[at]
        return lowest_bit(w) if w != 0 else -1
    w0 = (size + 31) >> 5
    if w0 <= 32:
        top = bits[at + w0]
        if top == 0:
            return -1
        i = lowest_bit(top)
        return (i << 5) + lowest_bit(bits[at + i])
    # three levels or more: go up to the single word, then down along the lowest bits
    starts0, starts1, starts2, starts3 = at, at + w0, 0, 0
    w1 = (w0 + 31) >> 5
    starts2 = starts1 + w1
    depth = 3
    if w1 > 32:
        w2 = (w1 + 31) >> 5
        starts3 = starts2 + w2
        depth = 4
    top = bits[starts3 if depth == 4 else starts2]
    if top == 0:
        return -1
    i = lowest_bit(top)
    if depth == 4:
        i = (i << 5) + lowest_bit(bits[starts2 + i])
    i = (i << 5) + lowest_bit(bits[starts1 + i])
    return (i << 5) + lowest_bit(bits[starts0 + i])


@inner
def following(bits: I8, at: int, size: int, i: int) -> int:
    """The lowest member that is at least i, -1 if there is none. Walks words: for filtered scans, not for hot paths."""
    if i >= size:
        return -1
    w = i >> 5
    last = (size + 31) >> 5
    word = bits[at + w] & ~((1 << (i & 31)) - 1)
    while word == 0:
        w += 1
        if w >= last:
            return -1
        word = bits[at + w]
    return (w << 5) + lowest_bit(word)
