"""HiveD as numbers: the tables on the compiled planner's desk.

`t` (desk.ints) has a row per cell and the columns below: first the GPUs, by their ids in the cluster, then the other
physical cells, then the virtual ones. `x` (desk.cells) has everything else: a header, records of levels, chains, virtual
clusters, views and classes, and lists. A record is found at the base in the header plus its number times its size.
"""

from __future__ import annotations

# -- columns of a cell: those that are used together stand together --------------------------------------------------------------
X_PARENT = 0  #: -1 if none
X_LEVEL = 1
X_LV = 2  #: where its level's record begins
X_KIDS = 3  #: where the list of its parts begins
X_NKIDS = 4
X_BOUND = 5  #: the cell at the other side, -1 if none
X_VIEW = 6  #: nodes of a view: where its record begins; -1 if it is none
X_DIRTY = 7  #: nodes of a view: 1: it may belong into another bucket

X_SLOT = 8  #: GPUs: the priority of who has it, NOBODY, OPPORTUNIST
X_NODE = 9  #: GPUs: the node of the view that it is in
X_ROOT = 10  #: virtual cells: the preassigned cell
X_OWNER = 11  #: physical GPUs: the job that has it, -1
X_LINK = 12  #: physical GPUs: the job's next GPU, in the order in which they were chosen, -1
X_MAP = 13  #: virtual GPUs: the physical one that a search has found
X_MARK = 14  #: the search that it is part of
X_VC = 15

X_POS = 16  #: position on its free list, -1 if it is on none
X_OPP = 17  #: physical cells: opportunistic GPUs in it
X_BAD = 18
X_SPLIT = 19
X_PIN = 20
X_DPOS = 21  #: position on a virtual cluster's list of doomed cells, -1
X_HELD = 22  #: preassigned cells: guaranteed GPUs in it
X_BPOS = 23  #: position on the list of bad free cells, -1

X_WKID = 24  #: a search: first of its parts that are to be bound, -1
X_WLAST = 25
X_WSIB = 26  #: the next part of the cell around it
X_LEAF0 = 27  #: where the list of its GPUs begins
X_GPUS = 28
X_SLOTS = 29  #: virtual nodes of a view: where its GPUs by priority are counted
X_USED = 30  #: nodes of a view: guaranteed GPUs in it
X_KEY = 31  #: its bucket

X_LABEL = 32  #: its place in the bucket: larger is later
X_PREV = 33
X_NEXT = 34
X_ALSO = 35  #: physical GPUs: another job that has half of it, which HiveD did not put there; -1
CELL_COLUMNS = 40

NOBODY, OPPORTUNIST = -2, -1

# -- the header of x ----------------------------------------------------------------------------------------------------------
H_ROW = 0  #: rows of the log that were seen
H_STAMP = 1  #: searches so far
H_LEVELS = 2  #: where the records of levels begin
H_CHAINS = 3
H_VCS = 4
H_OWNED = 5  #: records of a virtual cluster's part of a level
H_CLASSES = 6
H_NODES = 7  #: per node of the cluster: where the list of its GPUs begins, and how many there are
H_JOBS = 8  #: per job: its first GPU
H_VIEWS = 9  #: per virtual cluster and chain: its view, -1
H_LEVEL_COUNT = 10
H_CHAIN_COUNT = 11
H_VC_COUNT = 12
H_LEVEL_SLOTS = 13  #: setup.levels
H_SLOTS = 14  #: how many priorities there are
H_STRICT = 15
H_OPPORTUNISM = 16  #: 1: there are opportunistic jobs
H_EPOCH = 17  #: how often something was freed for opportunistic jobs
H_NODE_LIST = 18  #: scratch: nodes chosen
H_GPU_LIST = 19  #: scratch: GPUs chosen
H_REST = 20  #: scratch: GPUs of victims
H_WANTED = 21  #: scratch: preassigned cells to be bound
H_INSIDE = 22  #: scratch: bound cells with parts to be bound
H_UNDO = 23  #: scratch: what a search did to the free lists
H_UNDO_COUNT = 24
H_TRIES = 25  #: scratch per level, H_TRY_SIZE each: candidates, choices, taken
H_TRY_SIZE = 26
H_PLAN_OWNED = 27  #: scratch per level
H_STACK = 28  #: scratch: cells to look at
H_HEADS = 29  #: scratch: per virtual cluster, the best class of guaranteed and of opportunistic jobs
H_VICTIMS = 30  #: scratch: jobs
H_PARTS = 31  #: scratch: cells split off
H_SPARE = 33  #: scratch per level
H_BAD_NODES = 34
H_CLASS_COUNT = 35
H_BROKEN = 32  #: 1: a virtual cluster could not have what it owns
HEADER = 40

# -- records ------------------------------------------------------------------------------------------------------------------
L_COUNT = 0  #: cells of this level
L_FREE = 1  #: where the free list begins
L_NFREE = 2
L_SETS = 3  #: where the sets of positions begin: one set per number of opportunistic GPUs, usable cells only
L_STRIDE = 4
L_GPUS = 5
L_FAN = 6
L_LEFT = 7
L_OWNED = 8
L_BAD = 9  #: where the list of bad free cells begins
L_NBAD = 10
L_SINGLE = 11  #: 1: a cell of this level is on one node
L_LEVEL = 12
L_CHAIN = 13  #: where the chain's record begins
L_NUMBER = 14
LEVEL_SIZE = 16

CH_BASE = 0  #: where the record of level 0, which does not exist, would be
CH_TOP = 1  #: the top level
CH_NODE_GPUS = 2
CH_VIEW = 3  #: of the physical cluster
CH_NUMBER = 4
CHAIN_SIZE = 5

VC_EPOCH = 0  #: how often something of it was freed
VC_SIZE = 1

O_OWNED = 0
O_HAS = 1  #: 1: it owns cells of this chain
O_DOOMED = 2  #: where its list of doomed cells begins
O_NDOOMED = 3
O_PRE = 4  #: where its list of preassigned cells begins
O_NPRE = 5
OWNED_SIZE = 6

V_SIZE = 0  #: GPUs of its largest node
V_HEADS = 1  #: first node per bucket, -1
V_TAILS = 2
V_SET = 3  #: buckets that are not empty
V_BUCKETS = 4  #: how many; the second half is for bad nodes
V_LOW = 5  #: the lowest label given
V_HIGH = 6
V_DIRTY = 7
V_NDIRTY = 8
V_PHYSICAL = 9
V_SLOTS = 10  #: virtual: its GPUs by priority
VIEW_SIZE = 11

K_VC = 0
K_PRIO = 1  #: -1: opportunistic
K_GPUS = 2
K_BLOCKED = 3  #: priority at which it did not fit
K_EPOCH = 4  #: the epoch in which that was; -1: never
K_CHAIN0 = 5  #: where the list of its chains' records begins
K_CHAINS = 6
CLASS_SIZE = 7
