"""What has become of a run: by its agents' word where they could give it, else by Slurm's.

A run that neither of them can speak for is fenced off before it is called lost: see `agent`.
"""

from __future__ import annotations

import signal
import time

from fairlead.backends.slurm import runfiles
from fairlead.backends.slurm.chores import Chores
from fairlead.backends.slurm.rows import NODE_LOST, Row
from fairlead.backends.slurm.runfiles import ENDED, FAILED, SUSPENDED
from fairlead.backends.slurm.runs import Run
from fairlead.runtime.protocols import Report, ReportKind, Suspension

#: how long the agents' files may take to be seen here after Slurm says that the job is over
SETTLE_S = 3.0
#: how often files are looked at past all caches before a verdict that they could change
HARD_LOOK_S = 1.0
#: what killing takes once a lease has ended, and what two clocks may differ in that time
MARGIN_S = 5.0
#: how much longer than its grace period a run may take to leave before Slurm is asked to cancel it
DEAF_S = 15.0
_TWICE = "Duplicate jobid"
#: states of a job that somebody, or a limit, has ended
_BY_SOMEBODY = ("CANCELLED", "TIMEOUT", "DEADLINE", "OUT_OF_MEMORY")


def by_agents(run: Run) -> Report | None:
    """Its final report, or that it runs or is stopped: whatever the agents' own words are enough for."""
    phase = run.phase
    if phase in (ENDED, FAILED, SUSPENDED) and not run.unfinished():
        if run.was_fenced:
            fenced = next(part for part in run.parts.values() if part.get("why") == runfiles.FENCE)
            return run.report(ReportKind.LOST, message=run.notes.get("fenced") or fenced.get("message", ""))
        if run.was_ended_from_outside and not run.asked:
            return None  # Slurm knows by whom
    if run.unfinished() and any(part.get("phase") == FAILED for part in run.parts.values()):
        _end_the_others(run)
    return run.own_report()


def _end_the_others(run: Run) -> None:
    """One node can't start it, or was told not to: the others are not to wait for that."""
    if not run.asked:
        run.ask(runfiles.STOP)
    elif run.asked == runfiles.SUSPEND and not run.is_hurried:
        run.write_ask(runfiles.STOP)  # it is suspended by that: a part that was stopped could never go on by itself
        run.is_hurried = True


def is_end(report: Report) -> bool:
    return report.kind in (ReportKind.ENDED, ReportKind.LOST, ReportKind.FAILED_TO_START) or (
        report.kind == ReportKind.SUSPENDED and report.method != Suspension.STOP
    )


def by_slurm(run: Run, row: Row | None, rows_s: float, down: str, lease_s: float, chores: Chores) -> Report | None:
    """Its final report where Slurm has it no more. `rows_s`: when Slurm was asked; `down`: why one of its nodes takes no jobs."""
    now_s = time.monotonic()
    if row is not None and not row.is_terminal:
        run.gone_s = None
        _keep_going(run, row, now_s, rows_s, down, chores)
        return None
    if run.gone_s is None:
        run.gone_s = now_s
    if now_s - run.gone_s < SETTLE_S:
        return None
    if now_s - run.looked_s > HARD_LOOK_S:
        run.looked_s = now_s
        run.look_hard()
        told = by_agents(run)
        if told is not None and is_end(told):
            return told
    if run.unfinished() and run.has_begun():
        fence(run, now_s, _why_lost(row))
        assert run.fenced_s is not None
        if _is_doubtful(row, bool(down)) and now_s - run.fenced_s < lease_s + MARGIN_S:
            return None
    return _verdict(run, row, down)


def fence(run: Run, now_s: float, why: str) -> None:
    """From now on its agents kill it as soon as they look, and can't go on for longer than their lease without looking."""
    if run.fenced_s is None:
        run.note(fenced=why)
        run.write_ask(runfiles.FENCE)
        run.fenced_s = now_s


def _why_lost(row: Row | None) -> str:
    if row is None:
        return "Slurm knows nothing of it any more"
    return f"its node failed ({row.state.lower()} in Slurm)"


def _is_doubtful(row: Row | None, down: bool) -> bool:
    """Whether Slurm may have given up on processes that still run."""
    return down or row is None or row.state in NODE_LOST


def _keep_going(run: Run, row: Row, now_s: float, rows_s: float, down: str, chores: Chores) -> None:
    if row.state == "PENDING":
        if run.has_begun():
            run.begun_s = run.begun_s or now_s
            if rows_s > run.begun_s:  # somebody has had it started again: the agents refuse that, it just has to go
                chores.cancel(run.slurm_id)
        elif run.asked:
            chores.call_off(run.slurm_id)
        elif down:  # it would wait for that node; elsewhere there may be room
            run.note(sent_back=f"its node takes no jobs: {down}")
            chores.call_off(run.slurm_id)
        elif row.is_held:
            chores.release(run.slurm_id)
    elif _may_be_cancelled(run) and now_s - run.asked_s > float(run.order["grace_s"]) + DEAF_S:
        chores.cancel(run.slurm_id)


def _may_be_cancelled(run: Run) -> bool:
    """It was asked to leave, and may be made to: one that allows only its own checkpoint has the time that takes."""
    return bool(run.asked) and (run.asked != runfiles.SUSPEND or Suspension.REQUEUE in run.order["methods"])


def _verdict(run: Run, row: Row | None, down: str) -> Report:
    has_begun = run.has_begun()
    at_s = (row.time_s("end") if row else None) or time.time()
    # a controller that was killed may give a number twice; a node that knows the first of them starts no second, and is drained
    is_twice = row is not None and row.state == "CANCELLED" and _TWICE in down
    if not has_begun and not run.asked and (run.notes.get("sent_back") or is_twice):
        why = run.notes.get("sent_back") or f"Slurm had given its number before: {down}"
        return run.report(ReportKind.FAILED_TO_START, time_s=at_s, message=why, retry=True)
    if run.asked and (row is None or row.state not in NODE_LOST):
        if not has_begun:
            return run.called_off()
        if run.asked == runfiles.SUSPEND:
            return run.report(ReportKind.SUSPENDED, time_s=at_s, method=Suspension.REQUEUE, message="Slurm ended it")
        return run.report(ReportKind.ENDED, time_s=at_s, signal=signal.SIGKILL, message="Slurm ended it")
    if row is None or row.state in NODE_LOST:
        return run.report(ReportKind.LOST, time_s=at_s, message=_why_lost(row))
    if row.state == "PREEMPTED":
        return run.report(ReportKind.SUSPENDED, time_s=at_s, method=Suspension.REQUEUE, message="preempted in Slurm")
    code, signum = row.ending
    if _has_ended_well(run, row):
        return run.report(ReportKind.ENDED, time_s=at_s, exit_code=0)
    if not has_begun and row.state not in ("CANCELLED", "TIMEOUT", "DEADLINE"):
        why = f"Slurm could not start it on {', '.join(run.nodes)}: {row['reason'] or row.state}"
        if code in (126, 127):
            why += f" (exit code {code}: is there a Python 3.9 or newer on the node?)"
        retry = row["reason"] == "JobLaunchFailure"
        return run.report(ReportKind.FAILED_TO_START, time_s=at_s, message=why, retry=retry)
    if run.was_ended_from_outside and row.state not in _BY_SOMEBODY:
        # a controller that was killed may have forgotten that it started this, and ends what it does not know
        return run.report(ReportKind.LOST, time_s=at_s, message=f"Slurm ended it unasked ({row.state.lower()})")
    return run.report(ReportKind.ENDED, time_s=at_s, **_ending(run, row, code, signum))


def _has_ended_well(run: Run, row: Row) -> bool:
    """By Slurm's word: of a run on one node its agent is the Slurm job, and ends with 0 only where the job did, whatever we can see
    of its files. (Of several none fails in Slurm's eyes.)"""
    return (
        row.state == "COMPLETED"
        and row.ending == (0, None)
        and len(run.nodes) == 1
        and not run.parts.get(0, {}).get("why")
    )


def _ending(run: Run, row: Row, code: int | None, signum: int | None) -> dict[str, object]:
    said = {
        "CANCELLED": "it was cancelled in Slurm (scancel)",
        "TIMEOUT": "it reached Slurm's time limit",
        "DEADLINE": "it reached Slurm's deadline",
        "OUT_OF_MEMORY": "Slurm ended it for want of memory",
    }.get(row.state)
    worst = run.worst()
    if worst.get("signal") or worst.get("exit_code") is not None:
        code, signum = worst.get("exit_code"), worst.get("signal")
    if said:
        if not signum and not code:
            code, signum = None, signal.SIGKILL if row.state == "OUT_OF_MEMORY" else signal.SIGTERM
        return {"exit_code": code, "signal": signum, "message": said}
    if not signum and not code:  # Slurm saw no failure, and the run has left no word: it was killed with its agent
        return {"signal": signal.SIGKILL, "message": "it left no result"}
    return {"exit_code": code, "signal": signum, "message": row["reason"]}
