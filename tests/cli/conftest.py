from __future__ import annotations

from pathlib import Path

import pytest

from .command import CLAIM


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    path = tmp_path / "claim.csv"
    path.write_text(CLAIM, encoding="utf-8")
    return path
