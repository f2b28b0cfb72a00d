"""Free lists of cells: per level a bag with positions, and sets of positions by number of opportunistic GPUs.

The first cell of the lowest set that is not empty is what a search takes first, however many cells are free. A search works
on the lists themselves and undoes what it did, exactly.
"""

from __future__ import annotations

from fairlead.kernels.bits import add, following, remove
from fairlead.kernels.columns import I8, Table
from fairlead.kernels.jit import inner
from fairlead.policy.hived.tables import (
    H_UNDO,
    H_UNDO_COUNT,
    L_COUNT,
    L_FREE,
    L_GPUS,
    L_NFREE,
    L_SETS,
    L_SINGLE,
    L_STRIDE,
    X_BAD,
    X_KIDS,
    X_LV,
    X_NKIDS,
    X_OPP,
    X_POS,
)

ADDED, REMOVED, SHIFTED = 0, 1, 2


@inner
def _enter(t: Table, x: I8, cell: int) -> None:
    """Into the set that it belongs to, if it can be used."""
    lv = t[cell, X_LV]
    if t[cell, X_BAD] == 0 or x[lv + L_SINGLE] == 0:
        add(x, x[lv + L_SETS] + t[cell, X_OPP] * x[lv + L_STRIDE], x[lv + L_COUNT], t[cell, X_POS])


@inner
def _leave(t: Table, x: I8, cell: int) -> None:
    lv = t[cell, X_LV]
    if t[cell, X_BAD] == 0 or x[lv + L_SINGLE] == 0:
        remove(x, x[lv + L_SETS] + t[cell, X_OPP] * x[lv + L_STRIDE], x[lv + L_COUNT], t[cell, X_POS])


@inner
def free_add(t: Table, x: I8, cell: int) -> None:
    lv = t[cell, X_LV]
    n = x[lv + L_NFREE]
    x[x[lv + L_FREE] + n] = cell
    t[cell, X_POS] = n
    x[lv + L_NFREE] = n + 1
    _enter(t, x, cell)


@inner
def free_remove(t: Table, x: I8, cell: int) -> None:
    """The last one of the list takes its place."""
    lv = t[cell, X_LV]
    at, n = t[cell, X_POS], x[lv + L_NFREE] - 1
    _leave(t, x, cell)
    t[cell, X_POS] = -1
    x[lv + L_NFREE] = n
    last = x[x[lv + L_FREE] + n]
    if last != cell:
        _leave(t, x, last)
        x[x[lv + L_FREE] + at] = last
        t[last, X_POS] = at
        _enter(t, x, last)


@inner
def change_opportunists(t: Table, x: I8, cell: int, change: int) -> None:
    if t[cell, X_POS] >= 0:
        _leave(t, x, cell)
        t[cell, X_OPP] += change
        _enter(t, x, cell)
    else:
        t[cell, X_OPP] += change


@inner
def change_health(t: Table, x: I8, cell: int, bad: int) -> None:
    if t[cell, X_POS] >= 0:
        _leave(t, x, cell)
        t[cell, X_BAD] = bad
        _enter(t, x, cell)
    else:
        t[cell, X_BAD] = bad


@inner
def next_usable(t: Table, x: I8, lv: int, after: int) -> int:
    """The usable cell of a free list that comes after this one (-1: the first), fewest opportunistic GPUs first; -1 if none."""
    most, size = x[lv + L_GPUS], x[lv + L_COUNT]
    at, value = 0, 0
    if after >= 0:
        at, value = t[after, X_POS] + 1, t[after, X_OPP]
    while value <= most:
        found = following(x, x[lv + L_SETS] + value * x[lv + L_STRIDE], size, at)
        if found >= 0:
            return x[x[lv + L_FREE] + found]
        at = 0
        value += 1
    return -1


# -- a search's changes, and undoing them ---------------------------------------------------------------------------------------


@inner
def _note(x: I8, kind: int, what: int, where: int) -> None:
    at = x[H_UNDO] + 3 * x[H_UNDO_COUNT]
    x[at] = kind
    x[at + 1] = what
    x[at + 2] = where
    x[H_UNDO_COUNT] += 1


@inner
def search_remove(t: Table, x: I8, cell: int) -> None:
    _note(x, REMOVED, cell, t[cell, X_POS])
    free_remove(t, x, cell)


@inner
def search_split(t: Table, x: I8, cell: int) -> None:
    """The parts of a cell go onto the list of their level."""
    for k in range(t[cell, X_NKIDS]):
        kid = x[t[cell, X_KIDS] + k]
        free_add(t, x, kid)
        _note(x, ADDED, kid, 0)


@inner
def search_put_first(t: Table, x: I8, lv: int, parts: int, count: int) -> None:
    """`count` cells at x[parts:] go to the front of a list."""
    base, n = x[lv + L_FREE], x[lv + L_NFREE]
    for i in range(n):
        _leave(t, x, x[base + i])
    for i in range(n - 1, -1, -1):
        x[base + i + count] = x[base + i]
    for i in range(count):
        x[base + i] = x[parts + i]
    x[lv + L_NFREE] = n + count
    for i in range(n + count):
        t[x[base + i], X_POS] = i
        _enter(t, x, x[base + i])
    _note(x, SHIFTED, lv, count)


@inner
def undo_to(t: Table, x: I8, count: int) -> None:
    """Undo all changes of the search but the first `count`."""
    while x[H_UNDO_COUNT] > count:
        x[H_UNDO_COUNT] -= 1
        note = x[H_UNDO] + 3 * x[H_UNDO_COUNT]
        kind, what, where = x[note], x[note + 1], x[note + 2]
        if kind == ADDED:
            # whatever came later is undone, so it is the last of its list
            lv = t[what, X_LV]
            _leave(t, x, what)
            t[what, X_POS] = -1
            x[lv + L_NFREE] -= 1
        elif kind == REMOVED:
            lv = t[what, X_LV]
            base, n = x[lv + L_FREE], x[lv + L_NFREE]
            if where < n:
                moved = x[base + where]
                _leave(t, x, moved)
                x[base + n] = moved
                t[moved, X_POS] = n
                _enter(t, x, moved)
            x[base + where] = what
            t[what, X_POS] = where
            x[lv + L_NFREE] = n + 1
            _enter(t, x, what)
        else:
            base, n = x[what + L_FREE], x[what + L_NFREE]
            for i in range(n):
                _leave(t, x, x[base + i])
            for i in range(where):
                t[x[base + i], X_POS] = -1
            for i in range(where, n):
                x[base + i - where] = x[base + i]
            x[what + L_NFREE] = n - where
            for i in range(n - where):
                t[x[base + i], X_POS] = i
                _enter(t, x, x[base + i])
