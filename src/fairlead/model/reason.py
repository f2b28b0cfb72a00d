"""Why a job does not run, or why it was stopped: an enum here, a sentence with numbers where it is explained."""

from __future__ import annotations

from enum import IntEnum


class Reason(IntEnum):
    NONE = 0
    # refused: it can never run on this cluster
    NO_SUCH_GPU_TYPE = 1
    TOO_MANY_GPUS = 2
    NODE_TOO_SMALL = 3  #: no node has the CPU or memory that its part of the job asks for
    OVER_QUOTA = 4  #: asks for more than its tenant may ever hold
    OVER_CELLS = 5  #: does not fit the cells that its tenant owns, even if all were free
    TOO_FEW_NODES = 6  #: fewer nodes than num_nodes could hold an equal part
    NO_SUCH_LEVEL = 7  #: its topology is no level of this cluster
    DOMAIN_TOO_SMALL = 8  #: no one domain of its topology could hold it
    NOT_BY_POLICY = 9  #: the policy can't keep to its preemptible, num_nodes or topology
    # waiting: it will run when something changes
    NOT_ENOUGH_FREE = 10  #: fewer GPUs free than it needs
    FRAGMENTED = 11  #: enough GPUs free, but not together as the placer wants them
    QUOTA_USED = 12  #: its tenant holds all it may
    BEHIND_HEAD = 13  #: a job before it blocks the queue
    RESERVED = 14  #: it would delay the reserved start of a job before it
    # stopped
    OUTRANKED = 20  #: a job that the policy ranks higher took its GPUs
    PLANNED = 21  #: a planner asked for it
    RECLAIMED = 22  #: its tenant held more than its guarantee, and another asked for its own
