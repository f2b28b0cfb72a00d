"""The slow and obvious answers: walk the journal second by second (all times are whole seconds)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fairlead.model.event import EventKind as E
from fairlead.record.journal import Journal


@dataclass
class Job:
    submit: int
    weight: float
    gpus: int
    tenant: int | None
    ran: int = 0
    waited: int = 0
    start: int | None = None
    finish: int | None = None
    ended: bool = False
    gave_up: bool = False
    preemptions: int = 0
    restarts: int = 0
    moves: int = 0
    refused: int = 0
    on: list[int] | None = None
    last_on: list[int] = field(default_factory=list)
    last_stop: int = 0
    active: list[int] = field(default_factory=list)  # active tenants (or jobs) at each second of its life


@dataclass
class Walk:
    jobs: list[Job]
    begin: int
    end: int
    allocated: list[float]
    queued: list[int]
    queued_gpus: list[float]
    idle: float
    idle_on_partly: float
    down_gpu_s: float
    owner: list[list[int]]  # [second][gpu]: the job, -1 free, -2 down (of several sharing, any)


def walk(journal: Journal) -> Walk:
    table = journal.jobs
    share = table.share_milli if table.share_milli is not None else np.full(len(table.gpus), 1000)
    jobs = [
        Job(
            submit=int(table.submit_s[i]),
            weight=int(table.gpus[i]) * int(share[i]) / 1000,
            gpus=int(table.gpus[i]),
            tenant=None if table.tenant is None else int(table.tenant[i]),
        )
        for i in range(len(table.gpus))
    ]
    node_of = [n for n, node in enumerate(journal.cluster.nodes) for _ in range(node.gpus)]
    begin = min(job.submit for job in jobs)
    horizon = max(int(journal.time_s[-1]), max(job.submit for job in jobs))
    out = Walk(jobs, begin, begin, [], [], [], 0.0, 0.0, 0.0, [])
    down: set[int] = set()
    row = 0
    for now in range(begin, horizon + 1):
        while row < len(journal) and journal.time_s[row] <= now:
            _apply(journal, row, now, jobs, down, node_of)
            row += 1
        if now < horizon:
            _second(now, jobs, down, node_of, out)
        if any(job.on is not None for job in jobs):
            out.end = min(now + 1, horizon)
    length = out.end - out.begin
    del out.allocated[length:], out.queued[length:], out.queued_gpus[length:], out.owner[length:]
    _idle(journal, out, node_of)
    return out


def _apply(journal: Journal, row: int, now: int, jobs: list[Job], down: set[int], node_of: list[int]) -> None:
    kind, arg = int(journal.kind[row]), int(journal.arg[row])
    if kind in (E.NODE_DOWN, E.NODE_UP):
        (down.add if kind == E.NODE_DOWN else down.discard)(int(journal.job[row]))
        return
    job = jobs[journal.job[row]]
    if kind == E.START:
        job.on = journal.gpu_ids[arg : arg + job.gpus].tolist()
        if job.start is None:
            job.start = now
        elif job.last_stop == E.SUSPEND:
            job.moves += {node_of[g] for g in job.on} != {node_of[g] for g in job.last_on}
        else:
            job.restarts += 1
        return
    job.last_on, job.on, job.last_stop = job.on or [], None, kind
    job.preemptions += kind == E.SUSPEND
    job.ended = kind in (E.FINISH, E.GIVE_UP, E.REFUSE)
    job.gave_up = kind == E.GIVE_UP
    if kind == E.FINISH:
        job.finish = now
    if kind == E.REFUSE:
        job.refused = arg


def _second(now: int, jobs: list[Job], down: set[int], node_of: list[int], out: Walk) -> None:
    here = [job for job in jobs if job.submit <= now and not job.ended]
    active = len({job.tenant if job.tenant is not None else id(job) for job in here})
    owner = [-2 if node_of[gpu] in down else -1 for gpu in range(len(node_of))]
    allocated = queued = queued_gpus = 0.0
    for job in here:
        job.active.append(active)
        if job.on is None:
            job.waited += 1
            queued += 1
            queued_gpus += job.weight
        else:
            job.ran += 1
            allocated += job.weight
            for gpu in job.on:
                owner[gpu] = jobs.index(job)
    out.allocated.append(allocated)
    out.queued.append(int(queued))
    out.queued_gpus.append(queued_gpus)
    out.owner.append(owner)


def _idle(journal: Journal, out: Walk, node_of: list[int]) -> None:
    for owner in out.owner:
        for node in range(len(journal.cluster.nodes)):
            mine = [owner[gpu] for gpu in range(len(owner)) if node_of[gpu] == node]
            if mine[0] == -2:
                out.down_gpu_s += len(mine)
                continue
            if any(who >= 0 for who in mine):
                # with shares a GPU is partly idle; count what is left of the node below
                out.idle_on_partly += len(mine)
            out.idle += len(mine)
    total = sum(out.allocated)
    out.idle -= total
    out.idle_on_partly -= total
