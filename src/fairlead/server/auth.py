"""Who asks, and what they may do: tokens, roles, the table of permissions, and a limit on how often.

A token is 256 random bits, shown once; the store has its SHA-256, from which it can't be had back.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from pathlib import Path

from fairlead.model.errors import InputError
from fairlead.model.suggest import unknown
from fairlead.model.token_file import PREFIX, read_token_file
from fairlead.server.store.accounts import Accounts, TokenRow, UserRow


class Role(StrEnum):
    ADMIN = "admin"
    USER = "user"
    VIEWER = "viewer"


class Scope(IntEnum):
    NONE = 0
    OWN = 1  #: what is the user's own
    ALL = 2


class Act(StrEnum):
    """What can be asked of the scheduler."""

    SEE_JOBS = "see jobs, their events and why they wait"
    SEE_LOGS = "read what jobs print"
    SEE_SPEC = "see what jobs run, without the values of their variables"
    SUBMIT = "submit jobs"
    CONTROL = "cancel, suspend and resume jobs"
    RAISE_PRIORITY = "give jobs a priority above 0"
    USE_TENANT = "submit jobs for a tenant"
    SEE_CLUSTER = "see nodes, GPUs, tenants, quotas and counts"
    SEE_METRICS = "read metrics"
    ASK_TWIN = "ask what would happen under another policy"
    EXPORT = "export the journal as a trace"
    SEE_STUDIO = "see simulations of the studio and their reports"
    USE_STUDIO = "upload traces and simulate them in the studio"
    DRAIN = "drain nodes"
    CHANGE_TENANTS = "change tenants and quotas"
    CHANGE_POLICY = "change the policy and placer"
    SEE_TOKENS = "list tokens (never the tokens themselves)"
    MAKE_TOKENS = "make and revoke tokens"


_NONE, _OWN, _ALL = Scope.NONE, Scope.OWN, Scope.ALL
#: docs/operate.md shows this table
MAY: Mapping[Act, Mapping[Role, Scope]] = {
    act: dict(zip((Role.ADMIN, Role.USER, Role.VIEWER), scopes, strict=True))
    for act, scopes in {
        Act.SEE_JOBS: (_ALL, _OWN, _ALL),
        Act.SEE_LOGS: (_ALL, _OWN, _NONE),
        Act.SEE_SPEC: (_ALL, _OWN, _NONE),
        Act.SUBMIT: (_ALL, _OWN, _NONE),
        Act.CONTROL: (_ALL, _OWN, _NONE),
        Act.RAISE_PRIORITY: (_ALL, _NONE, _NONE),
        Act.USE_TENANT: (_ALL, _OWN, _NONE),
        Act.SEE_CLUSTER: (_ALL, _ALL, _ALL),
        Act.SEE_METRICS: (_ALL, _NONE, _ALL),
        Act.ASK_TWIN: (_ALL, _ALL, _ALL),
        Act.EXPORT: (_ALL, _NONE, _NONE),
        Act.SEE_STUDIO: (_ALL, _OWN, _ALL),
        Act.USE_STUDIO: (_ALL, _OWN, _NONE),
        Act.DRAIN: (_ALL, _NONE, _NONE),
        Act.CHANGE_TENANTS: (_ALL, _NONE, _NONE),
        Act.CHANGE_POLICY: (_ALL, _NONE, _NONE),
        Act.SEE_TOKENS: (_ALL, _OWN, _NONE),
        Act.MAKE_TOKENS: (_ALL, _OWN, _NONE),
    }.items()
}


class NotAuthenticated(Exception):
    """No token, or none that counts. The message does not tell a stranger which."""


class Forbidden(Exception):
    """Somebody we know asks for what is not theirs."""


@dataclass(frozen=True, slots=True)
class Identity:
    user: str
    role: Role
    tenant: str
    token_id: str

    def scope(self, act: Act) -> Scope:
        return MAY[act][self.role]

    def require(self, act: Act) -> Scope:
        """That it may at all; the scope says whether only of its own, which is what a listing is then narrowed to."""
        scope = self.scope(act)
        if scope is Scope.NONE:
            raise Forbidden(f"a {self.role} may not {act}")
        return scope

    def require_of(self, act: Act, owner: str) -> None:
        """That it may do this to what `owner` has: a user's name, or for USE_TENANT a tenant's."""
        own = self.tenant if act is Act.USE_TENANT else self.user
        if self.require(act) is Scope.OWN and owner != own:
            raise Forbidden(f"a {self.role} may {act} only where they are its own")

    def require_giving(self, role: Role, user: str) -> None:
        """That it may make a token for `user` with this role. Whoever is no admin gives away its own role only: a viewer sees
        less of one job than its user does, but something of everybody's."""
        self.require_of(Act.MAKE_TOKENS, user)
        if self.role is not Role.ADMIN and role is not self.role:
            raise Forbidden(f"a {self.role} may not make a token for a {role}")


def role_named(name: str) -> Role:
    if name not in tuple(Role):
        raise unknown("role", name, [str(role) for role in Role])
    return Role(name)


def digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class Tokens:
    """Making, checking and revoking. `now` is the scheduler's clock.

    What was found in the store is remembered: only this process writes to it, and everything that changes a token or its user
    goes through here.
    """

    def __init__(self, accounts: Accounts, now: Callable[[], float]) -> None:
        self._accounts = accounts
        self._now = now
        self._known: dict[str, tuple[TokenRow, UserRow]] = {}
        self._used_s: dict[str, float] = {}

    def issue(self, user: str, role: Role, *, label: str = "", lifetime_s: float | None = None) -> tuple[str, TokenRow]:
        """The token itself, which nobody sees again, and what the store keeps of it."""
        if lifetime_s is not None and not 0 < lifetime_s < 1e12:
            raise InputError("a token can't live so long", value=lifetime_s, accepts="more than 0 seconds, such as 90d")
        token = PREFIX + secrets.token_urlsafe(32)
        now_s = self._now()
        row = TokenRow(
            id=secrets.token_hex(4),
            hash=digest(token),
            user=user,
            role=str(role),
            label=label,
            created_s=now_s,
            expires_s=None if lifetime_s is None else now_s + lifetime_s,
        )
        self._accounts.add_token(row)
        return token, row

    def authenticate(self, token: str) -> Identity:
        hashed = digest(token)
        found = self._known.get(hashed) or self._look_up(hashed)
        # the database compared already; this says the same in time that does not depend on the hash
        if found is None or not hmac.compare_digest(found[0].hash, hashed):
            raise NotAuthenticated("this token is not known")
        row, user = found
        now_s = self._now()
        if row.revoked_s is not None or user.disabled or (row.expires_s is not None and now_s >= row.expires_s):
            raise NotAuthenticated("this token is not known")
        self._used_s[row.id] = now_s
        return Identity(row.user, Role(row.role), user.tenant, row.id)

    def remembers(self, token: str) -> bool:
        """Whether `authenticate` answers without asking the store."""
        return digest(token) in self._known

    def _look_up(self, hashed: str) -> tuple[TokenRow, UserRow] | None:
        found = self._accounts.token_with(hashed)
        if found is not None:
            self._known[hashed] = found
        return found

    def add_user(self, name: str, tenant: str) -> UserRow:
        """One that is there stays as it is."""
        known = self._accounts.user(name)
        if known is None:
            known = UserRow(name, tenant, self._now())
            self._accounts.put_user(known)
        return known

    def change_user(self, user: UserRow) -> None:
        self._accounts.put_user(user)
        self._known.clear()

    def listed(self, user: str | None = None) -> Sequence[TokenRow]:
        return [replace(row, used_s=self._used_s.get(row.id, row.used_s)) for row in self._accounts.tokens(user)]

    def revoke(self, token_id: str) -> TokenRow:
        row = self._accounts.revoke_token(token_id, self._now())
        self._known.pop(row.hash, None)
        return row

    def flush(self) -> None:
        """Keep when each token was last used: now and then, and before closing."""
        used_s, self._used_s = self._used_s, {}
        self._accounts.mark_used(used_s)


# -- the local user's token file --------------------------------------------------------------------------------------------------


def ensure_local_token(tokens: Tokens, path: Path, user: str, tenant: str) -> bool:
    """A token for whoever starts the scheduler, who may do everything. True where it was made now.

    One that is there and works stays. A file that others could read is an error, not a token.
    """
    if path.exists():
        with suppress(NotAuthenticated):
            tokens.authenticate(read_token_file(path))
            return False
    tokens.add_user(user, tenant)
    token, _ = tokens.issue(user, Role.ADMIN, label="made at the first start")
    write_token_file(path, token)
    return True


def write_token_file(path: Path, token: str) -> None:
    """Nobody else can read it at any moment, and a crash leaves the old one or the new one."""
    unfinished = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(file, "w", encoding="ascii") as out:
            out.write(token + "\n")
            out.flush()
            os.fsync(out.fileno())
        os.replace(unfinished, path)
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise InputError(f"the token can't be written: {error.strerror}", file=str(path)) from None


# -- how often ---------------------------------------------------------------------------------------------------------------------


class RateLimiter:
    """A bucket for each key (a token, an address) that fills at `rate_per_s` up to `burst` and loses one per request."""

    def __init__(self, rate_per_s: float, burst: float, now: Callable[[], float], most_keys: int = 10_000) -> None:
        self._rate, self._burst, self._now, self._most = rate_per_s, float(burst), now, most_keys
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  #: what was in it, and when

    def wait_s(self, key: str, cost: float = 1.0) -> float:
        """0: go on, it is paid for. Otherwise nothing was taken, and this is how long until there is enough."""
        now_s = self._now()
        level, then_s = self._buckets.pop(key, (self._burst, now_s))
        level = min(self._burst, level + max(now_s - then_s, 0.0) * self._rate)
        cost = min(cost, self._burst)
        short = cost - level
        if short <= 1e-9:
            level -= cost
        self._buckets[key] = (level, now_s)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)  # the one not seen for longest, so the fullest
        return 0.0 if short <= 1e-9 else short / self._rate

    def __len__(self) -> int:
        return len(self._buckets)
