"""A real PostgreSQL server for tests, of the machine's own binaries or Debian's package, in a folder of its own.

Import the fixtures where they are wanted: `from servers.postgres import postgres_server, postgres_url`. Where no server can be had
the tests that ask for one are skipped, and say why.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

_PR_SET_PDEATHSIG = 1
_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class PostgresServer:
    folder: Path  #: its socket is in it; it listens nowhere else
    user: str
    process: subprocess.Popen[bytes]

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{self.user}@/{database}?host={self.folder}"

    def run(self, statement: str) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement.encode())


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    binaries = _binaries() or _installed()
    if binaries is None:
        pytest.skip("there is no PostgreSQL server here, and none can be installed (apt-get install postgresql)")
    with started(binaries) as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """An empty database."""
    name = f"test_{next(_NUMBERS)}"
    postgres_server.run(f"CREATE DATABASE {name}")
    yield postgres_server.url(name)
    postgres_server.run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@contextmanager
def started(binaries: Path, durable: bool = False) -> Iterator[PostgresServer]:
    """Without `durable` it does not wait for the disk: it survives its clients' crashes, which is what tests are about."""
    user = _user()
    folder = Path(tempfile.mkdtemp(prefix="fairlead-pg-"))
    try:
        _own(folder, user)
        data = folder / "data"
        made = [binaries / "initdb", "-D", data, "-U", user, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]
        done = subprocess.run(made, cwd=folder, capture_output=True, text=True, check=False, **_as(user))
        if done.returncode:
            pytest.skip(f"initdb does not work here: {done.stderr.strip()}")
        settings = {"listen_addresses": "", "unix_socket_directories": folder, "max_connections": 50}
        if not durable:
            settings |= {"fsync": "off", "full_page_writes": "off"}
        words = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [binaries / "postgres", "-D", data, *words],
                cwd=folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=_die_with_the_tests,
                **_as(user),
            )
        try:
            server = PostgresServer(folder, user, process)
            _wait(server)
            yield server
        finally:
            process.send_signal(signal.SIGINT)  # a fast shutdown
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(server: PostgresServer, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            psycopg.connect(server.url(), connect_timeout=2).close()
            return
        except psycopg.OperationalError as error:
            if server.process.poll() is not None or time.monotonic() > deadline:
                log = (server.folder / "log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"the PostgreSQL server did not start: {error}\n{log}") from error
            time.sleep(0.05)


def _binaries() -> Path | None:
    """The newest of Debian's, or what is on the path."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"),
        key=lambda path: int(path.parts[-3]) if path.parts[-3].isdigit() else 0,
    )
    on_path = shutil.which("initdb")
    if found:
        return found[-1].parent
    return Path(on_path).resolve().parent if on_path and shutil.which("postgres") else None


def _installed() -> Path | None:
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return None
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", "postgresql"]):
        try:
            subprocess.run(words, env=quiet, capture_output=True, timeout=300, check=True)
        except (subprocess.SubprocessError, OSError):
            return None
    return _binaries()


def _user() -> str:
    """The server refuses to run as root."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid()).pw_name
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def _as(user: str) -> dict[str, object]:
    if os.geteuid() != 0:
        return {}
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


def _own(folder: Path, user: str) -> None:
    if os.geteuid() == 0:
        entry = pwd.getpwnam(user)
        os.chown(folder, entry.pw_uid, entry.pw_gid)


def _die_with_the_tests() -> None:
    """Even when they are killed and no fixture can clean up."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
