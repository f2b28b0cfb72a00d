"""Slurm's own commands: few at a time, so many a second, and told apart by whether Slurm is away or says no."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from fairlead.backends.slurm.settings import SlurmSettings

#: of our own environment they get to see; SBATCH_* and SLURM_* of whoever started us would change what they do
_PASSED_ON = ("PATH", "HOME", "SLURM_CONF", "TZ")
#: what they say where the controller can't be reached
_AWAY = (
    "unable to contact slurm controller",
    "connection refused",
    "socket timed out",
    "zero bytes were transmitted",
    "slurm backup controller in standby",
    "communication connection failure",
    "communications connection failure",
    "connection timed out",
    "transport endpoint is not connected",
    "unable to establish controller",
    "unexpected message received",
    "insane message length",
    "protocol authentication error",
    "slurm temporarily unable to accept job",
    "resource temporarily unavailable",
)
_MOST_AT_ONCE = 4


class SlurmError(Exception):
    """A command did not do what it was to do: what it said."""

    is_away = False


class SlurmAway(SlurmError):
    """The controller could not be reached: nobody knows whether it has done it."""

    is_away = True


class Slurm:
    def __init__(self, settings: SlurmSettings) -> None:
        self.settings = settings
        self.calls: Counter[str] = Counter()  #: how many commands were run, by program
        self._allowed = float(settings.calls_at_once)
        self._counted_s = time.monotonic()
        self._turn = asyncio.Lock()
        self._room = asyncio.Semaphore(_MOST_AT_ONCE)
        self._env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self._env |= {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}
        self._env.setdefault("PATH", os.defpath)

    async def call(
        self, *words: str, stdin: str | None = None, patient: bool = False, env: Mapping[str, str] | None = None
    ) -> str:
        """What it printed. Raises SlurmError. `patient`: one of many, which waits its turn; others count, but don't wait."""
        if patient:
            await self._wait_for_turn()
        else:
            self._count()
        code, out, said = await self._run(words, stdin, env)
        if code:
            raise SlurmError(said or f"{words[0]} ended with {code}")
        return out

    async def each(self, commands: Sequence[str]) -> str:
        """Several commands of scontrol in one call; what was said about those that went wrong. SlurmError where one of them is
        not a line: what came after its end would be a command too."""
        for command in commands:
            if not is_line(command):
                raise SlurmError(f"this is no command: {command!r}")
        self._count()
        return (await self._run(("scontrol",), "".join(f"{command}\n" for command in (*commands, "quit"))))[2]

    async def _wait_for_turn(self) -> None:
        async with self._turn:
            while self._count(0) < 1:
                await asyncio.sleep((1 - self._allowed) / self.settings.calls_per_s)
            self._count()

    def _count(self, calls: int = 1) -> float:
        """How many more are allowed now."""
        now_s = time.monotonic()
        gained = (now_s - self._counted_s) * self.settings.calls_per_s
        self._allowed = min(self.settings.calls_at_once, self._allowed + gained) - calls
        self._counted_s = now_s
        return self._allowed

    async def _run(
        self, words: Sequence[str], stdin: str | None, env: Mapping[str, str] | None = None
    ) -> tuple[int, str, str]:
        async with self._room:
            self.calls[words[0]] += 1
            process = await self._start(words, stdin is not None, env or {})
            given = None if stdin is None else stdin.encode()
            try:
                out, err = await asyncio.wait_for(process.communicate(given), self.settings.call_timeout_s)
            except TimeoutError:
                await _end(process)
                raise SlurmAway(f"{words[0]} had no answer after {self.settings.call_timeout_s:g} s") from None
            except asyncio.CancelledError:
                await _end(process)
                raise
        said = err.decode("utf-8", "replace").strip()
        if any(sign in said.lower() for sign in _AWAY):
            raise SlurmAway(said)
        return process.returncode or 0, out.decode("utf-8", "replace"), said

    async def _start(self, words: Sequence[str], is_fed: bool, env: Mapping[str, str]) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.PIPE if is_fed else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**self._env, **env},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise SlurmError(f"{words[0]} can't be run: {error.strerror}") from None


def is_line(command: str) -> bool:
    """Whether scontrol would read it as one command: nothing that ends a line, or could."""
    return command.isprintable()


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()
