"""Where every job stands, and what follows from what people ask for, machines report and the core decides.

Nothing here waits or writes: each call leaves rows and effects in the turn that it is given, and the scheduler makes the rows
durable before it lets the effects happen.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from fairlead.model.cluster import ClusterSpec
from fairlead.model.errors import InputError
from fairlead.model.event import EventKind
from fairlead.model.job import When
from fairlead.model.suggest import unknown
from fairlead.record.story import REFUSED
from fairlead.runtime.live import Decision, LiveCore
from fairlead.runtime.live_jobs import Status
from fairlead.runtime.protocols import Capabilities, Report, ReportKind, Suspension
from fairlead.server.closed import Closed
from fairlead.server.handover import Handover
from fairlead.server.jobs import Job, State, Verdict, between, signal_name
from fairlead.server.metrics import Metrics
from fairlead.server.places import PlaceMap
from fairlead.server.store.rows import Waited
from fairlead.server.turn import Decline, Forget, Start, Stop, Suspend, Turn

#: suspended this way, a run's processes are still there
KEEPS_PROCESSES = (Suspension.DRIVER, Suspension.STOP)
#: after these a run holds no GPU
_GONE = (ReportKind.SUSPENDED, ReportKind.ENDED, ReportKind.FAILED_TO_START, ReportKind.LOST)

#: how long a job waits that could not be started for a reason that is not its own: a full disk, no more processes
RETRY_S = 10.0


class Floor:
    def __init__(
        self,
        core: LiveCore,
        spec: ClusterSpec,
        logs: Path,
        unix_user: Callable[[str], str],
        metrics: Metrics,
        can: Capabilities,
        closed: Closed,
    ) -> None:
        self.core, self.spec, self.logs, self.can, self.closed = core, spec, logs, can, closed
        self.map = PlaceMap(spec)
        self.jobs: dict[str, Job] = {}  #: those that have not ended
        self.of_user: Counter[str] = Counter()
        self.foreign: dict[str, Job] = {}  #: those that were submitted to the engine, by its name for them
        self.handover = Handover()
        self.not_begun: set[tuple[str, int]] = set()  #: decided, and the executor has not been told yet
        self._unix_user = unix_user
        self._metrics = metrics
        self._by_seq: dict[int, Job] = {}
        self._waited_by: dict[int, set[int]] = {}
        self._limits: list[tuple[float, str, int]] = []  #: when a run reaches its job's time limit
        self._later: list[tuple[float, str]] = []  #: when a job may be tried again that the executor could not start

    def log_path(self, job: str) -> Path:
        return self.logs / job / "output.log"

    # -- coming in ----------------------------------------------------------------------------------------------------------

    def keep(self, job: Job) -> None:
        self.jobs[job.id] = job
        self._by_seq[job.seq] = job
        self.of_user[job.user] += 1
        if job.foreign:
            self.foreign[job.foreign] = job

    def admit(self, turn: Turn, job: Job, others: Sequence[Waited] = ()) -> None:
        """A new job, or one that was blocked when the scheduler was stopped. It goes into the queue, unless it waits for
        others; one of these may have gone wrong already."""
        self.keep(job)
        for other in others:
            state = turn.ended.get(other.on, other.state if other.finished else None)
            if state is None:
                job.waits_for[other.on] = other.when
                self._waited_by.setdefault(other.on, set()).add(job.seq)
            elif other.when == When.AFTER_OK and state != State.DONE:
                self._never(turn, job, other.on_id)
                return
        if not job.waits_for:
            self._let_in(turn, job)
        elif job.state != State.BLOCKED:
            job.state = State.BLOCKED
            turn.batch.change(job.seq, state=State.BLOCKED)

    def _let_in(self, turn: Turn, job: Job) -> None:
        if job.state != State.WAITING:
            job.state = State.WAITING
            turn.batch.record("admit", turn.now, job.seq)
            turn.batch.change(job.seq, state=State.WAITING)
        self.core.submit(job.asks(self.can), turn.now)

    def _never(self, turn: Turn, job: Job, because: str) -> None:
        self._turn_down(
            turn, job, Verdict(State.CANCELLED, "dependency", f"job {because}, which it waits for, did not end well")
        )

    # -- what people ask for --------------------------------------------------------------------------------------------------

    def named(self, job_id: str) -> list[Job]:
        """The job, or all live tasks of the array."""
        found = self.jobs.get(job_id)
        if found is not None:
            return [found]
        return [job for job in self.jobs.values() if job.array_id == job_id]

    def cancel(self, turn: Turn, job: Job, by: str) -> None:
        self._stop(turn, job, Verdict(State.CANCELLED, "cancelled", f"cancelled by {by}"))

    def hold(self, turn: Turn, job: Job, by: str) -> None:
        """Off its GPUs, or out of the queue, until it is released."""
        if job.state == State.HELD or job.verdict is not None:
            return
        if job.state == State.BLOCKED:
            raise InputError(
                "it waits for other jobs and is in no queue", value=job.id, accepts="a job that waits or runs"
            )
        if job.is_running and not job.spec.suspend:
            raise InputError(
                "this job can't be suspended in any way", value=job.id, accepts="a job that allows it, or cancel"
            )
        turn.batch.record("hold", turn.now, job.seq, job.run, by=by)
        if job.is_running:
            self._leave(turn, job)
        self.core.withdraw(job.id, turn.now)
        job.state = State.HELD
        turn.batch.change(
            job.seq, state=State.HELD, ran_s=job.ran_s, places=(), reason="held", message=f"suspended by {by}"
        )

    def release(self, turn: Turn, job: Job, by: str) -> None:
        if job.state != State.HELD or job.verdict is not None:
            return
        job.state = State.SUSPENDED if job.run else State.WAITING
        self.core.admit(job.id, turn.now)
        turn.batch.record("release", turn.now, job.seq, job.run, by=by)
        turn.batch.change(job.seq, state=job.state, reason="", message="")

    def check_node(self, name: str) -> None:
        if self.map.node(name) is None:
            raise unknown("node", name, [node.name for node in self.spec.nodes])

    def _stop(self, turn: Turn, job: Job, verdict: Verdict) -> None:
        """To its end: at once where no process is there, else when those have gone."""
        if job.verdict is not None:
            return
        if (job.id, job.run) in self.not_begun:
            self._leave(turn, job)
            job.state = State.SUSPENDED
        if not job.present:
            self._turn_down(turn, job, verdict)
            return
        if not job.is_running:
            self.core.forget(job.id, turn.now)
        job.verdict = verdict
        turn.batch.record("stop", turn.now, job.seq, job.run, reason=verdict.reason)
        told = f"{verdict.message}; its processes are being stopped"
        turn.batch.change(job.seq, state=job.state, places=job.places, memo=job.memo(), message=told)
        turn.effects.append(Stop(job.id, job.present))

    # -- what is due ------------------------------------------------------------------------------------------------------------

    def next_due(self) -> float:
        return min((heap[0][0] for heap in (self._limits, self._later) if heap), default=math.inf)

    def do_due(self, turn: Turn) -> None:
        """Stop what has reached its time limit; let in again what could not be started a while ago."""
        self._stop_overdue(turn)
        while self._later and self._later[0][0] <= turn.now:
            job = self.jobs.get(heapq.heappop(self._later)[1])
            if job is not None and job.state == State.SUSPENDED and job.verdict is None:
                self.core.admit(job.id, turn.now)

    def watch(self, job: Job) -> None:
        """From when its processes are there. An engine's own jobs are under its limits, which count each run by itself and may be
        changed there."""
        if job.foreign:
            return
        if job.spec.time_limit_s is not None and job.begun_s is not None:
            due_s = job.begun_s + max(job.spec.time_limit_s - job.ran_s, 0.0)
            heapq.heappush(self._limits, (due_s, job.id, job.run))
            if len(self._limits) > 1000 + 2 * len(self.jobs):  # most of it is of jobs that ended long before
                self._limits = sorted(one for one in self._limits if one[1] in self.jobs)

    def _stop_overdue(self, turn: Turn) -> None:
        while self._limits and self._limits[0][0] <= turn.now:
            _, job_id, run = heapq.heappop(self._limits)
            job = self.jobs.get(job_id)
            if job is not None and job.run == run and job.is_running:
                limit = f"it reached its time limit of {job.spec.time_limit_s:g} s"
                self._stop(turn, job, Verdict(State.FAILED, "time-limit", limit))

    # -- what the core decides ------------------------------------------------------------------------------------------------

    def decided(self, turn: Turn, decision: Decision) -> None:
        job = self.jobs.get(decision.job)
        if job is None:  # it has ended in this very turn
            return
        if decision.kind == EventKind.REFUSE:
            reason = decision.reason.name.lower().replace("_", "-")
            self._turn_down(turn, job, Verdict(State.REFUSED, reason, REFUSED[decision.reason]))
        elif decision.kind == EventKind.SUSPEND:
            if job.is_running:
                self._suspend(turn, job, decision.reason.name.lower())
        elif self.core.status(job.id) == Status.RUNNING:  # and was not taken off again in the same turn
            self._start(turn, job, decision)

    def _suspend(self, turn: Turn, job: Job, why: str) -> None:
        job.preemptions += 1
        turn.batch.record("suspend", turn.now, job.seq, job.run, why=why)
        self._leave(turn, job)
        job.state = State.SUSPENDED
        turn.batch.change(
            job.seq,
            state=State.SUSPENDED,
            ran_s=job.ran_s,
            preemptions=job.preemptions,
            places=(),
            reason=why,
            message="",
        )
        self._metrics.evicted(job.tenant, why)

    def _start(self, turn: Turn, job: Job, decision: Decision) -> None:
        if job.first_start_s is None:
            job.first_start_s = turn.now
            self._metrics.admitted(job.tenant, turn.now - job.submit_s)
        job.places = self.map.places(decision.gpu_ids, decision.milli)
        job.state, job.started_s = State.RUNNING, turn.now
        self._begin_run(turn, job)

    def _begin_run(self, turn: Turn, job: Job) -> None:
        """The next run, where the job has been put."""
        job.run += 1
        job.begun_s = None
        turn.batch.record(
            "start", turn.now, job.seq, job.run, places=[[p.node, list(p.gpus), p.milli] for p in job.places]
        )
        turn.batch.change(
            job.seq,
            state=State.RUNNING,
            run=job.run,
            started_s=job.started_s,
            first_start_s=job.first_start_s,
            places=job.places,
            reason="",
            message="",
        )
        self.to_begin(turn, job)

    def to_begin(self, turn: Turn, job: Job) -> None:
        """Have the executor told, once whoever is in the way has left."""
        try:
            order = job.order(str(self.log_path(job.id)), self._unix_user(job.user))
        except InputError as error:  # its user is gone from this machine
            self._turn_down(turn, job, Verdict(State.FAILED, "could-not-start", str(error)))
            return
        self.not_begun.add((job.id, job.run))
        turn.effects.append(Start(order, tuple(self.handover.in_the_way(job.id, job.places))))

    def begin(self, job_id: str, run: int) -> bool:
        """The executor is about to be told. False where that has become wrong meanwhile."""
        if (job_id, run) not in self.not_begun:
            return False
        self.not_begun.discard((job_id, run))
        job = self.jobs[job_id]
        job.begun = job.present = run
        return True

    def _leave(self, turn: Turn, job: Job) -> None:
        """It is to leave its GPUs. Whoever gets them waits until it has."""
        if (job.id, job.run) in self.not_begun:
            self.not_begun.discard((job.id, job.run))
        else:
            if job.begun_s is not None:
                job.ran_s += turn.now - job.begun_s
            self.handover.leaving(job.id, job.run, job.places)
            turn.effects.append(Suspend(job.id, job.run))
        job.places, job.started_s, job.begun_s = (), None, None

    # -- what machines report -------------------------------------------------------------------------------------------------

    def reported(self, turn: Turn, report: Report) -> None:
        if report.kind in (ReportKind.NODE_DOWN, ReportKind.NODE_UP):
            self._node_reported(turn, report)
            return
        if report.kind == ReportKind.WITHDRAWN:
            withdrawn = self.foreign.get(report.foreign)
            if withdrawn is not None and not withdrawn.present:
                self._finish(turn, withdrawn, Verdict(State.CANCELLED, "withdrawn", report.message))
            return
        if report.kind in _GONE:
            self.handover.left(report.job, report.run)
        job = self.jobs.get(report.job)
        if job is None:
            if report.kind in _GONE:
                turn.effects.append(Forget(report.job, report.run))
            return
        if report.run == job.dropped and report.kind in _GONE:
            job.present = job.present if job.present != report.run else 0
            turn.effects.append(Forget(job.id, report.run))
            return
        if report.run > job.run or (report.kind in _GONE and report.run != job.present and report.run != job.run):
            return  # of a run that is over for us
        if report.kind in (ReportKind.STARTED, ReportKind.RESUMED):
            self._started(turn, job, report)
        elif report.kind == ReportKind.SUSPENDED:
            self._suspended(turn, job, report)
        elif report.kind == ReportKind.ENDED:
            self._ended(turn, job, report)
        elif report.kind == ReportKind.FAILED_TO_START:
            self._failed_to_start(turn, job, report)
        else:
            self._lost(turn, job, report)

    def _node_reported(self, turn: Turn, report: Report) -> None:
        if self.map.node(report.node) is None:
            return
        if report.kind == ReportKind.NODE_DOWN:
            self.closed.goes_down(report.node, report.message, turn.now)
        else:
            self.closed.comes_up(report.node, turn.now)
        turn.batch.record(str(report.kind), turn.now, node=report.node, message=report.message)

    def _started(self, turn: Turn, job: Job, report: Report) -> None:
        if report.run != job.run:
            if self.handover.is_leaving(job.id, report.run):
                turn.effects.append(Suspend(job.id, report.run))
            return
        if report.kind == ReportKind.RESUMED:
            turn.effects.append(Forget(job.id, job.kept))
        job.kept = 0
        turn.batch.record(str(report.kind), turn.now, job.seq, job.run, method=str(report.method or ""))
        if job.is_running and job.begun_s is None:
            job.begun_s = between(job.started_s, report.time_s, turn.now)
            self.watch(job)
        if self.handover.is_leaving(job.id, job.run):  # it could not be suspended before it was there
            turn.effects.append(Suspend(job.id, job.run))

    def _suspended(self, turn: Turn, job: Job, report: Report) -> None:
        job.suspension = str(report.method or "")
        turn.batch.record("suspended", turn.now, job.seq, report.run, method=job.suspension, message=report.message)
        turn.batch.change(job.seq, suspension=job.suspension)
        if report.method in KEEPS_PROCESSES:
            job.kept = report.run
            if job.verdict is not None:
                turn.effects.append(Stop(job.id, report.run))
        else:
            job.present = job.kept = 0
            turn.effects.append(Forget(job.id, report.run))
            if job.verdict is not None:
                self._turn_down(turn, job, job.verdict)
                return
        if job.is_running and report.run == job.run:  # nobody has asked for it: the job's own idea, or somebody else's
            self._wait_again(turn, job, "it was suspended from outside")

    def _ended(self, turn: Turn, job: Job, report: Report) -> None:
        """Of the present run, or of one that was to be suspended and ended by itself before it could be."""
        job.present = job.kept = 0
        if job.verdict is not None:
            verdict = job.verdict
        elif report.exit_code == 0:
            verdict = Verdict(State.DONE)
        elif report.signal is not None:
            verdict = Verdict(
                State.FAILED, "signal", f"killed by {signal_name(report.signal)}; {report.message}".rstrip("; ")
            )
        else:
            verdict = Verdict(State.FAILED, "exit-code", f"exit code {report.exit_code}; {report.message}".rstrip("; "))
        self.not_begun.discard((job.id, job.run))
        ended_s = between(job.begun_s or job.started_s, report.time_s, turn.now)
        self._finish(turn, job, verdict, report.exit_code, report.signal, ended_s)

    def _failed_to_start(self, turn: Turn, job: Job, report: Report) -> None:
        """A run that was to go on with a suspended one's processes and can't is begun afresh, where the job allows that."""
        kept, job.present = job.kept, job.kept
        turn.effects.append(Forget(job.id, report.run))
        if not job.is_running and job.verdict is None:
            return  # it waits again already
        if kept:
            turn.effects.append(Stop(job.id, kept))
        if job.verdict is not None:
            if not kept:
                self._finish(turn, job, job.verdict)
        elif kept and job.spec.may_requeue:
            turn.batch.record("restart", turn.now, job.seq, report.run, message=report.message)
            self.handover.leaving(job.id, kept, ())
            job.dropped, job.kept, job.suspension = kept, 0, ""
            turn.batch.change(job.seq, suspension="", memo=job.memo())
            self._begin_run(turn, job)
        elif report.retry:
            self._wait_again(turn, job, report.message)
            self.core.withdraw(job.id, turn.now)
            heapq.heappush(self._later, (turn.now + RETRY_S, job.id))
        else:
            self._finish(turn, job, Verdict(State.FAILED, "could-not-start", report.message))

    def _lost(self, turn: Turn, job: Job, report: Report) -> None:
        job.present = job.kept = 0
        turn.effects.append(Forget(job.id, report.run))
        if job.verdict is not None:
            self._finish(turn, job, job.verdict)
        elif not job.spec.may_requeue:
            self.not_begun.discard((job.id, job.run))
            self._finish(turn, job, Verdict(State.LOST, "lost", report.message))
        elif job.is_running and report.run == job.run:
            self._wait_again(turn, job, report.message)
        else:
            turn.batch.record("lost", turn.now, job.seq, report.run, message=report.message)

    def _wait_again(self, turn: Turn, job: Job, why: str) -> None:
        """It runs no more, has not ended, and may be started again."""
        turn.batch.record("requeue", turn.now, job.seq, job.run, message=why)
        if job.begun_s is not None:
            job.ran_s += turn.now - job.begun_s
        job.state, job.places, job.started_s, job.begun_s = State.SUSPENDED, (), None, None
        self.core.requeue(job.id, turn.now)
        turn.batch.change(job.seq, state=State.SUSPENDED, ran_s=job.ran_s, places=(), reason="requeued", message=why)

    # -- going ----------------------------------------------------------------------------------------------------------------

    def _turn_down(self, turn: Turn, job: Job, verdict: Verdict) -> None:
        """It ends without a run that the executor knows of: an engine that has it must be told."""
        if job.foreign:
            turn.effects.append(Decline(job.foreign, verdict.message, verdict.state == State.CANCELLED))
        self._finish(turn, job, verdict)

    def _finish(
        self,
        turn: Turn,
        job: Job,
        verdict: Verdict,
        exit_code: int | None = None,
        signum: int | None = None,
        ended_s: float | None = None,
    ) -> None:
        ended_s = turn.now if ended_s is None else ended_s
        if job.is_running:
            if job.begun_s is not None:
                job.ran_s += ended_s - job.begun_s
            if self.core.knows(job.id):
                self.core.end(job.id, turn.now)
        else:
            self.core.forget(job.id, turn.now)
        job.state = verdict.state
        told = {"exit_code": exit_code, "signal": signum, "reason": verdict.reason, "message": verdict.message}
        said = {name: value for name, value in told.items() if value not in (None, "")}
        turn.batch.record("end", turn.now, job.seq, job.run, state=str(verdict.state), **said)
        turn.batch.change(
            job.seq,
            state=verdict.state,
            reason=verdict.reason,
            message=verdict.message,
            finished_s=ended_s,
            exit_code=exit_code,
            signal=signum,
            ran_s=job.ran_s,
            places=(),
            memo={"foreign": job.foreign} if job.foreign else {},
        )
        turn.ended[job.seq] = verdict.state
        self._metrics.finished(job.tenant, str(verdict.state))
        if job.begun:
            turn.effects.append(Forget(job.id, job.begun))
        self.not_begun.discard((job.id, job.run))  # whoever waits to begin it finds that nothing is to be begun
        del self.jobs[job.id], self._by_seq[job.seq]
        self.foreign.pop(job.foreign, None)
        self.of_user[job.user] -= 1
        if not self.of_user[job.user]:
            del self.of_user[job.user]
        for seq in sorted(self._waited_by.pop(job.seq, ())):
            self._unblock(turn, self._by_seq.get(seq), job, verdict)

    def _unblock(self, turn: Turn, waiting: Job | None, ended: Job, verdict: Verdict) -> None:
        if waiting is None or ended.seq not in waiting.waits_for:
            return
        when = waiting.waits_for.pop(ended.seq)
        if when == When.AFTER_OK and verdict.state != State.DONE:
            self._never(turn, waiting, ended.id)
        elif not waiting.waits_for:
            self._let_in(turn, waiting)
