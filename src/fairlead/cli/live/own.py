"""A scheduler of one's own for a while: `fairlead up` as anybody would start it, in a folder that nobody else uses."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Own:
    url: str
    token: str
    pid: int


@contextlib.contextmanager
def own_scheduler(folder: Path, options: Sequence[str], settings: Mapping[str, str] | None = None) -> Iterator[Own]:
    """`settings` as in the environment. Those of whoever calls do not count: they are for another scheduler."""
    command = [sys.executable, "-m", "fairlead", "up", "--state-dir", str(folder), "--port", "0", *options]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLEAD_") or "CACHE" in name}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=kept | dict(settings or {}), cwd=folder
    ) as process:
        try:
            url = _address(process)
            yield Own(url, (folder / "token").read_text().strip(), process.pid)
        finally:
            process.send_signal(signal.SIGTERM)


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        for word in line.split():
            if word.startswith(("http://", "https://")):
                return word
    raise RuntimeError("the scheduler did not start; it has said why")
