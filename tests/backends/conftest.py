"""Whatever a test starts ends with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.ray_cluster import own_ray, ray_cluster, ray_python

from .harness import clean_up

__all__ = ["own_ray", "ray_cluster", "ray_python"]


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "state"
    clean_up(tmp_path)
