"""From a mix to a trace: enough jobs, the time span that gives the load, submissions in order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.model.errors import InputError
from fairlead.workload.generate import arrivals, outcomes, sample
from fairlead.workload.generate.mix import Mix
from fairlead.workload.trace import Floats, Ints, Longs, Names, Trace

DEFAULT_LOAD = 0.9
DEFAULT_DAYS = 30.0


@dataclass(frozen=True)
class Scale:
    """How much of a mix: two of jobs, days and load; the third follows."""

    gpus: int
    max_gpus: int
    jobs: int | None
    days: float | None
    load: float | None
    steady: bool = False  #: with what would still run from before

    @classmethod
    def of(
        cls,
        mix: Mix,
        jobs: int | None,
        days: float | None,
        gpus: int | None,
        load: float | None,
        max_gpus: int | None,
        steady: bool,
    ) -> Scale:
        cluster = gpus or mix.cluster_gpus
        if jobs is not None and days is not None and load is not None:
            raise InputError(
                "jobs, days and load can't all be chosen: any two give the third",
                value=f"jobs={jobs}, days={days}, load={load}",
                accepts="two of them",
            )
        if jobs is None and days is None:
            days = DEFAULT_DAYS
        if load is None and (jobs is None or days is None):
            load = DEFAULT_LOAD
        return cls(cluster, min(max_gpus or cluster, cluster), jobs, days, load, steady)


@dataclass(frozen=True)
class Drawn:
    """All jobs of a trace, in the order of their batches."""

    batch_lengths: Longs
    size: Ints
    tenant: Ints
    user: Ints
    group: Ints
    groups: int
    duration_s: Floats

    def gpu_seconds(self, mix: Mix) -> Floats:
        gpus = np.array(mix.sizes_milli)[self.size]
        return np.asarray(gpus * self.duration_s / 1000.0)

    def first(self, jobs: int) -> Drawn:
        """The leading jobs only; the last batch may lose its end."""
        ends = np.cumsum(self.batch_lengths)
        last = int(np.searchsorted(ends, jobs))
        lengths = self.batch_lengths[: last + 1].copy()
        lengths[-1] -= ends[last] - jobs
        group = self.group[:jobs]
        return Drawn(
            lengths,
            self.size[:jobs],
            self.tenant[:jobs],
            self.user[:jobs],
            group,
            int(group.max()) + 1,
            self.duration_s[:jobs],
        )


def build(rng: np.random.Generator, mix: Mix, scale: Scale) -> Trace:
    tables = sample.prepare(mix, scale.max_gpus)
    drawn = _draw_all(rng, tables, scale.jobs) if scale.jobs is not None else _draw_days(rng, tables, scale)
    gpu_seconds = drawn.gpu_seconds(mix)
    if scale.load is not None:
        span_s = float(gpu_seconds.sum()) / (scale.gpus * scale.load)
    else:
        assert scale.days is not None
        span_s = scale.days * arrivals.DAY
    submit_s = _submissions(rng, mix, drawn.batch_lengths, span_s)
    status, attempts = outcomes.draw(rng, mix.outcomes, gpu_seconds)
    del gpu_seconds

    order = np.argsort(submit_s, kind="stable")
    submit_s = submit_s[order]
    # the first and the last submission mark the span, so that the load over it is the one asked for
    submit_s[-1] = round(span_s)
    submit_s[0] = 0.0
    if scale.steady:
        order, submit_s, left_s = _with_residents(order, submit_s, drawn.duration_s[order], span_s)
    else:
        left_s = drawn.duration_s[order]
    milli = np.array(mix.sizes_milli, dtype=np.int32)
    size = drawn.size[order]
    users = sum(tenant.users for tenant in mix.tenants)
    return Trace(
        submit_s=submit_s,
        gpus=np.maximum(milli // 1000, 1)[size],
        duration_s=left_s,
        tenant=Names(drawn.tenant[order], _names("vc", len(mix.tenants))),
        user=Names(drawn.user[order], _names("user", users)),
        group=Names(drawn.group[order], tuple([f"run-{i}" for i in range(drawn.groups)])),
        gpu_share_milli=np.minimum(milli, 1000)[size] if (milli < 1000).any() else None,
        status=status[order],
        attempts=attempts[order],
        origin=mix.origin,
        source=mix.name,
        notes=mix.notes,
    )


def _with_residents(order: Longs, submit_s: Floats, duration_s: Floats, span_s: float) -> tuple[Longs, Floats, Floats]:
    """The jobs, and before them those that would still run from before: whatever outlasts the span is taken to have been
    submitted as long before it as well, once per span that it reaches over. So the load is the same from the first second,
    where an empty cluster would take as long to fill as its longest jobs last."""
    over = np.floor((submit_s + duration_s) / span_s).astype(np.int64)
    over[over * span_s == submit_s + duration_s] -= 1
    over = np.maximum(over, 0)
    which = np.repeat(np.arange(len(order)), over)
    spans = np.arange(len(which)) - np.repeat(np.cumsum(over) - over, over) + 1
    left = submit_s[which] + duration_s[which] - spans * span_s
    left = np.maximum(np.ceil(left), 1.0)
    return (
        np.concatenate([order[which], order]),
        np.concatenate([np.zeros(len(which)), submit_s]),
        np.concatenate([left, duration_s]),
    )


def _draw_all(rng: np.random.Generator, tables: sample.Tables, jobs: int) -> Drawn:
    return _join(list(sample.draw_many(rng, tables, jobs)))


def _draw_days(rng: np.random.Generator, tables: sample.Tables, scale: Scale) -> Drawn:
    """As many jobs as bring the GPU time nearest to what the load over the days asks for."""
    assert scale.days is not None
    assert scale.load is not None
    target = scale.days * arrivals.DAY * scale.gpus * scale.load
    parts: list[sample.Jobs] = []
    sizes = np.array(tables.mix.sizes_milli) / 1000.0
    have = 0.0
    while have < target:
        wanted = int(1.1 * (target - have) / tables.gpu_seconds_per_job) + 50
        for part in sample.draw_many(rng, tables, wanted):
            parts.append(part)
            have += float((sizes[part.size] * part.duration_s).sum())
    drawn = _join(parts)
    done = np.cumsum(drawn.gpu_seconds(tables.mix))
    jobs = int(np.searchsorted(done, target)) + 1
    if jobs > 1 and target - done[jobs - 2] < done[jobs - 1] - target:
        jobs -= 1
    return drawn.first(jobs)


def _join(parts: list[sample.Jobs]) -> Drawn:
    before = np.cumsum([0, *(part.groups for part in parts)])
    return Drawn(
        np.concatenate([part.batch_lengths for part in parts]),
        np.concatenate([part.size for part in parts]),
        np.concatenate([part.tenant for part in parts]),
        np.concatenate([part.user for part in parts]),
        np.concatenate([part.group + np.int32(first) for part, first in zip(parts, before.tolist())]),
        int(before[-1]),
        np.concatenate([part.duration_s for part in parts]),
    )


def _submissions(rng: np.random.Generator, mix: Mix, lengths: Longs, span_s: float) -> Floats:
    """Unsorted, in whole seconds."""
    starts = arrivals.batch_starts(rng, mix.rhythm, len(lengths), span_s)
    out = np.empty(int(lengths.sum()))
    ends = np.cumsum(lengths)
    first_batch = first_job = 0
    while first_batch < len(lengths):
        last_batch = int(np.searchsorted(ends, first_job + sample.CHUNK)) + 1
        part = slice(first_batch, last_batch)
        times = arrivals.job_times(rng, mix.rhythm, starts[part], lengths[part], span_s)
        np.floor(times, out=out[first_job : first_job + len(times)])
        first_batch, first_job = last_batch, first_job + len(times)
    return out


def _names(prefix: str, count: int) -> tuple[str, ...]:
    width = len(str(count))
    return tuple(f"{prefix}{i + 1:0{width}d}" for i in range(count))
