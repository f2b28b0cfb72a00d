"""Which scheduler runs on a state directory: its process, and where it listens.

What keeps two schedulers apart are the locks of the store and the executor. This file is for people and commands: it says who
has them, and whoever was killed leaves one behind that counts for nothing.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

NAME = "fairlead.pid"


@dataclass(frozen=True)
class Running:
    pid: int
    start_ticks: int  #: when the process started, since ids are used again
    boot_id: str
    url: str


def last(state_dir: Path) -> Running | None:
    """The scheduler that runs here, or the one that was killed last. One that was stopped has taken its note away."""
    return _read(state_dir / NAME)


def running(state_dir: Path) -> Running | None:
    """None: none runs, or what was left behind by one that was killed."""
    from fairlead.backends.local.procs import is_alive

    found = _read(state_dir / NAME)
    if found is None or found.boot_id != _boot_id() or not is_alive(found.pid, found.start_ticks):
        return None
    return found


def write(state_dir: Path, url: str) -> None:
    """Once the locks are ours. It is replaced as a whole, so nobody reads half of one."""
    from fairlead.backends.local.procs import start_ticks

    pid = os.getpid()
    path = state_dir / NAME
    unfinished = path.with_name(f"{NAME}.{pid}")
    file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as out:
        json.dump(asdict(Running(pid, start_ticks(pid), _boot_id(), url)), out)
    os.replace(unfinished, path)


def remove(state_dir: Path) -> None:
    """If it is still ours."""
    found = _read(state_dir / NAME)
    if found is not None and found.pid == os.getpid():
        with suppress(OSError):
            (state_dir / NAME).unlink()


def _read(path: Path) -> Running | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Running(int(found["pid"]), int(found["start_ticks"]), str(found["boot_id"]), str(found["url"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
