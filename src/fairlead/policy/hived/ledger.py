"""Who owns what of the free cells, on tables: the same steps as health.py, which says what they are for."""

from __future__ import annotations

from fairlead.kernels.columns import I8, Table
from fairlead.kernels.jit import inner
from fairlead.policy.hived.freelist import change_health, free_add, free_remove
from fairlead.policy.hived.order import touch
from fairlead.policy.hived.tables import (
    CH_BASE,
    CH_TOP,
    H_BROKEN,
    H_LEVEL_COUNT,
    H_OWNED,
    H_SPARE,
    H_STACK,
    H_VC_COUNT,
    L_BAD,
    L_CHAIN,
    L_FAN,
    L_LEFT,
    L_LEVEL,
    L_NBAD,
    L_NFREE,
    L_NUMBER,
    L_OWNED,
    LEVEL_SIZE,
    O_DOOMED,
    O_HAS,
    O_NDOOMED,
    O_OWNED,
    O_PRE,
    OWNED_SIZE,
    X_BAD,
    X_BOUND,
    X_BPOS,
    X_DPOS,
    X_GPUS,
    X_KIDS,
    X_LEAF0,
    X_LEVEL,
    X_LV,
    X_NKIDS,
    X_PARENT,
    X_PIN,
    X_POS,
    X_SLOT,
    X_SPLIT,
    X_VC,
)


@inner
def tie(t: Table, x: I8, physical: int, virtual: int) -> None:
    t[physical, X_BOUND] = virtual
    t[virtual, X_BOUND] = physical
    touch(t, x, virtual)


@inner
def untie(t: Table, x: I8, physical: int) -> None:
    virtual = t[physical, X_BOUND]
    t[virtual, X_BOUND] = -1
    t[physical, X_BOUND] = -1
    touch(t, x, virtual)


@inner
def _owned(x: I8, vc: int, lv: int) -> int:
    return x[H_OWNED] + (vc * x[H_LEVEL_COUNT] + x[lv + L_NUMBER]) * OWNED_SIZE


@inner
def _healthy_left(x: I8, lv: int) -> int:
    return x[lv + L_LEFT] - x[lv + L_NBAD]


@inner
def _bad_add(t: Table, x: I8, cell: int) -> None:
    lv = t[cell, X_LV]
    x[x[lv + L_BAD] + x[lv + L_NBAD]] = cell
    t[cell, X_BPOS] = x[lv + L_NBAD]
    x[lv + L_NBAD] += 1


@inner
def _bad_remove(t: Table, x: I8, cell: int) -> None:
    lv, at = t[cell, X_LV], t[cell, X_BPOS]
    last = x[x[lv + L_BAD] + x[lv + L_NBAD] - 1]
    x[x[lv + L_BAD] + at] = last
    t[last, X_BPOS] = at
    t[cell, X_BPOS] = -1
    x[lv + L_NBAD] -= 1


@inner
def _doomed_remove(t: Table, x: I8, cell: int, owned: int) -> None:
    at, last = t[cell, X_DPOS], x[x[owned + O_DOOMED] + x[owned + O_NDOOMED] - 1]
    x[x[owned + O_DOOMED] + at] = last
    t[last, X_DPOS] = at
    t[cell, X_DPOS] = -1
    x[owned + O_NDOOMED] -= 1


@inner
def _unbound_part(t: Table, x: I8, virtual: int) -> int:
    for k in range(t[virtual, X_NKIDS]):
        kid = x[t[virtual, X_KIDS] + k]
        if t[kid, X_BOUND] < 0:
            return kid
    x[H_BROKEN] = 1
    return -1


@inner
def take_off(t: Table, x: I8, cell: int) -> int:
    """Off the free list, splitting what it is part of: the highest level that was touched."""
    while True:
        parent = t[cell, X_PARENT]
        whole = parent >= 0 and t[parent, X_SPLIT] == 0
        if whole:
            for k in range(t[parent, X_NKIDS]):
                free_add(t, x, x[t[parent, X_KIDS] + k])
            t[parent, X_SPLIT] = 1
        free_remove(t, x, cell)
        if not whole:
            return t[cell, X_LEVEL]
        cell = parent


@inner
def put_on(t: Table, x: I8, cell: int) -> int:
    """Onto the free list, merged with its buddies as far as they are free: the level at which it ends up."""
    while True:
        parent = t[cell, X_PARENT]
        merges = parent >= 0
        if merges:
            for k in range(t[parent, X_NKIDS]):
                kid = x[t[parent, X_KIDS] + k]
                if kid != cell and t[kid, X_POS] < 0:
                    merges = False
                    break
        if not merges:
            free_add(t, x, cell)
            return t[cell, X_LEVEL]
        for k in range(t[parent, X_NKIDS]):
            kid = x[t[parent, X_KIDS] + k]
            if kid != cell:
                free_remove(t, x, kid)
        t[parent, X_SPLIT] = 0
        cell = parent


@inner
def _bind_bad(t: Table, x: I8, cell: int) -> None:
    """A bad cell that is no longer free, and its bad parts, are bound so that the virtual cluster sees them."""
    stack, count = x[H_STACK], 1
    x[stack] = cell
    while count > 0:
        count -= 1
        cell = x[stack + count]
        if t[cell, X_BPOS] >= 0:
            _bad_remove(t, x, cell)
        if t[cell, X_BOUND] < 0:
            tie(t, x, cell, _unbound_part(t, x, t[t[cell, X_PARENT], X_BOUND]))
        for k in range(t[cell, X_NKIDS] - 1, -1, -1):
            kid = x[t[cell, X_KIDS] + k]
            if t[kid, X_BAD] != 0:
                x[stack + count] = kid
                count += 1


@inner
def _unbind_bad(t: Table, x: I8, cell: int) -> None:
    stack, count = x[H_STACK], 1
    x[stack] = cell
    while count > 0:
        count -= 1
        cell = x[stack + count]
        _bad_add(t, x, cell)
        if t[cell, X_BOUND] >= 0:
            untie(t, x, cell)
        for k in range(t[cell, X_NKIDS] - 1, -1, -1):
            kid = x[t[cell, X_KIDS] + k]
            if t[kid, X_BAD] != 0:
                x[stack + count] = kid
                count += 1


@inner
def _change_below(t: Table, x: I8, cell: int, sign: int) -> None:
    """What is left at the levels below a cell that comes or goes."""
    lv, parts = t[cell, X_LV], t[cell, X_NKIDS]
    for _ in range(t[cell, X_LEVEL] - 1):
        lv -= LEVEL_SIZE
        x[lv + L_LEFT] += sign * parts
        parts *= x[lv + L_FAN]


@inner
def _allocate_doomed(t: Table, x: I8, cell: int, vc: int) -> None:
    """A bad cell goes to a virtual cluster because no healthy ones are left for it."""
    lv = t[cell, X_LV]
    x[_owned(x, vc, lv) + O_OWNED] -= 1
    x[lv + L_OWNED] -= 1
    x[lv + L_LEFT] -= 1
    upto, around = take_off(t, x, cell), t[cell, X_PARENT]
    for _ in range(t[cell, X_LEVEL] + 1, upto + 1):
        x[t[around, X_LV] + L_LEFT] -= 1
        _bad_remove(t, x, around)  # what is around a bad cell is bad
        around = t[around, X_PARENT]
    _bind_bad(t, x, cell)
    _change_below(t, x, cell, -1)


@inner
def _release_doomed(t: Table, x: I8, cell: int, vc: int) -> None:
    """The inverse, for a cell that is still bad."""
    lv = t[cell, X_LV]
    x[_owned(x, vc, lv) + O_OWNED] += 1
    x[lv + L_OWNED] += 1
    x[lv + L_LEFT] += 1
    upto, around = put_on(t, x, cell), t[cell, X_PARENT]
    for _ in range(t[cell, X_LEVEL] + 1, upto + 1):
        x[t[around, X_LV] + L_LEFT] += 1
        _bad_add(t, x, around)
        around = t[around, X_PARENT]
    _unbind_bad(t, x, cell)
    _change_below(t, x, cell, 1)


@inner
def _to_doom(t: Table, x: I8, lv: int) -> int:
    """A bad cell that can be taken without splitting what its owners may want whole, -1 if there is none."""
    chain, level, spare = x[lv + L_CHAIN], x[lv + L_LEVEL], 0
    for at in range(x[chain + CH_TOP], 0, -1):
        here = x[chain + CH_BASE] + at * LEVEL_SIZE
        above = spare * x[here + LEVEL_SIZE + L_FAN] if at < x[chain + CH_TOP] else 0
        spare = x[here + L_NFREE] - x[here + L_OWNED] + above
        x[x[H_SPARE] + at] = spare
    for b in range(x[lv + L_NBAD]):
        cell = x[x[lv + L_BAD] + b]
        around, fine = cell, t[cell, X_BOUND] < 0
        while t[around, X_PARENT] >= 0 and t[t[around, X_PARENT], X_SPLIT] == 0:
            around = t[around, X_PARENT]
            fine = fine and t[around, X_BOUND] < 0
        for at in range(level + 1, t[around, X_LEVEL] + 1):
            fine = fine and x[x[H_SPARE] + at] > 0
        if fine:
            return cell
    return -1


@inner
def _doom(t: Table, x: I8, lv: int) -> None:
    for vc in range(x[H_VC_COUNT]):
        owned = _owned(x, vc, lv)
        while x[owned + O_HAS] != 0 and x[owned + O_OWNED] > _healthy_left(x, lv):
            cell, p = _to_doom(t, x, lv), x[owned + O_PRE]
            if cell < 0:
                break
            while t[x[p], X_BOUND] >= 0:
                p += 1
            tie(t, x, cell, x[p])
            t[cell, X_DPOS] = x[owned + O_NDOOMED]
            x[x[owned + O_DOOMED] + x[owned + O_NDOOMED]] = cell
            x[owned + O_NDOOMED] += 1
            _allocate_doomed(t, x, cell, vc)


@inner
def _spare(t: Table, x: I8, lv: int) -> None:
    for vc in range(x[H_VC_COUNT]):
        owned = _owned(x, vc, lv)
        if x[owned + O_HAS] == 0:
            continue
        while x[owned + O_NDOOMED] > 0 and x[owned + O_OWNED] < _healthy_left(x, lv):
            cell = x[x[owned + O_DOOMED]]
            untie(t, x, cell)
            _doomed_remove(t, x, cell, owned)
            _release_doomed(t, x, cell, vc)


@inner
def use(t: Table, x: I8, cell: int, vc: int) -> None:
    """A preassigned cell is used; if it was doomed, it is now bound for a better reason."""
    if t[cell, X_DPOS] >= 0:
        _doomed_remove(t, x, cell, _owned(x, vc, t[cell, X_LV]))


@inner
def give(t: Table, x: I8, cell: int, vc: int) -> None:
    """`cell` is bound to a preassigned cell of `vc`, and is to be allocated."""
    lv = t[cell, X_LV]
    x[_owned(x, vc, lv) + O_OWNED] -= 1
    x[lv + L_OWNED] -= 1


@inner
def allocate(t: Table, x: I8, cell: int) -> None:
    """Take a cell that was given off the free list."""
    lv = t[cell, X_LV]
    x[lv + L_LEFT] -= 1
    upto, around = take_off(t, x, cell), t[cell, X_PARENT]
    for _ in range(t[cell, X_LEVEL] + 1, upto + 1):
        at = t[around, X_LV]
        x[at + L_LEFT] -= 1
        if x[at + L_LEFT] < x[at + L_OWNED]:
            x[H_BROKEN] = 1
        if t[around, X_BAD] == 0:
            _doom(t, x, at)
        else:
            _bad_remove(t, x, around)
        around = t[around, X_PARENT]
    if t[cell, X_BAD] == 0:
        _doom(t, x, lv)
    else:
        _bind_bad(t, x, cell)
        _spare(t, x, lv)
    parts = t[cell, X_NKIDS]
    for _ in range(t[cell, X_LEVEL] - 1):
        lv -= LEVEL_SIZE
        x[lv + L_LEFT] -= parts
        if x[lv + L_LEFT] < x[lv + L_OWNED]:
            x[H_BROKEN] = 1
        _doom(t, x, lv)
        parts *= x[lv + L_FAN]


@inner
def release(t: Table, x: I8, cell: int, vc: int, doomed: bool) -> None:
    """`cell` is free again; `doomed`: it was bound only for being bad, and no longer is."""
    lv = t[cell, X_LV]
    x[_owned(x, vc, lv) + O_OWNED] += 1
    x[lv + L_OWNED] += 1
    x[lv + L_LEFT] += 1
    upto, around = put_on(t, x, cell), t[cell, X_PARENT]
    for _ in range(t[cell, X_LEVEL] + 1, upto + 1):
        at = t[around, X_LV]
        x[at + L_LEFT] += 1
        if t[around, X_BAD] == 0:
            _spare(t, x, at)
        else:
            _bad_add(t, x, around)
        around = t[around, X_PARENT]
    if t[cell, X_BAD] == 0:
        _spare(t, x, lv)
    else:
        _unbind_bad(t, x, cell)
        if not doomed:
            _doom(t, x, lv)
    parts = t[cell, X_NKIDS]
    for _ in range(t[cell, X_LEVEL] - 1):
        lv -= LEVEL_SIZE
        x[lv + L_LEFT] += parts
        if not doomed:
            _spare(t, x, lv)
        parts *= x[lv + L_FAN]


@inner
def _is_free(t: Table, cell: int) -> bool:
    """Whether it is on a free list, or part of a cell that is."""
    while t[cell, X_BOUND] < 0 and t[cell, X_SPLIT] == 0:
        parent = t[cell, X_PARENT]
        if parent < 0 or t[parent, X_SPLIT] != 0:
            return True
        cell = parent
    return False


@inner
def _touch_bound(t: Table, x: I8, cell: int) -> None:
    touch(t, x, cell)
    if t[cell, X_BOUND] >= 0:
        touch(t, x, t[cell, X_BOUND])


@inner
def set_bad(t: Table, x: I8, gpu: int) -> None:
    """A GPU, and every cell around it: the outermost is dealt with first."""
    count, cell = 0, gpu
    while cell >= 0 and t[cell, X_BAD] == 0:
        change_health(t, x, cell, 1)
        _touch_bound(t, x, cell)
        cell = t[cell, X_PARENT]
        count += 1
    for depth in range(count - 1, -1, -1):
        cell = gpu
        for _ in range(depth):
            cell = t[cell, X_PARENT]
        if _is_free(t, cell):
            lv = t[cell, X_LV]
            _bad_add(t, x, cell)
            if x[lv + L_OWNED] > _healthy_left(x, lv):
                _doom(t, x, lv)
        elif t[cell, X_BOUND] < 0 and t[cell, X_SPLIT] == 0:
            tie(t, x, cell, _unbound_part(t, x, t[t[cell, X_PARENT], X_BOUND]))


@inner
def _in_use(t: Table, x: I8, cell: int) -> bool:
    """Whether a guaranteed job has a GPU of this cell."""
    for g in range(t[cell, X_LEAF0], t[cell, X_LEAF0] + t[cell, X_GPUS]):
        if t[x[g], X_SLOT] >= 0:
            return True
    return False


@inner
def set_healthy(t: Table, x: I8, gpu: int) -> None:
    """A GPU, and each cell around it that has no bad part left."""
    cell = gpu
    while cell >= 0 and t[cell, X_BAD] != 0:
        change_health(t, x, cell, 0)
        _touch_bound(t, x, cell)
        lv, virtual = t[cell, X_LV], t[cell, X_BOUND]
        if _is_free(t, cell):
            _bad_remove(t, x, cell)
            _spare(t, x, lv)
        elif virtual >= 0 and t[cell, X_PIN] == 0 and not _in_use(t, x, cell):
            untie(t, x, cell)
            if t[virtual, X_PARENT] < 0:
                vc = t[virtual, X_VC]
                _doomed_remove(t, x, cell, _owned(x, vc, lv))
                release(t, x, cell, vc, True)
        parent = t[cell, X_PARENT]
        if parent < 0:
            return
        for k in range(t[parent, X_NKIDS]):
            if t[x[t[parent, X_KIDS] + k], X_BAD] != 0:
                return
        cell = parent
