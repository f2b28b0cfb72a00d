"""The states of a job and the moves between them, as a table; and the check that a journal makes no other move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum

from fairlead.kernels.columns import (
    DONE,
    GIVEN_UP,
    PENDING,
    REFUSED,
    RUNNING,
    WAITING,
    WITHDRAWN,
)
from fairlead.model.event import EventKind


class JobState(IntEnum):
    """Numbered as in the core's K_STATE column."""

    PENDING = PENDING  #: not submitted yet; it is in no queue and holds nothing
    WAITING = WAITING  #: in its class's queue; it holds nothing
    RUNNING = RUNNING  #: holds all its GPUs, on nodes that are up; its end is due
    DONE = DONE  #: all its work is done; it holds nothing, and nothing more happens to it
    REFUSED = REFUSED  #: it can never run, or nothing can happen any more that would let it
    GIVEN_UP = GIVEN_UP  #: its last attempt failed
    WITHDRAWN = WITHDRAWN  #: live only: somebody took it out of the queue or off its GPUs; it may come back


#: which row of the journal takes a job from which state to which. Submission, the move from PENDING to WAITING, is the
#: job's own line in the job table.
MOVES: Mapping[tuple[JobState, EventKind], JobState] = {
    (JobState.WAITING, EventKind.REFUSE): JobState.REFUSED,
    (JobState.WAITING, EventKind.START): JobState.RUNNING,
    (JobState.WAITING, EventKind.START_AS): JobState.RUNNING,
    (JobState.RUNNING, EventKind.SUSPEND): JobState.WAITING,
    (JobState.RUNNING, EventKind.FAIL): JobState.WAITING,
    (JobState.RUNNING, EventKind.KILL): JobState.WAITING,
    (JobState.RUNNING, EventKind.FINISH): JobState.DONE,
    (JobState.RUNNING, EventKind.GIVE_UP): JobState.GIVEN_UP,
    (JobState.WAITING, EventKind.WITHDRAW): JobState.WITHDRAWN,
    (JobState.RUNNING, EventKind.WITHDRAW): JobState.WITHDRAWN,
    (JobState.WITHDRAWN, EventKind.ADMIT): JobState.WAITING,
}
#: the states that no move leaves
FINAL = frozenset(JobState) - {state for state, _ in MOVES} - {JobState.PENDING}
_OF_NODES = (EventKind.NODE_DOWN, EventKind.NODE_UP)


class IllegalMove(Exception):
    """A journal has a row that the job's state does not allow. The message ends with the job's history."""


def follow(
    submit_s: Sequence[float], time_s: Sequence[float], kind: Sequence[int], job: Sequence[int]
) -> list[JobState]:
    """The state of each job after these rows of a journal; raises IllegalMove at the first row that can't be."""
    states = [JobState.WAITING] * len(submit_s)
    histories: list[list[str]] = [[f"submitted at {s:g}"] for s in submit_s]
    before_s = float("-inf")
    for at_s, number, subject in zip(time_s, kind, job, strict=True):
        if at_s < before_s:
            raise IllegalMove(f"the clock goes back from {before_s:g} to {at_s:g}")
        before_s = at_s
        event = EventKind(number)
        if event in _OF_NODES:
            continue
        if not 0 <= subject < len(states):
            raise IllegalMove(f"{event.name} at {at_s:g} is of job {subject}, but there are {len(states)} jobs")
        history = histories[subject]
        if at_s < submit_s[subject]:
            raise IllegalMove(_illegal(subject, event, at_s, "is not submitted yet", history))
        after = MOVES.get((states[subject], event))
        if after is None:
            raise IllegalMove(_illegal(subject, event, at_s, f"is {states[subject].name}", history))
        states[subject] = after
        history.append(f"{event.name} at {at_s:g}")
    return states


def _illegal(job: int, event: EventKind, at_s: float, why: str, history: list[str]) -> str:
    return f"{event.name} of job {job} at {at_s:g} is impossible: it {why}. Its history: {', '.join(history)}"
