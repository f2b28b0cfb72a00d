"""The nodes of a view in the order in which pods are offered them, kept in buckets. placing.py says what the order is.

A bucket has the nodes that look alike. Sorting them anew at every request, as placing.py does, keeps the order of those
alike; here only nodes that have changed since the last request move: behind the nodes of their new bucket if they come from a
later one, before them if from an earlier one, in the order in which they stood.
"""

from __future__ import annotations

from fairlead.kernels.bits import add, following, remove
from fairlead.kernels.columns import I8, Table
from fairlead.kernels.jit import inner
from fairlead.policy.hived.tables import (
    H_GPU_LIST,
    H_NODE_LIST,
    H_SLOTS,
    L_GPUS,
    LEVEL_SIZE,
    NOBODY,
    OPPORTUNIST,
    V_BUCKETS,
    V_DIRTY,
    V_HEADS,
    V_HIGH,
    V_LOW,
    V_NDIRTY,
    V_PHYSICAL,
    V_SET,
    V_SIZE,
    V_SLOTS,
    V_TAILS,
    X_BAD,
    X_BOUND,
    X_DIRTY,
    X_GPUS,
    X_KEY,
    X_LABEL,
    X_LEAF0,
    X_LEVEL,
    X_LV,
    X_NEXT,
    X_OPP,
    X_PREV,
    X_SLOT,
    X_SLOTS,
    X_USED,
    X_VIEW,
)


@inner
def touch(t: Table, x: I8, node: int) -> None:
    """Something about this cell has changed; if it is a node of a view, its place may have."""
    view = t[node, X_VIEW]
    if view >= 0 and t[node, X_DIRTY] == 0:
        t[node, X_DIRTY] = 1
        x[x[view + V_DIRTY] + x[view + V_NDIRTY]] = node
        x[view + V_NDIRTY] += 1


@inner
def _bucket(t: Table, x: I8, view: int, node: int) -> int:
    size = x[view + V_SIZE]
    half = x[view + V_BUCKETS] >> 1
    if x[view + V_PHYSICAL] != 0:
        key = (size - t[node, X_OPP]) * (size + 1) + t[node, X_USED]
        return key + half if t[node, X_BAD] != 0 else key
    there = t[node, X_BOUND]
    key = size - t[node, X_USED]
    return key + half if there >= 0 and t[there, X_BAD] != 0 else key


@inner
def push(t: Table, x: I8, view: int, node: int, key: int, front: bool) -> None:
    """Into a bucket, as the first or the last."""
    t[node, X_KEY] = key
    heads, tails = x[view + V_HEADS], x[view + V_TAILS]
    if front:
        x[view + V_LOW] -= 1
        t[node, X_LABEL] = x[view + V_LOW]
        old = x[heads + key]
        t[node, X_PREV] = -1
        t[node, X_NEXT] = old
        if old >= 0:
            t[old, X_PREV] = node
        else:
            x[tails + key] = node
            add(x, x[view + V_SET], x[view + V_BUCKETS], key)
        x[heads + key] = node
        return
    x[view + V_HIGH] += 1
    t[node, X_LABEL] = x[view + V_HIGH]
    old = x[tails + key]
    t[node, X_NEXT] = -1
    t[node, X_PREV] = old
    if old >= 0:
        t[old, X_NEXT] = node
    else:
        x[heads + key] = node
        add(x, x[view + V_SET], x[view + V_BUCKETS], key)
    x[tails + key] = node


@inner
def _pull(t: Table, x: I8, view: int, node: int) -> None:
    key, before, after = t[node, X_KEY], t[node, X_PREV], t[node, X_NEXT]
    if before >= 0:
        t[before, X_NEXT] = after
    else:
        x[x[view + V_HEADS] + key] = after
    if after >= 0:
        t[after, X_PREV] = before
    else:
        x[x[view + V_TAILS] + key] = before
    if before < 0 and after < 0:
        remove(x, x[view + V_SET], x[view + V_BUCKETS], key)


@inner
def sort_nodes(t: Table, x: I8, view: int) -> None:
    """Put every node that has changed where it belongs."""
    dirty, count, moved = x[view + V_DIRTY], x[view + V_NDIRTY], 0
    x[view + V_NDIRTY] = 0
    for d in range(count):
        node = x[dirty + d]
        t[node, X_DIRTY] = 0
        if _bucket(t, x, view, node) == t[node, X_KEY]:
            continue
        at = moved
        while at > 0 and (
            t[x[dirty + at - 1], X_KEY] > t[node, X_KEY]
            or (t[x[dirty + at - 1], X_KEY] == t[node, X_KEY] and t[x[dirty + at - 1], X_LABEL] > t[node, X_LABEL])
        ):
            x[dirty + at] = x[dirty + at - 1]
            at -= 1
        x[dirty + at] = node
        moved += 1
    for d in range(moved - 1, -1, -1):
        node = x[dirty + d]
        key = _bucket(t, x, view, node)
        if t[node, X_KEY] < key:
            _pull(t, x, view, node)
            push(t, x, view, node, key, True)
            x[dirty + d] = -1
    for d in range(moved):
        node = x[dirty + d]
        if node >= 0:
            key = _bucket(t, x, view, node)
            _pull(t, x, view, node)
            push(t, x, view, node, key, False)


@inner
def _free_at(t: Table, x: I8, view: int, node: int, slot: int) -> int:
    """GPUs of a node that are free, or, for a priority (not OPPORTUNIST), held by lower ones."""
    if x[view + V_PHYSICAL] != 0:
        return t[node, X_GPUS] - t[node, X_OPP] - t[node, X_USED]
    if slot == OPPORTUNIST:
        return t[node, X_GPUS] - t[node, X_USED]
    held = 0
    for s in range(slot, x[H_SLOTS]):
        held += x[t[node, X_SLOTS] + s]
    return t[node, X_GPUS] - held


@inner
def _next_fit(t: Table, x: I8, view: int, after: int, need: int, slot: int) -> int:
    """The first healthy node behind `after` (-1: of all) with room for `need`, -1 if there is none."""
    size, half = x[view + V_SIZE], x[view + V_BUCKETS] >> 1
    node, bucket = -1, -1
    if after >= 0:
        node, bucket = t[after, X_NEXT], t[after, X_KEY]
    while True:
        while node >= 0:
            if _free_at(t, x, view, node, slot) >= need:
                return node
            node = t[node, X_NEXT]
        bucket = following(x, x[view + V_SET], x[view + V_BUCKETS], bucket + 1)
        if bucket < 0 or bucket >= half:
            return -1
        node = x[x[view + V_HEADS] + bucket]
        if slot == OPPORTUNIST:
            # what is free follows from the bucket, but for the node's own size
            free = bucket
            if x[view + V_PHYSICAL] != 0:
                free = bucket // (size + 1) - bucket % (size + 1)
            if free < need:
                node = -1


@inner
def choose_nodes(t: Table, x: I8, view: int, whole: int, each: int, rest: int, slot: int) -> bool:
    """Nodes for a pod of `rest` GPUs (0: none) and then for `whole` pods of a whole node each, onto the list of nodes."""
    nodes, count, node = x[H_NODE_LIST], 0, -1
    if rest > 0:
        node = _next_fit(t, x, view, node, rest, slot)
        if node < 0:
            return False
        x[nodes] = node
        count = 1
    for _ in range(whole):
        node = _next_fit(t, x, view, node, each, slot)
        if node < 0:
            return False
        x[nodes + count] = node
        count += 1
    return True


@inner
def _rank(t: Table, gpu: int, slot: int) -> int:
    """0: free, 1: to be had by preempting, 2: neither."""
    held = t[gpu, X_SLOT]
    if held == NOBODY:
        return 0
    return 1 if held < slot else 2


@inner
def choose_gpus(t: Table, x: I8, node: int, count: int, slot: int, out: int) -> None:
    """The closest GPUs of a node, free ones first, onto the list of GPUs from position `out` on."""
    first, gpus = t[node, X_LEAF0], t[node, X_GPUS]
    lv = t[node, X_LV] - (t[node, X_LEVEL] - 1) * LEVEL_SIZE
    span, best = 1, -1
    while True:
        span = x[lv + L_GPUS]
        best, best_at = -1, 0
        for start in range(0, gpus, span):
            found, at = 0, 2 * gpus
            for g in range(start, start + span):
                rank = _rank(t, x[first + g], slot)
                if rank < 2:
                    found += 1
                    at = min(at, rank * gpus + g)
            if found >= count and (best < 0 or at < best_at):
                best, best_at = start, at
        if best >= 0:
            break
        lv += LEVEL_SIZE
    written = 0
    for wanted in range(2):
        for g in range(best, best + span):
            if written < count and _rank(t, x[first + g], slot) == wanted:
                x[x[H_GPU_LIST] + out + written] = x[first + g]
                written += 1


@inner
def lower_held(x: I8, view: int, slot: int) -> bool:
    """Whether anybody in this virtual cluster has a lower priority."""
    for s in range(slot):
        if x[x[view + V_SLOTS] + s] > 0:
            return True
    return False
