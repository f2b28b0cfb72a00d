"""Driving the loop: calling the compiled core, growing the log, asking planners, reporting progress."""

from __future__ import annotations

import math
from collections.abc import Callable

from fairlead.core.plugs import Plugged
from fairlead.kernels import parts
from fairlead.kernels.columns import (
    COMPILED_PLANNER,
    ENDED,
    G_LIVE,
    G_NEED_IDS,
    G_NEED_ROWS,
    G_ROWS,
    ILLEGAL_PLAN,
    LEARN,
    NEED_SPACE,
    PAUSED,
    Q_LEARN,
    R_NODES_FAIL,
    WAKE,
    Desk,
)
from fairlead.kernels.loop import compiled_loop
from fairlead.runtime.planning import consult, illegal
from fairlead.state.rules import Traits
from fairlead.state.state import State

#: rows between two looks from outside: often enough for a progress bar, seldom enough to cost nothing
STRIDE = 1 << 17

#: called with (jobs ended, jobs in all) and the rows of the log so far
Watch = Callable[[int, int, State], None]


def parts_for(traits: Traits, nodes_fail: bool) -> tuple[Callable[..., int], ...]:
    """The parts of the core that few runs use, or what stands for them where this one does not."""
    return (
        parts.node_event(nodes_fail),
        parts.backfill(traits.easy),
        parts.consult(traits.planned == COMPILED_PLANNER),
        parts.walk_queues(traits.queues),
        parts.foresee(traits.forecasts),
    )


def compile_all(plugged: Plugged, plain: bool, nodes_fail: bool) -> None:
    """Everything that a run needs, the loop first: the placer may be compiled meanwhile."""
    compiled_loop(plain, plugged.our_place)
    parts_for(plugged.traits, nodes_fail)
    _ = plugged.plug, plugged.plan  # compiled when they are asked for


class Core:
    """A state, what is plugged into it, and the compiled loop that runs them."""

    def __init__(self, state: State, plugged: Plugged, desk: Desk | None = None, plain: bool = False) -> None:
        """`desk`: where the run does not begin here, and so not with an empty one. `plain`: with the loop for plain runs."""
        self.state, self.plugged = state, plugged
        self.desk = plugged.desk(state) if desk is None else desk
        self._run_on = compiled_loop(plain)
        self._seldom = parts_for(plugged.traits, bool(state.counter[R_NODES_FAIL]))

    def run(self, until: float = math.inf, watch: Watch | None = None) -> int:
        """Run until nothing more happens by `until` (PAUSED), or every job has ended or been refused (ENDED)."""
        state = self.state
        total = len(state.input)
        while True:
            stop = int(state.counter[G_ROWS]) + STRIDE
            stop -= stop % STRIDE  # the same rows in every run, whatever made the core come back
            why = self.advance(until, stop)
            if watch is not None and why not in (WAKE, LEARN):
                watch(total - int(state.counter[G_LIVE]), total, state)
            if why in (ENDED, PAUSED):
                return why

    def advance(self, until: float, stop_row: int) -> int:
        """Let the loop run once, and do what it came back for: why it did."""
        state, plugged, desk, f = self.state, self.plugged, self.desk, self.plugged.plug
        why = self._run_on(
            state.cluster, state.shadow, state.jobs, state.queue, state.log, desk, f.p, f.pp,
            f.key, f.level, f.drift, f.wake, f.resets, f.group, f.place,
            *self._seldom, plugged.plan, until, stop_row,
        )  # fmt: skip
        if why == NEED_SPACE:
            state.grow_log(int(state.counter[G_NEED_ROWS]), int(state.counter[G_NEED_IDS]))
        elif why == WAKE:
            assert plugged.planner is not None
            consult(state, plugged)
        elif why == LEARN:
            train(state, plugged, desk)
        elif why == ILLEGAL_PLAN:
            raise illegal(state, plugged, desk)
        return why


def drive(state: State, plugged: Plugged, watch: Watch | None = None, plain: bool = False) -> None:
    """Run until every job has ended or been refused."""
    Core(state, plugged, plain=plain).run(watch=watch)


def train(state: State, plugged: Plugged, desk: Desk) -> None:
    """The core has reached a moment at which the model of durations is trained: do that, and say when to do it next."""
    assert plugged.forecaster is not None
    plugged.forecaster.train(state.log, int(state.counter[G_ROWS]), desk)
    every_s, limit = plugged.forecaster.retrain_s, state.queue.limit
    turn = limit[Q_LEARN] // every_s + 1
    while turn * every_s <= limit[Q_LEARN]:
        turn += 1
    limit[Q_LEARN] = turn * every_s


__all__ = ["STRIDE", "Core", "Watch", "compile_all", "drive", "parts_for"]
