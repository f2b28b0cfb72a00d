"""Users and their tokens in the store. What a token may do is in `server.auth`; here only its hash is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import bindparam, func, select

from fairlead.model.errors import InputError
from fairlead.server.store.database import Database
from fairlead.server.store.rows import clean
from fairlead.server.store.schema import TOKENS, USERS


@dataclass(frozen=True, slots=True)
class UserRow:
    name: str
    tenant: str
    created_s: float
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class TokenRow:
    id: str
    hash: str
    user: str
    role: str
    label: str
    created_s: float
    expires_s: float | None = None
    revoked_s: float | None = None
    used_s: float | None = None


class Accounts:
    def __init__(self, database: Database) -> None:
        self._database = database

    def users(self) -> list[UserRow]:
        with self._database.reading() as connection:
            return [UserRow(*row) for row in connection.execute(select(USERS).order_by(USERS.c.name))]

    def user(self, name: str) -> UserRow | None:
        with self._database.reading() as connection:
            row = connection.execute(select(USERS).where(USERS.c.name == clean(name))).first()
        return None if row is None else UserRow(*row)

    def put_user(self, user: UserRow) -> None:
        """Add it, or change what is known of it."""
        name = clean(user.name)
        values = {"tenant": clean(user.tenant), "created_s": user.created_s, "disabled": user.disabled}
        with self._database.writing() as connection:
            done = connection.execute(USERS.update().where(USERS.c.name == name).values(**values))
            if not done.rowcount:
                connection.execute(USERS.insert(), [{"name": name, **values}])

    def tokens(self, user: str | None = None) -> list[TokenRow]:
        query = select(TOKENS).order_by(TOKENS.c.created_s, TOKENS.c.id)
        if user is not None:
            query = query.where(TOKENS.c.user == clean(user))
        with self._database.reading() as connection:
            return [TokenRow(*row) for row in connection.execute(query)]

    def token_with(self, digest: str) -> tuple[TokenRow, UserRow] | None:
        """The token with this hash, and its user."""
        query = select(TOKENS, USERS).join(USERS, USERS.c.name == TOKENS.c.user)
        with self._database.reading() as connection:
            row = connection.execute(query.where(TOKENS.c.hash == clean(digest))).first()
        return None if row is None else (TokenRow(*row[: len(TOKENS.c)]), UserRow(*row[len(TOKENS.c) :]))

    def add_token(self, token: TokenRow) -> None:
        values = {name: getattr(token, name) for name in TokenRow.__dataclass_fields__}
        values |= {"user": clean(token.user), "label": clean(token.label)}
        with self._database.writing() as connection:
            if connection.execute(select(USERS.c.name).where(USERS.c.name == clean(token.user))).first() is None:
                raise InputError("there is no such user", value=token.user)
            connection.execute(TOKENS.insert(), [values])

    def revoke_token(self, token_id: str, time_s: float) -> TokenRow:
        """Of one that was revoked before, the first time stays."""
        with self._database.writing() as connection:
            token_id = clean(token_id)
            row = connection.execute(select(TOKENS).where(TOKENS.c.id == token_id)).first()
            if row is None:
                raise InputError("there is no token with this id", value=token_id)
            change = TOKENS.update().where(TOKENS.c.id == token_id)
            connection.execute(change.values(revoked_s=func.coalesce(TOKENS.c.revoked_s, time_s)))
            return TokenRow(*connection.execute(select(TOKENS).where(TOKENS.c.id == token_id)).one())

    def mark_used(self, used_s: Mapping[str, float]) -> None:
        """When each was last used, many at once: it is nothing that a request should wait for."""
        if used_s:
            change = TOKENS.update().where(TOKENS.c.id == bindparam("_id")).values(used_s=bindparam("_used"))
            values = [{"_id": token, "_used": time_s} for token, time_s in sorted(used_s.items())]
            with self._database.writing() as connection:
                connection.execute(change, values)
