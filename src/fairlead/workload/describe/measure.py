"""Fold a trace into its description: a few passes over columns, one sort."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import numpy.typing as npt

from fairlead.model.errors import InputError
from fairlead.workload.describe.description import (
    Arrivals,
    BucketRow,
    Demands,
    Description,
    Holder,
    Repeats,
    SizeRow,
    StatusRow,
)
from fairlead.workload.describe.spread import skew, spread
from fairlead.workload.trace import Floats, Ints, Names, Status, Trace

#: upper bounds in milli-GPUs, with the label of what lies up to them
_SIZES = (
    *((0, "CPU only"), (999, "<1"), (1000, "1"), (2000, "2"), (4000, "3-4"), (8000, "5-8"), (16000, "9-16")),
    *((32000, "17-32"), (64000, "33-64"), (128000, "65-128")),
)
_SIZE_LABELS = (*(label for _, label in _SIZES), ">128")
#: lower bounds in seconds
_BUCKETS = (
    *((0, "under 1 min"), (60, "1-10 min"), (600, "10-60 min"), (3600, "1-6 h"), (21600, "6-24 h")),
    *((86400, "1-7 days"), (604800, "over 7 days")),
)


def describe(trace: Trace) -> Description:
    if len(trace) == 0:
        raise InputError("there is nothing to describe: the trace has no jobs", file=trace.source or None)
    milli = trace.gpus.astype(np.int64) * 1000
    if trace.gpu_share_milli is not None:
        shared = (trace.gpu_share_milli < 1000) & (trace.gpus == 1)
        milli[shared] = trace.gpu_share_milli[shared]
    gpu_seconds = milli * trace.duration_s / 1000.0
    total = float(gpu_seconds.sum())
    span_s = float(trace.submit_s[-1] - trace.submit_s[0])
    order = np.argsort(trace.duration_s)
    ascending = trace.duration_s[order]
    tenants = skew(trace.tenant, gpu_seconds) if trace.tenant is not None else None
    users = skew(trace.user, gpu_seconds) if trace.user is not None else None
    attempts = trace.attempts
    return Description(
        source=trace.source,
        jobs=len(trace),
        cpu_jobs=int((trace.gpus == 0).sum()),
        tenants=tenants.count if tenants else None,
        users=users.count if users else None,
        origin=trace.origin,
        span_s=span_s,
        gpu_hours=total / 3600.0,
        mean_busy_gpus=total / span_s if span_s > 0 else 0.0,
        duration_s=spread(ascending),
        sizes=_sizes(milli[order], ascending, gpu_seconds[order], total),
        buckets=_buckets(ascending, gpu_seconds[order], total),
        arrivals=_arrivals(trace),
        tenant_skew=tenants,
        user_skew=users,
        repeats=_repeats(trace.group, trace.duration_s) if trace.group is not None else None,
        statuses=_statuses(trace.status, trace.duration_s, gpu_seconds, total),
        attempts_mean=float(attempts.mean()) if attempts is not None else None,
        retried_share=float((attempts > 1).mean()) if attempts is not None else None,
        demands=_demands(trace, milli, gpu_seconds, total),
        notes=trace.notes,
    )


def _sizes(milli: npt.NDArray[np.int64], ascending: Floats, gpu_seconds: Floats, total: float) -> tuple[SizeRow, ...]:
    bins = np.searchsorted([top for top, _ in _SIZES], milli).astype(np.int8)
    rows = []
    for index, label in enumerate(_SIZE_LABELS):
        mine = bins == index
        jobs = int(mine.sum())
        if jobs:
            part = _part(float(gpu_seconds[mine].sum()), total)
            rows.append(SizeRow(label, jobs, jobs / len(milli), part, spread(ascending[mine])))
    return tuple(rows)


def _buckets(ascending: Floats, gpu_seconds: Floats, total: float) -> tuple[BucketRow, ...]:
    cuts = [*np.searchsorted(ascending, [low for low, _ in _BUCKETS]).tolist(), len(ascending)]
    cuts[0] = 0
    rows = []
    for (_, label), first, last in zip(_BUCKETS, cuts[:-1], cuts[1:]):
        part = _part(float(gpu_seconds[first:last].sum()), total)
        rows.append(BucketRow(label, last - first, (last - first) / len(ascending), part))
    return tuple(rows)


def _arrivals(trace: Trace) -> Arrivals:
    start_s, weekday, clock = 0.0, 0, "since start"
    origin = _parse(trace.origin)
    if origin is not None:
        start_s = origin.hour * 3600.0 + origin.minute * 60.0 + origin.second
        weekday, clock = origin.weekday(), "calendar"
    jobs = len(trace)
    hour = ((trace.submit_s + start_s) // 3600.0).astype(np.int64)
    week = np.bincount((hour + 24 * weekday) % 168, minlength=168).reshape(7, 24) / jobs
    by_day = np.bincount(hour // 24)
    whole = by_day[1:-1] if clock == "calendar" else by_day[:-1]
    gaps = np.diff(trace.submit_s)
    mean = float(gaps.mean()) if len(gaps) else 0.0
    return Arrivals(
        clock=clock,
        by_hour=tuple(week.sum(axis=0).tolist()),
        by_weekday=tuple(week.sum(axis=1).tolist()),
        by_weekday_hour=tuple(tuple(row) for row in week.tolist()),
        gap_mean_s=mean,
        gap_p50_s=float(np.median(gaps)) if len(gaps) else 0.0,
        gap_cv=float(gaps.std()) / mean if mean > 0 else 0.0,
        same_second_share=float((np.diff(np.floor(trace.submit_s)) == 0).mean()) if len(gaps) else 0.0,
        busiest_day_jobs=int(by_day.max()),
        day_cv=float(whole.std() / whole.mean()) if len(whole) > 1 and whole.any() else None,
    )


def _parse(origin: str | None) -> datetime | None:
    """None for an origin that is no ISO time: then hours count from the start."""
    try:
        return datetime.fromisoformat(origin) if origin else None
    except ValueError:
        return None


def _repeats(group: Names, duration_s: Floats) -> Repeats | None:
    named = group.codes >= 0
    if not named.any():
        return None
    codes, seconds = (group.codes, duration_s) if named.all() else (group.codes[named], duration_s[named])
    runs = np.bincount(codes)
    counts = runs[runs > 0]
    return Repeats(
        groups=len(counts),
        in_groups_of_2=float(counts[counts >= 2].sum() / len(duration_s)),
        in_groups_of_5=float(counts[counts >= 5].sum() / len(duration_s)),
        largest_group=int(counts.max()),
        duration_cv_within=_cv_within(codes, seconds, runs),
        variance_explained=_explained(codes, np.log(np.maximum(seconds, 1.0)), runs),
    )


def _cv_within(codes: Ints, seconds: Floats, runs: npt.NDArray[np.int64]) -> float | None:
    often = runs >= 5
    if not often.any():
        return None
    mean = np.bincount(codes, weights=seconds) / np.maximum(runs, 1)
    off = seconds - mean[codes]
    deviation = np.sqrt(np.bincount(codes, weights=off * off) / np.maximum(runs, 1))
    return float(np.median(deviation[often] / np.maximum(mean[often], 1e-9)))


def _explained(codes: Ints, values: Floats, runs: npt.NDArray[np.int64]) -> float | None:
    """Over jobs whose group ran at least twice: a single run explains itself and tells nothing."""
    again = runs[codes] >= 2
    if not again.any():
        return None
    codes, values = codes[again], values[again]
    variance = float(values.var())
    if variance <= 0:
        return None
    mean = np.bincount(codes, weights=values) / np.maximum(np.bincount(codes), 1)
    return 1.0 - float(((values - mean[codes]) ** 2).mean()) / variance


def _statuses(
    status: npt.NDArray[np.int8] | None, duration_s: Floats, gpu_seconds: Floats, total: float
) -> tuple[StatusRow, ...] | None:
    if status is None or not (status != Status.UNKNOWN).any():
        return None
    rows = []
    for kind in Status:
        mine = status == kind
        if mine.any():
            part = _part(float(gpu_seconds[mine].sum()), total)
            median = float(np.median(duration_s[mine]))
            rows.append(StatusRow(kind.name.lower(), float(mine.mean()), part, median))
    return tuple(rows)


def _demands(trace: Trace, milli: npt.NDArray[np.int64], gpu_seconds: Floats, total: float) -> Demands:
    on_gpu = milli > 0
    asked = milli[on_gpu] / 1000.0
    cpu, memory = trace.cpu_milli, trace.memory_mib
    return Demands(
        gpus_mean=float(asked.mean()) if len(asked) else 0.0,
        gpus_p50=float(np.median(asked)) if len(asked) else 0.0,
        shared_jobs=float((asked < 1.0).mean()) if trace.gpu_share_milli is not None and len(asked) else None,
        cpu_milli=spread(np.sort(cpu.astype(np.float64))) if cpu is not None else None,
        memory_mib=spread(np.sort(memory.astype(np.float64))) if memory is not None else None,
        gpu_types=_types(trace.gpu_type, gpu_seconds, total) if trace.gpu_type is not None else None,
    )


def _types(names: Names, gpu_seconds: Floats, total: float) -> tuple[Holder, ...]:
    """Shares of all jobs and of all GPU time, so that they add up to what insists on a type."""
    slots = names.codes + 1
    jobs = np.bincount(slots, minlength=len(names.values) + 1)[1:]
    work = np.bincount(slots, weights=gpu_seconds, minlength=len(names.values) + 1)[1:]
    order = np.lexsort((np.arange(len(jobs)), -jobs))
    return tuple(
        Holder(names.values[i], float(jobs[i] / len(slots)), _part(float(work[i]), total))
        for i in order.tolist()
        if jobs[i]
    )


def _part(value: float, total: float) -> float:
    return value / total if total > 0 else 0.0
