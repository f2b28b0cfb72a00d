"""Slurm jobs that name a run of ours, and what that makes of them."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Container, Iterable, Mapping

from fairlead.backends.slurm.chores import Chores
from fairlead.backends.slurm.rows import Row
from fairlead.backends.slurm.runs import Run

log = logging.getLogger(__name__)
#: how long a Slurm job may go on after its run's end before it is cancelled
STRAY_S = 10.0


class Matching:
    def __init__(self, instance: str, chores: Chores) -> None:
        self._prefix, self._chores = f"fairlead:{instance}:", chores
        self._strays: dict[str, float] = {}  #: by number those that name a run that is none, and since when

    def look(
        self,
        rows: Mapping[str, Row],
        runs: Iterable[Run],
        submitting: Container[tuple[str, int]],
        learn: Callable[[Run, str], None],
    ) -> None:
        """A run that does not know its number learns it, a second job of a run goes, and so does one whose run is over, or never was
        ours, once it has had the time to end by itself. `submitting`: runs that may have a number that nobody knows yet."""
        by_name = {os.path.basename(run.path): run for run in runs}
        before, self._strays = self._strays, {}
        for row in sorted(rows.values(), key=lambda row: row.count("number")):
            name = row["comment"].removeprefix(self._prefix)
            if name == row["comment"] or row.is_terminal:
                continue
            run = by_name.get(name)
            if run is None or (run.is_over and run.slurm_id == row.id):
                self._stray(row, name, before)
            elif run.key in submitting or run.slurm_id == row.id:
                continue
            elif run.slurm_id or run.is_over:
                self._chores.cancel(row.id)
            else:
                try:
                    learn(run, row.id)
                except OSError as error:  # the next look finds it again
                    log.warning("a job's number could not be written down: %s", error)

    def _stray(self, row: Row, name: str, before: Mapping[str, float]) -> None:
        if name.startswith("pilot:"):
            return
        now_s = time.monotonic()
        self._strays[row.id] = before.get(row.id, now_s)
        if now_s - self._strays[row.id] > STRAY_S and row.state in ("PENDING", "RUNNING"):
            self._chores.cancel(row.id)
