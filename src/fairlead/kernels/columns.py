"""The state as columns: which arrays there are, and what each column of the wide ones means.

Wide tables are indexed [COLUMN, row], so that a column is contiguous and one that a run does not use costs nothing.
Constants are module-level integers because compiled code folds them away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
I4 = npt.NDArray[np.int32]
Table = npt.NDArray[np.int64]  #: of two dimensions

WHOLE = 1000  #: milli-GPUs of a GPU
UNLIMITED = 1 << 50  #: CPU or memory of a node that does not state it: more than any job asks for
NEVER = np.inf
AGAIN = -1.0  #: what a compiled planner returns to be asked once more at this instant, when its plan is carried out

# -- node table -----------------------------------------------------------------------------------------------------
N_FREE = 0  #: wholly free GPUs, whether the node is up or not
N_CAP = 1
N_POOL = 2
N_SLOT = 3  #: position among the nodes of its pool
N_GPU0 = 4  #: id of its first GPU
N_WORD0 = 5  #: where in cells the set of its wholly free GPUs begins, 32 to a word
N_UP = 6
N_CPU = 7  #: free milli-CPUs
N_MEM = 8  #: free MiB
N_TYPE = 9
N_TURNS = 10  #: failures and repairs so far, for drawing the next
N_ROOM = 11  #: survey.py: the last survey that came by, and GPUs that are free or would be
N_COUNTED = 12  #: counts.py: the last count that came by, and GPUs of those who are counted
N_CPU_CAP = 13  #: milli-CPUs of the node
N_MEM_CAP = 14
NODE_COLUMNS = 15  #: further rows: the node's domain at each topology level, outermost first

# -- gpu table -----------------------------------------------------------------------------------------------------
U_NODE = 0
U_FREE = 1  #: free milli-GPUs, kept where R_SHARES
U_ROW = 2  #: the row of the running job that holds the whole GPU, -1 if nobody does; kept where R_OWNERS, but not where R_INDEXED
U_SEATS = 3  #: this row and those after it: who shares the GPU, -1 where a seat is empty; kept where R_RATES

# -- pool table: nodes of one GPU type and capacity -----------------------------------------------------------------
P_CAP = 0
P_TYPE = 1
P_NODES = 2  #: how many
P_FIRST = 3  #: where its node indices, ascending, begin in cells
P_BITS = 4  #: where in cells the sets of nodes per level begin; level f is at P_BITS + f * P_STRIDE
P_STRIDE = 5
P_COUNT = 6  #: where in cells its counts of nodes per level begin
P_FREE = 7  #: wholly free GPUs on its nodes that are up
POOL_COLUMNS = 8

# -- shape table: everything about a job that placement looks at ---------------------------------------------------
S_GPUS = 0
S_MILLI = 1  #: per GPU; below WHOLE for a share
S_CPU = 2
S_MEM = 3
S_TYPE = 4  #: -1 for any
S_NODES = 5  #: fewest nodes that could hold it
S_PLAIN = 6  #: 1: whole GPUs, no CPU or memory demand, one capacity among its nodes: free counts alone decide
S_COUNT = 7  #: jobs of this shape in the trace
S_MATTERS = 8  #: plain shapes: a node with less room than this can't be the one it waits for
S_SUMS = 10  #: where in cells the sums of the largest node capacities of its GPU type begin
S_SKEW = 9  #: how uneven its messages are, in thousandths: the largest tensor's share of the model
S_EFFICIENCY = 11  #: how much of a GPU's compute it uses, in thousandths; 0: not known
# what a job says itself of where it must be; see bound.py
S_SPLIT = 12  #: exactly so many nodes, an equal part on each; 0: as the placer likes
S_WITHIN = 13  #: inside one domain, so many levels out: 0 a node, 1 one of the innermost level, …; -1: anywhere
S_BOUND = 14  #: 1: one of the two limits where it can go, so the placer is not asked
#: S_WITHIN from 1 on: where in cells it says for each node which one comes next in its domain, round and round
S_RING = 15
S_NEED = 16  #: guards.py: which of the needs S_MATTERS is
SHAPE_COLUMNS = 17

# -- class table: waiting jobs that fit or fail together (shape, and tenant where tenants matter) ----------------------
C_ROOT = 0  #: best waiting job, -1 if none
C_SHAPE = 1
C_TENANT = 2
C_BLOCKED = 3  #: 0 untried, BLOCKED_SPACE or BLOCKED_QUOTA: nothing has changed for it since it failed
C_ACTIVE = 4  #: position in the list of classes with waiting jobs, -1 if not there
C_REASON = 5  #: why its jobs can never run, 0 if they can
C_LIST = 6  #: (not by class) the classes with waiting jobs, G_ACTIVE of them
C_LACKS = 8  #: preempting, several nodes: whole nodes that were missing at the last survey, less those that came since
L_FINGER = 7  #: (not by class) per lane of running jobs, the first row that is not in the front, -1 if there is none
L_HEAD = 9  #: this row and those after it: (not by class) per lane and height, its first row + 1, 0 if none
SKIP_HEIGHTS = 7
C_PASSED = 17  #: queues.py: the pass (twice its number, one more if all of it) in which it could not start
# twins: what the jobs of a class may run as instead, where a planner asks for it; nobody waits in a twin
C_HALF = 18  #: on half of a GPU, -1 where they can't
C_OTHER = 19  #: on g GPUs: class C_OTHER + g, for C_LEAST <= g <= C_MOST; C_MOST is 0 where none of them is elastic
C_LEAST = 20
C_MOST = 21
C_FIXED = 22  #: 1: once they run, nobody takes their GPUs; kept where R_FIXED
CLASS_COLUMNS = 23

#: who decides, as R_PLANNED says
PASS, PLANNER, COMPILED_PLANNER = 0, 1, 2

#: why the loop came back
ENDED, MORE, NEED_SPACE, WAKE, ILLEGAL_PLAN, LEARN, PAUSED = 0, 1, 2, 3, 4, 5, 6

BLOCKED_SPACE = 1
BLOCKED_QUOTA = 2
BLOCKED_NOW = 3  #: failed only because it may not displace what this very pass has started: tried again at the next

# -- job columns: floats ----------------------------------------------------------------------------------------------
J_DONE = 0  #: work done in runs that were cut short; what remains is the job's work less this
J_SINCE = 1  #: running: when progress is counted from (start cost over); waiting again: since when
J_DUE = 2  #: when its end is due, if nothing changes; when it finished, once it has
J_KEY = 3  #: rank key, as of its last evaluation
J_FIRST = 4  #: first start, once there was one
J_MARK = 5  #: J_RAN at the policy's last reset
J_RAN = 6  #: seconds of progress in runs that were cut short
J_HELD = 7  #: seconds on GPUs in runs that were cut short, costs included
J_BEGUN = 8  #: when the present run began, if it is not the first
J_ESTIMATE = 9  #: where R_ESTIMATES; else its work
J_TIMER = 10  #: when the policy wants its key looked at, 0 if not
J_RATE = 11
J_FAILS = 12  #: work that remains when the present attempt fails, below 0 if it does not
J_EXPECT = 13  #: expected end of the present run, by its estimate
J_GIB = 14  #: GPU memory
JOB_FLOATS = 15

# -- job columns: integers ----------------------------------------------------------------------------------------------
K_STATE = 0
K_ALLOC = 1  #: where its GPUs begin in gpu_ids
K_STARTS = 2
K_PREEMPTS = 3
K_LEVEL = 4
K_CHILD = 5  #: links of the heap of its class while it waits, 0 or job + 1
K_NEXT = 6
K_PREV = 7
K_ATTEMPT = 8  #: failed attempts so far
K_RUNPOS = 9  #: position in the list of running jobs
K_ROW = 10  #: its row among the running jobs, where R_PREEMPTS
K_RESUMES = 11  #: 1: its next start resumes a suspended run
K_CLASS = 12
K_PRIORITY = 13
K_PROFILE = 14
K_RUNLIST = 15  #: (not by job) the running jobs, G_LISTED of them
K_SCRATCH = 16  #: (not by job) room for a list of jobs within one step
K_STAMP = 17  #: which of the ends that were due for it holds
K_TIMER_STAMP = 18
K_LINK = 19  #: planners: see G_REKEYED
K_OWN = 20  #: its own class; K_CLASS differs while it runs as something else; kept where R_RESHAPES
K_LEAST = 21  #: GPUs it may run on, 0 and 0 where it must be those it asked for
K_MOST = 22
JOB_INTS = 23

# -- running jobs, where R_PREEMPTS: one row of one cache line each, since a look for room goes through many -----------------------
X_SKIP = 0  #: this column and those after it: links in its lane, 0 or row + 1
X_PREV = 7  #: the row before it in its lane + 1, 0 if it is the first
X_JOB = 8  #: in a row that is not used: the next such row + 1
X_LEVEL = 9  #: UNTOUCHABLE: nobody outranks it
X_LANE = 10  #: jobs whose keys change at one speed are one lane; -1 in a row that is not used, or not yet
X_PASS = 11  #: the pass that started its present run
X_FRONT = 12  #: the last front.py it was in
X_NODE = 13  #: the node that all its GPUs are on, -1 if there is none
X_GPUS = 14
X_ALLOC = 15
RUN_INTS = 16

X_ORDER = 0  #: place in its lane: key less drift times now
X_KEY = 1  #: its key when it was last looked at
RUN_FLOATS = 2

UNTOUCHABLE = -(1 << 31)

# -- the worst of them in order: see front.py -------------------------------------------------------------------------------------
F_ROW = 0
F_NODE = 1  #: as X_NODE and so on
F_GPUS = 2
F_PASS = 3
F_LEVEL = 4
F_JOB = 5
FRONT_INTS = 8  #: the last two are its key
F_KEY = 3
FRONT_FLOATS = 4

PENDING, WAITING, RUNNING, DONE, REFUSED, GIVEN_UP, WITHDRAWN = 0, 1, 2, 3, 4, 5, 6

# -- tenant columns -------------------------------------------------------------------------------------------------------
T_HELD = 0  #: milli-GPUs held
T_QUOTA = 1  #: milli-GPUs it may hold, below 0 for no limit
T_WEIGHT = 2
T_USE = 3  #: decayed GPU-seconds, as of T_AT
T_AT = 4
T_CPU = 5
T_MEM = 6
T_GROUP = 7  #: its group key in this pass
T_GUARANTEE = 8  #: queues.py: milli-GPUs that it gets back whoever has borrowed them
T_STUCK = 9  #: queues.py: the same for the head of its queue
T_HEAD = 10  #: queues.py: the class of the best of its waiting jobs, -1 if none waits
TENANT_COLUMNS = 11

# -- counters (the scalars that change) -----------------------------------------------------------------------------------
G_NEXT = 0  #: next job to arrive
G_ROWS = 1  #: journal rows written
G_IDS = 2  #: gpu_ids written
G_EVENTS = 3  #: size of the event heap
G_STALE = 4  #: entries of it that no longer hold
G_WAITING = 5
G_RUNNING = 6
G_ACTIVE = 7  #: classes with waiting jobs
G_LANES = 8
G_PREEMPTIONS = 9
G_READY = 10  #: 1: some class might start something
G_LIVE = 11  #: jobs that wait or run or are to come
G_PASSES = 12
G_COST_MS = 13  #: start and resume costs charged, GPU-milliseconds
G_LOST_MS = 14  #: work lost to failures, GPU-milliseconds
G_SEEN = 15  #: events handled
G_DONE = 16
G_LISTED = 17  #: length of the list of running jobs
G_NEED_ROWS = 18  #: room the next instant may need, where the core stopped for want of it
G_NEED_IDS = 19
G_VICTIMS = 20  #: how many jobs displace() left in K_SCRATCH
G_SPARED = 21  #: running jobs that displace() left alone because this pass has started them
G_AGAIN = 22  #: 1: some class is BLOCKED_NOW
G_SURVEY = 23  #: survey.py: which is the present one
G_TODO = 24  #: actions of a compiled planner's plan, and how many of them are carried out
G_TODO_DONE = 25
G_ROWS_USED = 26  #: rows of running jobs that were ever used
G_ROW_FREE = 27  #: the first of those that are free, + 1
G_MOVES = 28  #: resumptions on other nodes than before
G_REKEYED = 29  #: planners: 1 + the last running job that a timer gave another rank, 0 if none; they link by K_LINK
G_PASS_ROW = 30  #: journal rows when the pass began
G_TOUCHED = 31  #: guards.py: nodes that are noted
G_MASKED = 32  #: guards.py: not 0 while what this pass has started counts as if it could not be displaced
G_FINGER = 33  #: front.py: the lane whose finger is on the worst row, -1 if no finger is on any
G_RIVAL = 34  #: front.py: the worst row that a finger of another lane is on, -1 if none
G_LONE = 35  #: 1 + a job that has come alone and is in no class yet, 0 if there is none
G_FRONT = 36  #: front.py: its first place, and the one behind its last
G_FRONT_END = 37
G_FRONTS = 38  #: front.py: how often it was begun anew
G_SURVEYED = 39  #: the place in the front that the present survey has got to
G_COUNTED = 40  #: counts.py: the place in the front behind those who are counted, -1: it is to begin anew
G_COUNT = 41  #: counts.py: which is the present one
G_FRESH = 42  #: front.py: the last pass of whose starts some are in it, and the worst of these
G_FRESH_ROW = 43
COUNTERS = 44

# -- rules, behind the counters: what the policy and the run ask for --------------------------------------------------------------------
R_STRICT = COUNTERS + 0
R_PREEMPTS = COUNTERS + 1
R_EASY = COUNTERS + 2
R_GROUPED = COUNTERS + 3
R_CHANGES = COUNTERS + 4  #: 0 keys never change, 1 while running, 2 always
R_DRIFTS = COUNTERS + 5  #: 1: the policy says how fast a running job's key changes
R_TIMERS = COUNTERS + 6
R_SHARES = COUNTERS + 7  #: some job asks for a part of a GPU
R_DEMANDS = COUNTERS + 8  #: some job asks for CPU or memory
R_QUOTAS = COUNTERS + 9
R_OWNERS = COUNTERS + 10  #: it is known who holds each GPU, by U_ROW or by guards.py
R_GATED = (
    COUNTERS + 11
)  #: the placer never takes more nodes than the fewest: one node's free count tells what it can newly do
R_RETRIES = COUNTERS + 12
R_SEED = COUNTERS + 13
R_RATES = COUNTERS + 14
R_PLANNED = COUNTERS + 15  #: 1: a planner decides, 2: a compiled one does; no pass here
R_LISTED = COUNTERS + 16  #: the list of running jobs is kept
R_SPANS = COUNTERS + 17  #: where in a row of rates the factors by span begin
R_SEATS = COUNTERS + 18  #: and those by co-tenants
R_SEAT_COUNT = COUNTERS + 19
R_ESTIMATES = COUNTERS + 20
R_LEVELS = COUNTERS + 21
R_RISES = COUNTERS + 22  #: running jobs lose rank as time passes, so waiting ones may gain room by it
R_NODES_FAIL = COUNTERS + 23  #: some node fails or is repaired
R_QUEUES = COUNTERS + 24  #: each tenant has a queue of its own; see queues.py
R_BORROWS = COUNTERS + 25  #: and may hold more than its guarantee while nobody asks for it
R_FORECASTS = COUNTERS + 26  #: durations are predicted from the jobs that have ended; see forecast.py
R_RESHAPES = COUNTERS + 27  #: jobs may run on a part of a GPU or on another number than they asked for
R_PACKED = COUNTERS + 28  #: where in a row of rates the factors by co-tenants begin for who asked for a whole GPU
R_SCALES = COUNTERS + 29  #: and the speeds by number of GPUs, from one
R_USE = COUNTERS + 30  #: and where the GPU utilisation is
R_LIVE = COUNTERS + 31  #: ends are reported from outside, not foreseen, and there is no last job
R_FIXED = COUNTERS + 32  #: some job may not be preempted
R_REACH = COUNTERS + 33  #: how many levels out the placer lets a job be spread, as in S_WITHIN
R_INDEXED = COUNTERS + 34  #: 1: the index of guards.py is kept instead of lanes
R_SIMPLE = COUNTERS + 35  #: a pass over one queue that nothing blocks: whoever comes alone may be tried at once
R_LARGEST = COUNTERS + 36  #: the most GPUs that a plain job of one node asks for, -1 if there is none
RULES = COUNTERS + 37

# -- rule floats -------------------------------------------------------------------------------------------------------------
Q_QUANTUM = 0  #: 0: none
Q_START_COST = 1
Q_RESUME_COST = 2
Q_FAILURES = 3
Q_CHECKPOINT = 4  #: 0: none
Q_HALF_LIFE = 5
Q_NOW = 6
Q_RESUME_PER_GIB = 8
Q_MTBF = 9  #: mean time between failures of a node, 0: none are drawn
Q_MTTR = 10
Q_TOTALS = 11  #: and two more: capacity in milli-GPUs, milli-CPUs, MiB; 0 where some node does not state it
Q_SPARE = 14  #: milli-GPUs of its quota that the head of the queue leaves at its reserved start
Q_RANKS_AT = 15  #: the moment whose ranks count: now, or the last tick of the quantum
Q_WAKE = 16  #: when a compiled planner wants to be asked again, if nothing happens before; AGAIN: at once
Q_LEARN = 17  #: when the model of durations is trained next; where the core stopped for that, the moment it had reached
Q_NOISE = 18  #: how far off the profiler may be, as a fraction; see profiler.py
Q_FRONT_AT = 19  #: front.py: the moment whose ranks it has
LIMITS = 20  #: behind these, per lane, how fast its keys change


class Cluster(NamedTuple):
    """Where jobs are. Placers read this; only nodes.py changes it."""

    node: I8
    pool: I8
    shape: I8
    gpu: I8
    cells: I8  #: everything that is a run of numbers at some offset: sets of nodes and GPUs (bits.py), counts, lists
    pick: I8  #: [row, 3]: what a placer chose: node, GPUs there, GPU id (shares) or -1


class Jobs(NamedTuple):
    """What is known of each job, and what became of it."""

    submit: F8
    work: F8
    floats: F8  #: columns that a run does not use are never touched, and cost nothing: 0 means "not yet" in all of them
    ints: I4


class Queue(NamedTuple):
    """Who waits, who runs, in which order; what is due; the rules of the run."""

    classes: I8
    tenants: F8
    event_time: F8
    event_bits: (
        I8  #: event_time once more, as integers: no time is below 0, so their order is the same, and quicker to tell
    )
    event_code: I8
    counter: I8  #: counters, then rules
    limit: F8
    run_ints: I4  #: [row, X_*]
    run_floats: F8  #: [row, X_*]
    run_bits: I8  #: run_floats once more, as integers
    front_ints: I4  #: [place, F_*]
    front_floats: F8  #: [place, F_KEY], in the same memory
    # where R_INDEXED; see guards.py
    seats: I4  #: [node]: how many rows there are, and for each, worst rank first, the row and its GPUs there
    seat_rank: I8  #: [node, place]: its rank as one number
    guard: I4  #: [node, need]: the row of its guard, + 1; behind the nodes, how many GPUs a need is, and which node has its worst guard, + 1
    worst: I8  #: [vertex, need]: the worst rank of the guards below it; 1 is the root
    touched: I4  #: [LIST | NOTED, node]
    rates: F8  #: [profile]: speed by GPU type, then the factors at R_SPANS, R_SEATS, …; see rates.py


class Log(NamedTuple):
    """The journal as it is written."""

    time: F8
    what: I4  #: [kind | job | arg, row]
    gpu_ids: I4


class Desk(NamedTuple):
    """Where a compiled planner works: the plan it writes, and tables of its own that nobody else reads."""

    todo: I8  #: [TODO_*, action]: what is to be done, in order, G_TODO actions of it
    ids: I4  #: the GPUs of the starts among them
    ints: I8  #: [column, row]
    floats: F8  #: [column, row]
    cells: I8  #: everything that is a run of numbers at some offset


# -- actions of a compiled planner's plan ------------------------------------------------------------------------------
TODO_JOB = 0
TODO_IDS = 1  #: where its GPUs begin in Desk.ids, in ascending order; -1: the job is suspended
TODO_REASON = 2
TODO_CLASS = 3  #: what it is to run as, -1: what it asked for
TODO_COLUMNS = 4


class JobRow(NamedTuple):
    """What a policy's functions see of a job, at `now`. All numbers are floats."""

    submit_s: float
    duration_s: float
    estimate_s: float
    gpus: float  #: a share counts as its fraction
    remaining_s: float
    ran_s: float  #: seconds of progress since the policy's last reset
    first_start_s: float  #: inf before it
    waiting_s: float  #: how long its present wait has lasted
    priority: float
    tenant: float
    running: float


class TenantRow(NamedTuple):
    """What a policy's group key sees of a tenant, at `now`."""

    held_gpus: float
    dominant_share: float
    use_gpu_s: float  #: GPU-seconds, decayed by the policy's half-life
    weight: float
    guaranteed_gpus: float  #: what it gets back whoever has borrowed it; 0 where the policy guarantees nothing


JobFunction = Callable[[JobRow, float, F8], float]
TenantFunction = Callable[[TenantRow, float, F8], float]
PlaceFunction = Callable[[Cluster, int, int, int, int, F8], int]
#: parts of the core that few runs use, see parts.py
NodeEventFunction = Callable[..., int]
BackfillFunction = Callable[..., int]
ConsultFunction = Callable[..., int]
WalkQueuesFunction = Callable[..., int]
ForeseeFunction = Callable[..., int]
PlanFunction = Callable[[Cluster, Jobs, Queue, Log, Desk, float], float]


class Plug(NamedTuple):
    """What is plugged into the core: the policy's functions and parameters, and the placer's."""

    p: F8
    pp: F8
    key: JobFunction
    level: JobFunction
    drift: JobFunction
    wake: JobFunction
    resets: JobFunction
    group: TenantFunction
    place: PlaceFunction
