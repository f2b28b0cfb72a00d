"""A store of each kind for every test that asks for `store` or `store_at`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fairlead.server.store import Store
from servers.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]


@pytest.fixture(params=["sqlite", "postgresql"])
def store_at(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty store may be."""
    return str(tmp_path / "fairlead.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def opened(store_at: str) -> Iterator[Callable[..., Store]]:
    """Opens it, again and again if need be; closed at the end."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(Store(store_at, **{"timeout_s": 2.0, **options}))


@pytest.fixture
def store(opened: Callable[..., Any]) -> Store:
    return opened()


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "one.db", timeout_s=1.0) as store:
        yield store
