"""Making room for a job: which running jobs that rank below it must go, the lowest rank first.

`displace` does it as docs/semantics.md says, by releasing one job after another until the placer finds room. Where free
counts per node decide (whole GPUs, fewest nodes), survey.py tells instead whether that can succeed at all, and which jobs
would be released in the end: trying it out costs a hundred times more than asking.
"""

from __future__ import annotations

from fairlead.kernels.bound import find_place, gives_room
from fairlead.kernels.columns import (
    C_SHAPE,
    G_PASSES,
    G_SPARED,
    G_VICTIMS,
    J_KEY,
    K_ALLOC,
    K_CLASS,
    K_LEVEL,
    K_ROW,
    K_SCRATCH,
    K_STARTS,
    N_FREE,
    R_DEMANDS,
    R_GATED,
    R_INDEXED,
    R_OWNERS,
    R_QUOTAS,
    R_SEED,
    R_SHARES,
    S_BOUND,
    S_GPUS,
    S_MATTERS,
    S_NODES,
    S_PLAIN,
    U_NODE,
    X_JOB,
    X_PASS,
    Cluster,
    Jobs,
    Log,
    Plug,
    Queue,
)
from fairlead.kernels.jit import inner, int64, kept
from fairlead.kernels.lanes import own
from fairlead.kernels.moves import hold, release
from fairlead.kernels.nodes import take_held
from fairlead.kernels.quota import within_quota
from fairlead.kernels.ranks import outranks_row, worst_running
from fairlead.kernels.room import make_room
from fairlead.kernels.running import leave_lane, rejoin_lane
from fairlead.kernels.survey import room_on_many_nodes, room_on_one_node


@inner
def could_help(c: Cluster, q: Queue, log: Log, s: int, left: int, at: int) -> bool:
    """Whether the room that a job of shape `left` just left could make shape s fit, judged by its nodes' free counts where these decide."""
    if c.shape[S_BOUND, s] != 0:
        return gives_room(c, log, s, left, at)
    if q.counter[R_GATED] == 0 or c.shape[S_PLAIN, s] == 0:
        return True
    gpus = c.shape[S_GPUS, left]
    last = -1
    for g in range(at, at + gpus):
        n = c.gpu[U_NODE, log.gpu_ids[g]]
        if n != last:
            last = n
            if c.node[N_FREE, n] >= c.shape[S_MATTERS, s]:
                return True
    return False


@kept
def displace(c: Cluster, j: Jobs, q: Queue, log: Log, i: int, f: Plug) -> int:
    """Release running jobs that rank below job i, worst first, until it fits: the rows of its pick, or -1 with all undone.

    On success the released jobs are the first G_VICTIMS of K_SCRATCH, worst first, still marked running. Job i must be the
    best of its class: what is learnt of the room that lacks is remembered for the class.
    """
    k = int64(j.ints[K_CLASS, i])
    s = q.classes[C_SHAPE, k]
    if q.counter[R_OWNERS] != 0 and c.shape[S_PLAIN, s] != 0 and q.counter[R_QUOTAS] == 0:
        q.counter[G_VICTIMS] = 0
        if q.counter[R_INDEXED] != 0:
            cleared = make_room(c, j, q, log, i)
        elif c.shape[S_NODES, s] == 1:
            cleared = room_on_one_node(c, j, q, log, i)
        else:
            cleared = room_on_many_nodes(c, j, q, log, i)
        if not cleared:
            return -1
        return f.place(c, s, q.counter[R_SEED], i, int64(j.ints[K_STARTS, i]), f.pp)
    mine, my_level = j.floats[J_KEY, i], int64(j.ints[K_LEVEL, i])
    count, rows = 0, -1
    spared, last = 0, j.ints.shape[1] - 1
    while rows < 0:
        r = worst_running(q)
        if r < 0 or not outranks_row(q, my_level, mine, i, r):
            break
        v = int64(q.run_ints[r, X_JOB])
        leave_lane(c, j, q, log, v)
        if q.run_ints[r, X_PASS] == q.counter[G_PASSES]:
            # what this pass has started stays: with a quantum, a job that was just suspended may outrank it
            j.ints[K_SCRATCH, last - spared] = v
            spared += 1
            continue
        release(c, j, q, log, v)
        j.ints[K_SCRATCH, count] = v
        count += 1
        helps = q.counter[R_QUOTAS] != 0 or could_help(
            c, q, log, s, q.classes[C_SHAPE, int64(j.ints[K_CLASS, v])], int64(j.ints[K_ALLOC, v])
        )
        if helps and within_quota(c, q, k):
            rows = find_place(c, j, q, i, s, f)
    q.counter[G_SPARED] = spared
    for x in range(spared):
        rejoin_lane(c, j, q, log, int64(j.ints[K_SCRATCH, last - x]))
    if rows < 0:
        for x in range(count - 1, -1, -1):
            put_back(c, j, q, log, int64(j.ints[K_SCRATCH, x]))
    q.counter[G_VICTIMS] = count
    return rows


@inner
def put_back(c: Cluster, j: Jobs, q: Queue, log: Log, v: int) -> None:
    """A released job runs on as if nothing had been."""
    k = int64(j.ints[K_CLASS, v])
    at = int64(j.ints[K_ALLOC, v])
    take_held(c, q.classes[C_SHAPE, k], log.gpu_ids, at, q.counter[R_SHARES] != 0, q.counter[R_DEMANDS] != 0)
    hold(c, q, log, v, k, at)
    if q.counter[R_OWNERS] != 0 and q.counter[R_INDEXED] == 0:
        own(c, log, at, c.shape[S_GPUS, q.classes[C_SHAPE, k]], int64(j.ints[K_ROW, v]))
    rejoin_lane(c, j, q, log, v)
