"""Listings by page, the journal from a row on, and everything that a scheduler needs to go on after a restart."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, false, func, or_, select, tuple_

from fairlead.model.errors import InputError
from fairlead.model.job import LONGEST_NAME, JobSpec, When
from fairlead.model.suggest import unknown
from fairlead.server.store.errors import NoSuchJob
from fairlead.server.store.rows import HistoryRow, JobRow, LiveJob, StoredEvent, Waited, clean, places_from
from fairlead.server.store.schema import DEPENDENCIES, EVENTS, JOBS, SPECS
from fairlead.workload.job_document import job_from_json

MOST_ROWS = 1000  #: of one page
_MOST_EVENTS = 100_000
_FAR = 2**62  #: more than there will ever be, and no more than a database takes
#: rows of no job that are about one person all the same: what somebody asked of an engine and was refused
_PERSONAL = ("declined",)
_COLUMNS = [JOBS.c[name] for name in JobRow.__dataclass_fields__]
_PLACES = list(JobRow.__dataclass_fields__).index("places")
_MEMO = list(JobRow.__dataclass_fields__).index("memo")
#: what a listing may be sorted by; the order of submission settles what is equal
SORTS: Mapping[str, ColumnElement[Any]] = {
    "submitted": JOBS.c.seq,
    "started": JOBS.c.first_start_s,
    "finished": JOBS.c.finished_s,
    "name": JOBS.c.name,
    "tenant": JOBS.c.tenant,
    "user": JOBS.c.user,
    "state": JOBS.c.state,
    "gpus": JOBS.c.gpus,
    "priority": JOBS.c.priority,
}
_MAY_BE_MISSING = ("started", "finished")


@dataclass(frozen=True)
class JobFilter:
    """All of it must hold; an empty tuple asks for nothing."""

    states: Sequence[str] = ()
    tenants: Sequence[str] = ()
    users: Sequence[str] = ()
    search: str = ""  #: part of its name, or the beginning of its id
    live: bool | None = None  #: True: not ended yet
    array: str | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        found: list[ColumnElement[bool]] = []
        for column, values in ((JOBS.c.state, self.states), (JOBS.c.tenant, self.tenants), (JOBS.c.user, self.users)):
            if values:
                found.append(column.in_([clean(value) for value in values]))
        if self.search:
            words = clean(self.search)
            named = JOBS.c.name.icontains(words, autoescape=True)
            # no name is longer, and SQLite refuses to look for what is very long
            found.append(
                false() if len(words) > LONGEST_NAME else or_(named, JOBS.c.id.startswith(words, autoescape=True))
            )
        if self.live is not None:
            found.append(JOBS.c.finished_s.is_(None) if self.live else JOBS.c.finished_s.is_not(None))
        if self.array is not None:
            found.append(JOBS.c.array_id == clean(self.array))
        return found


@dataclass(frozen=True)
class Page:
    jobs: tuple[JobRow, ...]
    cursor: str | None  #: asks for the next page; None: this was the last


def list_jobs(
    connection: Connection, which: JobFilter, sort: str, descending: bool, limit: int, cursor: str | None
) -> Page:
    """A page begins behind a row, not at a number: rows that come in meanwhile neither hide nor double any other."""
    if sort not in SORTS:
        raise unknown("order of jobs", sort, SORTS)
    if not 1 <= limit <= MOST_ROWS:
        raise InputError("a page can't have so many rows", column="limit", value=limit, accepts=f"1 to {MOST_ROWS}")
    after = None if cursor is None else _read_cursor(cursor, sort, descending)
    query = select(*_COLUMNS).where(*which.conditions())
    rows: list[Row[Any]] = []
    if after is None or after[0] is not None:
        rows += connection.execute(_having(query, sort, descending, after, limit + 1)).all()
    if sort in _MAY_BE_MISSING and len(rows) <= limit:
        # jobs without a value come last, in either direction
        behind = after[1] if after is not None and after[0] is None else None
        rows += connection.execute(_missing(query, sort, descending, behind, limit + 1 - len(rows))).all()
    jobs = tuple(job_row(row) for row in rows[:limit])
    return Page(jobs, _write_cursor(jobs[-1], sort, descending) if len(rows) > limit else None)


def _having(query: Select[Any], sort: str, descending: bool, after: tuple[Any, int] | None, limit: int) -> Select[Any]:
    keys = [JOBS.c.seq] if sort == "submitted" else [SORTS[sort], JOBS.c.seq]
    if sort in _MAY_BE_MISSING:
        query = query.where(SORTS[sort].is_not(None))
    if after is not None:
        mark = tuple_(*after[-len(keys) :])
        query = query.where(tuple_(*keys) < mark if descending else tuple_(*keys) > mark)
    return query.order_by(*(key.desc() if descending else key.asc() for key in keys)).limit(limit)


def _missing(query: Select[Any], sort: str, descending: bool, behind: int | None, limit: int) -> Select[Any]:
    query = query.where(SORTS[sort].is_(None))
    if behind is not None:
        query = query.where(JOBS.c.seq < behind if descending else JOBS.c.seq > behind)
    return query.order_by(JOBS.c.seq.desc() if descending else JOBS.c.seq.asc()).limit(limit)


def _write_cursor(job: JobRow, sort: str, descending: bool) -> str:
    value = job.seq if sort == "submitted" else getattr(job, SORTS[sort].key or "")
    text = json.dumps([sort, descending, value, job.seq], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_cursor(cursor: str, sort: str, descending: bool) -> tuple[Any, int]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        was_sort, was_descending, value, seq = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        kind = str if sort in ("name", "tenant", "user", "state") else (int, float)
        missing = value is None and sort in _MAY_BE_MISSING
        if isinstance(value, bool) or not (missing or isinstance(value, kind)) or type(seq) is not int:
            raise ValueError(cursor)
        if not abs(seq) < 2**63 or (isinstance(value, int) and not abs(value) < 2**63):
            raise ValueError(cursor)
        if isinstance(value, str):
            value.encode()
            if "\0" in value:
                raise ValueError(cursor)
    except (ValueError, TypeError, RecursionError):
        raise InputError(
            "this is no page of a listing", column="cursor", accepts="the cursor that came with one"
        ) from None
    if (was_sort, was_descending) != (sort, descending):
        raise InputError(
            "the page is of a listing in another order", column="cursor", accepts="the same sort as before"
        )
    return value, seq


def job_row(row: Sequence[Any]) -> JobRow:
    values = list(row)
    values[_PLACES] = places_from(values[_PLACES])
    values[_MEMO] = {} if values[_MEMO] == "{}" else json.loads(values[_MEMO])
    return JobRow(*values)


def get_job(connection: Connection, job_id: str) -> JobRow:
    row = connection.execute(select(*_COLUMNS).where(JOBS.c.id == clean(job_id))).first()
    if row is None:
        raise NoSuchJob("there is no job with this id", value=job_id)
    return job_row(row)


def get_spec(connection: Connection, job_id: str) -> JobSpec:
    query = select(SPECS.c.document).join(JOBS, JOBS.c.spec_seq == SPECS.c.seq).where(JOBS.c.id == clean(job_id))
    document = connection.execute(query).scalar()
    if document is None:
        raise NoSuchJob("there is no job with this id", value=job_id)
    return job_from_json(document)


def count_jobs(connection: Connection, which: JobFilter) -> int:
    return connection.execute(select(func.count()).select_from(JOBS).where(*which.conditions())).scalar() or 0


def array_size(connection: Connection, array_id: str) -> int:
    query = select(func.count()).select_from(JOBS).where(JOBS.c.array_id == clean(array_id))
    return connection.execute(query).scalar() or 0


def count_by_state(connection: Connection) -> dict[tuple[str, str], int]:
    """How many jobs each tenant has in each state."""
    query = select(JOBS.c.tenant, JOBS.c.state, func.count()).group_by(JOBS.c.tenant, JOBS.c.state)
    return {(tenant, state): number for tenant, state, number in connection.execute(query)}


def events_since(
    connection: Connection,
    seq: int,
    limit: int,
    job: int | None = None,
    kinds: Sequence[str] = (),
    user: str | None = None,
    until: int = _FAR,
) -> list[StoredEvent]:
    columns = (EVENTS.c.kind, EVENTS.c.time_s, EVENTS.c.job_seq, EVENTS.c.run, EVENTS.c.args, EVENTS.c.seq, JOBS.c.id)
    since, most = max(min(seq, _FAR), 0), max(min(limit, _MOST_EVENTS), 0)
    query = select(*columns).join(JOBS, JOBS.c.seq == EVENTS.c.job_seq, isouter=True).where(EVENTS.c.seq > since)
    query = query.order_by(EVENTS.c.seq).limit(most)
    if until < _FAR:
        query = query.where(EVENTS.c.seq <= until)
    if job is not None:
        query = query.where(EVENTS.c.job_seq == job)
    if kinds:
        query = query.where(EVENTS.c.kind.in_([clean(kind) for kind in kinds]))
    if user is not None:
        everybodys = and_(EVENTS.c.job_seq.is_(None), EVENTS.c.kind.not_in(_PERSONAL))
        query = query.where(or_(everybodys, JOBS.c.user == clean(user)))
    return [
        StoredEvent(kind, time_s, job_seq, run, json.loads(args), seq, job_id)
        for kind, time_s, job_seq, run, args, seq, job_id in connection.execute(query)
    ]


def first_since(connection: Connection, time_s: float, last: int) -> int:
    """The number of the first row of the journal from then on, one more than the last where there is none. Numbers rise with time,
    so that no index of times is needed."""
    low, high = 1, last + 1
    while low < high:
        middle = (low + high) // 2
        query = select(EVENTS.c.time_s).where(EVENTS.c.seq >= middle).order_by(EVENTS.c.seq).limit(1)
        found = connection.execute(query).scalar()
        if found is None or found >= time_s:
            high = middle
        else:
            low = middle + 1
    return low


def history(
    connection: Connection, kinds: Sequence[str], since: int, until: int, alive_s: float | None
) -> list[HistoryRow]:
    """Rows of jobs after `since` and up to `until`. With `alive_s`: only of jobs that had been submitted and had not ended then."""
    columns = (EVENTS.c.seq, EVENTS.c.time_s, EVENTS.c.kind, EVENTS.c.job_seq, EVENTS.c.run, EVENTS.c.args)
    query = (
        select(*columns, JOBS.c.tenant, JOBS.c.submit_s)
        .join(JOBS, JOBS.c.seq == EVENTS.c.job_seq)
        .where(EVENTS.c.seq > since, EVENTS.c.seq <= until, EVENTS.c.kind.in_(list(kinds)))
        .order_by(EVENTS.c.seq)
    )
    if alive_s is not None:
        query = query.where(JOBS.c.submit_s < alive_s, or_(JOBS.c.finished_s.is_(None), JOBS.c.finished_s >= alive_s))
    return [HistoryRow(*row) for row in connection.execute(query)]


def jobs_with_specs(
    connection: Connection, after: int, limit: int, since_s: float | None, until_s: float | None
) -> list[tuple[JobRow, JobSpec]]:
    """Jobs submitted from `since_s` and before `until_s`, in order of submission, behind the one numbered `after`."""
    query = select(JOBS.c.spec_seq, *_COLUMNS).where(JOBS.c.seq > after).order_by(JOBS.c.seq).limit(limit)
    if since_s is not None:
        query = query.where(JOBS.c.submit_s >= since_s)
    if until_s is not None:
        query = query.where(JOBS.c.submit_s < until_s)
    rows = connection.execute(query).all()
    if not rows:
        return []
    # those of the jobs between the first and the last: the tasks of an array share one that may be older
    wanted = select(JOBS.c.spec_seq).where(JOBS.c.seq.between(rows[0].seq, rows[-1].seq))
    documents = connection.execute(select(SPECS.c.seq, SPECS.c.document).where(SPECS.c.seq.in_(wanted)))
    specs = {seq: job_from_json(document) for seq, document in documents}
    return [(job_row(values), specs[spec_seq]) for spec_seq, *values in rows]


def waited_for(connection: Connection, which: ColumnElement[bool]) -> dict[int, list[Waited]]:
    """What the jobs wait for that these conditions hold for."""
    waits: dict[int, list[Waited]] = {}
    other = JOBS.alias()
    query = (
        select(
            DEPENDENCIES.c.job_seq,
            *(other.c.seq, other.c.id, DEPENDENCIES.c.condition),
            *(other.c.finished_s, other.c.exit_code, other.c.state),
        )
        .join(JOBS, JOBS.c.seq == DEPENDENCIES.c.job_seq)
        .join(other, other.c.seq == DEPENDENCIES.c.on_seq)
        .where(which)
        .order_by(DEPENDENCIES.c.job_seq, DEPENDENCIES.c.on_seq)
    )
    for job, on, on_id, condition, finished_s, exit_code, state in connection.execute(query):
        waited = Waited(on, on_id, When(condition), finished_s is not None, exit_code, state)
        waits.setdefault(job, []).append(waited)
    return waits


def live_jobs(connection: Connection) -> list[LiveJob]:
    """Every job that has not ended, in order of submission, with its specification and what it waits for."""
    alive = JOBS.c.finished_s.is_(None)
    specs: dict[int, JobSpec] = {}
    documents = select(SPECS.c.seq, SPECS.c.document).where(SPECS.c.seq.in_(select(JOBS.c.spec_seq).where(alive)))
    for seq, document in connection.execute(documents):
        specs[seq] = job_from_json(document)
    waits = waited_for(connection, alive)
    rows = connection.execute(select(JOBS.c.spec_seq, *_COLUMNS).where(alive).order_by(JOBS.c.seq))
    found = []
    for spec_seq, *values in rows:
        row = job_row(values)
        found.append(LiveJob(row, specs[spec_seq], tuple(waits.get(row.seq, ()))))
    return found
