"""Starts supervisors: through a nursery that forks them, or one by one where that fails."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from threading import Lock

import fairlead

#: where the package is, for the Python processes that are started
_SOURCE = str(Path(fairlead.__file__).resolve().parents[1])


class Launcher:
    """Thread-safe. What it starts belongs to no session and no process group of ours."""

    def __init__(self, state_dir: str) -> None:
        self.errors = os.path.join(state_dir, "supervisors.log")
        self._lock = Lock()
        self._nursery: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None

    def launch(self, path: str) -> socket.socket:
        """Returns the connection to the run's supervisor. Raises OSError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with self._lock:
                self._hand_over(path, theirs)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        return ours

    def _hand_over(self, path: str, theirs: socket.socket) -> None:
        for _ in range(2):
            if self._requests is None:
                self._begin()
            assert self._requests
            try:
                socket.send_fds(self._requests, [path.encode()], [theirs.fileno()])
                return
            except OSError:
                self._end()
        self._start("supervise", path, str(theirs.fileno()), pass_fds=(theirs.fileno(),))

    def _begin(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._nursery = self._start("nursery", stdin=theirs.fileno())
        finally:
            theirs.close()
        self._requests = ours

    def _end(self) -> None:
        if self._requests:
            self._requests.close()
            self._requests = None
        if self._nursery:
            try:
                self._nursery.wait(5)  # it leaves when its socket is closed
            except subprocess.TimeoutExpired:  # what it had not begun yet, the next executor finds ordered and begins
                self._nursery.kill()
                self._nursery.wait()
            self._nursery = None

    def _start(
        self, module: str, *args: str, stdin: int = subprocess.DEVNULL, pass_fds: tuple[int, ...] = ()
    ) -> subprocess.Popen[bytes]:
        """-P: never import from the directory that we happen to be in. The environment holds nothing of ours."""
        with open(self.errors, "ab", opener=lambda name, flags: os.open(name, flags, 0o600)) as errors:
            return subprocess.Popen(
                [sys.executable, "-P", "-s", "-m", f"fairlead.backends.local.{module}", *args],
                stdin=stdin,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                cwd="/",
                env={"PATH": os.defpath, "PYTHONPATH": _SOURCE},
                start_new_session=True,
                pass_fds=pass_fds,
            )

    def close(self) -> None:
        with self._lock:
            self._end()
