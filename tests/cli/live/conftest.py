"""One scheduler for each module of tests: 8 virtual GPUs, ended with all its jobs afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .daemon import Daemon, daemon


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon(tmp_path_factory.mktemp("up")) as made:
        yield made
