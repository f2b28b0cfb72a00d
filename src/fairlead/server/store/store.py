"""The store: what the scheduler knows that must survive it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from fairlead.model.cluster import TenantSpec
from fairlead.model.errors import InputError
from fairlead.model.job import JobSpec
from fairlead.server.store import maintain, migrate, read, standing
from fairlead.server.store.accounts import Accounts
from fairlead.server.store.database import Database
from fairlead.server.store.errors import CommitUnknown, StoreError, StoreForeign, StoreMistake
from fairlead.server.store.read import JobFilter, Page
from fairlead.server.store.rows import (
    Batch,
    HistoryRow,
    JobRow,
    LiveJob,
    NodeRow,
    StoredEvent,
    Submitted,
    Usage,
    Waited,
    Written,
)
from fairlead.server.store.schema import JOBS, VERSION
from fairlead.server.store.standing import Standing
from fairlead.server.store.write import Counters, read_counters, submitted_with, write_batches

_EVERYTHING = JobFilter()


@dataclass(frozen=True)
class Recovery:
    """All of one moment: what a scheduler goes on from."""

    jobs: tuple[LiveJob, ...]
    tenants: tuple[TenantSpec, ...]
    nodes: tuple[NodeRow, ...]
    settings: dict[str, Any]
    usage: tuple[Usage, ...]
    last_event: int
    last_job: int


class Store:
    """Any thread may use it: readings run beside each other, writes one after another.

    Opening takes the one writer's place (StoreInUse where it is taken) and brings an older store up to date. With
    `write=False` it only reads, beside a running scheduler if need be.
    """

    def __init__(self, given: str | Path, *, write: bool = True, timeout_s: float = 10.0) -> None:
        self._database = Database(given, write=write, timeout_s=timeout_s)
        self._turn = threading.Lock()
        self._counters: Counters | None = None
        self.accounts = Accounts(self._database)
        self.standing = Standing(self._database)
        try:
            self._open()
        except BaseException:
            self._database.close()
            raise

    def _open(self) -> None:
        where = self._database.where
        if self._database.write:
            with self._database.writing() as connection:
                migrate.prepare(connection, where)
            return
        with self._database.reading() as connection:
            found = migrate.version_of(connection, where)
        if found is None:
            raise StoreForeign(where, "it is empty")
        if found != VERSION:
            raise StoreError(where, f"it has version {found}, this fairlead reads {VERSION}")

    @property
    def where(self) -> str:
        """For people: without a password."""
        return self._database.where

    # -- writing --------------------------------------------------------------------------------------------------------------

    def write(self, batch: Batch) -> Written:
        """Durable when it returns, all of it or (when it raises) nothing. Only CommitUnknown leaves that open."""
        answer = self.write_all([batch])[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def write_all(self, batches: Sequence[Batch]) -> list[Written | Exception]:
        """Many batches for the price of one: each is written or answered with its own error. What ails the store itself raises."""
        if not batches:
            return []
        with self._turn:
            try:
                return list(self._write(batches))
            except CommitUnknown:
                raise
            except (StoreMistake, ValueError, TypeError) as error:
                if len(batches) == 1:
                    return [error]
                return [self._alone(batch) for batch in batches]

    def _write(self, batches: Sequence[Batch]) -> Sequence[Written | Exception]:
        counters, self._counters = self._counters, None  # read again if this does not end well
        with self._database.writing() as connection:
            counters = counters or read_counters(connection)
            answers, counters = write_batches(connection, batches, counters, self._database.where)
        self._counters = counters
        return answers

    def _alone(self, batch: Batch) -> Written | Exception:
        try:
            return self._write([batch])[0]
        except (StoreMistake, ValueError, TypeError) as error:
            return error

    # -- reading --------------------------------------------------------------------------------------------------------------

    def jobs(
        self,
        which: JobFilter = _EVERYTHING,
        *,
        sort: str = "submitted",
        descending: bool = True,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page:
        with self._database.reading() as connection:
            return read.list_jobs(connection, which, sort, descending, limit, cursor)

    def job(self, job_id: str) -> JobRow:
        with self._database.reading() as connection:
            return read.get_job(connection, job_id)

    def spec(self, job_id: str) -> JobSpec:
        with self._database.reading() as connection:
            return read.get_spec(connection, job_id)

    def count(self, which: JobFilter = _EVERYTHING) -> int:
        with self._database.reading() as connection:
            return read.count_jobs(connection, which)

    def count_by_state(self) -> dict[tuple[str, str], int]:
        """How many jobs by (tenant, state)."""
        with self._database.reading() as connection:
            return read.count_by_state(connection)

    def events(
        self,
        since: int = 0,
        *,
        limit: int = 1000,
        kinds: Sequence[str] = (),
        user: str | None = None,
        until: int = 2**62,
    ) -> list[StoredEvent]:
        """Rows of the journal after `since`, and up to `until`. Numbers rise without gaps except where rows were pruned. With a
        `user`, those of its jobs and those that are of nobody's."""
        with self._database.reading() as connection:
            return read.events_since(connection, since, limit, kinds=kinds, user=user, until=until)

    def with_specs(
        self, after: int = 0, *, limit: int = 1000, since_s: float | None = None, until_s: float | None = None
    ) -> list[tuple[JobRow, JobSpec]]:
        """Jobs by when they were submitted, with what they are, page by page: `after` is the last one's `seq`."""
        with self._database.reading() as connection:
            return read.jobs_with_specs(connection, after, limit, since_s, until_s)

    def last_time_s(self) -> float:
        """The time of the journal's last row, 0 where there is none: no clock should begin before it."""
        with self._database.reading() as connection:
            rows = read.events_since(connection, read_counters(connection).event - 1, 1)
            return rows[0].time_s if rows else 0.0

    def timeline(self, job_id: str, *, since: int = 0, limit: int = 10_000) -> list[StoredEvent]:
        with self._database.reading() as connection:
            return read.events_since(connection, since, limit, read.get_job(connection, job_id).seq)

    def first_since(self, time_s: float) -> int:
        """The number of the journal's first row from then on."""
        with self._database.reading() as connection:
            return read.first_since(connection, time_s, read_counters(connection).event)

    def history(
        self, kinds: Sequence[str], since: int, until: int, *, alive_s: float | None = None
    ) -> list[HistoryRow]:
        """Rows after `since` and up to `until` that are of jobs; with `alive_s` of those that had not ended then."""
        with self._database.reading() as connection:
            return read.history(connection, kinds, since, until, alive_s)

    def waits_for(self, seq: int) -> list[Waited]:
        """The jobs that this one waits for or has waited for."""
        with self._database.reading() as connection:
            return read.waited_for(connection, JOBS.c.seq == seq).get(seq, [])

    def submitted(self, user: str, key: str) -> tuple[str, Submitted] | None:
        """What this user submitted with this key: the job's document, and what became of it."""
        with self._database.reading() as connection:
            return submitted_with(connection, user, key)

    def array_size(self, array_id: str) -> int:
        """How many tasks the array has, 0 where there is no such array."""
        with self._database.reading() as connection:
            return read.array_size(connection, array_id)

    def live_jobs(self) -> list[LiveJob]:
        with self._database.reading() as connection:
            return read.live_jobs(connection)

    def recover(self) -> Recovery:
        with self._database.reading() as connection:
            last = read_counters(connection)
            return Recovery(
                jobs=tuple(read.live_jobs(connection)),
                tenants=tuple(standing.read_tenants(connection)),
                nodes=tuple(standing.read_nodes(connection)),
                settings=standing.read_settings(connection),
                usage=tuple(standing.read_usage(connection)),
                last_event=last.event,
                last_job=last.job,
            )

    # -- keeping it in order --------------------------------------------------------------------------------------------------

    def prune(self, *, before_s: float | None = None, keep: int | None = None, at_once: int = 500) -> maintain.Pruned:
        """Forget jobs that ended before `before_s`, and all but the `keep` that ended last, with their events.

        Live jobs stay, and so do ended ones that a live one waits for. In small transactions, so that nobody waits long.
        """
        total = maintain.Pruned()
        while True:
            with self._turn, self._database.writing() as connection:
                last = self._counters or read_counters(connection)
                done = maintain.prune_some(connection, before_s, keep, at_once, last)
            total += done
            if done.jobs < at_once:
                return total

    def back_up(self, path: Path) -> None:
        if self._database.path is None:
            raise InputError(
                "a PostgreSQL store is backed up with PostgreSQL's own tool",
                accepts=f"pg_dump --format=custom --file={path} {self.where}",
            )
        maintain.back_up(self._database.path, path)

    def damage(self) -> list[str]:
        """What is wrong with the file, one sentence each. PostgreSQL looks after itself."""
        return [] if self._database.path is None else maintain.damage(self._database.path)

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
