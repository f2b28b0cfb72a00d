"""Jobs, times and counts in words, for tables and single lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairlead.client import Job

#: the order in which states are told
STATES = ("running", "waiting", "suspended", "held", "blocked", "done", "failed", "cancelled", "refused", "lost")
NONE = "–"


def ago(then_s: float | None, now_s: float | None) -> str:
    """`3.4 h` of time since then."""
    from fairlead.record.units import duration

    if then_s is None or now_s is None:
        return NONE
    return duration(max(round(now_s - then_s), 0))


def lasting(seconds: float | None) -> str:
    from fairlead.record.units import duration

    return NONE if seconds is None else duration(round(seconds) if seconds >= 10 else round(seconds, 1))


def clock(time_s: float | None, now_s: float | None = None) -> str:
    """`14:20:05` today, `Mon 16 Nov 14:20` otherwise: this machine's own time."""
    if time_s is None:
        return NONE
    then = datetime.fromtimestamp(time_s).astimezone()
    if now_s is not None and then.date() == datetime.fromtimestamp(now_s).astimezone().date():
        return f"{then:%H:%M:%S}"
    return (
        f"{then:%a %d %b %H:%M}"
        if now_s is not None and abs(time_s - now_s) < 180 * 86400
        else f"{then:%Y-%m-%d %H:%M}"
    )


def expected(start_s: float | None, finish_s: float | None, now_s: float | None) -> str:
    """`starts at about 14:20:05 (in 12 min) and ends at about 15:00:00`; "" where nothing is known."""
    parts = []
    if start_s is not None and now_s is not None and start_s > now_s:
        parts.append(f"starts at about {clock(start_s, now_s)} (in {lasting(start_s - now_s)})")
    if finish_s is not None:
        parts.append(f"ends at about {clock(finish_s, now_s)}")
    return " and ".join(parts)


def counts(jobs: Mapping[str, int]) -> str:
    """`3 running, 12 waiting`."""
    known = [state for state in STATES if jobs.get(state)]
    return ", ".join(f"{jobs[state]:,} {state}" for state in [*known, *sorted(set(jobs) - set(STATES))] if jobs[state])


def gpus(number: float) -> str:
    """Whole ones without a fraction: `2`, `0.5`."""
    return f"{number:.3f}".rstrip("0").rstrip(".")


def where(job: Job) -> str:
    """`node-0:0,1` while it holds GPUs."""
    return " ".join(f"{at.node}:{','.join(map(str, at.gpus))}" if at.gpus else at.node for at in job.places)


def ended(job: Job) -> str:
    """`exit 1`, `SIGKILL`, or nothing."""
    if job.signal:
        import signal

        try:
            return signal.Signals(job.signal).name
        except ValueError:
            return f"signal {job.signal}"
    return f"exit {job.exit_code}" if job.exit_code else ""


def why(job: Job) -> str:
    """What there is to say about its state, the most telling first."""
    return job.message or ended(job) or job.reason


def plain(value: Any) -> Any:
    """A dataclass, or a sequence of them, as JSON and YAML have it."""
    from dataclasses import asdict, is_dataclass

    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(one) for one in value]
    return value
