"""Finding physical cells for virtual ones, on tables. The same search as binding.py, which says what it does."""

from __future__ import annotations

from fairlead.kernels.columns import I8, Table
from fairlead.kernels.jit import inner
from fairlead.policy.hived.freelist import next_usable, search_put_first, search_remove, search_split, undo_to
from fairlead.policy.hived.tables import (
    CH_BASE,
    CH_TOP,
    H_BROKEN,
    H_GPU_LIST,
    H_INSIDE,
    H_PARTS,
    H_PLAN_OWNED,
    H_SPARE,
    H_STAMP,
    H_TRIES,
    H_TRY_SIZE,
    H_UNDO_COUNT,
    H_WANTED,
    L_CHAIN,
    L_FAN,
    L_FREE,
    L_NFREE,
    L_OWNED,
    L_SINGLE,
    LEVEL_SIZE,
    X_BAD,
    X_BOUND,
    X_KIDS,
    X_LEVEL,
    X_LV,
    X_MAP,
    X_MARK,
    X_NKIDS,
    X_OPP,
    X_PARENT,
    X_POS,
    X_WKID,
    X_WLAST,
    X_WSIB,
)


@inner
def _want_part(t: Table, cell: int, part: int) -> None:
    t[part, X_WSIB] = -1
    if t[cell, X_WKID] < 0:
        t[cell, X_WKID] = part
    else:
        t[t[cell, X_WLAST], X_WSIB] = part
    t[cell, X_WLAST] = part


@inner
def _map_parts(t: Table, x: I8, wanted: int, cell: int) -> bool:
    """A different part of `cell` for each part of `wanted` that is to be bound, down to the GPUs."""
    size = x[H_TRY_SIZE]
    options = x[H_TRIES] + 3 * size * t[cell, X_LEVEL]
    choices, taken = options + size, options + 2 * size
    count = 0
    for k in range(t[cell, X_NKIDS]):
        kid = x[t[cell, X_KIDS] + k]
        if t[kid, X_BOUND] >= 0 or (t[kid, X_BAD] != 0 and x[t[kid, X_LV] + L_SINGLE] != 0):
            continue
        at = count
        while at > 0 and t[x[options + at - 1], X_OPP] > t[kid, X_OPP]:
            x[options + at] = x[options + at - 1]
            at -= 1
        x[options + at] = kid
        count += 1
    need = 0
    part = t[wanted, X_WKID]
    while part >= 0:
        x[choices + need] = 0
        need += 1
        part = t[part, X_WSIB]
    if count < need:
        return False
    for k in range(count):
        x[taken + k] = 0
    number = 0
    while number >= 0:
        part = t[wanted, X_WKID]
        for _ in range(number):
            part = t[part, X_WSIB]
        choice = x[choices + number]
        while choice < count:
            if x[taken + choice] == 0:
                option = x[options + choice]
                if t[option, X_LEVEL] == 1:
                    t[part, X_MAP] = option
                    break
                if _map_parts(t, x, part, option):
                    break
            choice += 1
        if choice < count:
            x[choices + number] = choice
            x[taken + choice] = 1
            number += 1
            if number == need:
                return True
        else:
            number -= 1
            if number >= 0:
                x[taken + x[choices + number]] = 0
                x[choices + number] += 1
    return False


@inner
def _fits(t: Table, x: I8, wanted: int, cell: int) -> bool:
    if t[cell, X_LEVEL] == 1:
        t[wanted, X_MAP] = cell
        return True
    return _map_parts(t, x, wanted, cell)


@inner
def _first_fit(t: Table, x: I8, wanted: int, lv: int) -> int:
    """The first cell of a free list in which the wanted one fits, -1 if there is none."""
    cell = next_usable(t, x, lv, -1)
    while cell >= 0 and not _fits(t, x, wanted, cell):
        cell = next_usable(t, x, lv, cell)
    return cell


@inner
def _carve(t: Table, x: I8, cell: int) -> None:
    """Take a cell out of the free cell that it is part of."""
    around = cell
    while t[around, X_POS] < 0:
        around = t[around, X_PARENT]
    while around != cell:
        search_remove(t, x, around)
        search_split(t, x, around)
        inside = cell
        while t[inside, X_PARENT] != around:
            inside = t[inside, X_PARENT]
        around = inside
    search_remove(t, x, cell)


@inner
def _split_down(t: Table, x: I8, wanted: int, lv: int) -> bool:
    if lv == t[wanted, X_LV]:
        found = _first_fit(t, x, wanted, lv)
        if found >= 0:
            search_remove(t, x, found)
        return found >= 0
    cell = next_usable(t, x, lv, -1)
    while cell >= 0:
        before = x[H_UNDO_COUNT]
        search_split(t, x, cell)
        if _split_down(t, x, wanted, lv - LEVEL_SIZE):
            search_remove(t, x, cell)
            return True
        undo_to(t, x, before)
        cell = next_usable(t, x, lv, cell)
    return False


@inner
def _put_parts_first(t: Table, x: I8, lv: int, lv0: int, count: int) -> None:
    """Split the first cells of a list, all the way down to another level."""
    parts = x[H_PARTS]
    for i in range(count):
        cell = x[x[lv + L_FREE]]
        search_remove(t, x, cell)
        x[parts + i] = cell
    while lv > lv0:
        fan = x[lv + L_FAN]
        for i in range(count - 1, -1, -1):
            cell = x[parts + i]
            for k in range(fan - 1, -1, -1):
                x[parts + i * fan + k] = x[t[cell, X_KIDS] + k]
        count *= fan
        lv -= LEVEL_SIZE
    search_put_first(t, x, lv0, parts, count)


@inner
def _split_more(t: Table, x: I8, wanted: int) -> bool:
    """Split cells above, as many as their owners can spare."""
    lv0 = t[wanted, X_LV]
    chain = x[lv0 + L_CHAIN]
    level, top = t[wanted, X_LEVEL], x[chain + CH_TOP]
    spare, before = 0, x[H_UNDO_COUNT]
    for at in range(top, level, -1):
        lv = x[chain + CH_BASE] + at * LEVEL_SIZE
        above = spare * x[lv + LEVEL_SIZE + L_FAN] if at < top else 0
        spare = x[lv + L_NFREE] - x[x[H_PLAN_OWNED] + at] + above
        if spare < 0:
            x[H_BROKEN] = 1
            return False
        x[x[H_SPARE] + at] = spare
    least = x[x[H_SPARE] + level + 1] if level < top else 0
    for at in range(level + 1, top + 1):
        lv = x[chain + CH_BASE] + at * LEVEL_SIZE
        least = min(least, x[x[H_SPARE] + at])
        if least <= 0:
            continue
        # as many at first as the original splits at once; any other one can be spared as well
        for again in range(2):
            count = x[lv + L_NFREE] if again else min(x[lv + L_NFREE], least)
            if count == 0:
                continue
            _put_parts_first(t, x, lv, lv0, count)
            cell = _first_fit(t, x, wanted, lv0)
            if cell >= 0:
                # of all that was split for a try, only what is around the chosen one really is
                undo_to(t, x, before)
                _carve(t, x, cell)
                return True
    return False


@inner
def find_physical(t: Table, x: I8, chain: int, count: int) -> bool:
    """X_MAP for each of the `count` virtual GPUs on the list: whether there are physical ones for all. Free lists are as before
    afterwards."""
    x[H_STAMP] += 1
    stamp = x[H_STAMP]
    wanted, inside = 0, 0
    for g in range(count):
        gpu = x[x[H_GPU_LIST] + g]
        if t[gpu, X_BOUND] >= 0:
            t[gpu, X_MAP] = t[gpu, X_BOUND]
            continue
        cell, below = gpu, -1
        while cell >= 0 and t[cell, X_BOUND] < 0 and t[cell, X_MARK] != stamp:
            t[cell, X_MARK] = stamp
            t[cell, X_WKID] = -1
            if below >= 0:
                _want_part(t, cell, below)
            below = cell
            cell = t[cell, X_PARENT]
        if cell < 0:
            x[x[H_WANTED] + wanted] = below
            wanted += 1
            continue
        if t[cell, X_MARK] != stamp:
            t[cell, X_MARK] = stamp
            t[cell, X_WKID] = -1
            x[x[H_INSIDE] + inside] = cell
            inside += 1
        _want_part(t, cell, below)
    x[H_UNDO_COUNT] = 0
    found = True
    top = x[chain + CH_TOP]
    if wanted > 0:
        for at in range(1, top + 1):
            x[x[H_PLAN_OWNED] + at] = x[x[chain + CH_BASE] + at * LEVEL_SIZE + L_OWNED]
    for w in range(wanted):
        cell = x[x[H_WANTED] + w]
        lv = t[cell, X_LV]
        highest = x[chain + CH_BASE] + top * LEVEL_SIZE
        while lv < highest and x[lv + L_NFREE] == 0:
            lv += LEVEL_SIZE
        if x[lv + L_NFREE] == 0:
            x[H_BROKEN] = 1
            found = False
            break
        if not _split_down(t, x, cell, lv) and not _split_more(t, x, cell):
            found = False
            break
        x[x[H_PLAN_OWNED] + t[cell, X_LEVEL]] -= 1
    undo_to(t, x, 0)
    for i in range(inside):
        if not found:
            break
        cell = x[x[H_INSIDE] + i]
        found = _map_parts(t, x, cell, t[cell, X_BOUND])
    return found
