"""Making room by the index of guards: whether anybody must go for a job, and who, where guards.py keeps the index.

What survey.py finds by going through running jobs, worst rank first, until there is room, is found here from the guards: the
last of those jobs is the guard, or the worst of so many guards, that lies on the way.
"""

from __future__ import annotations

from fairlead.kernels.columns import (
    C_LACKS,
    C_SHAPE,
    G_MASKED,
    G_PASS_ROW,
    G_PASSES,
    G_ROWS,
    G_SPARED,
    G_VICTIMS,
    J_KEY,
    K_CLASS,
    K_LEVEL,
    K_ROW,
    K_SCRATCH,
    N_FREE,
    P_CAP,
    P_COUNT,
    S_GPUS,
    S_MATTERS,
    S_NEED,
    S_NODES,
    U_NODE,
    X_ALLOC,
    X_GPUS,
    X_JOB,
    X_NODE,
    X_PASS,
    Cluster,
    Jobs,
    Log,
    Queue,
)
from fairlead.kernels.guards import (
    NOBODY,
    SEATED,
    bounds_of,
    leaf_of,
    look_at_touched,
    need_of,
    next_vertex,
    number_of_row,
    outranks_guard,
    row_at,
    touch_row,
    worse_guard,
    worst_node,
)
from fairlead.kernels.jit import inner, int64
from fairlead.kernels.lanes import key_now, worse
from fairlead.kernels.moves import release
from fairlead.kernels.ranks import outranks_row
from fairlead.kernels.rows import START_ROW
from fairlead.kernels.running import leave_lane


@inner
def _touch_spared(c: Cluster, j: Jobs, q: Queue, log: Log, i: int) -> int:
    """What this pass has started stays, though a job that was just suspended may outrank it: how many such jobs there are.
    Their nodes are noted, before looking without them and after."""
    level, key, spared = int64(j.ints[K_LEVEL, i]), j.floats[J_KEY, i], 0
    for x in range(q.counter[G_PASS_ROW], q.counter[G_ROWS]):
        if log.what[0, x] == START_ROW:
            r = int64(j.ints[K_ROW, int64(log.what[1, x])])
            if q.run_ints[r, X_PASS] != q.counter[G_PASSES]:
                continue
            key_now(q, r)
            if outranks_row(q, level, key, i, r):
                spared += 1
                touch_row(c, q, log, r)
    return spared


@inner
def _list_victims(j: Jobs, q: Queue, n: int, last: int, count: int) -> int:
    """Put the rows on node n that do not rank above row `last` into the scratch list, worst first, unless they are there: its
    new length."""
    for y in range(int64(q.seats[n, SEATED])):
        r = row_at(q, n, y)
        if r != last and not worse(q, r, last):
            break
        if q.run_ints[r, X_PASS] == q.counter[G_PASSES]:
            continue
        at = count
        while at > 0 and worse(q, r, int64(j.ints[K_SCRATCH, at - 1])):
            at -= 1
        if at > 0 and j.ints[K_SCRATCH, at - 1] == r:
            continue
        for x in range(count, at, -1):
            j.ints[K_SCRATCH, x] = j.ints[K_SCRATCH, x - 1]
        j.ints[K_SCRATCH, at] = r
        count += 1
    return count


@inner
def _worst_guards(c: Cluster, j: Jobs, q: Queue, i: int, d: int, most: int) -> int:
    """The nodes with the worst guards for need d that job i outranks, leaving out those that have the room already: how many,
    at most so many. They are in c.pick, worst first."""
    level, key = int64(j.ints[K_LEVEL, i]), j.floats[J_KEY, i]
    leaves, need = q.worst.shape[0] >> 1, need_of(q, d)
    least = max(bounds_of(q, level, key)[0], NOBODY + 1)
    found, v = 0, 1
    while v > 0:
        if q.worst[v, d] >= least:
            if v < leaves:
                v *= 2
                continue
            n = v - leaves
            if c.node[N_FREE, n] < need and (
                worse_guard(q, d, n, c.pick[most - 1, 0]) if found == most else outranks_guard(q, level, key, i, d, n)
            ):
                at = found if found < most else most - 1
                while at > 0 and worse_guard(q, d, n, c.pick[at - 1, 0]):
                    c.pick[at, 0] = c.pick[at - 1, 0]
                    at -= 1
                c.pick[at, 0] = n
                found = min(found + 1, most)
                if found == most:
                    least = q.worst[leaf_of(q, c.pick[most - 1, 0]), d]
        v = next_vertex(v)
    return found


@inner
def _list_all_victims(j: Jobs, q: Queue, d: int, last: int) -> int:
    """The rows that do not rank above row `last`, on all nodes that have the room of need d when they are gone."""
    leaves, count, v = q.worst.shape[0] >> 1, 0, 1
    least = number_of_row(q, last)
    while v > 0:
        if q.worst[v, d] >= least:
            if v < leaves:
                v *= 2
                continue
            r = int64(q.guard[v - leaves, d]) - 1
            if r == last or worse(q, r, last):
                count = _list_victims(j, q, v - leaves, last, count)
        v = next_vertex(v)
    return count


@inner
def _on_one_node(c: Cluster, j: Jobs, q: Queue, log: Log, i: int) -> int:
    """Who must go for a job of one node: the length of the list, 0 if it can't be."""
    d = c.shape[S_NEED, q.classes[C_SHAPE, int64(j.ints[K_CLASS, i])]]
    level, key = int64(j.ints[K_LEVEL, i]), j.floats[J_KEY, i]
    if q.worst[1, d] < bounds_of(q, level, key)[0]:
        return 0
    n = worst_node(q, d)
    if n < 0 or not outranks_guard(q, level, key, i, d, n):
        return 0
    last = int64(q.guard[n, d]) - 1
    if q.run_ints[last, X_NODE] >= 0:
        return _list_victims(j, q, n, last, 0)
    # a job of several nodes: it may be the guard of more than one
    count, at, before = 0, int64(q.run_ints[last, X_ALLOC]), int64(-1)
    for g in range(at, at + int64(q.run_ints[last, X_GPUS])):
        n = c.gpu[U_NODE, log.gpu_ids[g]]
        if n != before and q.guard[n, d] == last + 1:
            count = _list_victims(j, q, n, last, count)
        before = n
    return count


@inner
def _on_many_nodes(c: Cluster, j: Jobs, q: Queue, i: int) -> int:
    """The same for a job of several nodes: whole ones, and one for the rest. Where whole nodes lack, its class remembers how
    many: so many must come before looking again is worth while."""
    k = int64(j.ints[K_CLASS, i])
    s = q.classes[C_SHAPE, k]
    cap, least, counts = c.pool[P_CAP, 0], c.shape[S_MATTERS, s], c.pool[P_COUNT, 0]
    full, whole = c.shape[S_GPUS, s] // cap, c.cells[counts + cap]
    last, lacking = int64(-1), full - whole
    if lacking > 0:
        d = q.guard.shape[1] - 1  # the need of a whole node is the last
        found = _worst_guards(c, j, q, i, d, lacking)
        if found < lacking:
            q.classes[C_LACKS, k] = lacking - found
            return 0
        last = int64(q.guard[c.pick[lacking - 1, 0], d]) - 1
    d = c.shape[S_NEED, s]
    if least < cap:
        lacking = full + 1
        for free in range(least, cap + 1):
            lacking -= c.cells[counts + free]
        if lacking > 0:
            if _worst_guards(c, j, q, i, d, lacking) < lacking:
                q.classes[C_LACKS, k] = 0
                return 0
            r = int64(q.guard[c.pick[lacking - 1, 0], d]) - 1
            if last < 0 or worse(q, last, r):
                last = r
    return 0 if last < 0 else _list_all_victims(j, q, d, last)


@inner
def make_room(c: Cluster, j: Jobs, q: Queue, log: Log, i: int) -> bool:
    """Release who must go for job i, if it can be: the worst ranks first until there is room, but only on nodes where that makes
    any, since releases elsewhere would be put back. They are left in K_SCRATCH, worst first, G_VICTIMS of them."""
    look_at_touched(c, q)
    spared = _touch_spared(c, j, q, log, i)
    q.counter[G_SPARED] = spared
    if spared > 0:
        q.counter[G_MASKED] = 1
        look_at_touched(c, q)
    if c.shape[S_NODES, q.classes[C_SHAPE, int64(j.ints[K_CLASS, i])]] == 1:
        count = _on_one_node(c, j, q, log, i)
    else:
        count = _on_many_nodes(c, j, q, i)
    if spared > 0:
        q.counter[G_MASKED] = 0
        _touch_spared(c, j, q, log, i)
    for x in range(count):
        v = int64(q.run_ints[int64(j.ints[K_SCRATCH, x]), X_JOB])
        j.ints[K_SCRATCH, x] = v
        leave_lane(c, j, q, log, v)
        release(c, j, q, log, v)
    q.counter[G_VICTIMS] = count
    return count > 0
