"""An index of nodes by who would have to go: where room could be made for a job is then known without looking for it.

Of a node's jobs, worst rank first, the one with which it has room for so many GPUs is its *guard* for that need: a job that
outranks the guard can have the room, one that does not can't. For each need that some shape has, a tournament over the nodes
tells the worst guard of all. A node keeps its jobs in the order of their ranks. A change on it is noted, and its guards are looked
at and its matches played again when somebody asks.

Kept where free counts decide for every shape, every GPU's owner is known, and running jobs keep their order among each other
because all their keys change at one speed (R_INDEXED). The lanes of running jobs are not kept then. As soon as one lane is not
enough, lanes take over for the rest of the run. Where ranks change at ticks, every node would have to be looked at again at
each: that was slower than lanes.
"""

from __future__ import annotations

from fairlead.kernels.columns import (
    G_MASKED,
    G_PASSES,
    G_TOUCHED,
    LIMITS,
    N_FREE,
    N_UP,
    Q_RANKS_AT,
    U_NODE,
    X_ALLOC,
    X_GPUS,
    X_KEY,
    X_LEVEL,
    X_NODE,
    X_ORDER,
    X_PASS,
    Cluster,
    Log,
    Queue,
)
from fairlead.kernels.jit import hot, inner, int64
from fairlead.kernels.lanes import key_now, worse
from fairlead.kernels.ranks import outranks_row

# rows of Queue.touched: the nodes that were noted, and what is noted of each node
LIST, NOTED = 0, 1
# of a node: it is not in the list; it is, and is to be looked at again; it is, and has been looked at since
CLEAN, STALE, LOOKED_AT = 0, 1, 2
# columns of Queue.seats: how many rows there are, and the first of them; it has two columns, and so have the others
SEATED, FIRST = 0, 1
# rows of Queue.guard behind the nodes
SIZES, KNOWN = 0, 1
#: the rank of no guard: better than any
NOBODY = -(1 << 63)
#: a level that is farther from 0 has no number of its own
_FAR = 126
_LEVEL = 56
#: how far off a sum of two numbers may be for rounding, four times over, for each of them
_ROUNDING = 2.0**-50
_MUCH = 1e300


@hot
def touch(q: Queue, n: int) -> None:
    """Something has changed on node n."""
    if q.touched[NOTED, n] == CLEAN:
        q.touched[LIST, q.counter[G_TOUCHED]] = n
        q.counter[G_TOUCHED] += 1
    q.touched[NOTED, n] = STALE


@hot
def touch_nodes(c: Cluster, q: Queue, log: Log, at: int, gpus: int) -> None:
    """Something has changed on the nodes of the GPUs at log.gpu_ids[at:]."""
    last = int64(-1)
    for g in range(at, at + gpus):
        n = c.gpu[U_NODE, log.gpu_ids[g]]
        if n != last:
            touch(q, n)
        last = n


@inner
def touch_row(c: Cluster, q: Queue, log: Log, r: int) -> None:
    """The rank of row r has changed."""
    n = int64(q.run_ints[r, X_NODE])
    if n >= 0:
        touch(q, n)
        return
    touch_nodes(c, q, log, int64(q.run_ints[r, X_ALLOC]), int64(q.run_ints[r, X_GPUS]))


@hot
def _number(level: int, bits: int) -> int:
    """A rank as one number, the worse the greater, of its level and the bits of its order. Ranks that are nearly the same may have
    the same number; who needs to know then compares the rows."""
    if level > _FAR:
        return (_FAR + 1) << _LEVEL
    if level < -_FAR:
        return -(_FAR + 1) << _LEVEL
    bits ^= (bits >> 63) & ((1 << 63) - 1)  # as integers, floats below 0 go backwards
    return (level << _LEVEL) + (bits >> (64 - _LEVEL))


@hot
def number_of_row(q: Queue, r: int) -> int:
    return _number(int64(q.run_ints[r, X_LEVEL]), q.run_bits[r, X_ORDER])


@hot
def _number_of(q: Queue, level: int, order: float) -> int:
    scratch = q.run_floats.shape[0] - 1  # more rows than there are jobs
    q.run_floats[scratch, X_KEY] = order
    return _number(level, q.run_bits[scratch, X_KEY])


@hot
def bounds_of(q: Queue, level: int, key: float) -> tuple[int, int]:
    """Whoever has this rank outranks all guards whose number is above the second, and none whose number is below the first."""
    shift = q.limit[LIMITS] * q.limit[Q_RANKS_AT]
    if shift == 0.0:
        number = _number_of(q, level, key + 0.0)
        return number, number
    order, off = key - shift + 0.0, min((abs(key) + abs(shift)) * _ROUNDING, _MUCH)  # an infinite key stays what it is
    return _number_of(q, level, order - off), _number_of(q, level, order + off)


# -- who is on a node ------------------------------------------------------------------------------------------------------


@hot
def row_at(q: Queue, n: int, x: int) -> int:
    """The row of the x-th worst rank on node n."""
    return int64(q.seats[n, FIRST + 2 * x])


@hot
def _sit_on(q: Queue, n: int, r: int, gpus: int) -> None:
    rank = number_of_row(q, r)
    x = int64(q.seats[n, SEATED])
    q.seats[n, SEATED] = x + 1
    while x > 0:
        other = q.seat_rank[n, x - 1]
        if other > rank or (other == rank and not worse(q, r, row_at(q, n, x - 1))):
            break
        _move(q, n, x - 1, x)
        x -= 1
    q.seat_rank[n, x] = rank
    q.seats[n, FIRST + 2 * x] = r
    q.seats[n, FIRST + 2 * x + 1] = gpus


@hot
def _rise_from(q: Queue, n: int, r: int) -> None:
    last, x = int64(q.seats[n, SEATED]) - 1, 0
    while row_at(q, n, x) != r:
        x += 1
    q.seats[n, SEATED] = last
    while x < last:
        _move(q, n, x + 1, x)
        x += 1


@hot
def _move(q: Queue, n: int, x: int, y: int) -> None:
    q.seat_rank[n, y] = q.seat_rank[n, x]
    q.seats[n, FIRST + 2 * y] = q.seats[n, FIRST + 2 * x]
    q.seats[n, FIRST + 2 * y + 1] = q.seats[n, FIRST + 2 * x + 1]


@inner
def sit(c: Cluster, q: Queue, log: Log, r: int) -> None:
    """Row r, whose rank is known, takes its places on its nodes. That they have changed is noted elsewhere."""
    n, at, left = int64(q.run_ints[r, X_NODE]), int64(q.run_ints[r, X_ALLOC]), int64(q.run_ints[r, X_GPUS])
    if n >= 0:
        _sit_on(q, n, r, left)
        return
    while left > 0:
        gpus = _on_one(c, log, at, left)
        _sit_on(q, c.gpu[U_NODE, log.gpu_ids[at]], r, gpus)
        at += gpus
        left -= gpus


@inner
def rise(c: Cluster, q: Queue, log: Log, r: int) -> None:
    """Row r leaves its places, before its rank changes."""
    n, at, left = int64(q.run_ints[r, X_NODE]), int64(q.run_ints[r, X_ALLOC]), int64(q.run_ints[r, X_GPUS])
    if n >= 0:
        _rise_from(q, n, r)
        return
    while left > 0:
        gpus = _on_one(c, log, at, left)
        _rise_from(q, c.gpu[U_NODE, log.gpu_ids[at]], r)
        at += gpus
        left -= gpus


@hot
def _on_one(c: Cluster, log: Log, at: int, left: int) -> int:
    """How many of these GPUs, from the first on, are on one node."""
    gpus, n = 1, c.gpu[U_NODE, log.gpu_ids[at]]
    while gpus < left and c.gpu[U_NODE, log.gpu_ids[at + gpus]] == n:
        gpus += 1
    return gpus


# -- guards ----------------------------------------------------------------------------------------------------------------


@hot
def need_of(q: Queue, d: int) -> int:
    """How many GPUs need d is."""
    return int64(q.guard[q.guard.shape[0] - 2 + SIZES, d])


@hot
def leaf_of(q: Queue, n: int) -> int:
    """The vertex of node n."""
    return (q.worst.shape[0] >> 1) + n


@hot
def _set_guard(q: Queue, d: int, n: int, r: int, rank: int) -> bool:
    """Row r of this rank, or none (-1), is the guard of node n for need d: whether it was not before."""
    leaf, known = leaf_of(q, n), q.guard.shape[0] - 2 + KNOWN
    # even where nothing seems to have changed: the row may be another job's by now, of the same number
    if q.guard[known, d] == n + 1 or rank >= q.worst[1, d]:
        q.guard[known, d] = 0
    if q.guard[n, d] == r + 1 and q.worst[leaf, d] == rank:
        return False
    q.guard[n, d] = r + 1
    q.worst[leaf, d] = rank
    return True


@hot
def _play(q: Queue, n: int) -> None:
    """Play the matches of node n again, up to where they come out as before."""
    v, needs, same = leaf_of(q, n) >> 1, q.guard.shape[1], False
    while v > 0 and not same:
        same = True
        for d in range(needs):
            a, b = q.worst[2 * v, d], q.worst[2 * v + 1, d]
            winner = a if a > b else b
            if q.worst[v, d] != winner:
                q.worst[v, d] = winner
                same = False
        v >>= 1


@inner
def look_again(c: Cluster, q: Queue, n: int) -> None:
    """Find the guards of node n. A closed one has none: jobs run on there, live, and would go in vain."""
    needs, masked = q.guard.shape[1], q.counter[G_MASKED] != 0
    room, d, changed = c.node[N_FREE, n], 0, False
    seated = int64(q.seats[n, SEATED]) if c.node[N_UP, n] != 0 else 0
    for x in range(seated):
        r = row_at(q, n, x)
        if masked and q.run_ints[r, X_PASS] == q.counter[G_PASSES]:
            continue
        room += int64(q.seats[n, FIRST + 2 * x + 1])
        rank = q.seat_rank[n, x]
        while d < needs and need_of(q, d) <= room:
            changed = _set_guard(q, d, n, r, rank) or changed
            d += 1
        if d == needs:
            break
    while d < needs:
        changed = _set_guard(q, d, n, int64(-1), NOBODY) or changed
        d += 1
    if changed:
        _play(q, n)


@inner
def look_at_touched(c: Cluster, q: Queue) -> None:
    for x in range(q.counter[G_TOUCHED]):
        n = int64(q.touched[LIST, x])
        if q.touched[NOTED, n] == STALE:
            look_again(c, q, n)
        q.touched[NOTED, n] = CLEAN
    q.counter[G_TOUCHED] = 0


@hot
def look_at(c: Cluster, q: Queue, n: int) -> None:
    if q.touched[NOTED, n] == STALE:
        look_again(c, q, n)
        q.touched[NOTED, n] = LOOKED_AT


@hot
def next_vertex(v: int) -> int:
    """The vertex of a tournament that comes after v and all below it, 0 if none does."""
    while v & 1:
        v >>= 1
    return v + 1 if v > 0 else 0


@inner
def worst_node(q: Queue, d: int) -> int:
    """The node with the worst guard for need d, -1 if none has one."""
    known, leaves, rank = q.guard.shape[0] - 2 + KNOWN, q.worst.shape[0] >> 1, q.worst[1, d]
    if q.guard[known, d] != 0:
        return int64(q.guard[known, d]) - 1
    worst = int64(-1)
    v = int64(0 if rank == NOBODY else 1)
    while v > 0:
        if q.worst[v, d] == rank:
            if v < leaves:
                v *= 2
                continue
            if worst < 0 or worse_guard(q, d, v - leaves, worst):
                worst = v - leaves
        v = next_vertex(v)
    q.guard[known, d] = worst + 1
    return worst


@hot
def worse_guard(q: Queue, d: int, a: int, b: int) -> bool:
    """Whether node a has the worse guard of two nodes that have one."""
    x, y = q.worst[leaf_of(q, a), d], q.worst[leaf_of(q, b), d]
    return x > y or (x == y and worse(q, int64(q.guard[a, d]) - 1, int64(q.guard[b, d]) - 1))


@hot
def outranks_guard(q: Queue, level: int, key: float, i: int, d: int, n: int) -> bool:
    """Whether job i, of this rank, could have the room of need d on node n by displacing somebody."""
    rank = q.worst[leaf_of(q, n), d]
    if rank == NOBODY:
        return False
    low, high = bounds_of(q, level, key)
    if rank < low or rank > high:  # as it mostly is, and its row need not be fetched
        return rank > high
    r = int64(q.guard[n, d]) - 1
    key_now(q, r)
    return outranks_row(q, level, key, i, r)
