"""A moment in the middle of a simulated run, put together from its journal alone."""

from __future__ import annotations

import random

import numpy as np

from fairlead.model.cluster import ClusterSpec
from fairlead.model.event import EventKind
from fairlead.record.journal import Journal
from fairlead.record.runs import fold_runs
from fairlead.runtime.live_jobs import LiveJob, Standing, Status
from fairlead.runtime.twin import Moment
from fairlead.workload.trace import Names, Trace


def workload(seed: int, count: int = 150, spread: tuple[int, ...] = (0, 1, 5, 30)) -> tuple[Trace, list[LiveJob]]:
    """Whole seconds throughout, so that sums are exact and results can be compared to the digit."""
    rng = random.Random(seed)
    at, rows = 0, []
    for _ in range(count):
        at += rng.choice(spread)
        rows.append((float(at), rng.choice((1, 2, 4, 8, 16)), float(rng.randint(1, 600)), rng.choice("ab")))
    trace = Trace(
        submit_s=np.array([row[0] for row in rows]),
        gpus=np.array([row[1] for row in rows], np.int32),
        duration_s=np.array([row[2] for row in rows]),
        tenant=Names(np.array(["ab".index(row[3]) for row in rows], np.int32), ("a", "b")),
    )
    return trace, [LiveJob(f"j{i}", *row[:3], tenant=row[3]) for i, row in enumerate(rows)]


def moment_at(
    journal: Journal, jobs: list[LiveJob], now: float, spec: ClusterSpec, policy: str, placer: str = "consolidate"
) -> Moment:
    """Where every job stands when all of `now` is over."""
    runs = fold_runs(journal)
    entries = []
    for i, job in enumerate(jobs):
        assert job.submit_s <= now, "the twin knows of no job that is yet to come"
        mine = [r for r in np.flatnonzero(runs.job == i).tolist() if runs.start_s[r] <= now]
        over = [r for r in mine if runs.end_s[r] <= now]
        if any(runs.end_kind[r] == EventKind.FINISH for r in over):
            continue
        ran = float(sum(runs.end_s[r] - runs.start_s[r] for r in over))
        first = float(runs.start_s[mine[0]]) if mine else None
        past = {"first_start_s": first, "starts": len(mine), "preemptions": len(over)}
        past |= {"ran_s": ran, "done_s": ran, "held_s": ran}
        if len(over) < len(mine):
            at = int(runs.offset[mine[-1]])
            ids = tuple(journal.gpu_ids[at : at + job.gpus].tolist())
            standing = Standing(Status.RUNNING, ids, float(runs.start_s[mine[-1]]), **past)  # type: ignore[arg-type]
        else:
            since = float(runs.end_s[over[-1]]) if over else job.submit_s
            standing = Standing(Status.WAITING, since_s=since, **past)  # type: ignore[arg-type]
        entries.append((job, standing))
    return Moment(spec, policy, placer, now, tuple(entries))


def expected_by(journal: Journal, jobs: list[LiveJob], now: float) -> dict[str, tuple[float, float]]:
    """Of each job that has not ended by `now`: when its present or next run begins, and when it ends."""
    runs, found = fold_runs(journal), {}
    for i, job in enumerate(jobs):
        mine = np.flatnonzero(runs.job == i)
        finish = float(runs.end_s[mine[-1]])
        if finish > now:
            start = float(next(runs.start_s[r] for r in mine if runs.end_s[r] > now))
            found[job.id] = start, finish
    return found
