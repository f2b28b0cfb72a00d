"""The process that reads traces and simulates: beside the scheduler, never in it.

It is told its task on its standard input, which stays open: when that ends, so does the process, whatever became of us. What it prints
are lines of JSON: how far it is, and at last what came of it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

#: -P: nothing is imported from the folder that it works in
COMMAND: Sequence[str] = (sys.executable, "-P", "-m", "fairlead.cli.studio_worker")
#: one core at most: the scheduler's own work and people's jobs go first
_ONE_THREAD = ("POLARS_MAX_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_SHOWN = 2000


class WorkerFailed(Exception):
    """`problem` as the API tells it."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(str(problem.get("detail", "")))
        self.problem = problem


async def work(
    task: Mapping[str, Any],
    folder: Path,
    *,
    memory_bytes: int,
    time_s: float,
    tell: Callable[[Mapping[str, Any]], None],
) -> Mapping[str, Any]:
    """What came of the task. Raises WorkerFailed with what was wrong; whoever cancels this ends the process."""
    errors = folder / "errors.txt"
    environment = {**os.environ, **dict.fromkeys(_ONE_THREAD, "1")}
    with errors.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
    try:
        async with asyncio.timeout(time_s):
            return await _listen(process, {**task, "memory_bytes": memory_bytes}, tell, errors)
    except TimeoutError:
        raise WorkerFailed(
            {
                "detail": f"it took longer than the {time_s:g} s that it may",
                "accepts": "fewer jobs or policies, or a larger studio_time",
            }
        ) from None
    finally:
        await _ended(process)


async def _listen(
    process: asyncio.subprocess.Process,
    task: Mapping[str, Any],
    tell: Callable[[Mapping[str, Any]], None],
    errors: Path,
) -> Mapping[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(ConnectionError):  # one that has died already has said nothing, which is told below
        process.stdin.write(json.dumps(task).encode() + b"\n")
        await process.stdin.drain()
    async for line in process.stdout:
        said: dict[str, Any] = json.loads(line)
        if "problem" in said:
            raise WorkerFailed(said["problem"])
        if "done" in said:
            found: Mapping[str, Any] = said["done"]
            return found
        tell(said)
    code = await process.wait()
    log.error("the studio's process ended with %s: %s", code, _tail(errors))
    why = f"it was ended by {_signal(-code)}" if code < 0 else f"it ended with exit code {code}"
    raise WorkerFailed(
        {
            "detail": f"it broke off: {why}",
            "accepts": "fewer jobs or a smaller cluster, where memory was short; the scheduler's log says more",
        }
    )


async def _ended(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    # also where we are being cancelled: nobody else would reap it
    await asyncio.shield(process.wait())


def _tail(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")[-_SHOWN:].strip()
    return ""


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
