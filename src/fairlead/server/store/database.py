"""How the store is reached: connections that only read, and the one that writes.

One scheduler has one writer. SQLite: a lock on a file beside the database. PostgreSQL: an advisory lock that belongs to the
writing connection itself, so that a writer that lost its lock has lost its connection too. Both go when the process dies, however.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from fairlead.model.errors import InputError
from fairlead.server.store.errors import StoreError, StoreInUse, StoreLocked, StoreUnavailable, translated
from fairlead.server.way import give_way

_FORM = "a path, sqlite:////path/to/file.db, or postgresql://user:password@host/database"
_LOCK_POLL_S = 0.02
_LOCK = 0x464C4452  #: "FLDR": the first half of the advisory lock's key, the second is the schema


def store_url(given: str | Path) -> URL:
    """A path is an SQLite file; a PostgreSQL URL gets our driver."""
    words = str(given)
    if "://" not in words:
        return URL.create("sqlite", database=str(Path(words).expanduser()))
    try:
        url = make_url(words)
        backend = url.get_backend_name()
    except (ArgumentError, ValueError):
        raise InputError("this is no address of a store", accepts=_FORM) from None
    if backend in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite" or not url.database or url.database == ":memory:":
        raise InputError("this can't be a store", value=_shown(url), accepts=_FORM)
    return url


def _shown(url: URL) -> str:
    return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)


class Database:
    def __init__(self, given: str | Path, *, write: bool = True, timeout_s: float = 10.0) -> None:
        url = store_url(given)
        self.is_sqlite = url.get_backend_name() == "sqlite"
        self.path = Path(url.database or "") if self.is_sqlite else None
        self.where = str(self.path) if self.is_sqlite else _shown(url)
        self.write = write
        self.timeout_s = timeout_s
        self._turn = threading.RLock()
        self._writer: Connection | None = None
        self._lock_file: TextIO | None = None
        if self.path is not None:
            self._prepare_file(self.path, timeout_s)
        self._reading = _engine(url, timeout_s, writes=False)
        self._writing = _engine(url, timeout_s, writes=True)

    def _prepare_file(self, path: Path, timeout_s: float) -> None:
        try:
            if not self.write:
                if not path.is_file():
                    raise StoreUnavailable(self.where, "there is no such file")
                return
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # SQLite gives its side files the permissions of the database
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._lock_file = _locked(path.with_name(path.name + ".lock"), self.where, timeout_s)
        except OSError as error:
            raise translated(error, self.where) from None

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One moment of the store, however many queries are asked of it."""
        give_way()  # not once a connection is held: a decision may read too
        with self._told():
            options: dict[str, Any] = {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ"}
            with self._reading.connect() as plain:
                connection = plain.execution_options(**options)
                with connection.begin():
                    yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction of the one writer: all of it, or nothing."""
        if not self.write:
            raise StoreError(self.where, "it was opened for reading only")
        with self._turn, self._told():
            connection = self._the_writer()
            committing = False
            transaction = connection.begin()
            try:
                yield connection
                committing = True
                transaction.commit()
            except BaseException as error:
                self._give_up(connection, transaction)
                if isinstance(error, SQLAlchemyError):
                    raise translated(error, self.where, committing) from error
                raise

    def _give_up(self, connection: Connection, transaction: Any) -> None:
        with suppress(SQLAlchemyError):
            transaction.rollback()
        if connection.invalidated:
            with suppress(SQLAlchemyError):
                connection.close()
            self._writer = None

    def _the_writer(self) -> Connection:
        if self._writer is None:
            connection = self._writing.connect()
            try:
                if not self.is_sqlite:
                    _take_lock(connection, self.where, self.timeout_s)
            except BaseException:
                connection.close()
                raise
            self._writer = connection
        return self._writer

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise translated(error, self.where) from error

    def close(self) -> None:
        with self._turn:
            if self._writer is not None:
                with suppress(SQLAlchemyError):
                    self._writer.close()
                self._writer = None
            self._reading.dispose()
            self._writing.dispose()
            if self._lock_file is not None:
                self._lock_file.close()
                self._lock_file = None


def _take_lock(connection: Connection, where: str, timeout_s: float) -> None:
    """Waits a little: a server frees the lock of a client that was killed as soon as it sees the connection gone."""
    wait_ms = int(min(timeout_s, 3.0) * 1000)
    try:
        connection.execute(text(f"SET LOCAL lock_timeout = {wait_ms}"))
        connection.execute(text("SELECT pg_advisory_lock(:ours, hashtext(current_schema()))"), {"ours": _LOCK})
        connection.commit()
    except SQLAlchemyError as error:
        told = translated(error, where)
        raise (
            StoreInUse(where, "another scheduler writes to it") if isinstance(told, StoreLocked) else told
        ) from error


def _locked(path: Path, where: str, timeout_s: float) -> TextIO:
    file = open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+", encoding="utf-8")  # noqa: SIM115
    # one that was killed while it began a process may hold it for a moment longer, through that process
    for tries_left in reversed(range(max(int(min(timeout_s, 3.0) / _LOCK_POLL_S), 1))):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if tries_left:
                time.sleep(_LOCK_POLL_S)
                continue
            holder = file.read().strip()
            file.close()
            by = f" (process {holder})" if holder.isdigit() else ""
            raise StoreInUse(where, f"another scheduler writes to it{by}") from None
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file


def _engine(url: URL, timeout_s: float, writes: bool) -> Engine:
    sqlite = url.get_backend_name() == "sqlite"
    if sqlite:
        arguments: dict[str, Any] = {"timeout": timeout_s, "check_same_thread": False}
    else:
        settings = f"-c lock_timeout={int(timeout_s * 1000)} -c synchronous_commit=on -c default_transaction_read_only="
        arguments = {
            "connect_timeout": max(int(timeout_s), 1),
            "application_name": "fairlead",
            # a server that is gone without a word is noticed within half a minute
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "options": settings + ("off" if writes else "on"),
        }
    options: dict[str, Any] = {"poolclass": NullPool} if writes else {"pool_size": 4, "max_overflow": 12}
    if not sqlite and not writes:
        options["pool_pre_ping"] = True  # a server that was restarted is no error for a reader
    engine = create_engine(url, connect_args=arguments, **options)
    if sqlite:
        event.listen(engine, "connect", _prepare_writer if writes else _prepare_reader)
        begin = "BEGIN IMMEDIATE" if writes else "BEGIN"
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def _prepare_reader(connection: Any, _: object) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves
    connection.execute("PRAGMA query_only = ON")


def _prepare_writer(connection: Any, _: object) -> None:
    connection.isolation_level = None
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
