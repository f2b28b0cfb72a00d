"""What can go wrong with a store. Each says what is the matter and what would help; a write that raised left nothing behind."""

from __future__ import annotations

import errno
import sqlite3

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from fairlead.model.errors import InputError


class StoreError(Exception):
    """`where` is the store, without its password."""

    helps = ""

    def __init__(self, where: str, what: str) -> None:
        self.where = where
        self.what = what
        super().__init__(f"{where}: {what}" + (f"; {self.helps}" if self.helps else ""))


class StoreFull(StoreError):
    helps = "free some space, and the scheduler goes on"


class StoreReadOnly(StoreError):
    helps = "the scheduler must be able to write the file and its folder"


class StoreLocked(StoreError):
    helps = "another program holds it open for writing: a copy or a shell, perhaps"


class StoreInUse(StoreError):
    helps = "one store has one scheduler: stop the other first, or use another state_dir"


class StoreCorrupt(StoreError):
    helps = "stop the scheduler and put back a backup (docs/operate.md)"


class StoreForeign(StoreError):
    helps = "name an empty place or a store that fairlead made"


class StoreTooNew(StoreError):
    helps = "use the version that wrote it, or put back the backup made before the upgrade"


class StoreUnavailable(StoreError):
    helps = "check that the server runs, and its address and password"


class CommitUnknown(StoreUnavailable):
    """The connection was lost while it committed: the last write is either wholly there or not at all."""

    helps = "start the scheduler again: it goes on from what is there"


class StoreMistake(StoreError):
    """The scheduler asked for something that can't be: a change to a job that is not there or has ended."""


class NoSuchJob(InputError):
    """Somebody named a job that is not there."""


class KeyReused(InputError):
    """The same idempotency key came with another job."""


_SQLITE: dict[int, tuple[type[StoreError], str]] = {
    sqlite3.SQLITE_FULL: (StoreFull, "there is no space left for it"),
    sqlite3.SQLITE_READONLY: (StoreReadOnly, "it can't be written"),
    sqlite3.SQLITE_PERM: (StoreReadOnly, "it may not be used by this user"),
    sqlite3.SQLITE_BUSY: (StoreLocked, "it is locked"),
    sqlite3.SQLITE_LOCKED: (StoreLocked, "it is locked"),
    sqlite3.SQLITE_CORRUPT: (StoreCorrupt, "the file is damaged"),
    sqlite3.SQLITE_NOTADB: (StoreCorrupt, "the file is no SQLite database"),
    sqlite3.SQLITE_CANTOPEN: (StoreUnavailable, "it can't be opened"),
    sqlite3.SQLITE_IOERR: (StoreUnavailable, "the disk does not read or write"),
}
#: by SQLSTATE, the longest prefix first
_POSTGRES: dict[str, tuple[type[StoreError], str]] = {
    "53100": (StoreFull, "the server's disk is full"),
    "25006": (StoreReadOnly, "the server only reads"),
    "42501": (StoreReadOnly, "the user may not do this"),
    "55P03": (StoreLocked, "it is locked"),
    "3D000": (StoreUnavailable, "there is no such database"),
    "XX": (StoreCorrupt, "the server found damaged data"),
    "28": (StoreUnavailable, "the server refuses the user or password"),
    "57": (StoreUnavailable, "the server is shutting down"),
    "53": (StoreUnavailable, "the server has no room for another connection"),
    "08": (StoreUnavailable, "the server does not answer"),
}


def translated(error: BaseException, where: str, committing: bool = False) -> StoreError:
    """Our own error for one of a database, of its driver or of the file system."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, OSError) and not isinstance(error, DBAPIError):
        return _of_file_system(error, where)
    lost = isinstance(error, DBAPIError) and error.connection_invalidated
    origin = error.orig if isinstance(error, DBAPIError) else error
    said = " ".join(str(origin).split())
    if isinstance(origin, sqlite3.Error):
        code = getattr(origin, "sqlite_errorcode", None)
        kind, what = _SQLITE.get((code or 0) & 0xFF, (StoreError, "the database refuses"))
        return kind(where, f"{what} ({said})")
    state = getattr(origin, "sqlstate", None) or ""
    for prefix, (kind, what) in _POSTGRES.items():
        if state.startswith(prefix):
            return (CommitUnknown if committing and kind is StoreUnavailable else kind)(where, f"{what} ({said})")
    if committing and (lost or not state):
        return CommitUnknown(where, f"the connection was lost ({said})")
    if lost or (not state and isinstance(error, DBAPIError | SQLAlchemyError)):
        return StoreUnavailable(where, f"the server can't be reached ({said})")
    return StoreError(where, f"the database refuses ({said})")


def _of_file_system(error: OSError, where: str) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(where, "there is no space left for it")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreReadOnly(where, f"it can't be written ({error.strerror})")
    return StoreError(where, f"it can't be opened ({error.strerror})")
