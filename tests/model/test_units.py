"""Durations, sizes and ranges as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.units import parse_duration, parse_indices, parse_size_mib, write_indices


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("2h30m", 9000),
        ("1.5h", 5400),
        ("1d 2h", 93600),
        ("45 min", 2700),
        ("250ms", 0.25),
        ("90", 90),
        ("1e3", 1000),
        ("1:30", 90),
        ("1:30:00", 5400),
        ("1-06:00:00", 108000),
        ("2 Hours", 7200),
        ("0", 0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "h", "30m2h", "1h1h", "2 parsecs", "-5", "5M", "1:3", "1-2:30", "nan", "inf", "1e999", "2h30", "2hx"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "mib"),
    [("16GiB", 16384), ("16Gi", 16384), ("16G", 16384), ("512", 512), ("1e", None), ("1TB", 953674.3164)],
)
def test_sizes(text: str, mib: float | None) -> None:
    if mib is None:
        with pytest.raises(ValueError, match=r".*"):
            parse_size_mib(text)
    else:
        assert parse_size_mib(text) == pytest.approx(mib)


@pytest.mark.parametrize(
    ("text", "indices"),
    [("3", (0, 1, 2)), ("0-3", (0, 1, 2, 3)), ("5-5", (5,)), ("0-9:3", (0, 3, 6, 9)), ("7,1-2,2", (1, 2, 7))],
)
def test_indices(text: str, indices: tuple[int, ...]) -> None:
    assert parse_indices(text, 100) == indices


@pytest.mark.parametrize("text", ["", "0", "3-1", "1-2:0", "a", "0-100", "1;2", "0-99,100", "0-999999999", "-1"])
def test_what_are_no_indices(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_indices(text, 100)


@given(st.sets(st.integers(0, 200), min_size=1))
def test_indices_are_read_as_they_are_written(indices: set[int]) -> None:
    assert parse_indices(write_indices(indices), 201) == tuple(sorted(indices))
