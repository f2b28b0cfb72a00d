"""One scheduler for each module of tests: 8 virtual GPUs, ended with all its jobs afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from fairlead.client import ApiError

from .daemon import Daemon, daemon


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon(tmp_path_factory.mktemp("up")) as made:
        yield made


@pytest.fixture(autouse=True)
def gpus_are_free_again(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that fails leaves nothing to the next one."""
    yield
    if "up" in request.fixturenames:
        up: Daemon = request.getfixturevalue("up")
        with up.client() as client:
            for job in client.all_jobs(live=True):
                with contextlib.suppress(ApiError):  # it has ended by itself
                    client.cancel(job.id)
