"""One transaction for many batches: what each asks for is looked up and numbered first, then written table by table."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, Table, bindparam, func, select

from fairlead.model.errors import InputError
from fairlead.model.job import LONGEST_NAME, JobSpec
from fairlead.server.store.errors import KeyReused, NoSuchJob, StoreMistake
from fairlead.server.store.rows import (
    BLOCKED,
    SUBMIT,
    Batch,
    Event,
    JobKey,
    Submission,
    Submitted,
    Written,
    clean,
    held_milli,
    places_json,
)
from fairlead.server.store.schema import DEPENDENCIES, EVENTS, JOBS, META, SPECS, USAGE
from fairlead.workload.job_document import job_to_json

_AT_ONCE = 500  #: values in one IN list


@dataclass(frozen=True)
class Counters:
    """The last numbers given out. They never go back, not even when what had them is pruned."""

    job: int = 0
    event: int = 0


def read_counters(connection: Connection) -> Counters:
    kept = {row.key: row.value for row in connection.execute(select(META))}
    job = connection.execute(select(func.max(JOBS.c.seq))).scalar() or 0
    event = connection.execute(select(func.max(EVENTS.c.seq))).scalar() or 0
    return Counters(max(job, int(kept.get("last_job", 0))), max(event, int(kept.get("last_event", 0))))


@dataclass
class _Rows:
    counters: Counters
    specs: list[dict[str, Any]] = field(default_factory=list)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    dependencies: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    changes: dict[int, dict[str, Any]] = field(default_factory=dict)
    usage: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: user and key of what this transaction submits: the document, and what became of it
    keys: dict[tuple[str, str], tuple[str, Submitted]] = field(default_factory=dict)
    ids: dict[str, list[int]] = field(default_factory=dict)

    def event(self, event: Event) -> None:
        self.counters = replace(self.counters, event=self.counters.event + 1)
        row = {
            "seq": self.counters.event,
            "time_s": finite(event.time_s),
            "kind": clean(event.kind),
            "job_seq": event.job,
            "run": event.run,
            "args": to_json(event.args) if event.args else "{}",
        }
        self.events.append(row)


def write_batches(
    connection: Connection, batches: Sequence[Batch], counters: Counters, where: str
) -> tuple[list[Written | InputError], Counters]:
    """A batch that a person got wrong is answered with its error, and the others are written."""
    rows = _Rows(counters)
    submissions = [one for batch in batches for one in batch.submissions]
    _look_up_keys(connection, rows, submissions)
    _look_up_jobs(connection, rows, submissions)
    answers: list[Written | InputError] = []
    for batch in batches:
        try:
            answers.append(_number(rows, batch))
        except InputError as error:
            answers.append(error)
    _insert(connection, SPECS, rows.specs)
    _insert(connection, JOBS, rows.jobs)
    _insert(connection, DEPENDENCIES, rows.dependencies)
    _insert(connection, EVENTS, rows.events)
    _change(connection, rows, where)
    _charge(connection, rows)
    return answers, rows.counters


def _number(rows: _Rows, batch: Batch) -> Written:
    keys = {known: document for known, (document, _) in rows.keys.items()} if batch.submissions else {}
    for submission in batch.submissions:  # before any is numbered: a batch is written whole or not at all
        _check(rows, submission, keys)
    submitted = tuple(_submit(rows, submission) for submission in batch.submissions)
    for event in batch.events:
        rows.event(event)
    for job, columns in batch.changes.items():
        rows.changes.setdefault(job, {}).update(_stored(columns), changed_seq=rows.counters.event)
    for tenant, (gpu_s, as_of_s) in batch.usage.items():
        rows.usage[tenant] = {
            "tenant": clean(tenant),
            "gpu_s": finite(gpu_s),
            "as_of_s": finite(as_of_s),
            "event_seq": rows.counters.event,
        }
    return Written(submitted, rows.counters.event)


def _check(rows: _Rows, submission: Submission, keys: dict[tuple[str, str], str]) -> None:
    if submission.key is not None:
        if not 1 <= len(submission.key) <= LONGEST_NAME:
            accepts = f"1 to {LONGEST_NAME} characters"
            raise InputError("this is no idempotency key", value=submission.key[:LONGEST_NAME], accepts=accepts)
        document = job_to_json(submission.spec)
        if keys.setdefault(_known(submission), document) != document:
            raise KeyReused(
                "this idempotency key was used for another job",
                value=submission.key,
                accepts="a new key, or the very same job",
            )
    for dependency in submission.spec.depends_on:
        if dependency.job not in rows.ids:
            raise NoSuchJob("there is no job with this id", column="depends_on", value=dependency.job)


def _known(submission: Submission) -> tuple[str, str]:
    return clean(submission.user), clean(submission.key or "")


def _submit(rows: _Rows, submission: Submission) -> Submitted:
    spec, known = submission.spec, _known(submission)
    if submission.key is not None and known in rows.keys:
        return replace(rows.keys[known][1], duplicate=True)
    first = rows.counters.job + 1
    document = job_to_json(spec)
    array_id = str(first) if spec.array else None
    rows.specs.append({"seq": first, "document": document})
    keys = []
    for number, index in enumerate(spec.array or (None,)):
        keys.append(JobKey(first + number, f"{array_id}_{index}" if array_id else str(first)))
        args: dict[str, Any] = {"foreign": submission.foreign} if submission.foreign else {}
        if submission.state == BLOCKED:
            args["blocked"] = True  # its state won't say so any more once it has ended
        rows.event(Event(SUBMIT, submission.time_s, keys[-1].seq, args=args))
        key = submission.key if number == 0 else None
        rows.jobs.append(_job(submission, keys[-1], spec, first, array_id, index, key, rows.counters.event))
        for dependency in spec.depends_on:
            for on in rows.ids[dependency.job]:
                made = {"job_seq": keys[-1].seq, "on_seq": on, "condition": str(dependency.when)}
                rows.dependencies.append(made)
    rows.counters = replace(rows.counters, job=keys[-1].seq)
    submitted = Submitted(tuple(keys), array_id)
    if submission.key is not None:
        rows.keys[known] = (document, submitted)
    return submitted


def _job(
    submission: Submission,
    job: JobKey,
    spec: JobSpec,
    spec_seq: int,
    array_id: str | None,
    index: int | None,
    key: str | None,
    event: int,
) -> dict[str, Any]:
    return {
        "seq": job.seq,
        "id": job.id,
        "name": spec.name,
        "tenant": clean(submission.tenant),
        "user": clean(submission.user),
        "spec_seq": spec_seq,
        "submit_s": finite(submission.time_s),
        "array_id": array_id,
        "array_index": index,
        "key": None if key is None else clean(key),
        "gpus": spec.total_gpus,
        "priority": spec.priority,
        "state": submission.state,
        "memo": to_json({"foreign": submission.foreign}) if submission.foreign else "{}",
        "changed_seq": event,
    }


def _look_up_keys(connection: Connection, rows: _Rows, submissions: Sequence[Submission]) -> None:
    wanted = {_known(one) for one in submissions if one.key is not None}
    if not wanted:
        return
    columns = (JOBS.c.key, JOBS.c.seq, JOBS.c.id, JOBS.c.array_id, SPECS.c.document)
    query = select(*columns).join(SPECS, SPECS.c.seq == JOBS.c.spec_seq)
    for user in sorted({user for user, _ in wanted}):  # user by user: SQLite finds pairs in no index
        for keys in _parts(key for name, key in wanted if name == user):
            found = connection.execute(query.where(JOBS.c.user == user, JOBS.c.key.in_(keys))).all()
            for key, seq, job_id, array_id, document in found:
                rows.keys[user, key] = (document, _as_submitted(connection, seq, job_id, array_id))


def submitted_with(connection: Connection, user: str, key: str) -> tuple[str, Submitted] | None:
    """The document that this user submitted with this key, and what became of it."""
    columns = (JOBS.c.seq, JOBS.c.id, JOBS.c.array_id, SPECS.c.document)
    query = select(*columns).join(SPECS, SPECS.c.seq == JOBS.c.spec_seq)
    found = connection.execute(query.where(JOBS.c.user == clean(user), JOBS.c.key == clean(key))).first()
    if found is None:
        return None
    seq, job_id, array_id, document = found
    return document, replace(_as_submitted(connection, seq, job_id, array_id), duplicate=True)


def _as_submitted(connection: Connection, seq: int, job_id: str, array_id: str | None) -> Submitted:
    if array_id is None:
        return Submitted((JobKey(seq, job_id),))
    query = select(JOBS.c.seq, JOBS.c.id).where(JOBS.c.array_id == array_id).order_by(JOBS.c.seq)
    return Submitted(tuple(JobKey(*row) for row in connection.execute(query)), array_id)


def _look_up_jobs(connection: Connection, rows: _Rows, submissions: Sequence[Submission]) -> None:
    """The id of an array stands for all its tasks."""
    wanted = {dependency.job for one in submissions for dependency in one.spec.depends_on}
    for ids in _parts(wanted):
        query = select(JOBS.c.seq, JOBS.c.id, JOBS.c.array_id)
        for seq, job_id, _ in connection.execute(query.where(JOBS.c.id.in_(ids))):
            rows.ids.setdefault(job_id, []).append(seq)
        for seq, _, array_id in connection.execute(query.where(JOBS.c.array_id.in_(ids)).order_by(JOBS.c.seq)):
            rows.ids.setdefault(array_id, []).append(seq)


def _parts(values: Iterable[str]) -> Iterable[list[str]]:
    ordered = sorted(values)
    return (ordered[i : i + _AT_ONCE] for i in range(0, len(ordered), _AT_ONCE))


def _insert(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(table.insert(), rows)


def _change(connection: Connection, rows: _Rows, where: str) -> None:
    """Jobs whose same columns change go in one statement."""
    alike: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for job, columns in sorted(rows.changes.items()):
        alike.setdefault(tuple(sorted(columns)), []).append({"_job": job, **columns})
    for names, values in alike.items():
        change = JOBS.update().where(JOBS.c.seq == bindparam("_job"), JOBS.c.finished_s.is_(None))
        done = connection.execute(change.values({name: bindparam(name) for name in names}), values)
        if done.rowcount != len(values):
            jobs = ", ".join(str(value["_job"]) for value in values[:5])
            raise StoreMistake(where, f"a job that is to change is not there or has ended (one of {jobs})")


def _charge(connection: Connection, rows: _Rows) -> None:
    if rows.usage:
        connection.execute(
            USAGE.delete().where(USAGE.c.tenant == bindparam("_tenant")), [{"_tenant": t} for t in rows.usage]
        )
        connection.execute(USAGE.insert(), list(rows.usage.values()))


def _stored(columns: Mapping[str, Any]) -> dict[str, Any]:
    made = {}
    for name, value in columns.items():
        if name == "places":
            made["held_milli"] = held_milli(value)
            value = places_json(value)
        elif name == "memo":
            value = to_json(value)
        elif isinstance(value, str):
            value = clean(str(value))
        elif isinstance(value, float):
            value = finite(value)
        made[name] = value
    return made


def finite(value: float) -> float:
    """SQLite would keep NaN as nothing at all."""
    if not math.isfinite(value):
        raise ValueError(f"{value} is no number to keep")
    return value


def to_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False, default=str)
