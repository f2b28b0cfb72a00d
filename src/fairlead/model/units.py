"""Durations, sizes and ranges as people write them: `2h30m`, `16GiB`, `0-9`. Everything else raises ValueError."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

DURATION_FORM = "a duration such as 90s, 45m, 2h30m, 1d or 1:30:00, or seconds as a number"
SIZE_FORM = "MiB as a number, or a size such as 16GiB"
RANGE_FORM = "how many (10), or indices such as 0-9, 0-99:10 or 1,4,7-9"

_SECONDS = {
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
    **dict.fromkeys(("w", "week", "weeks"), 7 * 86400.0),
}
_NUMBER = r"(?:\d+\.?\d*|\.\d+)"
_PART = re.compile(rf"\s*({_NUMBER})\s*([A-Za-z]+)")
_PLAIN = re.compile(rf"\s*{_NUMBER}(?:[eE][+-]?\d+)?\s*", re.ASCII)
_CLOCK = re.compile(r"\s*(?:(\d+)-)?(\d+):(\d{2})(?::(\d{2}(?:\.\d+)?))?\s*", re.ASCII)


def parse_duration(text: str) -> float:
    """Seconds. `1:30` is a minute and a half and `1:30:00` an hour and a half, as Slurm has it; so is `1-06:00:00`."""
    if _PLAIN.fullmatch(text):
        return _finite(float(text), text)
    clock = _CLOCK.fullmatch(text)
    if clock:
        days, first, second, third = clock.groups()
        if days and third is None:
            raise ValueError(text)
        units = (3600.0, 60.0) if third else (60.0, 1.0)
        return _finite(
            float(days or 0) * 86400 + float(first) * units[0] + float(second) * units[1] + float(third or 0), text
        )
    total, at, smallest = 0.0, 0, math.inf
    for part in _PART.finditer(text):
        # a capital M is a month to some
        unit = None if part[2] == "M" else _SECONDS.get(part[2].lower())
        # largest unit first and each once: `30m2h` is more likely a slip than a wish
        if part.start() != at or unit is None or unit >= smallest:
            raise ValueError(text)
        total, at, smallest = total + float(part[1]) * unit, part.end(), unit
    if at == 0 or text[at:].strip():
        raise ValueError(text)
    return _finite(total, text)


_SIZE = re.compile(rf"\s*(?P<value>{_NUMBER})\s*(?P<unit>[kKMGTP]?i?[Bb]?)\s*")
_DECIMAL = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_BINARY = {"": 1.0, "k": 2.0**10, "m": 2.0**20, "g": 2.0**30, "t": 2.0**40, "p": 2.0**50}
_MIB = 2.0**20


def parse_size_mib(text: str) -> float:
    """A bare number is MiB; 16GiB, 16Gi and 16G are binary as in Kubernetes and Slurm, 16GB is decimal."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(text)
    value, unit = float(found["value"]), found["unit"].lower()
    if not unit:
        return value
    if len(unit) == 2 and unit.endswith("b"):
        return value * _DECIMAL[unit[0]] / _MIB
    return value * _BINARY[unit.rstrip("b").rstrip("i")] / _MIB


_SPAN = re.compile(r"\s*(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?\s*", re.ASCII)


def parse_indices(text: str, most: int) -> tuple[int, ...]:
    """`10` is 0 to 9; otherwise indices, `0-9`, `0-99:10`, `1,4,7-9`: sorted, each once, at most `most` of them."""
    if text.strip().isascii() and text.strip().isdigit():
        text = f"0-{int(text) - 1}" if int(text) else ""
    found: set[int] = set()
    for part in text.split(","):
        span = _SPAN.fullmatch(part)
        if span is None:
            raise ValueError(text)
        first = int(span[1])
        last = first if span[2] is None else int(span[2])
        step = int(span[3] or 1)
        if last < first or step < 1 or (last - first) // step >= most:
            raise ValueError(text)
        found.update(range(first, last + 1, step))
        if len(found) > most:
            raise ValueError(text)
    return tuple(sorted(found))


def write_indices(indices: Iterable[int]) -> str:
    """The short form that `parse_indices` reads back: `0-9,12`."""
    spans: list[list[int]] = []
    for index in sorted(indices):
        if spans and index == spans[-1][1] + 1:
            spans[-1][1] = index
        else:
            spans.append([index, index])
    # a lone number would read as a count
    return ",".join(f"{a}-{b}" if a != b or len(spans) == 1 else str(a) for a, b in spans)


def _finite(value: float, text: str) -> float:
    if not math.isfinite(value):
        raise ValueError(text)
    return value
