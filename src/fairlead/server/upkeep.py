"""What a scheduler does now and then: forget jobs that ended long ago, remove their output, note when tokens were used."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fairlead.server.auth import Tokens
from fairlead.server.config import Config
from fairlead.server.store import Store, StoreError

log = logging.getLogger(__name__)
EVERY_S = 60.0
_ROUNDS = 30  #: of these, one that forgets: every half hour


async def keep_up(
    store: Store, tokens: Tokens, config: Config, now: Callable[[], float], is_live: Callable[[str], bool]
) -> None:
    """Until it is cancelled. What can't be done now is done next time."""
    number = 0
    while True:
        try:
            await asyncio.to_thread(tokens.flush)
            if number % _ROUNDS == 0:
                await asyncio.to_thread(forget, store, config, now(), is_live)
        except (StoreError, OSError) as error:
            log.warning("upkeep is put off: %s", error)
        number += 1
        await asyncio.sleep(EVERY_S)


def forget(store: Store, config: Config, now_s: float, is_live: Callable[[str], bool]) -> None:
    store.prune(before_s=now_s - config.job_retention, keep=config.job_keep)
    remove_logs(config.logs, now_s - config.log_retention, is_live)


def remove_logs(folder: Path, before_s: float, is_live: Callable[[str], bool]) -> int:
    """The output of jobs that last printed before then and have ended; how many."""
    removed = 0
    with suppress(FileNotFoundError):
        for job in folder.iterdir():
            if job.is_dir() and not job.is_symlink() and not is_live(job.name) and _last_change_s(job) < before_s:
                shutil.rmtree(job, ignore_errors=True)
                removed += 1
    return removed


def _last_change_s(folder: Path) -> float:
    times = [folder.lstat().st_mtime]
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            times.append(path.lstat().st_mtime)
    return max(times)
