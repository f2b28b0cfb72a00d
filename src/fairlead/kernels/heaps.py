"""Pairing heaps whose links are job columns: no capacity to manage, any job can be taken out, nothing is allocated.

Two orders share the code. Waiting jobs of a class: best rank on top. Running jobs of a lane: worst rank on top, by
J_ORDER, which keeps its order while time passes.
"""

from __future__ import annotations

from fairlead.kernels.columns import (
    J_KEY,
    J_ORDER,
    K_CHILD,
    K_LEVEL,
    K_NEXT,
    K_PREV,
    Jobs,
)
from fairlead.kernels.jit import hot, inner


@hot
def above(j: Jobs, a: int, b: int, lane: bool) -> bool:
    """Whether job a stands above job b."""
    la, lb = j.ints[K_LEVEL, a], j.ints[K_LEVEL, b]
    if lane:
        if la != lb:
            return la > lb
        x, y = j.floats[J_ORDER, a], j.floats[J_ORDER, b]
        return x > y or (x == y and a > b)
    if la != lb:
        return la < lb
    x, y = j.floats[J_KEY, a], j.floats[J_KEY, b]
    return x < y or (x == y and a < b)


@hot
def _meld(j: Jobs, a: int, b: int, lane: bool) -> int:
    """Make the lower of two roots the first child of the other."""
    if above(j, b, a, lane):
        a, b = b, a
    first = j.ints[K_CHILD, a]
    j.ints[K_NEXT, b] = first
    if first >= 0:
        j.ints[K_PREV, first] = b
    j.ints[K_PREV, b] = a
    j.ints[K_CHILD, a] = b
    return a


@hot
def heap_push(j: Jobs, root: int, a: int, lane: bool) -> int:
    """The new root after adding job a."""
    j.ints[K_CHILD, a] = -1
    j.ints[K_NEXT, a] = -1
    j.ints[K_PREV, a] = -1
    return a if root < 0 else _meld(j, root, a, lane)


@hot
def heap_pop(j: Jobs, root: int, lane: bool) -> int:
    """The new root after taking the root out: its children are melded in pairs, then the pairs from the last to the first."""
    links = j.ints
    kid = links[K_CHILD, root]
    links[K_CHILD, root] = -1
    if kid < 0:
        return -1
    pairs = -1
    while kid >= 0:
        other = links[K_NEXT, kid]
        if other < 0:
            links[K_NEXT, kid] = pairs
            pairs = kid
            break
        after = links[K_NEXT, other]
        links[K_NEXT, kid] = -1
        links[K_NEXT, other] = -1
        top = _meld(j, kid, other, lane)
        links[K_NEXT, top] = pairs
        pairs = top
        kid = after
    top = pairs
    rest = links[K_NEXT, top]
    while rest >= 0:
        after = links[K_NEXT, rest]
        top = _meld(j, top, rest, lane)
        rest = after
    links[K_NEXT, top] = -1
    links[K_PREV, top] = -1
    return top


@inner
def heap_remove(j: Jobs, root: int, a: int, lane: bool) -> int:
    """The new root after taking out job a, wherever it is."""
    if a == root:
        return heap_pop(j, root, lane)
    links = j.ints
    prev, after = links[K_PREV, a], links[K_NEXT, a]
    if links[K_CHILD, prev] == a:
        links[K_CHILD, prev] = after
    else:
        links[K_NEXT, prev] = after
    if after >= 0:
        links[K_PREV, after] = prev
    links[K_NEXT, a] = -1
    links[K_PREV, a] = -1
    rest = heap_pop(j, a, lane)
    return root if rest < 0 else _meld(j, root, rest, lane)
