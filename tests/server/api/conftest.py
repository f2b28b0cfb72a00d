"""One service for all the tests of a file: they tell their jobs apart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .service import Service, service


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("live") / "state") as made:
        yield made


@pytest.fixture(autouse=True)
def _clients(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "live" in request.fixturenames:
        request.getfixturevalue("live").close_clients()
