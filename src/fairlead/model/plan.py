"""A decision as data: what to start, stop or move, where, and why. Another layer carries it out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from fairlead.model.reason import Reason


class ActionKind(IntEnum):
    START = 1  #: a waiting job, for the first time or again, on `gpu_ids`
    SUSPEND = 2  #: a running job leaves its GPUs and waits
    MIGRATE = 3  #: a running job moves to `gpu_ids` at once
    SHARE = 4  #: a job that asked for one whole GPU, waiting or running, goes on on half of the GPU in `gpu_ids`
    RESIZE = 5  #: an elastic job, waiting or running, goes on on `gpu_ids`, however many these are within its range


@dataclass(frozen=True, slots=True)
class Action:
    kind: ActionKind
    job: int
    gpu_ids: tuple[int, ...] = ()
    reason: Reason = Reason.NONE


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions in the order in which they are to be carried out: what one frees, the next may use."""

    actions: tuple[Action, ...] = ()
    #: when the planner wants to be asked again, if nothing happens before; None: only when something happens
    wake_s: float | None = None
    #: ask once more at this instant, when these are carried out; a plan without actions can't
    again: bool = False
