"""What really ran, as a canonical trace: yesterday's jobs for the simulator to run under another policy."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from fairlead.model.job import WHOLE_MILLI, JobSpec
from fairlead.server.jobs import State
from fairlead.server.store import JobRow, Store
from fairlead.workload.trace import Names, Status, Trace
from fairlead.workload.writer import write_csv

_AT_ONCE = 1000
_STATUS = {State.DONE: Status.PASSED, State.FAILED: Status.FAILED, State.CANCELLED: Status.KILLED}


@dataclass(frozen=True)
class TraceRows:
    csv: str
    jobs: int
    left_out: int  #: jobs that never ran
    origin: str | None  #: when `submit_s` is 0, in ISO form


def trace_rows(
    store: Store, since_s: float | None = None, until_s: float | None = None, now_s: float | None = None
) -> TraceRows:
    """Jobs submitted from `since_s` and before `until_s`. A job that still runs has run up to `now_s`."""
    found: list[Ran] = []
    left_out = after = 0
    while page := store.with_specs(after, limit=_AT_ONCE, since_s=since_s, until_s=until_s):
        after = page[-1][0].seq
        for row, spec in page:
            ran_s = run_time(row, now_s)
            if row.first_start_s is None or ran_s <= 0:
                left_out += 1
            else:
                status = _STATUS.get(State(row.state), Status.UNKNOWN)
                found.append(Ran(row.id, row.user, row.tenant, row.submit_s, spec, ran_s, status, row.name))
    file = io.StringIO()
    trace = trace_of(found)
    write_csv(trace, file)
    return TraceRows(file.getvalue(), len(found), left_out, trace.origin)


def run_time(row: JobRow, now_s: float | None) -> float:
    """All its runs together, the present one up to `now_s`."""
    present_s = 0.0
    if row.state == State.RUNNING and row.started_s is not None and now_s is not None:
        present_s = max(now_s - row.started_s, 0.0)
    return row.ran_s + present_s


@dataclass(frozen=True)
class Ran:
    """A job of whatever engine that has run for some time."""

    id: str
    user: str
    tenant: str
    submit_s: float
    spec: JobSpec
    ran_s: float
    status: Status
    name: str = ""


def trace_of(found: list[Ran]) -> Trace:
    """In order of submission."""
    rows, specs = found, [one.spec for one in found]
    first_s = rows[0].submit_s if rows else 0.0
    ran_s = np.array([one.ran_s for one in found], np.float64)

    def numbers(read: Callable[[JobSpec], int | None], kind: Any, usual: int) -> Any:
        """None where no job says anything."""
        values = [usual if (value := read(spec)) is None else value for spec in specs]
        return None if all(value == usual for value in values) else np.array(values, kind)

    def of_nodes(spec: JobSpec, amount: int | None) -> int | None:
        """The trace has what the whole job needs, a job file what each of its nodes does."""
        return None if amount is None else amount * (spec.num_nodes or 1)

    # what its owner said; where nobody did, the reader takes what it really ran
    said = [spec.estimate_s if spec.estimate_s is not None else spec.time_limit_s for spec in specs]
    estimate_s = np.array([ran if s is None else s for s, ran in zip(said, ran_s.tolist(), strict=True)], np.float64)
    gpus = np.array([spec.total_gpus for spec in specs], np.int32)
    least, most = numbers(lambda s: s.min_gpus, np.int32, -1), numbers(lambda s: s.max_gpus, np.int32, -1)
    return Trace(
        submit_s=np.maximum.accumulate(np.array([row.submit_s - first_s for row in rows], np.float64)),
        gpus=gpus,
        duration_s=ran_s,
        job_ids=[row.id for row in rows],
        tenant=_names([row.tenant for row in rows]),
        user=_names([row.user for row in rows]),
        group=_names([row.name for row in rows]),
        gpu_type=_names([spec.gpu_type for spec in specs]),
        gpu_share_milli=numbers(lambda s: s.gpu_share_milli, np.int32, WHOLE_MILLI),
        gpu_memory_mib=numbers(lambda s: s.gpu_memory_mib, np.int64, 0),
        cpu_milli=numbers(lambda s: of_nodes(s, s.cpu_milli), np.int64, 0),
        memory_mib=numbers(lambda s: of_nodes(s, s.memory_mib), np.int64, 0),
        priority=numbers(lambda s: s.priority, np.int32, 0),
        estimate_s=None if all(s is None for s in said) else estimate_s,
        status=np.array([one.status for one in rows], np.int8),
        min_gpus=None if least is None else np.where(least < 0, gpus, least).astype(np.int32),
        max_gpus=None if most is None else np.where(most < 0, gpus, most).astype(np.int32),
        preemptible=numbers(lambda s: int(s.preemptible), np.int8, 1),
        num_nodes=numbers(lambda s: s.num_nodes, np.int32, 0),
        topology=_names([spec.topology for spec in specs]),
        origin=datetime.fromtimestamp(first_s, UTC).isoformat() if rows else None,
    )


def _names(values: list[str]) -> Names | None:
    """None where nobody has any."""
    known = sorted(set(values) - {""})
    if not known:
        return None
    code = {name: i for i, name in enumerate(known)}
    return Names(np.array([code.get(value, -1) for value in values], np.int32), tuple(known))
