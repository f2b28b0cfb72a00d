"""An index of nodes by who would have to go: where room could be made for a job is then known without looking for it.

Of a node's jobs, worst rank first, the one with which it has room for so many GPUs is its *guard* for that need: a job that
outranks the guard can have the room, one that does not can't. For each need that some shape has, a tournament over the nodes
tells the worst guard of all. A change on a node is noted, and its guards are looked at again when somebody asks; the matches of a
need are played again when somebody asks for that need.

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
    N_CAP,
    N_FREE,
    N_GPU0,
    Q_RANKS_AT,
    U_NODE,
    X_ALLOC,
    X_GPUS,
    X_JOB,
    X_LEVEL,
    X_NODE,
    X_ORDER,
    X_PASS,
    Cluster,
    Log,
    Queue,
)
from fairlead.kernels.jit import hot, inner, int64
from fairlead.kernels.ranks import outranks

# rows of Queue.touched: the nodes that were noted, what is noted of each node, and room to sort a node's jobs
LIST, NOTED, ROWS, COUNTS = 0, 1, 2, 3
# of a node: it is not in the list; it is, and is to be looked at again; it is, and has been looked at since
CLEAN, STALE, LOOKED_AT = 0, 1, 2
#: a guard's level is above this bit of its tie, and its job below
LEVEL = 40


@hot
def touch(q: Queue, n: int) -> None:
    """Something has changed on node n."""
    if q.touched[NOTED, n] == CLEAN:
        q.touched[LIST, q.counter[G_TOUCHED]] = n
        q.counter[G_TOUCHED] += 1
    q.touched[NOTED, n] = STALE


@inner
def touch_row(c: Cluster, q: Queue, log: Log, r: int) -> None:
    """The rank of row r has changed."""
    n = int64(q.run_ints[r, X_NODE])
    if n >= 0:
        touch(q, n)
        return
    at = int64(q.run_ints[r, X_ALLOC])
    for g in range(at, at + int64(q.run_ints[r, X_GPUS])):
        touch(q, c.gpu[U_NODE, log.gpu_ids[g]])


@hot
def worse(q: Queue, a: int, b: int) -> bool:
    """Whether row a has the worse rank of two."""
    la, lb = int64(q.run_ints[a, X_LEVEL]), int64(q.run_ints[b, X_LEVEL])
    if la != lb:
        return la > lb
    x, y = q.run_floats[a, X_ORDER], q.run_floats[b, X_ORDER]
    return x > y or (x == y and q.run_ints[a, X_JOB] > q.run_ints[b, X_JOB])


@hot
def _sort_jobs(c: Cluster, q: Queue, n: int) -> int:
    """List the rows on node n that can be displaced, worst first, with the GPUs of each there: how many."""
    rows, last, at = 0, int64(-1), 0
    base = c.node[N_GPU0, n]
    for g in range(base, base + c.node[N_CAP, n]):
        r = int64(q.holder[g]) - 1
        if r < 0:
            continue
        if r != last:
            last = r
            if q.counter[G_MASKED] != 0 and q.run_ints[r, X_PASS] == q.counter[G_PASSES]:
                at = -1
                continue
            at = 0
            while at < rows and q.touched[ROWS, at] != r:
                at += 1
            if at == rows:
                while at > 0 and worse(q, r, int64(q.touched[ROWS, at - 1])):
                    q.touched[ROWS, at] = q.touched[ROWS, at - 1]
                    q.touched[COUNTS, at] = q.touched[COUNTS, at - 1]
                    at -= 1
                q.touched[ROWS, at] = r
                q.touched[COUNTS, at] = 0
                rows += 1
        if at >= 0:
            q.touched[COUNTS, at] += 1
    return rows


@hot
def _set_guard(q: Queue, d: int, n: int, r: int) -> None:
    """Row r, or none (-1), is the guard of node n for need d."""
    tie, rank = int64(-1), 0.0
    if r >= 0:
        tie, rank = (int64(q.run_ints[r, X_LEVEL]) << LEVEL) | int64(q.run_ints[r, X_JOB]), q.run_floats[r, X_ORDER]
    q.guard[d, n] = r + 1
    if q.guard_tie[d, n] == tie and q.guard_rank[d, n] == rank:
        return
    q.guard_tie[d, n] = tie
    q.guard_rank[d, n] = rank
    waits = 1 + 2 * d
    if q.pending[waits, n] == 0:
        q.pending[waits, n] = 1
        count = int64(q.pending[waits - 1, q.pending.shape[1] - 1])
        q.pending[waits - 1, count] = n
        q.pending[waits - 1, q.pending.shape[1] - 1] = count + 1


@hot
def worse_guard(q: Queue, d: int, a: int, b: int) -> bool:
    """Whether node a has the worse guard of two nodes; one without a guard has the best."""
    ta, tb = q.guard_tie[d, a], q.guard_tie[d, b]
    if (ta >> LEVEL) != (tb >> LEVEL):
        return ta > tb
    x, y = q.guard_rank[d, a], q.guard_rank[d, b]
    return x > y or (x == y and ta > tb)


@inner
def play(q: Queue, d: int) -> None:
    """Play those matches of need d again whose outcome may have changed."""
    leaves, end = q.best.shape[1] >> 1, q.pending.shape[1] - 1
    for x in range(int64(q.pending[2 * d, end])):
        n = int64(q.pending[2 * d, x])
        q.pending[2 * d + 1, n] = 0
        v = (leaves + n) >> 1
        q.best[d, leaves + n] = n + 1 if q.guard_tie[d, n] >= 0 else 0
        while v > 0:
            a, b = int64(q.best[d, 2 * v]), int64(q.best[d, 2 * v + 1])
            winner = b if a == 0 or (b != 0 and worse_guard(q, d, b - 1, a - 1)) else a
            if q.best[d, v] == winner and winner != n + 1:
                break  # it neither was nor is the worst from here on
            q.best[d, v] = winner
            v >>= 1
    q.pending[2 * d, end] = 0


@inner
def look_again(c: Cluster, q: Queue, n: int) -> None:
    """Find the guards of node n."""
    rows = _sort_jobs(c, q, n)
    needs = q.guard.shape[0]
    room, d = c.node[N_FREE, n], 0
    for x in range(rows):
        room += int64(q.touched[COUNTS, x])
        while d < needs and need_of(q, d) <= room:
            _set_guard(q, d, n, int64(q.touched[ROWS, x]))
            d += 1
    while d < needs:
        _set_guard(q, d, n, int64(-1))
        d += 1


@hot
def need_of(q: Queue, d: int) -> int:
    """How many GPUs need d is."""
    return int64(q.guard[d, q.guard.shape[1] - 1])


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
def outranks_guard(q: Queue, level: int, key: float, i: int, d: int, n: int) -> bool:
    """Whether job i, of this rank, could have the room of need d on node n by displacing somebody."""
    tie = q.guard_tie[d, n]
    if tie < 0:
        return False
    # as lanes.key_now and ranks.outranks_row would say of its row, which need not be fetched
    its_key = q.guard_rank[d, n] + q.limit[LIMITS] * q.limit[Q_RANKS_AT]
    return outranks(level, key, i, tie >> LEVEL, its_key, tie & ((1 << LEVEL) - 1))
