"""Keeping a store in order: forgetting what ended long ago, copies that can be put back, a look for damage."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, delete, exists, or_, select, tuple_

from fairlead.model.errors import InputError
from fairlead.server.store.errors import StoreCorrupt, translated
from fairlead.server.store.schema import DEPENDENCIES, EVENTS, JOBS, META, SPECS
from fairlead.server.store.write import Counters


@dataclass(frozen=True)
class Pruned:
    jobs: int = 0
    events: int = 0

    def __add__(self, other: Pruned) -> Pruned:
        return Pruned(self.jobs + other.jobs, self.events + other.events)


def prune_some(connection: Connection, before_s: float | None, keep: int | None, most: int, last: Counters) -> Pruned:
    """Up to `most` of the jobs that ended longest ago, with their events. Live jobs and what they wait for stay."""
    old = []
    if before_s is not None:
        old.append(JOBS.c.finished_s < before_s)
    if keep is not None:
        ended = select(JOBS.c.finished_s, JOBS.c.seq).where(JOBS.c.finished_s.is_not(None))
        first = connection.execute(
            ended.order_by(JOBS.c.finished_s.desc(), JOBS.c.seq.desc()).offset(keep).limit(1)
        ).first()
        if first is not None:
            old.append(tuple_(JOBS.c.finished_s, JOBS.c.seq) <= tuple_(*first))
    if not old:
        return Pruned()
    waiting = JOBS.alias()
    needed = exists().where(
        DEPENDENCIES.c.on_seq == JOBS.c.seq, DEPENDENCIES.c.job_seq == waiting.c.seq, waiting.c.finished_s.is_(None)
    )
    query = select(JOBS.c.seq, JOBS.c.spec_seq).where(JOBS.c.finished_s.is_not(None), or_(*old), ~needed)
    found = connection.execute(query.order_by(JOBS.c.finished_s, JOBS.c.seq).limit(most)).all()
    events = 0
    if before_s is not None:
        gone = connection.execute(delete(EVENTS).where(EVENTS.c.job_seq.is_(None), EVENTS.c.time_s < before_s))
        events += gone.rowcount
    if found:
        jobs = [seq for seq, _ in found]
        events += connection.execute(delete(EVENTS).where(EVENTS.c.job_seq.in_(jobs))).rowcount
        connection.execute(delete(JOBS).where(JOBS.c.seq.in_(jobs)))
        shared = exists().where(JOBS.c.spec_seq == SPECS.c.seq)
        connection.execute(delete(SPECS).where(SPECS.c.seq.in_({spec for _, spec in found}), ~shared))
    if found or events:
        _keep_counters(connection, last)
    return Pruned(len(found), events)


def _keep_counters(connection: Connection, last: Counters) -> None:
    """A number that was given out is never given out again: a run of a job is known by it for ever."""
    values = [{"key": "last_job", "value": str(last.job)}, {"key": "last_event", "value": str(last.event)}]
    connection.execute(delete(META).where(META.c.key.in_(("last_job", "last_event"))))
    connection.execute(META.insert(), values)


def back_up(source: Path, target: Path) -> None:
    """A copy of one moment, made while the scheduler writes; it appears under its name only when it is whole."""
    if target.exists() and target.samefile(source):
        raise InputError("a backup can't be the store itself", value=str(target), accepts="another path")
    unfinished = target.with_name(target.name + ".unfinished")
    try:
        unfinished.unlink(missing_ok=True)
        os.close(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        was, copy = sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True), sqlite3.connect(unfinished)
        with closing(was), closing(copy):
            was.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, nothing beside it
            _raise_damage(copy, str(source))
        _to_disk(unfinished)
        os.replace(unfinished, target)
        _to_disk(target.parent)
    except (OSError, sqlite3.Error) as error:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise translated(error, str(target)) from error
    except StoreCorrupt:
        unfinished.unlink(missing_ok=True)
        raise


def damage(path: Path) -> list[str]:
    """What SQLite finds wrong with the file; nothing where it is sound. Reads all of it."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
            found += [f"a row of {row[0]} points nowhere" for row in connection.execute("PRAGMA foreign_key_check")]
    except sqlite3.DatabaseError as error:
        return [str(error)]
    return [one for one in found if one != "ok"]


def _raise_damage(connection: sqlite3.Connection, where: str) -> None:
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise StoreCorrupt(where, f"the file is damaged ({found})")


def _to_disk(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
