"""What can happen to a job or a node: the rows of the journal."""

from __future__ import annotations

from enum import IntEnum


class EventKind(IntEnum):
    """`arg` is the journal row's last column. Submission is not a row: it is the job's own line in the job table."""

    REFUSE = 1  #: the job can never run here; arg = Reason
    START = 2  #: first start or resumption; arg = offset of its GPUs in the journal's gpu_ids
    SUSPEND = 3  #: taken off its GPUs by the policy; arg = Reason
    FINISH = 4  #: all work done; arg = 0
    FAIL = 5  #: an attempt failed and will be tried again; arg = attempts so far
    GIVE_UP = 6  #: the last attempt failed; arg = attempts so far
    KILL = 7  #: lost its node; it will be tried again; arg = node
    NODE_DOWN = 8  #: job column = node; arg = 0
    NODE_UP = 9  #: job column = node; arg = 0
    #: a start on something else than the job asked for; arg as for START, and the two entries of gpu_ids before it are
    #: how many GPUs it got and the milli-GPUs of each
    START_AS = 10
    WITHDRAW = 11  #: live only: taken out of the queue or off its GPUs by somebody; arg = 0
    ADMIT = 12  #: live only: let in again; arg = 0
