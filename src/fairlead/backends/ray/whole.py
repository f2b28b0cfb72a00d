"""A run is what its parts are: one on each of its nodes, each with a state of its own."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.backends.local.rundir import (
    ENDED,
    FAILED,
    FINAL,
    KEEPS_PROCESSES,
    LOST,
    RUNNING,
    STARTING,
    SUSPENDED,
    Doc,
)
from fairlead.runtime.protocols import Report, ReportKind, Suspension


def phase_of(part: Doc) -> str:
    return str(part.get("phase") or STARTING)


def is_over(part: Doc) -> bool:
    """None of its processes is left."""
    phase = phase_of(part)
    if phase == SUSPENDED:
        return part.get("method") not in KEEPS_PROCESSES or "continued_as" in part
    return phase in FINAL


def has_failed(part: Doc) -> bool:
    """So that the others can't go on without it."""
    phase = phase_of(part)
    return phase in (LOST, FAILED) or (phase == ENDED and bool(part.get("exit_code") or part.get("signal")))


def whole(parts: Sequence[Doc]) -> Doc:
    """The state of a run. Parts that have not begun are {}."""
    if all(map(is_over, parts)):
        return _end(parts)
    phases = [phase_of(part) for part in parts]
    alive = [part for part in parts if not is_over(part)]
    if all(phase_of(part) == SUSPENDED for part in alive):
        return _latest(alive)
    if STARTING in phases:
        return {"phase": STARTING}
    began = [part for part in alive if phase_of(part) == RUNNING]
    return {**_latest(began), "phase": RUNNING}


def _end(parts: Sequence[Doc]) -> Doc:
    """The first part that failed is why the others were stopped, or never began; without one, rank 0 speaks for all."""
    last_s = max(map(_time, parts))
    lost = [part for part in parts if phase_of(part) == LOST]
    failed = [part for part in parts if has_failed(part)]
    suspended = [part for part in parts if phase_of(part) == SUSPENDED]
    if failed:
        return {**_first(lost or failed), "time_s": last_s}
    if suspended:
        killed = [part for part in suspended if part.get("method") != "checkpoint"]
        return {**(killed or suspended)[0], "time_s": last_s}
    return {**parts[0], "time_s": last_s}


def _time(part: Doc) -> float:
    return float(part.get("time_s") or 0.0)


def _first(parts: Sequence[Doc]) -> Doc:
    return min(parts, key=_time)


def _latest(parts: Sequence[Doc]) -> Doc:
    return max(parts, key=_time)


_KINDS = {
    RUNNING: ReportKind.STARTED,
    SUSPENDED: ReportKind.SUSPENDED,
    ENDED: ReportKind.ENDED,
    FAILED: ReportKind.FAILED_TO_START,
    LOST: ReportKind.LOST,
}


def report_of(job: str, run: int, state: Doc) -> Report | None:
    """What a run's state says; None where that is nothing to report."""
    phase = phase_of(state)
    kind = _KINDS.get(phase)
    if kind is None:
        return None
    if kind is ReportKind.STARTED and "continues" in state:
        kind = ReportKind.RESUMED
    ends = phase == ENDED
    method = state.get("method") if phase == SUSPENDED else state.get("resumed_by")
    return Report(
        kind,
        _time(state),
        job,
        run,
        exit_code=state.get("exit_code") if ends else None,
        signal=state.get("signal") if ends else None,
        method=Suspension(method) if method and phase in (SUSPENDED, RUNNING) else None,
        message=str(state.get("note" if phase == RUNNING else "message") or ""),
        retry=bool(state.get("retry")) if phase == FAILED else False,
    )
