"""What Slurm is still to be told, collected so that many jobs take one call. Any of it may be told twice."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Lock

from fairlead.backends.slurm.commands import Slurm, SlurmAway, SlurmError, is_line

log = logging.getLogger(__name__)
_MOST_IN_ONE = 200  #: jobs in one call


class Chores:
    """Filled from any thread; `news` is called when there is something."""

    def __init__(self, slurm: Slurm, news: Callable[[], None]) -> None:
        self._slurm, self._news = slurm, news
        self._lock = Lock()
        self._release: dict[str, None] = {}
        self._call_off: dict[str, None] = {}
        self._cancel: dict[str, None] = {}
        self._lines: dict[str, None] = {}
        self._signals: dict[str, None] = {}

    def release(self, job: str) -> None:
        self._add(self._release, job)

    def call_off(self, job: str) -> None:
        """Cancel it unless it has begun: then its agents know better how to end it."""
        self._add(self._call_off, job)

    def cancel(self, job: str) -> None:
        self._add(self._cancel, job)

    def line(self, command: str) -> None:
        """A command of scontrol. One that is not a line is not given: all of it comes from our own hand, so something is wrong."""
        if not is_line(command):
            log.error("this is no command for Slurm: %r", command)
            return
        self._add(self._lines, command)

    def signal(self, name: str, job: str) -> None:
        """To all of its processes, its script included."""
        self._add(self._signals, f"{name} {job}")

    def _add(self, where: dict[str, None], what: str) -> None:
        with self._lock:
            where[what] = None
        self._news()

    def _take(self, where: dict[str, None]) -> list[str]:
        with self._lock:
            taken = list(where)[:_MOST_IN_ONE]
            for one in taken:
                del where[one]
            return taken

    async def do(self) -> None:
        """Everything that there is. Raises SlurmAway, and remembers what was not done."""
        for where, tell in (
            (self._lines, self._tell_lines),
            (self._release, self._tell_release),
            (self._call_off, self._tell_call_off),
            (self._signals, self._tell_signals),
            (self._cancel, self._tell_cancel),
        ):
            while taken := self._take(where):
                log.debug("%s %s", tell.__name__, taken)
                try:
                    await tell(taken)
                except SlurmAway:
                    with self._lock:
                        where |= dict.fromkeys(taken)
                    raise
                except SlurmError as error:  # of one of them: the next look at Slurm shows which
                    log.info("Slurm did not do all of it: %s", error)

    async def _tell_lines(self, lines: list[str]) -> None:
        said = await self._slurm.each(lines)
        if said:
            raise SlurmError(said)

    async def _tell_release(self, jobs: list[str]) -> None:
        await self._slurm.call("scontrol", "release", ",".join(jobs))

    async def _tell_call_off(self, jobs: list[str]) -> None:
        await self._slurm.call("scancel", "--state=PENDING", *jobs)

    async def _tell_cancel(self, jobs: list[str]) -> None:
        await self._slurm.call("scancel", *jobs)

    async def _tell_signals(self, signals: list[str]) -> None:
        for name in dict.fromkeys(one.partition(" ")[0] for one in signals):
            jobs = [one.partition(" ")[2] for one in signals if one.startswith(f"{name} ")]
            await self._slurm.call("scancel", "--full", f"--signal={name}", *jobs)
