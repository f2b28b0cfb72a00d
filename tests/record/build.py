"""Journals written by hand, and random ones that obey the rules (no GPU held twice, runs start and stop in
turn)."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from fairlead.model.cluster import ClusterSpec, parse_cluster_shape
from fairlead.model.event import EventKind
from fairlead.model.reason import Reason
from fairlead.record.journal import JobTable, Journal


class Builder:
    """`job(...)` lines first, in order of submission, then events in order of time."""

    def __init__(self, cluster: str | ClusterSpec = "2x4", tenants: Sequence[str] = ()) -> None:
        self.cluster = parse_cluster_shape(cluster) if isinstance(cluster, str) else cluster
        self.tenant_names = tuple(tenants)
        self.jobs: list[tuple[float, int, float, int, int]] = []
        self.rows: list[tuple[float, int, int, int]] = []
        self.gpu_ids: list[int] = []
        self.run: dict[str, object] = {}

    def job(self, submit: float, gpus: int, duration: float, tenant: str | None = None, share: int = 1000) -> int:
        code = -1 if tenant is None else self.tenant_names.index(tenant)
        self.jobs.append((submit, gpus, duration, share, code))
        return len(self.jobs) - 1

    def row(self, time: float, kind: EventKind, job: int, arg: int = 0) -> Builder:
        assert not self.rows or self.rows[-1][0] <= time, "rows go in order of time"
        self.rows.append((time, int(kind), job, arg))
        return self

    def start(self, time: float, job: int, gpus: Sequence[int]) -> Builder:
        self.row(time, EventKind.START, job, len(self.gpu_ids))
        self.gpu_ids += gpus
        return self

    def suspend(self, time: float, job: int) -> Builder:
        return self.row(time, EventKind.SUSPEND, job, Reason.OUTRANKED)

    def finish(self, time: float, job: int) -> Builder:
        return self.row(time, EventKind.FINISH, job)

    def build(self) -> Journal:
        submit, gpus, duration, share, tenant = zip(*self.jobs) if self.jobs else ((), (), (), (), ())
        time, kind, job, arg = zip(*self.rows) if self.rows else ((), (), (), ())
        has_shares = any(s != 1000 for s in share)
        return Journal(
            cluster=self.cluster,
            jobs=JobTable(
                submit_s=np.array(submit, dtype=np.float64),
                gpus=np.array(gpus, dtype=np.int32),
                duration_s=np.array(duration, dtype=np.float64),
                share_milli=np.array(share, dtype=np.int32) if has_shares else None,
                tenant=np.array(tenant, dtype=np.int32) if self.tenant_names else None,
                tenant_names=self.tenant_names,
            ),
            time_s=np.array(time, dtype=np.float64),
            kind=np.array(kind, dtype=np.int8),
            job=np.array(job, dtype=np.int32),
            arg=np.array(arg, dtype=np.int32),
            gpu_ids=np.array(self.gpu_ids, dtype=np.int32),
            sha256="ab" * 32,
            run=dict(self.run),
        )


def random_journal(
    seed: int, *, nodes: int = 3, gpus: int = 4, jobs: int = 15, tenants: int = 3, complete: bool = True
) -> Journal:
    """Whole seconds throughout. Jobs are whole, shared, CPU-only or refused; they are suspended, fail and
    are given up at random; nodes go down when nothing is on them. With `complete` false the record stops in
    the middle."""
    rng = random.Random(seed)
    build = Builder(f"{nodes}x{gpus}", [f"t{i}" for i in range(tenants)])
    submits = sorted(rng.randrange(0, 60) for _ in range(jobs))
    for submit in submits:
        share = rng.choice([1000, 1000, 1000, 250, 500])
        size = 1 if share < 1000 else rng.choice([0, 1, 1, 2, 3, gpus, gpus + 2])
        tenant = rng.choice([*build.tenant_names, None]) if tenants else None
        build.job(submit, size, rng.randrange(0, 30), tenant, share)
    _play(build, rng, complete)
    return build.build()


def _stop_kind(moment: float) -> EventKind:
    """From a number between 0.8 and 1: mostly finished, now and then all the rest."""
    for below, kind in ((0.86, EventKind.SUSPEND), (0.9, EventKind.FAIL), (0.92, EventKind.KILL)):
        if moment < below:
            return kind
    return EventKind.FINISH if moment < 0.98 else EventKind.GIVE_UP


def _play(build: Builder, rng: random.Random, complete: bool) -> None:
    free = [1000] * build.cluster.gpus
    per_node = build.cluster.nodes[0].gpus
    held: dict[int, list[int]] = {}
    left = dict(enumerate(build.jobs))
    down: set[int] = set()
    for now in range(100_000):
        for job in sorted(held):
            moment = rng.random()
            if moment < 0.8:
                continue
            for gpu in held.pop(job):
                if gpu >= 0:
                    free[gpu] += build.jobs[job][3]
            kind = _stop_kind(moment)
            build.row(now, kind, job, Reason.OUTRANKED if kind == EventKind.SUSPEND else 1)
            if kind in (EventKind.FINISH, EventKind.GIVE_UP):
                del left[job]
        node = rng.randrange(len(build.cluster.nodes))
        mine = range(node * per_node, node * per_node + per_node)
        if node in down and rng.random() < 0.3:
            down.remove(node)
            build.row(now, EventKind.NODE_UP, node)
        elif node not in down and rng.random() < 0.05 and all(free[g] == 1000 for g in mine):
            down.add(node)
            build.row(now, EventKind.NODE_DOWN, node)
        for job in sorted(left):
            submit, gpus, _, share, _ = build.jobs[job]
            if submit > now or job in held:
                continue
            started = any(row[2] == job and row[1] == EventKind.START for row in build.rows)
            if rng.random() < 0.02 and not started:
                build.row(now, EventKind.REFUSE, job, rng.choice([Reason.TOO_MANY_GPUS, Reason.OVER_QUOTA]))
                del left[job]
                continue
            fits = [g for g, milli in enumerate(free) if milli >= share and g // per_node not in down]
            if len(fits) >= gpus and rng.random() < 0.5:
                chosen = rng.sample(fits, gpus) if gpus else [-1 - rng.randrange(len(build.cluster.nodes))]
                held[job] = chosen
                for gpu in chosen:
                    if gpu >= 0:
                        free[gpu] -= share
                build.start(now, job, chosen)
        if not left or (not complete and now == 50):
            return
