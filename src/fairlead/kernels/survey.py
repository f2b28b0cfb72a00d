"""Looking before leaping: who would have to go for a job, worst rank first, without moving anybody.

Only for plain shapes, where free counts per node decide, and where every GPU's owner is known (R_OWNERS).
"""

from __future__ import annotations

from fairlead.kernels.columns import (
    C_LACKS,
    C_SHAPE,
    G_FINGER,
    G_LANES,
    G_PASSES,
    G_RIVAL,
    G_SPARED,
    G_SURVEY,
    G_VICTIMS,
    J_KEY,
    K_CLASS,
    K_LEVEL,
    K_ROW,
    K_SCRATCH,
    L_FINGER,
    N_CAP,
    N_FREE,
    N_GPU0,
    N_ROOM,
    N_SURVEY,
    N_TYPE,
    P_CAP,
    P_COUNT,
    P_TYPE,
    S_GPUS,
    S_MATTERS,
    S_TYPE,
    U_JOB,
    U_NODE,
    X_ALLOC,
    X_GPUS,
    X_JOB,
    X_KEY,
    X_LEVEL,
    X_NODE,
    X_PASS,
    X_SURVEY,
    Cluster,
    Jobs,
    Log,
    Queue,
)
from fairlead.kernels.jit import hot, inner, int64
from fairlead.kernels.lanes import key_now, leave_lane, next_in_lane, worst_of
from fairlead.kernels.moves import release
from fairlead.kernels.ranks import outranks_row


@hot
def begin_survey(q: Queue) -> None:
    """Put a finger on the worst row of each lane."""
    q.counter[G_SURVEY] += 1
    q.counter[G_SPARED] = 0
    for lane in range(q.counter[G_LANES]):
        r = worst_of(q, lane)
        q.classes[L_FINGER, lane] = r
        if r >= 0:
            key_now(q, r)
    _choose_lane(q)


@hot
def _choose_lane(q: Queue) -> None:
    """Find the finger on the worst row, and the worst that any other is on: until that one's turn comes, the others need not be
    looked at."""
    worst, rival, at = int64(-1), int64(-1), int64(-1)
    for lane in range(q.counter[G_LANES]):
        r = q.classes[L_FINGER, lane]
        if r < 0:
            continue
        if worst < 0 or row_below(q, worst, r):
            worst, rival, at = r, worst, lane
        elif rival < 0 or row_below(q, rival, r):
            rival = r
    q.counter[G_FINGER] = at
    q.counter[G_RIVAL] = rival


@hot
def next_outranked(q: Queue, level: int, key: float, i: int) -> int:
    """The row of the next worst running job that job i, of this rank, outranks and may displace, -1 if there is none left."""
    while True:
        at = q.counter[G_FINGER]
        if at < 0:
            return int64(-1)
        worst = q.classes[L_FINGER, at]
        if not outranks_row(q, level, key, i, worst):
            return int64(-1)
        r = next_in_lane(q, worst)
        q.classes[L_FINGER, at] = r
        if r >= 0:
            key_now(q, r)
        rival = q.counter[G_RIVAL]
        if r < 0 or (rival >= 0 and row_below(q, r, rival)):
            _choose_lane(q)
        if q.run_ints[worst, X_PASS] != q.counter[G_PASSES]:
            return worst
        # what this pass has started stays: with a quantum, a job that was just suspended may outrank it
        q.counter[G_SPARED] += 1


@hot
def row_below(q: Queue, a: int, b: int) -> bool:
    """Whether row b ranks below row a, by the keys when they were last looked at."""
    return outranks_row(q, int64(q.run_ints[a, X_LEVEL]), q.run_floats[a, X_KEY], int64(q.run_ints[a, X_JOB]), b)


@hot
def count_room(c: Cluster, q: Queue, n: int, gpus: int) -> int:
    """Count `gpus` more GPUs of node n as room: how many it has now."""
    survey_no = q.counter[G_SURVEY]
    if c.node[N_SURVEY, n] != survey_no:
        c.node[N_SURVEY, n] = survey_no
        c.node[N_ROOM, n] = c.node[N_FREE, n]
    c.node[N_ROOM, n] += gpus
    return c.node[N_ROOM, n]


@inner
def _list_surveyed(c: Cluster, j: Jobs, q: Queue, n: int, count: int) -> int:
    """Put the surveyed jobs of node n into the scratch list, as rows, worst rank first, unless they are there: its new
    length."""
    base, last = c.node[N_GPU0, n], int64(-1)
    for h in range(base, base + c.node[N_CAP, n]):
        v = c.gpu[U_JOB, h]
        if v < 0 or v == last:
            continue
        last = v
        r = int64(j.ints[K_ROW, v])
        if q.run_ints[r, X_SURVEY] != q.counter[G_SURVEY]:
            continue
        at = count
        while at > 0 and row_below(q, int64(j.ints[K_SCRATCH, at - 1]), r):
            at -= 1
        if at > 0 and j.ints[K_SCRATCH, at - 1] == r:
            continue
        for x in range(count, at, -1):
            j.ints[K_SCRATCH, x] = j.ints[K_SCRATCH, x - 1]
        j.ints[K_SCRATCH, at] = r
        count += 1
    return count


@inner
def _release_listed(c: Cluster, j: Jobs, q: Queue, log: Log, count: int) -> None:
    """Release the jobs whose rows are listed: from now on the list names the jobs."""
    for x in range(count):
        v = int64(q.run_ints[int64(j.ints[K_SCRATCH, x]), X_JOB])
        j.ints[K_SCRATCH, x] = v
        leave_lane(q, j, v)
        release(c, j, q, log, v)
    q.counter[G_VICTIMS] = count


@inner
def room_on_one_node(c: Cluster, j: Jobs, q: Queue, log: Log, i: int) -> bool:
    """For a job of one node: find, worst first, who must go until a node has room, and release those on that node: releases
    elsewhere would be put back, since nobody takes anything there. They are left in K_SCRATCH, worst first, G_VICTIMS of
    them."""
    s = q.classes[C_SHAPE, int64(j.ints[K_CLASS, i])]
    gpus, wanted = c.shape[S_GPUS, s], c.shape[S_TYPE, s]
    level, key = int64(j.ints[K_LEVEL, i]), j.floats[J_KEY, i]
    begin_survey(q)
    while True:
        r = next_outranked(q, level, key, i)
        if r < 0:
            return False
        q.run_ints[r, X_SURVEY] = q.counter[G_SURVEY]
        n = int64(q.run_ints[r, X_NODE])
        if n >= 0:
            if (wanted < 0 or c.node[N_TYPE, n] == wanted) and count_room(
                c, q, n, int64(q.run_ints[r, X_GPUS])
            ) >= gpus:
                _release_listed(c, j, q, log, _list_surveyed(c, j, q, n, 0))
                return True
            continue
        count, found, at = 0, False, int64(q.run_ints[r, X_ALLOC])
        for g in range(at, at + int64(q.run_ints[r, X_GPUS])):
            n = c.gpu[U_NODE, log.gpu_ids[g]]
            if wanted < 0 or c.node[N_TYPE, n] == wanted:
                count_room(c, q, n, 1)
        for g in range(at, at + int64(q.run_ints[r, X_GPUS])):
            n = c.gpu[U_NODE, log.gpu_ids[g]]
            if c.node[N_SURVEY, n] == q.counter[G_SURVEY] and c.node[N_ROOM, n] >= gpus:
                count, found = _list_surveyed(c, j, q, n, count), True
        if found:
            _release_listed(c, j, q, log, count)
            return True


@inner
def room_on_many_nodes(c: Cluster, j: Jobs, q: Queue, log: Log, i: int) -> bool:
    """The same for a job of several nodes: whole ones, and one for the rest. Where whole nodes lack, its class remembers how
    many: so many must come before looking again is worth while."""
    k = int64(j.ints[K_CLASS, i])
    s = q.classes[C_SHAPE, k]
    gpus, wanted, least = c.shape[S_GPUS, s], c.shape[S_TYPE, s], c.shape[S_MATTERS, s]
    cap, whole, fitting, listed = 0, 0, 0, 0
    for p in range(c.pool.shape[1]):
        if c.pool[P_CAP, p] > 0 and (wanted < 0 or c.pool[P_TYPE, p] == wanted):
            cap = c.pool[P_CAP, p]
            whole += c.cells[c.pool[P_COUNT, p] + cap]
            for free in range(least, cap + 1):
                fitting += c.cells[c.pool[P_COUNT, p] + free]
    full = gpus // cap
    nodes = full + (1 if gpus % cap > 0 else 0)
    level, key = int64(j.ints[K_LEVEL, i]), j.floats[J_KEY, i]
    begin_survey(q)
    while True:
        r = next_outranked(q, level, key, i)
        if r < 0:
            q.classes[C_LACKS, k] = max(full - whole, 0)
            return False
        q.run_ints[r, X_SURVEY] = q.counter[G_SURVEY]
        at, left = int64(q.run_ints[r, X_ALLOC]), int64(q.run_ints[r, X_GPUS])
        while left > 0:
            # what it holds on one node after another; a node counts once, when it crosses a line
            n, held = int64(q.run_ints[r, X_NODE]), left
            if n < 0:
                n, held = c.gpu[U_NODE, log.gpu_ids[at]], 1
            at += held
            left -= held
            if wanted >= 0 and c.node[N_TYPE, n] != wanted:
                continue
            known = c.node[N_SURVEY, n] == q.counter[G_SURVEY]
            room = count_room(c, q, n, held)
            if room == cap:
                whole += 1
            if room >= least:
                fitting += room - held < least
                if not known or room - held < least:
                    c.pick[listed, 0] = n  # some of its jobs go, and it may be taken
                    listed += 1
        if whole >= full and fitting >= nodes:
            break
    count = 0
    for x in range(listed):
        count = _list_surveyed(c, j, q, c.pick[x, 0], count)
    _release_listed(c, j, q, log, count)
    return True
