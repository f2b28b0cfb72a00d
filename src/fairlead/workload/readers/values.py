"""How the text of one cell becomes a number. These functions decide; the fast path only gets there sooner."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Literal

from fairlead.model.units import SIZE_FORM, parse_size_mib
from fairlead.workload.trace import Status


@dataclass(frozen=True, slots=True)
class Reading:
    """`parse` raises ValueError for what it does not take; `fast` is the vectorised parser to try first."""

    parse: Callable[[str], float]
    accepts: str
    fast: Literal["number", "time"] = "number"


def _number(text: str) -> float:
    if "_" in text:  # float() takes 1_000, no other tool does
        raise ValueError(text)
    return float(text)


_LOOSE_TIME = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})[ T](\d{1,2}):(\d{2})(?::(\d{2}))?")


def parse_time(text: str) -> datetime:
    text = text.strip()
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        found = _LOOSE_TIME.fullmatch(text)
        if found is None:
            raise
        year, month, day, hour, minute, second = (int(part or 0) for part in found.groups())
        return datetime.fromisoformat(f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")


def epoch_s(time: datetime) -> float:
    """A time without a zone counts as UTC, so that differences and hours of the day come out as written."""
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def zone_of(text: str) -> timezone | None:
    """The offset written in a time, None where it has none."""
    offset = parse_time(text).utcoffset()
    return None if offset is None else timezone(offset)


def iso_time(seconds: float, zone: timezone | None) -> str:
    """The inverse of epoch_s, written in the zone that the trace used."""
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    return (time.astimezone(zone) if zone else time.replace(tzinfo=None)).isoformat()


NUMBER = Reading(_number, "a number")
MEMORY = Reading(parse_size_mib, SIZE_FORM)
TIME = Reading(lambda text: epoch_s(parse_time(text)), "a time such as 2017-10-07 01:11:39", fast="time")

#: how traces say that a cell holds nothing; canonical traces have only the empty cell
NOTHING = frozenset({"", "None", "nan", "NaN", "NaT", "null", "NULL", "N/A", "Unknown"})
EMPTY = frozenset({""})

_WORDS = {
    Status.PASSED: ("passed", "pass", "completed", "succeeded", "success", "terminated", "finished"),
    Status.FAILED: ("failed", "fail", "error", "timeout", "node_fail", "out_of_memory"),
    Status.KILLED: ("killed", "cancelled", "canceled", "stopped", "preempted"),
    Status.UNKNOWN: ("unknown", "running", "pending", "waiting", "suspended", ""),
}
FLAG_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
STATUS_WORDS = {word: status for status, words in _WORDS.items() for word in words}
