"""Stores with something in them."""

from __future__ import annotations

from typing import Any

from fairlead.model.job import JobSpec
from fairlead.runtime.protocols import Place
from fairlead.server.store import Batch, JobFilter, Store, Submission


def submission(name: str = "", time_s: float = 1.0, **fields: Any) -> Submission:
    wanted = {name: fields.pop(name) for name in ("user", "tenant", "state", "key") if name in fields}
    spec = JobSpec(**{"run": "true", "name": name, **fields})
    return Submission(spec=spec, time_s=time_s, **{"user": "ann", "tenant": "vision", **wanted})


def submit(store: Store, *submissions: Submission) -> list[int]:
    """The numbers of all jobs that it made."""
    written = store.write(Batch(submissions=list(submissions)))
    return [job.seq for one in written.submitted for job in one.jobs]


def start(batch: Batch, job: int, time_s: float, gpus: tuple[int, ...] = (0,), run: int = 1) -> None:
    batch.record("start", time_s, job, run, gpus=gpus)
    places = [Place("node-0", gpus)]
    batch.change(job, state="running", started_s=time_s, first_start_s=time_s, places=places, run=run)


def finish(batch: Batch, job: int, time_s: float, exit_code: int = 0) -> None:
    batch.record("finish", time_s, job, 1, exit_code=exit_code)
    state = "done" if exit_code == 0 else "failed"
    batch.change(job, state=state, finished_s=time_s, exit_code=exit_code, places=())


def run_through(store: Store, jobs: list[int], time_s: float, exit_code: int = 0) -> None:
    """Each starts and ends at this time."""
    batch = Batch()
    for job in jobs:
        start(batch, job, time_s)
        finish(batch, job, time_s, exit_code)
    store.write(batch)


def names(store: Store, which: JobFilter | None = None, **options: Any) -> list[str]:
    return [job.name for job in store.jobs(which or JobFilter(), **options).jobs]
