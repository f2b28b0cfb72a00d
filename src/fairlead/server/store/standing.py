"""What stands beside the jobs: tenants and their quotas, drained nodes, settings, what each tenant has used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select

from fairlead.model.cluster import TenantSpec
from fairlead.server.store.database import Database
from fairlead.server.store.rows import NodeRow, Usage, clean
from fairlead.server.store.schema import NODES, SETTINGS, TENANTS, USAGE


class Standing:
    def __init__(self, database: Database) -> None:
        self._database = database

    def tenants(self) -> list[TenantSpec]:
        with self._database.reading() as connection:
            return read_tenants(connection)

    def put_tenant(self, tenant: TenantSpec) -> None:
        name = clean(tenant.name)
        values = {"quota_gpus": tenant.quota_gpus, "weight": tenant.weight}
        with self._database.writing() as connection:
            if not connection.execute(TENANTS.update().where(TENANTS.c.name == name).values(**values)).rowcount:
                connection.execute(TENANTS.insert(), [{"name": name, **values}])

    def remove_tenant(self, name: str) -> bool:
        with self._database.writing() as connection:
            return connection.execute(TENANTS.delete().where(TENANTS.c.name == clean(name))).rowcount > 0

    def nodes(self) -> list[NodeRow]:
        with self._database.reading() as connection:
            return read_nodes(connection)

    def drain(self, name: str, time_s: float, by: str, reason: str) -> None:
        name = clean(name)
        values = {"drained_s": time_s, "drained_by": clean(by), "drain_reason": clean(reason)}
        with self._database.writing() as connection:
            if not connection.execute(NODES.update().where(NODES.c.name == name).values(**values)).rowcount:
                connection.execute(NODES.insert(), [{"name": name, **values}])

    def undrain(self, name: str) -> None:
        with self._database.writing() as connection:
            connection.execute(NODES.delete().where(NODES.c.name == clean(name)))

    def settings(self) -> dict[str, Any]:
        with self._database.reading() as connection:
            return read_settings(connection)

    def put_settings(self, values: Mapping[str, Any]) -> None:
        """JSON values by name: the policy, the placer, when the clock's zero was."""
        rows = [{"key": key, "value": json.dumps(value, allow_nan=False)} for key, value in values.items()]
        with self._database.writing() as connection:
            connection.execute(SETTINGS.delete().where(SETTINGS.c.key.in_(list(values))))
            if rows:
                connection.execute(SETTINGS.insert(), rows)

    def usage(self) -> list[Usage]:
        with self._database.reading() as connection:
            return read_usage(connection)


def read_tenants(connection: Connection) -> list[TenantSpec]:
    return [TenantSpec(*row) for row in connection.execute(select(TENANTS).order_by(TENANTS.c.name))]


def read_nodes(connection: Connection) -> list[NodeRow]:
    return [NodeRow(*row) for row in connection.execute(select(NODES).order_by(NODES.c.name))]


def read_settings(connection: Connection) -> dict[str, Any]:
    return {key: json.loads(value) for key, value in connection.execute(select(SETTINGS).order_by(SETTINGS.c.key))}


def read_usage(connection: Connection) -> list[Usage]:
    return [Usage(*row) for row in connection.execute(select(USAGE).order_by(USAGE.c.tenant))]
