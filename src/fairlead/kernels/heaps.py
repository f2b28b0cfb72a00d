"""Pairing heaps whose links are job columns: no capacity to manage, any job can be taken out, nothing is allocated.

The waiting jobs of a class, best rank on top.
"""

from __future__ import annotations

from fairlead.kernels.columns import (
    J_KEY,
    K_CHILD,
    K_LEVEL,
    K_NEXT,
    K_PREV,
    K_SCRATCH,
    Jobs,
)
from fairlead.kernels.jit import hot, inner, int64


@hot
def above(j: Jobs, a: int, b: int) -> bool:
    """Whether job a stands above job b."""
    la, lb = int64(j.ints[K_LEVEL, a]), int64(j.ints[K_LEVEL, b])
    if la != lb:
        return la < lb
    x, y = j.floats[J_KEY, a], j.floats[J_KEY, b]
    return x < y or (x == y and a < b)


@hot
def _meld(j: Jobs, a: int, b: int) -> int:
    """Make the lower of two roots the first child of the other."""
    if above(j, b, a):
        a, b = b, a
    first = j.ints[K_CHILD, a]
    j.ints[K_NEXT, b] = first
    if first > 0:
        j.ints[K_PREV, first - 1] = b + 1
    j.ints[K_PREV, b] = a + 1
    j.ints[K_CHILD, a] = b + 1
    return a


@hot
def heap_push(j: Jobs, root: int, a: int) -> int:
    """The new root after adding job a, whose links are all 0, as they are whenever a job is in no heap."""
    return a if root < 0 else _meld(j, root, a)


@inner
def _gather(j: Jobs, first: int) -> int:
    """One heap out of the siblings that begin with link `first`: melded in pairs, then from the last pair to the first."""
    links = j.ints
    kid = int64(first)
    pairs = int64(0)
    while kid > 0:
        other = int64(links[K_NEXT, kid - 1])
        if other == 0:
            links[K_NEXT, kid - 1] = pairs
            pairs = kid
            break
        after = int64(links[K_NEXT, other - 1])
        links[K_NEXT, kid - 1] = 0
        links[K_NEXT, other - 1] = 0
        top = _meld(j, kid - 1, other - 1)
        links[K_NEXT, top] = pairs
        pairs = top + 1
        kid = after
    top = pairs - 1
    rest = int64(links[K_NEXT, top])
    while rest > 0:
        after = int64(links[K_NEXT, rest - 1])
        top = _meld(j, top, rest - 1)
        rest = after
    links[K_NEXT, top] = 0
    links[K_PREV, top] = 0
    return top


@hot
def heap_pop(j: Jobs, root: int) -> int:
    """The new root after taking the root out, -1 if that was all."""
    kid = j.ints[K_CHILD, root]
    if kid == 0:
        return int64(-1)
    j.ints[K_CHILD, root] = 0
    return _gather(j, int64(kid))


@inner
def heap_remove(j: Jobs, root: int, a: int) -> int:
    """The new root after taking out job a, wherever it is."""
    if a == root:
        return heap_pop(j, root)
    links = j.ints
    prev, after = int64(links[K_PREV, a]), int64(links[K_NEXT, a])
    if links[K_CHILD, prev - 1] == a + 1:
        links[K_CHILD, prev - 1] = after
    else:
        links[K_NEXT, prev - 1] = after
    if after > 0:
        links[K_PREV, after - 1] = prev
    links[K_NEXT, a] = 0
    links[K_PREV, a] = 0
    rest = heap_pop(j, a)
    return root if rest < 0 else _meld(j, root, rest)


@inner
def unlink(j: Jobs, a: int) -> None:
    """Forget a job's place in a heap that is being rebuilt."""
    j.ints[K_CHILD, a] = 0
    j.ints[K_NEXT, a] = 0
    j.ints[K_PREV, a] = 0


@inner
def list_heap(j: Jobs, root: int) -> int:
    """Write all jobs of a heap to the scratch column, parents before children: how many."""
    count, seen = 0, 0
    if root >= 0:
        j.ints[K_SCRATCH, 0] = root
        count = 1
    while seen < count:
        kid = int64(j.ints[K_CHILD, int64(j.ints[K_SCRATCH, seen])])
        seen += 1
        while kid > 0:
            j.ints[K_SCRATCH, count] = kid - 1
            count += 1
            kid = int64(j.ints[K_NEXT, kid - 1])
    return count
