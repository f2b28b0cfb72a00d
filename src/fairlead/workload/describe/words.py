"""Numbers as people read them."""

from __future__ import annotations


def seconds(value: float) -> str:
    """`42 s`, `13 min`, `5.2 h`, `3.1 days`."""
    for unit, size, limit in (("s", 1.0, 120.0), ("min", 60.0, 7200.0), ("h", 3600.0, 172800.0)):
        if value < limit:
            amount = value / size
            return f"{amount:.0f} {unit}" if amount >= 10 or unit == "s" else f"{amount:.1f} {unit}"
    return f"{value / 86400.0:.1f} days"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"
