"""Reading a journal with a pencil: who holds how much of which GPU, and how much work each job has done by when."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from fairlead.model.cluster import ClusterSpec
from fairlead.model.event import EventKind
from fairlead.record.journal import Journal
from fairlead.sim.profiles import Profile, Profiles
from fairlead.state.rules import Options
from fairlead.workload.trace import Trace

STOPS = (EventKind.SUSPEND, EventKind.FINISH, EventKind.FAIL, EventKind.GIVE_UP, EventKind.KILL)


@dataclass
class Held:
    """What a job holds: GPUs, and how much of each; the work it does from `from_s` on."""

    gpus: tuple[int, ...]
    milli: int
    began_s: float
    from_s: float


@dataclass
class Together:
    """A stretch of time in which two jobs sat on one GPU, and what they did together, each by its rate alone."""

    jobs: tuple[int, int]
    begin_s: float
    end_s: float
    throughput: float


@dataclass
class Ledger:
    """Replays a journal row by row; asserts what must hold of any run, whoever decided."""

    trace: Trace
    cluster: ClusterSpec
    options: Options = field(default_factory=Options)
    profiles: Profiles = field(default_factory=Profiles)

    def __post_init__(self) -> None:
        nodes = self.cluster.nodes
        self.node_of = [n for n, node in enumerate(nodes) for _ in range(node.gpus)]
        self.up = [True] * len(nodes)
        self.held: dict[int, Held] = {}
        self.work_s = [0.0] * len(self.trace)
        self.suspended: set[int] = set()
        self.now = 0.0
        self.together: list[Together] = []
        self._since: dict[tuple[int, int], tuple[float, float]] = {}

    # -- what jobs asked for

    def share(self, job: int) -> int:
        shares = self.trace.gpu_share_milli
        return 1000 if shares is None else int(shares[job])

    def demand(self, job: int, gpus: int) -> tuple[int, int]:
        """CPU and memory that a node provides which holds so many of the job's GPUs."""
        asked = max(int(self.trace.gpus[job]), 1)
        columns = (self.trace.cpu_milli, self.trace.memory_mib)
        return tuple(0 if c is None else -(-int(c[job]) * gpus // asked) for c in columns)  # type: ignore[return-value]

    def tenant(self, job: int) -> str:
        column = self.trace.tenant
        return "" if column is None or column.codes[job] < 0 else column.values[column.codes[job]]

    def profile(self, job: int) -> Profile:
        column = self.trace.profile
        if column is None or column.codes[job] < 0:
            return self.profiles.default
        return self.profiles.by_name.get(column.values[column.codes[job]], self.profiles.default)

    # -- the truth about rates

    def rate(self, job: int, alone: bool = False) -> float:
        held, profile, spec = self.held[job], self.profile(job), self.cluster
        asked = int(self.trace.gpus[job])
        if asked == 0:
            return 1.0
        nodes = [spec.nodes[self.node_of[g]] for g in held.gpus]
        rate = min(spec.speeds.get(n.gpu_type, 1.0) * profile.speed.get(n.gpu_type, 1.0) for n in nodes)
        span = 0
        if len({n.name for n in nodes}) > 1:
            common = sum(all(n.path[: k + 1] == nodes[0].path[: k + 1] for n in nodes) for k in range(len(spec.levels)))
            span = 1 + len(spec.levels) - common
        rate *= profile.locality[min(span, len(profile.locality) - 1)]
        if len(held.gpus) != asked:
            now, then = len(held.gpus), asked
            scale = profile.scale or tuple(range(1, max(now, then) + 1))
            rate *= scale[min(now, len(scale)) - 1] / scale[min(then, len(scale)) - 1]
        others = sum(other != job and o.gpus == held.gpus and o.milli < 1000 for other, o in self.held.items())
        if held.milli < 1000 and not alone:
            even = tuple(1.0 / (n + 1) for n in range(8)) if self.share(job) == 1000 else (1.0,)
            sharing = profile.sharing or even
            rate *= sharing[min(others, len(sharing) - 1)]
        return rate

    # -- rows

    def replay(self, journal: Journal) -> Ledger:
        columns = (journal.time_s, journal.kind, journal.job, journal.arg)
        for time_s, kind, subject, arg in zip(*(column.tolist() for column in columns)):
            assert time_s >= self.now, "the clock goes back"
            self._pass(time_s)
            if kind in (EventKind.NODE_DOWN, EventKind.NODE_UP):
                self.up[subject] = kind == EventKind.NODE_UP
            elif kind == EventKind.START:
                count = max(int(journal.jobs.gpus[subject]), 1)
                ids = tuple(journal.gpu_ids[arg : arg + count].tolist())
                self._start(subject, ids, self.share(subject))
            elif kind == EventKind.START_AS:
                count, milli = journal.gpu_ids[arg - 2 : arg].tolist()
                self._start_as(subject, tuple(journal.gpu_ids[arg : arg + count].tolist()), milli)
            elif kind in STOPS:
                assert subject in self.held, f"job {subject} stops but does not run"
                self._part(subject)
                del self.held[subject]
                self.suspended.discard(subject)
                if kind == EventKind.SUSPEND:
                    fixed = self.trace.preemptible is not None and not self.trace.preemptible[subject]
                    assert not fixed, f"job {subject} is suspended at {self.now}, and may not be preempted"
                    self.suspended.add(subject)
        assert not self.held, f"jobs {sorted(self.held)} never stop"
        return self

    def _start_as(self, job: int, ids: tuple[int, ...], milli: int) -> None:
        asked, least, most = int(self.trace.gpus[job]), self.trace.min_gpus, self.trace.max_gpus
        assert self.share(job) == 1000, f"job {job} asked for a share and got something else"
        if milli < 1000:
            assert (asked, milli, len(ids)) == (1, 500, 1), f"job {job} got {milli} of {ids}"
        else:
            low = asked if least is None else int(least[job])
            high = asked if most is None else int(most[job])
            assert low <= len(ids) <= high, f"job {job} got {ids}"
        self._start(job, ids, milli)

    def _start(self, job: int, ids: tuple[int, ...], milli: int) -> None:
        assert job not in self.held, f"job {job} starts twice"
        assert self.now >= self.trace.submit_s[job], f"job {job} starts before it is submitted"
        assert len(set(ids)) == len(ids), f"job {job} got {ids}"
        resume = self.options.resume_cost_s
        memory = self.trace.gpu_memory_mib
        if memory is not None:
            resume += self.options.resume_cost_s_per_gib * int(memory[job]) / 1024
        cost = resume if job in self.suspended else self.options.start_cost_s
        self.held[job] = Held(ids, milli, self.now, self.now + cost)
        column = self.trace.gpu_type
        for gpu in ids:
            node = -1 - gpu if gpu < 0 else self.node_of[gpu]
            assert self.up[node], f"job {job} starts on node {node}, which is down"
            if column is not None and column.codes[job] >= 0:
                assert self.cluster.nodes[node].gpu_type == column.values[column.codes[job]]
        self.check_bounds(job, ids)
        self.check_room()
        for other, held in self.held.items():
            if other != job and milli < 1000 and held.gpus == ids:
                pair = (min(job, other), max(job, other))
                alone = [self.rate(one) / self.rate(one, alone=True) for one in pair]
                self._since[pair] = (self.now, sum(alone))

    def check_bounds(self, job: int, ids: tuple[int, ...]) -> None:
        """A job is on as many nodes, and as close together, as it says it must be."""
        parts = Counter(-1 - gpu if gpu < 0 else self.node_of[gpu] for gpu in ids)
        if self.trace.num_nodes is not None and self.trace.num_nodes[job]:
            assert len(parts) == self.trace.num_nodes[job], f"job {job} is on nodes {dict(parts)}"
            assert len(set(parts.values())) == 1, f"job {job} is on nodes {dict(parts)}"
        level = self.trace.topology
        if level is not None and level.codes[job] >= 0:
            depth = ("cluster", *self.cluster.levels, "node").index(level.values[level.codes[job]])
            paths = {(*self.cluster.nodes[node].path, str(node))[:depth] for node in parts}
            assert len(paths) == 1, f"job {job} is on nodes {dict(parts)}"

    def check_room(self) -> None:
        """Nothing is held by more than there is of it."""
        gpus: Counter[int] = Counter()
        cpu: Counter[int] = Counter()
        memory: Counter[int] = Counter()
        tenants: Counter[str] = Counter()
        for job, held in self.held.items():
            for gpu in held.gpus:
                gpus[gpu] += held.milli if gpu >= 0 else 0
            parts = Counter(-1 - gpu if gpu < 0 else self.node_of[gpu] for gpu in held.gpus)
            for node, count in parts.items():
                # a job on another number of GPUs than it asked for has its processes there, and no others
                one, other = self.demand(job, count)
                cpu[node] += one
                memory[node] += other
            if held.gpus[0] >= 0:
                tenants[self.tenant(job)] += held.milli * len(held.gpus)
        assert max(gpus.values(), default=0) <= 1000, f"a GPU is held twice at {self.now}: {gpus.most_common(1)}"
        for node, spec in enumerate(self.cluster.nodes):
            assert spec.cpu_milli is None or cpu[node] <= spec.cpu_milli, f"node {node} lacks CPU at {self.now}"
            assert spec.memory_mib is None or memory[node] <= spec.memory_mib, f"node {node} lacks memory"
        for name, tenant in self.cluster.tenants.items():
            assert tenant.quota_gpus is None or tenants[name] <= 1000 * tenant.quota_gpus, f"{name} is over its quota"

    def _part(self, job: int) -> None:
        for pair in [pair for pair in self._since if job in pair]:
            begin_s, throughput = self._since.pop(pair)
            self.together.append(Together(pair, begin_s, self.now, throughput))

    def _pass(self, time_s: float) -> None:
        for job, held in self.held.items():
            self.work_s[job] += max(0.0, time_s - max(self.now, held.from_s)) * self.rate(job)
        self.now = time_s

    def check_work(self, finish_s: list[float], *, set_back: bool) -> None:
        """A finished job did its work exactly once, or more where it was set back."""
        for job, end_s in enumerate(finish_s):
            if not math.isnan(end_s):
                did, wanted = self.work_s[job], float(self.trace.duration_s[job])
                close = math.isclose(did, wanted, rel_tol=1e-9, abs_tol=1e-6)
                assert close or (set_back and did > wanted), f"job {job} did {did} of {wanted}"
