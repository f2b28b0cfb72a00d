"""Jobs that people gave to the engine and that will not be released: what the engine is told."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.runtime.protocols import Arrival
from fairlead.server.jobs import FINAL, State
from fairlead.server.store import Store, Submitted
from fairlead.server.turn import Decline, Turn


def declining(arrival: Arrival, why: str, cancel: bool = False) -> Callable[[Turn], None]:
    def ask(turn: Turn) -> None:
        turn.batch.record("declined", turn.now, foreign=arrival.foreign, user=arrival.user, message=why)
        turn.effects.append(Decline(arrival.foreign, why, cancel=cancel))

    return ask


def what_became_of(store: Store, known: Submitted) -> tuple[str, bool] | None:
    """Why one that waits in the engine will not be released, and whether it is to be cancelled there: it has ended here, and the
    engine was never told, or has forgotten. None where it has not."""
    row = store.job(known.jobs[0].id)
    if row.state not in FINAL:
        return None
    # one that was taken back in the engine and is there again is somebody's wish
    return row.message or f"it has ended here already: {row.state}", (
        row.state == State.CANCELLED and row.reason != "withdrawn"
    )
