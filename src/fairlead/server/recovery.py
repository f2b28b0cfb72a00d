"""Going on after a restart: what the store has, what really runs, and what follows from the difference.

An order is given after it is durable, so what runs is at most what the store says. Three things may be missing: an order that was
durable and never given (it is given now; given twice it is carried out once), a suspension or stop (it is asked for again), and
the end of something that ended meanwhile (it is taken as if it had been reported now).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fairlead.model.cluster import ClusterSpec
from fairlead.runtime.live import LiveCore
from fairlead.runtime.live_jobs import Costs, LiveJob, Standing
from fairlead.runtime.protocols import Capabilities, Found, Place, Report, ReportKind
from fairlead.server.closed import Closed
from fairlead.server.floor import KEEPS_PROCESSES, Floor
from fairlead.server.jobs import Job, State
from fairlead.server.metrics import Metrics
from fairlead.server.places import PlaceMap
from fairlead.server.store import Recovery
from fairlead.server.turn import Forget, Stop, Suspend, Turn


@dataclass(frozen=True)
class Setting:
    """What a floor is built with, beside what the store and the executor know."""

    spec: ClusterSpec
    policy: str
    placer: str
    logs: Path
    unix_user: Callable[[str], str]
    metrics: Metrics
    can: Capabilities
    costs: Costs = field(default_factory=Costs)
    down: dict[str, str] = field(default_factory=dict)  #: nodes that the executor says are not there, and why


def go_on(setting: Setting, stored: Recovery, found: Iterable[Found], turn: Turn) -> tuple[Floor, list[Report]]:
    """The floor as it stands, and reports that are to be handled in the turn that follows."""
    tenants = {**setting.spec.tenants, **{tenant.name: tenant for tenant in stored.tenants}}
    spec = replace(setting.spec, tenants=tenants)
    places = PlaceMap(spec)
    drained = {row.name for row in stored.nodes}
    runs = {(one.job, one.run): one for one in found}
    blocked = [live for live in stored.jobs if live.row.state == State.BLOCKED]
    jobs = [Job.of(live.row, live.spec) for live in stored.jobs if live.row.state != State.BLOCKED]
    homeless = [job for job in jobs if job.is_running and places.gpu_ids(job.places) is None]
    starts: list[Job] = []
    for job in homeless:
        job.state = State.SUSPENDED
    core = LiveCore(
        spec,
        setting.policy,
        setting.placer,
        jobs=[_entry(job, setting.can, places, turn.now) for job in jobs if job.is_running or job.verdict is None],
        down=[number for name in (*drained, *setting.down) if (number := places.node(name)) is not None],
        used={usage.tenant: (usage.gpu_s, usage.as_of_s) for usage in stored.usage},
        options=setting.costs.options(),
        now=turn.now,
    )
    closed = Closed(core, drained, setting.down)
    floor = Floor(core, spec, setting.logs, setting.unix_user, setting.metrics, setting.can, closed)
    reports: list[Report] = []
    for job in jobs:
        floor.keep(job)
        told = _take_up(floor, turn, job, runs)
        reports += told
        if job.is_running and job.begun < job.run and not any(one.kind == ReportKind.ENDED for one in told):
            starts.append(job)
    for job in homeless:
        turn.batch.record("requeue", turn.now, job.seq, job.run, message="the cluster has not its GPUs any more")
        turn.batch.change(job.seq, state=State.SUSPENDED, places=(), reason="requeued")
    for job in starts:  # now that it is known who is in the way
        floor.to_begin(turn, job)
    for (job_id, run), one in runs.items():
        if job_id not in floor.jobs:  # its end is durable, and was not forgotten yet
            turn.effects += [Stop(job_id, run)] if one.running or one.suspended else []
            turn.effects.append(Forget(job_id, run))
    for live in blocked:
        floor.admit(turn, Job.of(live.row, live.spec), live.waits_for)
    return floor, reports


def _entry(job: Job, can: Capabilities, places: PlaceMap, now: float) -> tuple[LiveJob, Standing]:
    return job.asks(can), job.standing(places.gpu_ids(job.places) or (), now)


def _take_up(floor: Floor, turn: Turn, job: Job, runs: dict[tuple[str, int], Found]) -> Sequence[Report]:
    """One job, by the newest of its runs that the executor knows; what is then to be handled as if it were reported now."""
    mine = [runs[job.id, run] for run in range(job.run, 0, -1) if (job.id, run) in runs and run != job.dropped]
    kept = [one.run for one in mine if one.suspended in KEEPS_PROCESSES]
    turn.effects += [Forget(job.id, one.run) for one in mine[1:] if not one.running and one.run not in kept]
    if not mine:
        if job.verdict is None:
            return ()
        job.present = job.run  # what was to be stopped is gone
        return [Report(ReportKind.ENDED, turn.now, job.id, job.run)]
    newest = mine[0]
    if job.is_running and newest.run == job.run:
        job.begun_s = job.started_s  # when exactly, nobody saw
    job.present = job.begun = newest.run
    job.kept = kept[0] if kept else 0
    if newest.running:
        _found_running(floor, turn, job, newest.run)
        return ()
    if newest.suspended is not None:
        if job.verdict is not None and job.kept:
            turn.effects.append(Stop(job.id, job.kept))
            return ()
        is_known = job.suspension == newest.suspended and not job.is_running
        if is_known and not job.kept:
            job.present = 0
            turn.effects.append(Forget(job.id, newest.run))
        return () if is_known or newest.report is None else [newest.report]
    if newest.report is None or (newest.report.kind == ReportKind.FAILED_TO_START and newest.run < job.run):
        job.present = job.kept
        return ()
    return [newest.report]


def _found_running(floor: Floor, turn: Turn, job: Job, run: int) -> None:
    if job.is_running and run == job.run:
        floor.watch(job)
    else:  # nobody remembers which GPUs it was to leave: whoever starts anywhere waits for it
        everywhere = [Place(node.name, tuple(range(node.gpus))) for node in floor.spec.nodes]
        floor.handover.leaving(job.id, run, everywhere)
        turn.effects.append(Suspend(job.id, run))
    if job.verdict is not None:
        turn.effects.append(Stop(job.id, run))
