"""What one turn of the scheduler gathers: rows that become durable together, and what is done once they are."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from fairlead.runtime.protocols import Order
from fairlead.server.store import Batch


@dataclass(frozen=True)
class Start:
    order: Order
    after: tuple[asyncio.Event, ...] = ()  #: whoever must have left


@dataclass(frozen=True)
class Suspend:
    job: str
    run: int


@dataclass(frozen=True)
class Stop:
    job: str
    run: int


@dataclass(frozen=True)
class Forget:
    job: str
    run: int


@dataclass(frozen=True)
class Decline:
    foreign: str
    why: str
    cancel: bool


Effect = Start | Suspend | Stop | Forget | Decline


@dataclass
class Turn:
    now: float
    batch: Batch = field(default_factory=Batch)
    effects: list[Effect] = field(default_factory=list)
    ended: dict[int, str] = field(default_factory=dict)  #: jobs that end in it, by number, and as what
