"""Bringing a store to the version of this program: a new one is made, an older one is changed step by step, a newer one refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlalchemy import Connection, inspect, select, text

from fairlead.server.store.errors import StoreForeign, StoreTooNew
from fairlead.server.store.schema import APPLICATION_ID, META, METADATA, VERSION

Step = Callable[[Connection], None]
#: STEPS[n] takes a store of version n - 1 to version n. A step never changes once it is released; it says its SQL itself, since
#: the tables above are always those of the newest version.
STEPS: Mapping[int, Step] = {}


def prepare(connection: Connection, where: str, steps: Mapping[int, Step] = STEPS, version: int = VERSION) -> int:
    """Inside the caller's transaction, so that a step that fails leaves the store as it was. Returns the version found."""
    found = version_of(connection, where)
    if found is None:
        METADATA.create_all(connection)
        connection.execute(META.insert(), [{"key": "version", "value": str(VERSION)}])
        if connection.dialect.name == "sqlite":
            connection.execute(text(f"PRAGMA application_id = {APPLICATION_ID}"))
        found = VERSION
    if found > version:
        raise StoreTooNew(where, f"a newer fairlead wrote it (version {found}, this one knows up to {version})")
    for number in range(found + 1, version + 1):
        steps[number](connection)
    if found < version:
        connection.execute(META.update().where(META.c.key == "version"), {"value": str(version)})
    return found


def version_of(connection: Connection, where: str) -> int | None:
    """None for an empty database."""
    tables = inspect(connection).get_table_names()
    if "meta" not in tables:
        if tables:
            raise StoreForeign(where, f"it holds something else: {', '.join(sorted(tables)[:5])}")
        return None
    found = connection.execute(select(META.c.value).where(META.c.key == "version")).scalar()
    if found is None or not found.isdigit():
        raise StoreForeign(where, "it does not say which version of fairlead wrote it")
    return int(found)
