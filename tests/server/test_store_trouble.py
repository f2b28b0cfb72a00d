"""What happens when the disk, the file, the server or another program does not play along: a clear error, nothing half-written."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from fairlead.model.errors import InputError
from fairlead.server.store import (
    Batch,
    CommitUnknown,
    JobFilter,
    Store,
    StoreCorrupt,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreTooNew,
    StoreUnavailable,
    migrate,
)
from fairlead.server.store.database import Database
from servers.postgres import PostgresServer

from .build import names, submission, submit

LONG = "x" * 5000


def counts(store: Store) -> tuple[int, int, int]:
    recovered = store.recover()
    return store.count(), len(store.events(limit=100_000)), recovered.last_event


# -- no space -------------------------------------------------------------------------------------------------------------------


def fill(store: Store) -> None:
    for i in range(3000):
        submit(store, *(submission(f"big-{i}", 1.0, setup=LONG) for _ in range(20)))


def test_a_full_store_says_so_keeps_what_it_has_and_goes_on_when_there_is_space(sqlite_store: Store) -> None:
    submit(sqlite_store, submission("first"))
    with sqlite_store._database.writing() as connection:
        pages = connection.execute(text("PRAGMA page_count")).scalar() or 0
        connection.execute(text(f"PRAGMA max_page_count = {pages + 100}"))
    with pytest.raises(StoreFull, match="no space left"):
        fill(sqlite_store)
    before = counts(sqlite_store)
    with pytest.raises(StoreFull):
        submit(sqlite_store, *(submission("more", 1.0, setup=LONG) for _ in range(100)))
    assert counts(sqlite_store) == before
    assert before[0] == before[1] == before[2]
    with sqlite_store._database.writing() as connection:
        connection.execute(text("PRAGMA max_page_count = 1000000"))
    assert submit(sqlite_store, submission("more", 1.0, setup=LONG)) == [before[0] + 1]
    assert sqlite_store.damage() == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("only root can mount a small disk")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(500_000))
    with Store(small_disk / "s.db") as store:
        with pytest.raises(StoreFull, match="no space left"):
            fill(store)
        jobs, events, last = counts(store)
        assert jobs == events == last > 0
        with pytest.raises(StoreFull):
            store.back_up(small_disk / "copy.db")
        assert sorted(path.name for path in small_disk.glob("copy*")) == []
        ballast.unlink()
        assert submit(store, submission("goes on")) == [jobs + 1]
        assert counts(store) == (jobs + 1, events + 1, last + 1)


def test_a_disk_that_only_reads(small_disk: Path) -> None:
    with Store(small_disk / "s.db") as store:
        submit(store, submission("a"))
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(StoreReadOnly, match="can't be written"):
        Store(small_disk / "s.db")


# -- files ------------------------------------------------------------------------------------------------------------------------


@contextmanager
def as_somebody_else() -> Iterator[None]:
    """Root may write what nobody else may."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_file_that_may_not_be_written() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.db"
        Store(path).close()
        path.chmod(0o444)
        path.parent.chmod(0o755)
        with as_somebody_else(), pytest.raises(StoreReadOnly, match="must be able to write the file"):
            Store(path)
        path.chmod(0o666)
        path.parent.chmod(0o555)
        with as_somebody_else(), pytest.raises(StoreReadOnly, match="and its folder"):
            Store(path)
        path.parent.chmod(0o755)


def test_a_locked_file(sqlite_store: Store) -> None:
    submit(sqlite_store, submission("a"))
    other = sqlite3.connect(sqlite_store.where, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreLocked, match="another program holds it open"):
        submit(sqlite_store, submission("b"))
    assert names(sqlite_store) == ["a"]
    other.execute("ROLLBACK")
    other.close()
    assert submit(sqlite_store, submission("b")) == [2]


def test_a_damaged_file_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Store(path) as store:
        submit(store, *(submission(f"j{i}", setup=LONG) for i in range(50)))
    whole = path.read_bytes()
    path.write_bytes(b"not a database, " * 1000)
    with pytest.raises(StoreCorrupt, match="put back a backup"):
        Store(path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StoreCorrupt), Store(path) as store:  # noqa: PT012
        submit(store, submission("more"))
        store.recover()
    middle = len(whole) // 2 // 4096 * 4096
    path.write_bytes(whole[:middle] + os.urandom(4096 * 8) + whole[middle + 4096 * 8 :])
    with Store(path, write=False) as store:
        assert store.damage()
        with pytest.raises(StoreCorrupt):
            store.back_up(tmp_path / "copy.db")
    assert not list(tmp_path.glob("copy*"))


def test_a_database_of_somebody_elses(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE songs (title)")
    other.close()
    with pytest.raises(StoreForeign, match="it holds something else: songs"):
        Store(path)
    with pytest.raises(StoreUnavailable, match="no such file"):
        Store(tmp_path / "none.db", write=False)
    with pytest.raises(StoreError, match=r"can't be (opened|written)"):
        Store(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="can't be opened"):
        Store(tmp_path / "file" / "s.db")


# -- versions ---------------------------------------------------------------------------------------------------------------------


def add_colour(connection: object) -> None:
    connection.execute(text("ALTER TABLE jobs ADD COLUMN colour TEXT"))  # type: ignore[attr-defined]


def fail_halfway(connection: object) -> None:
    add_colour(connection)
    connection.execute(text("SELECT nonsense"))  # type: ignore[attr-defined]


def test_an_older_store_is_brought_up_to_date_in_one_piece(store_at: str) -> None:
    with Store(store_at) as store:
        submit(store, submission("a"))
    database = Database(store_at)
    try:
        with pytest.raises(StoreError), database.writing() as connection:
            migrate.prepare(connection, "here", {2: fail_halfway}, version=2)
        with database.writing() as connection:
            assert migrate.version_of(connection, "here") == 1
            assert migrate.prepare(connection, "here", {2: add_colour}, version=2) == 1
        with database.writing() as connection:
            assert migrate.version_of(connection, "here") == 2
            assert connection.execute(text("SELECT name, colour FROM jobs")).all() == [("a", None)]
    finally:
        database.close()
    # to this program, which knows version 1, it is now too new
    for write in (True, False):
        with pytest.raises(StoreError, match="version 2"):
            Store(store_at, write=write)
    with pytest.raises(StoreTooNew, match="a newer fairlead wrote it"):
        Store(store_at)


def test_an_empty_database_is_no_store_to_read(postgres_url: str) -> None:
    with pytest.raises(StoreForeign, match="it is empty"):
        Store(postgres_url, write=False)


# -- PostgreSQL -------------------------------------------------------------------------------------------------------------------


def test_a_server_that_is_not_there_or_does_not_know_us(postgres_server: PostgresServer, tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="check that the server runs"):
        Store(f"postgresql://ann:hush@/x?host={tmp_path}", timeout_s=1.0)
    with pytest.raises(StoreUnavailable, match="can't be reached") as error:
        Store("postgresql://ann:hush@127.0.0.1:1/x", timeout_s=1.0)
    assert "hush" not in str(error.value)
    with pytest.raises(StoreUnavailable, match=r"there is no such database|does not exist"):
        Store(postgres_server.url("nowhere"))
    with pytest.raises(StoreUnavailable, match="nobody_we_know"):
        Store(postgres_server.url().replace(postgres_server.user + "@", "nobody_we_know@"))


def test_a_lost_connection_is_an_error_once_and_then_made_again(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    with Store(postgres_url) as store:
        submit(store, submission("a"))
        postgres_server.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'fairlead' AND pid <> pg_backend_pid()"
        )
        with pytest.raises(StoreUnavailable):
            submit(store, submission("b"))
        assert submit(store, submission("c")) == [2]
        assert names(store, JobFilter()) == ["c", "a"]
        # and the writer's place is still its own
        with pytest.raises(StoreError, match="another scheduler"):
            Store(postgres_url, timeout_s=0.2)


def test_a_connection_lost_while_it_commits_leaves_the_end_open(
    postgres_server: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(postgres_url) as store:
        submit(store, submission("a"))
        commit = psycopg.Connection.commit

        def cut(connection: psycopg.Connection[object]) -> None:
            monkeypatch.undo()
            postgres_server.run(f"SELECT pg_terminate_backend({connection.info.backend_pid})")
            commit(connection)

        monkeypatch.setattr(psycopg.Connection, "commit", cut)
        with pytest.raises(CommitUnknown, match="start the scheduler again"):
            submit(store, submission("b"))
        assert submit(store, submission("c")) == [2]


def test_a_server_that_only_reads(postgres_server: PostgresServer, postgres_url: str) -> None:
    database = postgres_url.rpartition("/")[0] and postgres_url.split("?")[0].rpartition("/")[2]
    postgres_server.run("CREATE ROLE reader LOGIN")
    try:
        with Store(postgres_url) as store:
            submit(store, submission("a"))
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
        theirs = postgres_url.replace(postgres_server.user + "@", "reader@")
        with Store(theirs, write=False) as store:
            assert names(store) == ["a"]
        with Store(theirs) as store, pytest.raises(StoreReadOnly, match="may not do this"):
            submit(store, submission("b"))
    finally:
        with psycopg.connect(postgres_server.url(database), autocommit=True) as connection:
            connection.execute("DROP OWNED BY reader")
        postgres_server.run("DROP ROLE reader")


def test_a_table_that_somebody_locked(postgres_url: str) -> None:
    with Store(postgres_url, timeout_s=0.5) as store, psycopg.connect(postgres_url) as other:
        other.execute("LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreLocked):
            submit(store, submission("a"))
        other.rollback()
        assert submit(store, submission("a")) == [1]


# -- backups ----------------------------------------------------------------------------------------------------------------------


def test_a_backup_is_a_store_of_one_moment(sqlite_store: Store, tmp_path: Path) -> None:
    submit(sqlite_store, submission("a"), submission("b"))
    copy = tmp_path / "copy.db"
    sqlite_store.back_up(copy)
    submit(sqlite_store, submission("c"))
    sqlite_store.back_up(tmp_path / "later.db")
    assert copy.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob("copy.db?*"))
    with Store(copy) as store:
        assert names(store) == ["b", "a"]
        assert submit(store, submission("d")) == [3]
    with Store(tmp_path / "later.db") as store:
        assert names(store) == ["c", "b", "a"]
    with pytest.raises(InputError, match="the store itself"):
        sqlite_store.back_up(Path(sqlite_store.where))
    with pytest.raises(StoreError):
        sqlite_store.back_up(tmp_path / "no" / "such" / "folder")


def test_a_backup_of_postgresql_is_its_own_tools_work(postgres_url: str) -> None:
    with Store(postgres_url) as store, pytest.raises(InputError, match="pg_dump --format=custom --file=x"):
        store.back_up(Path("x"))


def test_a_batch_is_json_all_the_way(sqlite_store: Store) -> None:
    (job,) = submit(sqlite_store, submission("a"))
    batch = Batch()
    batch.record("note", 1.0, job, text="\0 \ud800 é", path=Path("/x"))
    sqlite_store.write(batch)
    assert json.dumps(sqlite_store.events(1)[0].args) == json.dumps({"text": "\0 \ud800 é", "path": "/x"})
