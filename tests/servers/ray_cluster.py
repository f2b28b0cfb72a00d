"""A real Ray cluster for tests, of PyPI's package, installed into a folder beside this Python's own packages.

A conftest.py imports the fixtures for the tests beside it, so that these share one cluster. Where Ray can't be had the tests that
ask for it are skipped, and say why. Each test process has a cluster of its own: free ports, a folder of its own, loopback only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

VERSION = "2.60.0"
NODES = ("head", "node-1", "node-2")
GPUS = 4
_INSTALL_S = 600
#: so that a death is noticed in seconds, as tests need it; the defaults are in docs/engines/ray.md
SWIFT = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "4",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "8",
    "RAY_gcs_server_request_timeout_seconds": "5",
}


class RayCluster:
    """`add`, `kill`, `remove` of nodes by name; `address` is where the head is."""

    def __init__(self, python: Path) -> None:
        self.python = python
        self.folder = Path(tempfile.mkdtemp(prefix="fl-ray-", dir="/tmp"))  # paths of sockets must be short
        self.port = _free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._log = (self.folder / "nodes.log").open("wb")
        self._process = subprocess.Popen(
            [python, Path(__file__).with_name("ray_nodes.py"), str(self.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=self.environment(),
            start_new_session=True,
        )

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "PYTHONPATH"))}
        own = {"RAY_TMPDIR": str(self.folder), "RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
        return kept | SWIFT | own

    def ask(self, *words: object) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(words).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the Ray cluster's keeper ended: {self.said()}")
        answer, error = json.loads(line)
        if error:
            raise RuntimeError(f"{words[0]}: {error}")
        return answer

    def said(self) -> str:
        return (self.folder / "nodes.log").read_text(errors="replace")[-2000:]

    def begin(self, nodes: tuple[str, ...] = NODES, gpus: int = GPUS) -> None:
        self.ask("head", gpus)
        for name in nodes[1:]:
            self.add(name, gpus)

    def add(self, name: str, gpus: int = GPUS) -> None:
        self.ask("add", name, gpus)

    def pids(self, name: str) -> dict[str, list[int]]:
        found: dict[str, list[int]] = self.ask("pids", name)
        return found

    def kill(self, name: str, kind: str = "raylet") -> None:
        """At once, without a word to anybody."""
        self.ask("kill", name, kind)

    def remove(self, name: str) -> None:
        self.ask("remove", name)

    def end_all(self) -> None:
        self.ask("end")

    def run(self, program: str, *args: str) -> str:
        """A program of somebody else's on that cluster; what it prints."""
        words = [self.python, "-c", program, *args]
        env = {**self.environment(), "RAY_ADDRESS": self.address}
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[-3000:])
        return done.stdout

    def close(self) -> None:
        """Workers leave when their raylet is gone; whatever does not is found by the cluster's folder in its words."""
        with contextlib.suppress(OSError):
            assert self._process.stdin
            self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout
        self._process.stdout.close()
        self._log.close()
        for pid in self._left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _left(self) -> list[int]:
        mark = str(self.folder).encode()
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                with contextlib.suppress(OSError):
                    if mark in Path(f"/proc/{name}/cmdline").read_bytes():
                        found.append(int(name))
        return found


@pytest.fixture(scope="session")
def ray_python() -> Path:
    """A Python with Ray."""
    python = installed()
    if python is None:
        pytest.skip(f"Ray can't be had here (pip install 'ray[default,train]=={VERSION}' fails)")
    return python


@pytest.fixture(scope="session")
def ray_cluster(ray_python: Path) -> Iterator[RayCluster]:
    """Three nodes of four GPUs each, for tests that leave it as it was."""
    cluster = RayCluster(ray_python)
    try:
        cluster.begin()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def own_ray(ray_python: Path) -> Iterator[RayCluster]:
    """One that a test may break."""
    cluster = RayCluster(ray_python)
    try:
        cluster.begin()
        yield cluster
    finally:
        cluster.close()


def installed() -> Path | None:
    """Once for all test processes: in a virtual environment of its own, since Ray wants many packages that fairlead does not."""
    home = Path(sys.prefix) / "engines"
    folder = home / f"ray-{VERSION}"
    python, ready = folder / "bin" / "python", folder / ".ready"
    try:
        home.mkdir(exist_ok=True)
        with (home / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not ready.exists():
                subprocess.run([sys.executable, "-m", "venv", folder], capture_output=True, check=True)
                words = [python, "-m", "pip", "install", "-q", f"ray[default,train]=={VERSION}"]
                subprocess.run(words, capture_output=True, timeout=_INSTALL_S, check=True)
                ready.touch()
    except (OSError, subprocess.SubprocessError):
        return None
    return python


def _free_port() -> int:
    """Away from the ports that Ray gives to its workers."""
    for port in range(21000 + os.getpid() % 2000, 30000):
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no port is free")
