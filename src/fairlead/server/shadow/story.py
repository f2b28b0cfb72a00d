"""A shadow journal read back: each job as the engine ran it, and what would have been done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from fairlead.model.cluster import ClusterSpec
from fairlead.model.errors import InputError
from fairlead.model.job import JobSpec
from fairlead.server.export import Ran, trace_of
from fairlead.server.shadow.journal import Row, cluster_from_json
from fairlead.workload.job_document import job_from_json
from fairlead.workload.trace import Status, Trace


@dataclass
class Watched:
    id: str
    user: str
    tenant: str
    submit_s: float
    spec: JobSpec
    first_start_s: float | None = None
    start_s: float | None = None  #: of a run that is not over
    ran_s: float = 0.0
    end_s: float | None = None
    missed: bool = False  #: how it ended nobody saw, only that it did


@dataclass
class Story:
    engine: str
    policy: str
    placer: str
    cluster: ClusterSpec
    since_s: float
    until_s: float
    jobs: dict[str, Watched] = field(default_factory=dict)
    would: Counter[str] = field(default_factory=Counter)
    earlier_s: list[float] = field(default_factory=list)  #: by how much starts came after they had been said
    starts: int = 0

    def counted(self, job: Watched) -> bool:
        """Whether all of it was seen: a job that came before the watch, or is not over, can't be compared."""
        whole = not self.came_before(job) and job.first_start_s is not None and job.end_s is not None
        return whole and not job.missed and job.ran_s > 0

    def came_before(self, job: Watched) -> bool:
        """Before the watch began; engines tell submissions in whole seconds."""
        return job.submit_s <= self.since_s - 1.0

    def trace(self) -> tuple[Trace, list[Watched]]:
        """All that ran, for the simulator, and in its order. Who ran before the watch began is there from the moment it started,
        so that it holds its GPUs; who still runs has run up to now; who still waits is left out, since nobody knows how long
        it will run."""
        found = []
        for job in self.jobs.values():
            ran_s = job.ran_s + (max(self.until_s - job.start_s, 0.0) if job.start_s is not None else 0.0)
            if job.first_start_s is None or ran_s <= 0:
                continue
            submit_s = job.first_start_s if self.came_before(job) else job.submit_s
            status = Status.UNKNOWN if job.end_s is None else Status.PASSED
            found.append((Ran(job.id, job.user, job.tenant, submit_s, job.spec, ran_s, status, job.spec.name), job))
        found.sort(key=lambda pair: (pair[0].submit_s, pair[0].id))
        return trace_of([ran for ran, _ in found]), [job for _, job in found]


def read_story(rows: Iterable[Row]) -> Story:
    story: Story | None = None
    for row in rows:
        kind, time_s = row["kind"], row["time_s"]
        if kind == "watch":
            cluster = cluster_from_json(row["cluster"])
            if story is None:
                story = Story(row["engine"], row["policy"], row["placer"], cluster, time_s, time_s)
            story.policy, story.placer, story.cluster = row["policy"], row["placer"], cluster
        if story is None:
            continue
        story.until_s = max(story.until_s, time_s)
        if kind == "seen":
            spec = job_from_json(row["spec"])
            story.jobs[row["job"]] = Watched(row["job"], row["user"], row["tenant"], row["submit_s"], spec)
        elif kind.startswith("would-"):
            story.would[kind.removeprefix("would-")] += 1
        elif row.get("job") in story.jobs:
            _follow(story, story.jobs[row["job"]], row)
    if story is None:
        raise InputError("nothing was watched yet", accepts="a shadow journal with at least one look")
    return story


def _follow(story: Story, job: Watched, row: Row) -> None:
    if row["kind"] == "start":
        job.start_s = row["start_s"]
        job.first_start_s = job.start_s if job.first_start_s is None else job.first_start_s
        story.starts += 1
        if "would_earlier_s" in row:
            story.earlier_s.append(row["would_earlier_s"])
    else:
        job.ran_s, job.start_s = row.get("ran_s", job.ran_s), None
        if row["kind"] == "end":
            job.end_s, job.missed = row["end_s"], bool(row.get("missed", False))
