"""The orders that HiveD's choices depend on, beside what is held: of free cells, of nodes that look alike, of classes to try.

Which of several cells that look alike is taken depends on what happened before. A core that is built anew would go on from
another order, which is as good, but not the same. So the orders are noted, and put back where they are about the same cells.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairlead.kernels.bits import add_from_python, words
from fairlead.kernels.columns import I8, Desk
from fairlead.policy.base import Memo
from fairlead.policy.hived.tables import (
    CH_VIEW,
    CHAIN_SIZE,
    CLASS_SIZE,
    H_CHAIN_COUNT,
    H_CHAINS,
    H_CLASS_COUNT,
    H_CLASSES,
    H_EPOCH,
    H_LEVEL_COUNT,
    H_LEVELS,
    H_OPPORTUNISM,
    H_SLOTS,
    H_VC_COUNT,
    H_VCS,
    H_VIEWS,
    K_BLOCKED,
    K_CHAIN0,
    K_CHAINS,
    K_EPOCH,
    K_GPUS,
    K_PRIO,
    K_VC,
    L_COUNT,
    L_FREE,
    L_GPUS,
    L_NFREE,
    L_SETS,
    L_STRIDE,
    LEVEL_SIZE,
    V_BUCKETS,
    V_DIRTY,
    V_HEADS,
    V_HIGH,
    V_LOW,
    V_NDIRTY,
    V_PHYSICAL,
    V_SET,
    V_SIZE,
    V_TAILS,
    VC_EPOCH,
    VC_SIZE,
    X_DIRTY,
    X_KEY,
    X_LABEL,
    X_NEXT,
    X_OPP,
    X_POS,
    X_PREV,
    X_USED,
)


def _views(x: I8) -> list[int]:
    """Where the record of each view is; -1 for those that there are none of."""
    chains = int(x[H_CHAIN_COUNT])
    virtual = x[x[H_VIEWS] : x[H_VIEWS] + int(x[H_VC_COUNT]) * chains].tolist()
    physical = [int(x[x[H_CHAINS] + k * CHAIN_SIZE + CH_VIEW]) if x[H_OPPORTUNISM] else -1 for k in range(chains)]
    return [*virtual, *physical]


def _levels(x: I8) -> list[int]:
    return [int(x[H_LEVELS]) + k * LEVEL_SIZE for k in range(int(x[H_LEVEL_COUNT]))]


def _classes(x: I8) -> Iterator[tuple[int, list[int]]]:
    """Where each class's record is, and what tells it from others."""
    for k in range(int(x[H_CLASS_COUNT])):
        at = int(x[H_CLASSES]) + k * CLASS_SIZE
        chain = int(x[x[at + K_CHAIN0]]) if x[at + K_CHAINS] else -1
        yield at, [int(x[at + column]) for column in (K_VC, K_PRIO, K_GPUS, K_CHAINS)] + [chain]


def _epoch(x: I8, at: int) -> int:
    return int(x[H_EPOCH] if x[at + K_PRIO] < 0 else x[x[H_VCS] + x[at + K_VC] * VC_SIZE + VC_EPOCH])


def note_orders(desk: Desk, news: bool) -> Memo:
    """`news`: something has happened that HiveD was not told of, so whoever did not fit before may now."""
    t, x = desk.ints, desk.cells
    found: list[float] = [len(t), x[H_LEVEL_COUNT], x[H_SLOTS]]
    for lv in _levels(x):
        found += [x[lv + L_NFREE], *x[x[lv + L_FREE] : x[lv + L_FREE] + x[lv + L_NFREE]]]
    views = _views(x)
    found.append(len(views))
    for view in views:
        nodes = list(_in_order(t, x, view)) if view >= 0 else []
        found += [len(nodes), *(value for node in nodes for value in (node, t[node, X_KEY]))]
    blocked = [(at, key) for at, key in _classes(x) if x[at + K_EPOCH] == _epoch(x, at) and not news]
    found.append(len(blocked))
    for at, key in blocked:
        found += [*key, x[at + K_BLOCKED]]
    return tuple(float(number) for number in found)


def _in_order(t: I8, x: I8, view: int) -> Iterator[int]:
    for bucket in range(int(x[view + V_BUCKETS])):
        node = int(x[x[view + V_HEADS] + bucket])
        while node >= 0:
            yield node
            node = int(t[node, X_NEXT])


def put_back(desk: Desk, memo: Memo) -> None:
    t, x = desk.ints, desk.cells
    numbers = iter([int(number) for number in memo])

    def some(count: int) -> list[int]:
        return [next(numbers) for _ in range(count)]

    cells, levels, slots = some(3)
    if (cells, levels) != (len(t), int(x[H_LEVEL_COUNT])):
        return
    for lv in _levels(x):
        _order_free(t, x, lv, some(next(numbers)))
    views = _views(x)
    if next(numbers) != len(views):
        return
    for view in views:
        nodes = some(2 * next(numbers))
        if view >= 0:
            _order_view(t, x, view, nodes[::2], nodes[1::2])
    where = {tuple(key): at for at, key in _classes(x)}
    for *key, slot in (some(6) for _ in range(next(numbers))):
        at = where.get(tuple(key))
        if at is not None and slots == x[H_SLOTS]:
            x[at + K_BLOCKED], x[at + K_EPOCH] = slot, _epoch(x, at)


def _order_free(t: I8, x: I8, lv: int, cells: list[int]) -> None:
    first, count, stride = int(x[lv + L_FREE]), int(x[lv + L_NFREE]), int(x[lv + L_STRIDE])
    if sorted(cells) != sorted(x[first : first + count].tolist()):
        return
    x[x[lv + L_SETS] : x[lv + L_SETS] + stride * (x[lv + L_GPUS] + 1)] = 0
    for position, cell in enumerate(cells):
        x[first + position], t[cell, X_POS] = cell, position
        add_from_python(x, int(x[lv + L_SETS] + t[cell, X_OPP] * stride), int(x[lv + L_COUNT]), position)


def _order_view(t: I8, x: I8, view: int, nodes: list[int], keys: list[int]) -> None:
    """Nodes of one bucket stand together. One that has changed since it was put there is to be looked at."""
    if sorted(nodes) != sorted(_in_order(t, x, view)):
        return
    size, buckets = int(x[view + V_SIZE]), int(x[view + V_BUCKETS])
    x[x[view + V_HEADS] : x[view + V_HEADS] + buckets] = -1
    x[x[view + V_TAILS] : x[view + V_TAILS] + buckets] = -1
    x[x[view + V_SET] : x[view + V_SET] + int(words(buckets))] = 0
    t[nodes, X_KEY], t[nodes, X_LABEL] = keys, np.arange(1, len(nodes) + 1)
    t[np.ix_(nodes, [X_PREV, X_NEXT])] = -1
    x[view + V_LOW], x[view + V_HIGH] = 0, len(nodes)
    t[nodes, X_DIRTY], x[view + V_NDIRTY] = 0, 0
    for node, key, before, key_before in zip(nodes, keys, [-1, *nodes], [-1, *keys]):
        if key == key_before:
            t[node, X_PREV], t[before, X_NEXT] = before, node
        else:
            x[x[view + V_HEADS] + key] = node
            add_from_python(x, int(x[view + V_SET]), buckets, key)
        x[x[view + V_TAILS] + key] = node
        there = size - t[node, X_USED]
        if x[view + V_PHYSICAL]:
            there = (size - t[node, X_OPP]) * (size + 1) + t[node, X_USED]
        if there != key:
            t[node, X_DIRTY] = 1
            x[x[view + V_DIRTY] + x[view + V_NDIRTY]] = node
            x[view + V_NDIRTY] += 1
