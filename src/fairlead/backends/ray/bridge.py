"""Our end of the process that talks to Ray: it is started again, ever less often, for as long as the head is away."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import fairlead
from fairlead.backends.local.rundir import Doc
from fairlead.backends.ray.settings import RaySettings

#: where the package is, for the Python processes that are started
SOURCE = str(Path(fairlead.__file__).resolve().parents[1])
_LONGEST_LINE = 1 << 26
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.5, 15.0
_CLOSE_S, _LEAVE_S = 6.0, 1.0
#: of its last words, what an error message repeats
_LAST_LINES = 3
log = logging.getLogger(__name__)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Killed only where it does not leave by itself, since asking a dead one takes its result from whoever waits for it."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _LEAVE_S)
    if process.returncode is None:
        process.kill()
        await process.wait()


class Bridge:
    """`hear` gets everything that it says, and {"event": "lost", "message": …} when it has gone."""

    def __init__(
        self, settings: RaySettings, namespace: str, code: str, folder: str, hear: Callable[[Doc], None]
    ) -> None:
        self._settings = settings
        self._setup = {
            "address": settings.address,
            "namespace": namespace,
            "poll_s": settings.poll_s,
            "code": code,
        }
        self._hear = hear
        self._errors = os.path.join(folder, "bridge.log")
        self._process: asyncio.subprocess.Process | None = None
        self._task = asyncio.get_running_loop().create_task(self._keep())
        self._is_closing = False
        self.connected = False
        self.trouble = ""

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def tell(self, **message: object) -> bool:
        """False where nobody hears it: whoever told it tells it again when there is a connection."""
        if not self.connected or self._process is None or self._process.stdin is None:
            return False
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        return True

    async def close(self) -> None:
        """What was told last is still done."""
        self._is_closing = True
        if self._process and self._process.stdin and self.connected:
            self._process.stdin.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), _CLOSE_S)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _keep(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._is_closing:  # a cancellation can get lost where what it interrupts is just done
            try:
                was_connected = await self._once()
                trouble = self._last_words()
            except Exception as error:  # a full disk, no room for a process, a word that we can't make sense of
                log.exception("the process that talks to Ray is started again")
                was_connected, trouble = False, str(error)
            self.connected = False
            if self._is_closing:
                return
            self.trouble = trouble
            self._hear({"event": "lost", "message": self.trouble})
            pause_s = _FIRST_PAUSE_S if was_connected else min(pause_s * 2, _LAST_PAUSE_S)
            await asyncio.sleep(pause_s)

    async def _once(self) -> bool:
        """Until it ends; whether it was connected."""
        with open(self._errors, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as errors:
            process = await asyncio.create_subprocess_exec(
                self._settings.python,
                "-m",
                "fairlead.backends.ray.bridge_main",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                limit=_LONGEST_LINE,
                start_new_session=True,
                env=self._environment(),
            )
        self._process = process
        assert process.stdin
        assert process.stdout
        was_connected = False
        try:
            process.stdin.write(json.dumps(self._setup).encode() + b"\n")
            while line := await process.stdout.readline():
                message = json.loads(line)
                if message["event"] == "connected":
                    was_connected = self.connected = True
                    self.trouble = ""
                self._hear(message)
        except ConnectionError:
            pass
        finally:
            self._process = None
            self.connected = False
            await _end(process)
        return was_connected

    def _environment(self) -> dict[str, str]:
        """Ours, since Ray is set up by variables; with this package, wherever that Python has its own."""
        path = os.environ.get("PYTHONPATH", "")
        env = {**os.environ, "PYTHONPATH": f"{SOURCE}:{path}" if path else SOURCE}
        if self._settings.address.startswith("127."):  # else Ray takes it for this machine's other address
            env["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        return env

    def _last_words(self) -> str:
        with contextlib.suppress(OSError), open(self._errors, encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file.read()[-4000:].splitlines() if line.strip()]
            return " ".join(lines[-_LAST_LINES:])[:500]
        return ""
