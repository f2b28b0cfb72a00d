"""The runs that an executor knows: what their supervisors say, as reports."""

from __future__ import annotations

import os
import signal
import socket
from dataclasses import dataclass

from fairlead.backends.local import procs
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
    RunDir,
)
from fairlead.runtime.protocols import Found, Report, ReportKind, Suspension

_KINDS = {
    RUNNING: ReportKind.STARTED,
    SUSPENDED: ReportKind.SUSPENDED,
    ENDED: ReportKind.ENDED,
    FAILED: ReportKind.FAILED_TO_START,
    LOST: ReportKind.LOST,
}


@dataclass
class Run:
    job: str
    run: int
    dir: RunDir
    state: Doc | None = None
    link: socket.socket | None = None
    is_silent: bool = False  #: adopted, and nobody has asked yet what was found: `found` will tell
    continues: int | None = None  #: the suspended run whose processes it is to go on with
    launches: int = 0
    stopping: bool = False  #: it was told to stop before its supervisor could be told

    @property
    def phase(self) -> str:
        return str(self.state.get("phase", STARTING)) if self.state else STARTING

    @property
    def method(self) -> str:
        return str(self.state.get("method") or "") if self.state else ""

    @property
    def is_over(self) -> bool:
        """No supervisor looks after it any more: it has ended, or goes on as another run."""
        if self.phase == SUSPENDED:
            return self.method not in KEEPS_PROCESSES or "continued_as" in (self.state or {})
        return self.phase in FINAL

    def report(self) -> Report | None:
        """What its state says; None where that is nothing to report."""
        state = self.state or {}
        kind = _KINDS.get(self.phase)
        if kind is None:
            return None
        if kind is ReportKind.STARTED and "continues" in state:
            kind = ReportKind.RESUMED
        ends = self.phase == ENDED
        method = state.get("method") if self.phase == SUSPENDED else state.get("resumed_by")
        return Report(
            kind,
            float(state.get("time_s", 0.0)),
            self.job,
            self.run,
            exit_code=state.get("exit_code") if ends else None,
            signal=state.get("signal") if ends else None,
            method=Suspension(method) if method and self.phase in (SUSPENDED, RUNNING) else None,
            message=str(state.get("note" if self.phase == RUNNING else "message") or ""),
        )

    def found(self) -> Found:
        if self.phase in (STARTING, RUNNING):
            return Found(self.job, self.run, running=True)
        method = Suspension(self.method) if self.phase == SUSPENDED else None
        return Found(self.job, self.run, running=False, suspended=method, report=self.report())


def kill_rest(state: Doc) -> int:
    """What is left of a run whose supervisor is gone; how many processes that were."""
    left = {pid for pid, ticks in state.get("ranks", ()) if procs.is_alive(pid, ticks)}
    if state.get("token"):
        left |= set(procs.marked(state["token"]))
    left.discard(os.getpid())
    for signum in (signal.SIGSTOP, signal.SIGKILL):
        for pid in left:
            procs.send(pid, signum)
    return len(left)
