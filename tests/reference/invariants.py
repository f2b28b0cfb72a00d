"""What must hold of every run, whoever decides: read from the journal alone."""

from __future__ import annotations

import math

from fairlead.model.cluster import ClusterSpec
from fairlead.model.event import EventKind
from fairlead.workload.trace import Trace

from .cluster import ClusterState, Placement
from .job import Job, jobs_of
from .simulator import Options, Result

STOPS = {
    EventKind.SUSPEND,
    EventKind.FINISH,
    EventKind.FAIL,
    EventKind.GIVE_UP,
    EventKind.KILL,
}
LAST = {EventKind.REFUSE, EventKind.FINISH, EventKind.GIVE_UP}


def check(trace: Trace, cluster: ClusterSpec, options: Options, result: Result) -> None:
    """Replay the journal on an empty cluster; raise where it is impossible or does not match the columns."""
    Replay(trace, cluster, options).check(result)


class Replay:
    def __init__(self, trace: Trace, cluster: ClusterSpec, options: Options) -> None:
        self.cluster = cluster
        self.options = options
        self.jobs = jobs_of(trace)
        self.state = ClusterState.empty(cluster)
        self.running: dict[int, tuple[float, float, Placement]] = {}  #: since, cost, where
        self.ran_s = [0.0] * len(self.jobs)
        self.work_s = [0.0] * len(self.jobs)
        self.last_kind: dict[int, EventKind] = {}

    def check(self, result: Result) -> None:
        before = -math.inf
        for row in result.rows:
            time_s, kind, subject, detail = row
            assert time_s >= before, f"the clock goes back at {row}"
            before = time_s
            if kind in (EventKind.NODE_DOWN, EventKind.NODE_UP):
                self.state.nodes[subject].up = kind == EventKind.NODE_UP
                continue
            assert self.last_kind.get(subject) not in LAST, f"{row} comes after the end of the job"
            if kind == EventKind.START:
                self.start(time_s, self.jobs[subject], detail)
            elif kind in STOPS:
                if kind == EventKind.SUSPEND:
                    assert self.jobs[subject].preemptible, f"{row}: the job may not be preempted"
                self.stop(time_s, subject)
            self.last_kind[subject] = kind
        assert not self.running, f"jobs {sorted(self.running)} never stop"
        for job in self.jobs:
            self.check_columns(job, result)

    def start(self, time_s: float, job: Job, gpu_ids: tuple[int, ...]) -> None:
        """A gang starts whole, on GPUs of its type that are up and free, within its tenant's quota."""
        assert time_s >= job.submit_s, f"job {job.index} starts before it is submitted"
        assert job.index not in self.running, f"job {job.index} starts twice"
        placement = self.placement(gpu_ids)
        assert len(set(gpu_ids)) == len(gpu_ids) == max(1, job.ask.gpus), f"job {job.index} got {gpu_ids}"
        assert (job.ask.gpus == 0) == (gpu_ids[0] < 0), f"job {job.index} got {gpu_ids}"
        assert all(self.state.nodes[node].is_of_type(job.ask) for node in placement), "the wrong GPU type"
        self.check_bounds(job, placement)
        assert self.state.quota_allows(job.ask), f"job {job.index} is over its tenant's quota"
        self.state.take(job.ask, placement)  # raises where something is taken twice, or its node is down
        resumes = self.last_kind.get(job.index) == EventKind.SUSPEND
        cost_s = self.options.resume_cost_s if resumes else self.options.start_cost_s
        self.running[job.index] = (time_s, cost_s, placement)

    def check_bounds(self, job: Job, placement: Placement) -> None:
        """It is on as many nodes, and as close together, as it says it must be."""
        ask = job.ask
        if ask.num_nodes:
            assert len(placement) == ask.num_nodes, f"job {job.index} wants {ask.num_nodes} nodes, has {placement}"
            assert len({len(gpus) for gpus in placement.values()}) == 1, f"job {job.index} has {placement}"
        if ask.topology:
            depth = ("cluster", *self.cluster.levels, "node").index(ask.topology)
            paths = {(*self.cluster.nodes[node].path, str(node))[:depth] for node in placement}
            assert len(paths) == 1, f"job {job.index} is to be inside one {ask.topology}, is in {paths}"

    def placement(self, gpu_ids: tuple[int, ...]) -> Placement:
        placement: Placement = {}
        for gpu_id in gpu_ids:
            if gpu_id < 0:
                placement[-1 - gpu_id] = []
                continue
            node = 0
            while gpu_id >= self.cluster.nodes[node].gpus:
                gpu_id -= self.cluster.nodes[node].gpus
                node += 1
            placement.setdefault(node, []).append(gpu_id)
        return placement

    def stop(self, time_s: float, index: int) -> None:
        assert index in self.running, f"job {index} stops but does not run"
        since_s, cost_s, placement = self.running.pop(index)
        self.state.give_back(self.jobs[index].ask, placement)
        worked_s = max(0.0, time_s - (since_s + cost_s))
        speeds = [self.cluster.speeds.get(self.cluster.nodes[node].gpu_type, 1.0) for node in placement]
        self.ran_s[index] += worked_s
        self.work_s[index] += worked_s * (min(speeds) if self.jobs[index].ask.gpus else 1.0)

    def check_columns(self, job: Job, result: Result) -> None:
        """Every job comes to an end, and a job that was never set back did its work exactly once."""
        rows = [row for row in result.rows if row[2] == job.index and row[1] not in NODES]
        kinds = [kind for _, kind, _, _ in rows]
        starts = [time_s for time_s, kind, _, _ in rows if kind == EventKind.START]
        assert kinds, f"nothing happens to job {job.index}"
        assert kinds[-1] in LAST, f"job {job.index} ends with {kinds[-1].name}"
        assert same(result.start_s[job.index], starts[0] if starts else math.nan)
        assert same(result.finish_s[job.index], rows[-1][0] if kinds[-1] == EventKind.FINISH else math.nan)
        assert result.preemptions[job.index] == kinds.count(EventKind.SUSPEND)
        assert result.refused[job.index] == (int(rows[-1][3]) if kinds[-1] == EventKind.REFUSE else 0)
        assert math.isclose(result.ran_s[job.index], self.ran_s[job.index], abs_tol=1e-6)
        if kinds[-1] == EventKind.FINISH:
            set_back = EventKind.FAIL in kinds or EventKind.KILL in kinds
            work_s = self.work_s[job.index]
            assert math.isclose(work_s, job.duration_s, abs_tol=1e-6) or (set_back and work_s > job.duration_s), (
                f"job {job.index} did {work_s} of {job.duration_s} s of work"
            )


NODES = {EventKind.NODE_DOWN, EventKind.NODE_UP}


def same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))
