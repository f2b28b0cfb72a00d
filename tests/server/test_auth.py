"""Tokens, roles and limits."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.errors import InputError
from fairlead.server.auth import (
    MAY,
    PREFIX,
    Act,
    Forbidden,
    Identity,
    NotAuthenticated,
    RateLimiter,
    Role,
    Scope,
    Tokens,
    digest,
    ensure_local_token,
    read_token_file,
    role_named,
    write_token_file,
)
from fairlead.server.store import Store

ROOT = Path(__file__).resolve().parents[2]


class Hands:
    """A clock that is set by hand."""

    def __init__(self, now_s: float = 100.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
def tokens(store: Store, clock: Hands) -> Tokens:
    made = Tokens(store.accounts, clock)
    made.add_user("ann", "vision")
    made.add_user("bob", "speech")
    return made


# -- tokens -----------------------------------------------------------------------------------------------------------------------


def test_a_token_says_who_asks_and_is_nowhere_in_the_store(store: Store, tokens: Tokens) -> None:
    token, row = tokens.issue("ann", Role.USER, label="laptop")
    assert re.fullmatch(r"fl_[\w-]{43}", token)
    assert tokens.authenticate(token) == Identity("ann", Role.USER, "vision", row.id)
    assert row.hash == digest(token)
    assert token not in repr(store.accounts.tokens())
    if not store.where.startswith("postgresql"):
        assert token.encode() not in Path(store.where).read_bytes()


@pytest.mark.parametrize("token", ["", "fl_", "fl_" + "x" * 43, "é\0\ud800", "' OR 1=1 --"])
def test_a_strangers_token_is_not_known(tokens: Tokens, token: str) -> None:
    tokens.issue("ann", Role.USER)
    with pytest.raises(NotAuthenticated, match="not known"):
        tokens.authenticate(token)


def test_a_token_ends_when_it_was_said_to(tokens: Tokens, clock: Hands) -> None:
    token, row = tokens.issue("ann", Role.USER, lifetime_s=10.0)
    assert row.expires_s == 110.0
    clock.now_s = 109.9
    tokens.authenticate(token)
    clock.now_s = 110.0
    with pytest.raises(NotAuthenticated):
        tokens.authenticate(token)
    for lifetime_s in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="can't live so long"):
            tokens.issue("ann", Role.USER, lifetime_s=lifetime_s)


def test_a_revoked_token_and_a_disabled_user_are_out_at_once_and_after_a_restart(
    opened: Callable[..., Store], clock: Hands
) -> None:
    store = opened()
    tokens = Tokens(store.accounts, clock)
    ann = tokens.add_user("ann", "vision")
    tokens.add_user("bob", "speech")
    (first, row), (second, _), (other, _) = (tokens.issue(user, Role.USER) for user in ("ann", "ann", "bob"))
    for token in (first, second, other):
        tokens.authenticate(token)
    assert tokens.revoke(row.id).revoked_s == 100.0
    clock.now_s = 200.0
    assert tokens.revoke(row.id).revoked_s == 100.0
    with pytest.raises(NotAuthenticated):
        tokens.authenticate(first)
    tokens.authenticate(second)
    tokens.change_user(replace(ann, disabled=True))
    with pytest.raises(NotAuthenticated):
        tokens.authenticate(second)
    assert tokens.authenticate(other).user == "bob"
    store.close()
    again = Tokens(opened().accounts, clock)
    for token in (first, second):
        with pytest.raises(NotAuthenticated):
            again.authenticate(token)
    assert again.authenticate(other).tenant == "speech"


def test_tokens_are_listed_with_when_they_were_last_used(store: Store, tokens: Tokens, clock: Hands) -> None:
    token, row = tokens.issue("ann", Role.ADMIN)
    clock.now_s = 101.0
    tokens.issue("bob", Role.VIEWER)
    assert [(t.user, t.used_s) for t in tokens.listed()] == [("ann", None), ("bob", None)]
    clock.now_s = 150.0
    tokens.authenticate(token)
    assert tokens.listed("ann")[0].used_s == 150.0
    tokens.flush()
    tokens.flush()
    assert [(t.id, t.used_s) for t in store.accounts.tokens("ann")] == [(row.id, 150.0)]


def test_tokens_for_nobody_and_of_nothing(tokens: Tokens) -> None:
    with pytest.raises(InputError, match="no such user; got 'zoe'"):
        tokens.issue("zoe", Role.USER)
    with pytest.raises(InputError, match="no token with this id"):
        tokens.revoke("nothing")
    with pytest.raises(InputError, match="did you mean 'admin'"):
        role_named("admn")
    assert role_named("viewer") is Role.VIEWER


# -- the file ----------------------------------------------------------------------------------------------------------------------


def test_the_first_start_makes_a_token_that_only_its_owner_can_read(tokens: Tokens, tmp_path: Path) -> None:
    path = tmp_path / "state" / "token"
    assert ensure_local_token(tokens, path, "root", "default")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    identity = tokens.authenticate(read_token_file(path))
    assert (identity.user, identity.role, identity.tenant) == ("root", Role.ADMIN, "default")
    assert not ensure_local_token(tokens, path, "root", "default")
    tokens.revoke(identity.token_id)
    assert ensure_local_token(tokens, path, "root", "default")
    assert tokens.authenticate(read_token_file(path)).token_id != identity.token_id
    assert [entry.name for entry in path.parent.iterdir()] == ["token"]


def test_a_token_that_others_could_read_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "token"
    write_token_file(path, PREFIX + "x")
    path.chmod(0o640)
    with pytest.raises(InputError, match="chmod 600"):
        read_token_file(path)
    path.chmod(0o600)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="no token"):
        read_token_file(path)
    with pytest.raises(InputError, match="can't be read"):
        read_token_file(tmp_path / "none")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="can't be written"):
        write_token_file(tmp_path / "pipe" / "token", "x")


# -- what each may ----------------------------------------------------------------------------------------------------------------


def who(role: Role) -> Identity:
    return Identity("ann", role, "vision", "1")


def test_every_act_is_decided_for_every_role() -> None:
    assert set(MAY) == set(Act)
    assert all(set(scopes) == set(Role) for scopes in MAY.values())
    assert all(scopes[Role.ADMIN] is Scope.ALL for scopes in MAY.values())


def test_a_viewer_changes_nothing_and_a_user_only_what_is_its_own() -> None:
    changing = {Act.SUBMIT, Act.CONTROL, Act.RAISE_PRIORITY, Act.USE_TENANT, Act.DRAIN} | {
        *(Act.CHANGE_TENANTS, Act.CHANGE_POLICY, Act.MAKE_TOKENS)
    }
    assert all(MAY[act][Role.VIEWER] is Scope.NONE for act in changing)
    assert all(MAY[act][Role.USER] is not Scope.ALL for act in changing)
    private = {Act.SEE_LOGS, Act.SEE_SPEC, Act.SEE_TOKENS}
    assert all(MAY[act][Role.VIEWER] is Scope.NONE and MAY[act][Role.USER] is Scope.OWN for act in private)


def test_own_is_told_from_anothers() -> None:
    who(Role.USER).require_of(Act.CONTROL, "ann")
    with pytest.raises(Forbidden, match="a user may cancel, suspend and resume jobs only where they are its own"):
        who(Role.USER).require_of(Act.CONTROL, "bob")
    with pytest.raises(Forbidden, match="a viewer may not cancel"):
        who(Role.VIEWER).require_of(Act.CONTROL, "ann")
    who(Role.ADMIN).require_of(Act.CONTROL, "bob")
    who(Role.USER).require_of(Act.USE_TENANT, "vision")
    with pytest.raises(Forbidden):
        who(Role.USER).require_of(Act.USE_TENANT, "ann")
    assert who(Role.USER).require(Act.SEE_JOBS) is Scope.OWN
    with pytest.raises(Forbidden):
        who(Role.USER).require(Act.DRAIN)


def test_nobody_gives_away_more_than_it_has() -> None:
    who(Role.ADMIN).require_giving(Role.ADMIN, "bob")
    who(Role.USER).require_giving(Role.USER, "ann")
    for role, user in ((Role.ADMIN, "ann"), (Role.VIEWER, "ann"), (Role.USER, "bob")):
        with pytest.raises(Forbidden):
            who(Role.USER).require_giving(role, user)
    with pytest.raises(Forbidden):
        who(Role.VIEWER).require_giving(Role.VIEWER, "ann")


def test_the_docs_show_the_table() -> None:
    text = (ROOT / "docs" / "operate.md").read_text()
    words = {Scope.ALL: "yes", Scope.OWN: "own", Scope.NONE: "no"}
    for act, scopes in MAY.items():
        row = " | ".join([str(act), *(words[scopes[role]] for role in Role)])
        assert f"| {row} |" in text


# -- how often ---------------------------------------------------------------------------------------------------------------------


def test_a_burst_then_the_rate() -> None:
    clock = Hands(0.0)
    limiter = RateLimiter(2.0, 3, clock)
    assert [limiter.wait_s("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert limiter.wait_s("b") == 0.0
    clock.now_s = 0.25
    assert limiter.wait_s("a") == pytest.approx(0.25)
    clock.now_s = 0.5
    assert limiter.wait_s("a") == 0.0
    clock.now_s = 1000.0
    assert [limiter.wait_s("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    clock.now_s = 0.0  # a clock that falls back gives nothing away and takes nothing
    assert limiter.wait_s("a") == 0.5


def test_a_request_dearer_than_the_burst_takes_all_of_it() -> None:
    clock = Hands(0.0)
    limiter = RateLimiter(1.0, 2, clock)
    assert limiter.wait_s("a", 50.0) == 0.0
    assert limiter.wait_s("a") == 1.0


def test_it_forgets_the_oldest_key_rather_than_grow() -> None:
    limiter = RateLimiter(1.0, 1, Hands(), most_keys=10)
    for i in range(100):
        limiter.wait_s(str(i))
    assert len(limiter) == 10


@given(st.lists(st.floats(0, 2), max_size=60), st.floats(0.1, 10), st.integers(1, 10))
def test_never_more_than_the_burst_and_the_rate_allow(gaps: list[float], rate: float, burst: int) -> None:
    clock = Hands(0.0)
    limiter = RateLimiter(rate, burst, clock)
    let_through = 0
    for gap in gaps:
        clock.now_s += gap
        let_through += limiter.wait_s("a") == 0.0
        assert let_through <= burst + rate * clock.now_s + 1e-6
