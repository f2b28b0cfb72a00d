"""A job as the scheduler holds it while it lives: what was asked for, where it stands, and what it waits for."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fairlead.model.job import JobSpec, When
from fairlead.runtime.live_jobs import LiveJob, Standing, Status
from fairlead.runtime.protocols import Capabilities, Order, Place, Suspension
from fairlead.server.store.rows import JobRow, Submission, Submitted


class State(StrEnum):
    """What people are told. The last five are for good."""

    BLOCKED = "blocked"  #: waits for other jobs
    WAITING = "waiting"
    RUNNING = "running"
    SUSPENDED = "suspended"  #: the policy took its GPUs; it waits
    HELD = "held"  #: somebody suspended it
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    LOST = "lost"


FINAL = frozenset({State.DONE, State.FAILED, State.CANCELLED, State.REFUSED, State.LOST})


@dataclass(frozen=True)
class Verdict:
    """How a job ends, once its processes have."""

    state: State
    reason: str = ""
    message: str = ""


@dataclass
class Job:
    seq: int
    id: str
    user: str
    tenant: str
    spec: JobSpec
    submit_s: float
    state: State
    array_id: str | None = None
    array_index: int | None = None
    run: int = 0  #: the last that was decided on
    places: tuple[Place, ...] = ()
    started_s: float | None = None  #: when the present run was decided on
    begun_s: float | None = None  #: and when its processes were there
    first_start_s: float | None = None
    ran_s: float = 0.0
    preemptions: int = 0
    suspension: str = ""
    waits_for: dict[int, When] = field(default_factory=dict)  #: jobs that must end first, by number
    begun: int = 0  #: the last run that the executor was told of
    present: int = 0  #: the run that may have processes, 0 where none has
    kept: int = 0  #: a suspended run whose processes are still there, for the next run to go on with
    dropped: int = 0  #: a kept run that is stopped so that the job can begin afresh: its end is not the job's
    verdict: Verdict | None = None  #: it was told to stop, and what it is then
    foreign: str = ""  #: the engine's name for it, where it was submitted there

    @classmethod
    def of(cls, row: JobRow, spec: JobSpec) -> Job:
        verdict = row.memo.get("verdict")
        return cls(
            seq=row.seq,
            id=row.id,
            user=row.user,
            tenant=row.tenant,
            spec=spec,
            submit_s=row.submit_s,
            state=State(row.state),
            array_id=row.array_id,
            array_index=row.array_index,
            run=row.run,
            places=row.places,
            started_s=row.started_s,
            first_start_s=row.first_start_s,
            ran_s=row.ran_s,
            preemptions=row.preemptions,
            suspension=row.suspension,
            verdict=Verdict(State(verdict[0]), *verdict[1:]) if verdict else None,
            dropped=int(row.memo.get("dropped", 0)),
            foreign=str(row.memo.get("foreign", "")),
        )

    def memo(self) -> Mapping[str, Any]:
        """What a scheduler that is started again must know beside the columns."""
        found: dict[str, Any] = {"dropped": self.dropped} if self.dropped else {}
        if self.foreign:
            found["foreign"] = self.foreign
        if self.verdict is not None:
            found["verdict"] = [str(self.verdict.state), self.verdict.reason, self.verdict.message]
        return found

    @property
    def is_running(self) -> bool:
        return self.state == State.RUNNING

    def asks(self, can: Capabilities) -> LiveJob:
        """As the core sees it."""
        return asked(self.spec, self.id, self.tenant, self.submit_s, can)

    def standing(self, gpu_ids: tuple[int, ...], now: float) -> Standing:
        """For a core that is built anew. Of a job that runs, the present run is not yet in what it ran."""
        status = Status.RUNNING if self.is_running else Status.HELD if self.state == State.HELD else Status.WAITING
        since = self.started_s if self.is_running else None if self.run else self.submit_s
        return Standing(
            status=status,
            gpu_ids=gpu_ids if self.is_running else (),
            since_s=now if since is None else since,
            first_start_s=self.first_start_s,
            starts=self.run,
            preemptions=self.preemptions,
            ran_s=self.ran_s,
            done_s=self.ran_s,
            held_s=self.ran_s,
            milli=self.places[0].milli if self.is_running and self.places else 0,
        )

    def order(self, log: str, unix_user: str) -> Order:
        """Its present run, as the executor is told."""
        env = dict(self.spec.env)
        if self.array_id is not None and self.array_index is not None:
            env |= self.spec.array_env(self.array_id, self.array_index)
        return Order(
            job=self.id,
            run=self.run,
            command=self.spec.command,
            places=self.places,
            env=env | {"FAIRLEAD_TENANT": self.tenant},
            workdir=self.spec.workdir,
            user=unix_user,
            log=log,
            grace_s=self.spec.grace_s,
            memory_mib=self.spec.memory_mib,
            gpu_memory_mib=self.spec.gpu_memory_mib,
            suspend=tuple(Suspension(way) for way in self.spec.suspend),
            checkpoint_signal=self.spec.checkpoint_signal,
            resumes=self.run > 1,
            foreign=self.foreign,
        )


def asked(spec: JobSpec, job_id: str, tenant: str, submit_s: float, can: Capabilities) -> LiveJob:
    """What the executor can't do is not asked of it: the core never plans it for this job."""
    nodes = spec.num_nodes or 1
    return LiveJob(
        id=job_id,
        submit_s=submit_s,
        gpus=spec.total_gpus,
        duration_s=spec.estimate_s if spec.estimate_s is not None else spec.time_limit_s,
        share_milli=spec.gpu_share_milli,
        cpu_milli=(spec.cpu_milli or 0) * nodes,
        memory_mib=(spec.memory_mib or 0) * nodes,
        gpu_type=spec.gpu_type,
        tenant=tenant,
        priority=spec.priority,
        gpu_memory_gib=(spec.gpu_memory_mib or 0) / 1024.0,
        min_gpus=(spec.min_gpus or 0) if can.resize else 0,
        max_gpus=(spec.max_gpus or 0) if can.resize else 0,
        preemptible=not why_it_stays(spec, can),
        num_nodes=spec.num_nodes or 0,
        topology=spec.topology,
    )


def why_it_stays(spec: JobSpec, can: Capabilities) -> str:
    """Why it runs to its end once it has begun, "" where it may be suspended."""
    if not spec.preemptible:
        return "it is not preemptible"
    if not spec.suspend:
        return "it allows no way to suspend it"
    if not can.suspend:
        return "jobs can't be suspended here"
    if not any(way in can.ways and (way != Suspension.CHECKPOINT or spec.checkpoint_signal) for way in spec.suspend):
        return "none of the ways that it allows works here"
    if not can.migrate and not spec.may_requeue:
        return "a suspended job can only go on where it was here, or be started again, which this one does not allow"
    return ""


def jobs_of(submission: Submission, submitted: Submitted) -> list[Job]:
    """What was submitted, as the store has named it."""
    return [
        Job(
            seq=key.seq,
            id=key.id,
            user=submission.user,
            tenant=submission.tenant,
            spec=submission.spec,
            submit_s=submission.time_s,
            state=State(submission.state),
            array_id=submitted.array_id,
            array_index=index,
            foreign=submission.foreign,
        )
        for key, index in zip(submitted.jobs, submission.spec.array or (None,), strict=True)
    ]


def between(first_s: float | None, told_s: float, now_s: float) -> float:
    """A supervisor knows better than we when something was, but its clock need not agree with ours."""
    return now_s if first_s is None else max(first_s, min(told_s, now_s))


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
