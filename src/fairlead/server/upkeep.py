"""What a scheduler that runs for months throws away: old jobs, old output. Now and then, a little at a time."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Container
from pathlib import Path

from fairlead.server.auth import Tokens
from fairlead.server.config import Config
from fairlead.server.scheduler import Scheduler
from fairlead.server.store import StoreError

log = logging.getLogger(__name__)
EVERY_S = 600.0


async def keep_up(scheduler: Scheduler, tokens: Tokens, config: Config, every_s: float = EVERY_S) -> None:
    """For as long as the scheduler runs. Trouble is told and tried again: nothing else waits for this."""
    while True:
        try:
            await asyncio.to_thread(tidy, scheduler, tokens, config)
        except (StoreError, OSError) as error:
            log.warning("old jobs and logs could not be removed: %s", error)
        await asyncio.sleep(every_s)


def tidy(scheduler: Scheduler, tokens: Tokens, config: Config) -> None:
    now = scheduler.now()
    tokens.flush()
    pruned = scheduler.store.prune(before_s=now - config.job_retention, keep=config.job_keep)
    if pruned.jobs:
        log.info("forgot %d jobs that ended long ago", pruned.jobs)
    gone = remove_logs(config.logs, scheduler.jobs, lambda at: at < now - config.log_retention)
    if gone:
        log.info("removed the output of %d jobs", gone)


def remove_logs(folder: Path, live: Container[str], is_old: Callable[[float], bool]) -> int:
    """The output of jobs that have ended and written nothing for a long time; how many jobs that were."""
    try:
        found = [entry for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return 0
    gone = 0
    for entry in found:
        if entry.name in live:
            continue
        times = [one.stat(follow_symlinks=False).st_mtime for one in os.scandir(entry.path)]
        if is_old(max(times, default=entry.stat(follow_symlinks=False).st_mtime)):
            shutil.rmtree(entry.path, ignore_errors=True)
            gone += 1
    return gone
