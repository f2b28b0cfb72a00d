"""What people and machines do to jobs from outside a run: take one out, let it in, tell that its run was lost."""

from __future__ import annotations

from fairlead.kernels.apply import start_on
from fairlead.kernels.columns import (
    C_SHAPE,
    F8,
    G_NEXT,
    G_RUNNING,
    J_DUE,
    J_SINCE,
    K_ALLOC,
    K_CLASS,
    K_RESUMES,
    K_STARTS,
    K_STATE,
    N_UP,
    NEVER,
    PENDING,
    R_INDEXED,
    R_LISTED,
    R_PREEMPTS,
    R_TIMERS,
    RUNNING,
    WAITING,
    WITHDRAWN,
    Cluster,
    JobFunction,
    Jobs,
    Log,
    PlaceFunction,
    Plug,
    Queue,
    TenantFunction,
)
from fairlead.kernels.counts import count_anew
from fairlead.kernels.events import outdate_end
from fairlead.kernels.guards import touch
from fairlead.kernels.jit import inner, int64
from fairlead.kernels.lanes import free_row
from fairlead.kernels.moves import drop_timer, give_back, kill, rerank, set_timer, settle
from fairlead.kernels.nodes import set_up
from fairlead.kernels.ranks import enter_class_called, leave_class_called, unlist_running
from fairlead.kernels.reopening import reopen, reopen_around
from fairlead.kernels.rows import ADMIT_ROW, NODE_DOWN_ROW, NODE_UP_ROW, WITHDRAW_ROW, write_row
from fairlead.kernels.running import leave_lane
from fairlead.kernels.slim import by_ref
from fairlead.kernels.twins import be_itself

#: take a job out of the queue or off its GPUs; let in one that is out; its run was lost, it waits again; let in all that
#: are known and not in yet, each as of its J_SINCE
WITHDRAW, ADMIT, REQUEUE, ADMIT_ALL = 0, 1, 2, 3
#: a node takes no more jobs, or takes them again; those that run there run on
CLOSE, OPEN = 4, 5
#: jobs that wait and have a K_ALLOC run already, since their J_SINCE, on the ids that stand there in the log; before these
#: stands the class that each runs as
ADOPT_ALL = 6


@inner
def withdraw(c: Cluster, j: Jobs, q: Queue, log: Log, i: int, now: float) -> None:
    if j.ints[K_STATE, i] == WAITING:
        leave_class_called(j, q, i)
        drop_timer(j, q, i)
    elif j.ints[K_STATE, i] == RUNNING:
        s, at = q.classes[C_SHAPE, int64(j.ints[K_CLASS, i])], int64(j.ints[K_ALLOC, i])
        if q.counter[R_PREEMPTS] != 0:
            leave_lane(c, j, q, log, i)
            free_row(j, q, i)
        give_back(c, j, q, log, i, now)
        settle(j, q, i, now)
        drop_timer(j, q, i)
        q.counter[G_RUNNING] -= 1
        if q.counter[R_LISTED] != 0:
            unlist_running(j, q, i)
        outdate_end(j, q, i)
        j.floats[J_DUE, i] = NEVER
        j.ints[K_RESUMES, i] = 1
        be_itself(j, q, i)
        reopen_around(c, j, q, log, s, at)
    j.ints[K_STATE, i] = WITHDRAWN


@inner
def admit(c: Cluster, j: Jobs, q: Queue, i: int, now: float, f: Plug) -> None:
    j.ints[K_STATE, i] = WAITING
    j.floats[J_SINCE, i] = now
    rerank(c, j, q, i, now, f)
    enter_class_called(j, q, i, q.counter[R_PREEMPTS] != 0)
    if q.counter[R_TIMERS] != 0 and j.ints[K_STARTS, i] > 0:
        set_timer(c, j, q, i, now, f)


@inner
def note_turn(q: Queue, n: int) -> None:
    """Node n is closed or open again: whether jobs that run on there could make room is another matter now."""
    if q.counter[R_INDEXED] != 0:
        touch(q, n)
    count_anew(q)


def intervene(
    c: Cluster, j: Jobs, q: Queue, log: Log,
    p: F8, pp: F8,
    key: JobFunction, level: JobFunction, drift: JobFunction, wake: JobFunction, resets: JobFunction,
    group: TenantFunction, place: PlaceFunction,
    what: int, i: int, now: float, node: int,
) -> int:  # fmt: skip
    f = by_ref(Plug(p, pp, key, level, drift, wake, resets, group, place))
    if what == WITHDRAW:
        if j.ints[K_STATE, i] == WAITING or j.ints[K_STATE, i] == RUNNING:
            write_row(log, q, now, WITHDRAW_ROW, i, 0)
        withdraw(c, j, q, log, i, now)
    elif what == ADMIT:
        admit(c, j, q, i, now, f)
        write_row(log, q, now, ADMIT_ROW, i, 0)
    elif what == REQUEUE:
        kill(c, j, q, log, i, node, now, f)
    elif what == CLOSE and c.node[N_UP, node] != 0:
        set_up(c, node, False)
        note_turn(q, node)
        write_row(log, q, now, NODE_DOWN_ROW, node, 0)
    elif what == OPEN and c.node[N_UP, node] == 0:
        set_up(c, node, True)
        note_turn(q, node)
        write_row(log, q, now, NODE_UP_ROW, node, 0)
        reopen(c, j, q, node)
    elif what == ADMIT_ALL:
        for i in range(q.counter[G_NEXT]):
            if j.ints[K_STATE, i] == PENDING:
                admit(c, j, q, i, j.floats[J_SINCE, i], f)
    elif what == ADOPT_ALL:
        for i in range(q.counter[G_NEXT]):
            at = int64(j.ints[K_ALLOC, i])
            if j.ints[K_STATE, i] == WAITING and at > 0:
                start_on(c, j, q, log, i, int64(log.gpu_ids[at - 1]), log.gpu_ids, at, j.floats[J_SINCE, i], f)
    return 0
