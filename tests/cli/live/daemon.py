"""A real `fairlead up` in a process of its own, and the commands that talk to it."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

from tests.backends.harness import clean_up
from tests.cli.command import Ran

from fairlead.client import Client

#: a first start compiles the core
START_S = 240.0
T = TypeVar("T")


def until(look: Callable[[], T], timeout_s: float = 30.0) -> T:
    """What `look` gives once that is something."""
    end = time.perf_counter() + timeout_s
    while not (found := look()):
        assert time.perf_counter() < end, "nothing came of it"
        time.sleep(0.02)
    return found


def environment(state_dir: Path, **more: str) -> dict[str, str]:
    """Nothing of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRLEAD_", "XDG_"))}
    kept |= {name: os.environ[name] for name in ("FAIRLEAD_CACHE_DIR",) if name in os.environ}
    return {**kept, "FAIRLEAD_STATE_DIR": str(state_dir), "COLUMNS": "160", **more}


@dataclass
class Daemon:
    """`fairlead up` on a folder. Whatever it started ends with `end`."""

    folder: Path
    args: tuple[str, ...] = ("--gpus", "8")
    process: subprocess.Popen[str] | None = None
    url: str = ""
    told: str = ""
    env: dict[str, str] = field(default_factory=dict)

    @property
    def state_dir(self) -> Path:
        return self.folder / "state"

    def begin(self) -> subprocess.Popen[str]:
        self.folder.mkdir(exist_ok=True)
        with (self.folder / "stderr").open("a") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fairlead", "up", "--port", "0", *self.args],
                cwd=self.folder,
                env=environment(self.state_dir, **self.env),
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        return self.process

    def start(self) -> Daemon:
        process = self.begin()
        assert process.stdout is not None
        self.told = ""
        # each line comes at once or never: it prints them all when it serves
        for line in process.stdout:
            self.told += line
            if line.startswith("next"):
                break
        found = re.search(r"^listens at +(\S+)$", self.told, re.MULTILINE)
        assert found, f"it did not start: {self.errors}"
        self.url = found[1]
        return self

    @property
    def errors(self) -> str:
        return (self.folder / "stderr").read_text()

    def signal(self, number: int) -> int:
        """End it; its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(60)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def end(self) -> None:
        """Whatever it started ends with it."""
        process = self.process
        if process is not None:
            if process.poll() is None:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        clean_up(self.folder)

    @property
    def died(self) -> str:
        """How it ended by itself, which no test asked for; "" while it runs."""
        code = None if self.process is None else self.process.poll()
        return "" if code is None else f"exit code {code}; {self.errors[-2000:]}"

    def client(self, **options: object) -> Client:
        token = (self.state_dir / "token").read_text().strip()
        return Client(self.url, token, **options)  # type: ignore[arg-type]

    def __call__(self, *args: str | Path, cwd: Path | None = None, **env: str) -> Ran:
        return run(*args, cwd=cwd or self.folder, env=environment(self.state_dir, **env))

    def popen(self, *args: str, **env: str) -> subprocess.Popen[str]:
        """A command in a process of its own: to be signalled, or read from while it runs."""
        return subprocess.Popen(
            [sys.executable, "-m", "fairlead", *args],
            cwd=self.folder,
            env=environment(self.state_dir, **env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def submit(self, *args: str) -> str:
        ran = self("submit", *args)
        assert ran.code == 0, ran.err
        return ran.out.strip()

    def state(self, id: str) -> str:
        with self.client() as client:
            return client.job(id).state

    def wait_for(self, id: str, *states: str) -> None:
        until(lambda: self.state(id) in states)


def run(*args: str | Path, cwd: Path, env: dict[str, str]) -> Ran:
    """The command as `fairlead` runs it, in this process: a start costs half a second, and there are many of them."""
    from fairlead.cli.main import main

    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    code = 0
    with (
        patch.dict(os.environ, env, clear=True),
        patch.object(sys, "argv", ["fairlead", *map(str, args)]),
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
    out.flush()
    assert isinstance(out.buffer, io.BytesIO)
    return Ran(code, out.buffer.getvalue().decode(), err.getvalue())


@contextlib.contextmanager
def daemon(folder: Path, *args: str) -> Iterator[Daemon]:
    made = Daemon(folder, args or ("--gpus", "8"))
    try:
        yield made.start()
        assert not made.died, made.died
    finally:
        made.end()
