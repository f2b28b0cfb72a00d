"""Numbers as people read them: durations in their own unit, counts with separators, shares in percent."""

from __future__ import annotations

import math

#: name and seconds, largest first
UNITS = (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))


def duration(seconds: float) -> str:
    """`0 s`, `45 s`, `12 min`, `3.4 h`, `2.5 d`: two or three digits in the largest unit of which there are
    two."""
    if not math.isfinite(seconds):
        return "–"
    for name, size in UNITS:
        if abs(seconds) >= 2 * size:
            return f"{digits(seconds / size)} {name}"
    return f"{digits(seconds)} s"


def unit_for(seconds: float) -> tuple[str, float]:
    """The unit for an axis that goes up to so many seconds."""
    for name, size in UNITS:
        if seconds >= 2 * size:
            return name, size
    return UNITS[-1]


def digits(value: float) -> str:
    """Three significant digits, no exponent, thousands separated."""
    if not math.isfinite(value):
        return "–"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    text = f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    return text.rstrip("0").rstrip(".")


def percent(share: float) -> str:
    return f"{100 * share:.1f} %" if math.isfinite(share) else "–"


def count(number: int, one: str, many: str = "") -> str:
    """`1 job`, `2,000 jobs`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
