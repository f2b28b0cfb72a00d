"""Gandiva's own tables: where each job is at home, what each node hosts, who sits on which GPU.

A job is *hosted* by the nodes that were chosen for it, whether it runs there or waits for its turn. Columns of `desk.ints`
are by job (A_), by part of a job on one node (E_), by node (V_), by GPU (O_), by pool of like nodes (B_), by class of jobs
(W_) or by tenant (H_); those of `desk.floats` begin with F_. Links are 0 for none, or one more than what they point at.
"""

from __future__ import annotations

import numpy as np

from fairlead.kernels.bits import add_from_python, words
from fairlead.kernels.columns import (
    C_SHAPE,
    K_CLASS,
    N_CAP,
    N_CPU,
    N_GPU0,
    N_MEM,
    N_POOL,
    N_SLOT,
    N_TYPE,
    NODE_COLUMNS,
    P_CAP,
    P_FIRST,
    P_NODES,
    P_TYPE,
    R_DEMANDS,
    R_LIVE,
    R_QUOTAS,
    S_GPUS,
    UNLIMITED,
    Desk,
)
from fairlead.kernels.desk import empty_desk
from fairlead.state.view import View

# -- numbers that there is one of: row 0 ---------------------------------------------------------------------------------
SCALARS = 0
X_ROW = 0  #: rows of the log that are read
X_JOB = 1  #: arrivals that are seen
X_IDS = 2  #: ids written in this plan
X_POOLS = 3
X_AFFINITIES = 4
X_LOAD = 5  #: GPUs of all hosted jobs
X_CAPACITY = 6  #: GPUs of all nodes that are up
X_TOUCHED = 7  #: nodes on the list of those where something changed in this plan
X_DUE = 8  #: where in cells the set of nodes begins whose jobs take turns, and how many there are
X_DUE_COUNT = 9
X_GROWERS = 10  #: the same for nodes with jobs that might grow
X_GROWER_COUNT = 11
X_SPARE = 12  #: first unused entry for parts, a link
X_QUEUED = 13  #: classes with queued jobs
X_FREED = 14  #: 1: something left, so a queued job might find room
X_SPLIT = 15  #: first job with parts on several nodes, a link
X_TRIALS = 16  #: pairs that are being tried
X_LOST = 17  #: jobs that lost their home in this plan
X_NODES = 18
X_DEMANDS = 19
X_QUOTAS = 20
X_PACKS = 21  #: 1: two jobs may share a GPU
X_MIGRATES = 22
X_GROWS = 23
X_LIST = 24  #: jobs on the list that is being worked on
X_PARTS = 25  #: parts of a job on the list of picks
X_SLACK = 26  #: GPUs that elastic jobs could do without
X_LEVELS = 27  #: of the topology, above the node
SCALAR_COUNT = 28

# -- jobs ------------------------------------------------------------------------------------------------------------------
A_STATE = 1
A_ASK = 2  #: GPUs it asked for
A_GPUS = 3  #: GPUs it has while it runs
A_TYPE = 4
A_PRIORITY = 5
A_CPU = 6
A_MEM = 7
A_TENANT = 8
A_MILLI = 9  #: milli-GPUs of each, as asked
A_PARTS = 10  #: nodes that host it, 0 if none does
A_MATE = 11  #: who shares its GPU, a link
A_FOLLOWS = 12  #: 1: its mate leads the pair
A_PAIR = 13  #: of the leader: TRIAL or KEPT
A_TRIES = 14  #: packings that did not pay
A_BAD = 15  #: with whom the last one was, a link
A_NEXT = 16  #: the next queued job of its class, a link
A_LEAST = 17  #: GPUs it may be given, 0 and 0 if it is not elastic
A_MOST = 18
A_GROWN = 19  #: WATCHED: it was grown just now; STUBBORN: it gets no faster by it
A_SPLIT_NEXT = 20
A_SPLIT_PREV = 21
A_CHOSEN = 22  #: 1: it gets this turn
A_LIST = 23  #: (not by job) jobs that are being worked on
A_TRIAL = 24  #: (not by job) leaders of pairs that are being tried
A_LOST = 25  #: (not by job) jobs that lost their home
A_CLASS = 26  #: its own class
A_BEFORE = 27  #: GPUs it had before it was grown
A_TRIAL_AT = 81  #: where on that list it is
A_BESIDE = 63  #: who else sits on its GPU, a link: its mate, or whoever shared it before Gandiva took over

NOT_HERE, QUEUED, READY, RUNS = 0, 1, 2, 3
TRIAL, KEPT = 1, 2
WATCHED, STUBBORN = 1, 2

# -- parts: the first of a job has the job's own number -----------------------------------------------------------------------
E_JOB = 28
E_NODE = 29
E_COUNT = 30  #: GPUs that it counts for on the node
E_NEXT = 31  #: parts on the same node
E_PREV = 32
E_MORE = 33  #: parts of the same job, in order of node

# -- nodes -----------------------------------------------------------------------------------------------------------------
V_CAP = 34
V_GPU0 = 35
V_TYPE = 36
V_POOL = 37
V_SLOT = 38
V_UP = 39
V_LOAD = 40  #: GPUs of the jobs it hosts
V_AFFINITY = 41
V_HEAD = 42  #: first of its parts, a link
V_PARTS = 43
V_READY = 44  #: parts of jobs that do not run
V_FREE = 45  #: GPUs that nobody sits on
V_SPANS = 46  #: parts of jobs that have others elsewhere
V_CPU = 47  #: milli-CPUs that are free
V_MEM = 48
V_CPU_CAP = 49
V_MEM_CAP = 50
V_CPU_LOAD = 51  #: milli-CPUs of the jobs it hosts
V_MEM_LOAD = 52
V_IS_DUE = 53
V_TOUCHED = 54
V_LIST = 55  #: (not by node) nodes where something changed
V_ROOM = 56  #: GPUs that this turn has not given away yet
V_CPU_ROOM = 57
V_MEM_ROOM = 58
V_SLACK = 59  #: GPUs that its elastic jobs could do without
V_GROWERS = 60  #: elastic jobs that could do with more
V_PAIRS = 61

# -- GPUs --------------------------------------------------------------------------------------------------------------------
O_FIRST = 62  #: who sits there, a link; with others, A_BESIDE tells

# -- pools -------------------------------------------------------------------------------------------------------------------
B_CAP = 64
B_TYPE = 65
B_NODES = 66
B_FIRST = 67  #: where in cells its nodes' indices begin, ascending
B_BITS = 68  #: where in cells the sets of nodes by affinity and load begin
B_WORDS = 69
B_LEVELS = 70
B_COUNT = 71  #: where in cells their sizes begin
B_FREE = 72  #: GPUs on its nodes that nobody is hosted for

# -- classes, tenants, picks ------------------------------------------------------------------------------------------------
W_HEAD = 73  #: first queued job, a link
W_TAIL = 74
W_LIST = 75  #: (not by class) classes with queued jobs
W_FAILED = 76  #: 1: tried without success
H_HOSTED = 77  #: milli-GPUs of its hosted jobs
P_NODE = 78  #: what choose() found
P_COUNT = 79
D_NODE = 80  #: where defragmentation would move to
A_FIXED = 82  #: 1: once it runs, it is not stopped
A_SPLIT = 83  #: nodes that it must have, an equal part on each; 0: any number
A_WITHIN = 84  #: inside one domain, so many levels out; -1: anywhere
V_DOMAIN = 85  #: this row and those after it: a node's domain at each level, outermost first
COLUMNS = 85  #: without the levels

# -- floats ------------------------------------------------------------------------------------------------------------------
Y_QUANTUM, Y_IDLE, Y_TICK, Y_NOW, Y_TRIES, Y_SPARE = 0, 1, 2, 3, 4, 5  #: of row 0
F_SERVED = 1  #: time it has had since its node got crowded, over its weight; the smallest goes first
F_SINCE = 2  #: running: counted up to
F_START = 3  #: when its present run began
F_SOLO = 4  #: its rate alone on a GPU, as it was seen, 0 if it was not yet
F_USE = 5
F_WEIGHT = 6
F_CHANGED = 7  #: (by node) when its load last changed
F_GIB = 8  #: (by node) memory of each of its GPUs, 0 if not known
F_BEFORE = 9  #: its rate before it was grown
FLOATS = 10

#: loads are told apart up to so many times the capacity; beyond, nodes count as equally loaded
HEIGHTS = 16


def affinity(gpus: int) -> int:
    """Sizes that go together: 1, 2, 3-4, 5-8, … GPUs; 0 is left for nodes that have none."""
    return 1 + max(gpus - 1, 0).bit_length()


def lay_out(view: View, numbers: dict[str, float]) -> Desk:
    """The tables before anything has happened."""
    return shelve(blank(view, numbers), view)


def blank(view: View, numbers: dict[str, float]) -> Desk:
    """The tables without jobs; `shelve` must follow."""
    c, j, q = view.columns()
    jobs, nodes, gpus, pools = j.submit.shape[0], c.node.shape[1], c.gpu.shape[1], c.pool.shape[1]
    largest = int(c.shape[S_GPUS].max(initial=1))
    spare = int(np.minimum(c.shape[S_GPUS, q.classes[C_SHAPE, j.ints[K_CLASS]]], nodes).sum())
    if q.counter[R_LIVE]:  # the jobs to come are not known
        spare = jobs * min(largest, nodes)
    spare = min(spare, 8 * gpus + 64)
    rows = max(jobs + spare, nodes, gpus, pools, q.classes.shape[1], q.tenants.shape[1], SCALAR_COUNT) + 1
    levels = c.node.shape[0] - NODE_COLUMNS
    t, f = np.zeros((COLUMNS + levels, rows), np.int64), np.zeros((FLOATS, rows))
    t[SCALARS, X_LEVELS] = levels
    t[V_DOMAIN:, :nodes] = c.node[NODE_COLUMNS:]
    for own, core in ((V_CAP, N_CAP), (V_GPU0, N_GPU0), (V_TYPE, N_TYPE), (V_POOL, N_POOL), (V_SLOT, N_SLOT)):
        t[own, :nodes] = c.node[core]
    t[V_UP, :nodes] = 1
    t[V_FREE, :nodes] = c.node[N_CAP]
    t[V_CPU, :nodes], t[V_MEM, :nodes] = c.node[N_CPU], c.node[N_MEM]
    stated = view.cluster.nodes
    t[V_CPU_CAP, :nodes] = [UNLIMITED if node.cpu_milli is None else node.cpu_milli for node in stated]
    t[V_MEM_CAP, :nodes] = [UNLIMITED if node.memory_mib is None else node.memory_mib for node in stated]
    f[F_GIB, :nodes] = [(node.gpu_memory_mib or 0) / 1024 for node in view.cluster.nodes]
    t[E_NEXT, jobs : jobs + spare] = np.append(np.arange(jobs + 2, jobs + spare + 1), 0)[:spare]
    one = t[SCALARS]
    one[X_CAPACITY] = c.node[N_CAP].sum()
    one[X_POOLS], one[X_AFFINITIES], one[X_NODES] = pools, affinity(largest) + 1, nodes
    one[X_SPARE] = jobs + 1 if spare else 0
    one[X_DEMANDS], one[X_QUOTAS] = q.counter[R_DEMANDS], q.counter[R_QUOTAS]
    one[X_PACKS], one[X_MIGRATES], one[X_GROWS] = (int(numbers[name]) for name in ("pack", "migrate", "grow"))
    f[0, [Y_QUANTUM, Y_IDLE, Y_TRIES, Y_SPARE]] = [numbers[name] for name in ("quantum", "idle", "tries", "spare")]
    f[0, Y_TICK] = np.inf
    return empty_desk(4 * jobs + 64, 4 * gpus + jobs + 64, t, f)


def shelve(desk: Desk, view: View) -> Desk:
    """Where the sets of nodes lie in cells, and each node on the shelf of its affinity and load."""
    c, _, _ = view.columns()
    t, one, nodes, at = desk.ints, desk.ints[SCALARS], c.node.shape[1], 0
    affinities, members = int(one[X_AFFINITIES]), []
    for p in range(c.pool.shape[1]):
        count, cap, first = (int(c.pool[row, p]) for row in (P_NODES, P_CAP, P_FIRST))
        levels, wide = HEIGHTS * max(cap, 1) + 1, int(words(count))
        t[[B_CAP, B_TYPE, B_NODES], p] = cap, c.pool[P_TYPE, p], count
        t[[B_FIRST, B_BITS, B_WORDS, B_LEVELS], p] = at, at + count, wide, levels
        t[B_COUNT, p] = at + count + affinities * levels * wide
        members.append(c.cells[first : first + count])
        at = int(t[B_COUNT, p]) + affinities * levels
    sets = int(words(nodes))
    cells = np.zeros(at + 2 * sets + 1, np.int64)
    one[X_DUE], one[X_GROWERS] = at, at + sets
    for p, those in enumerate(members):
        cells[t[B_FIRST, p] : t[B_FIRST, p] + len(those)] = those
        for slot, n in enumerate(those.tolist()):
            shelf = int(t[V_AFFINITY, n] * t[B_LEVELS, p] + min(t[V_LOAD, n], t[B_LEVELS, p] - 1))
            add_from_python(cells, int(t[B_BITS, p]) + shelf * int(t[B_WORDS, p]), len(those), slot)
            cells[t[B_COUNT, p] + shelf] += 1
        t[B_FREE, p] = np.maximum(t[V_CAP, those] - t[V_LOAD, those], 0).sum()
    for column, where, count in ((V_IS_DUE, X_DUE, X_DUE_COUNT), (V_GROWERS, X_GROWERS, X_GROWER_COUNT)):
        there = np.flatnonzero(t[column, :nodes]).tolist()
        one[count] = len(there)
        for n in there:
            add_from_python(cells, int(one[where]), nodes, n)
    return desk._replace(cells=cells)
