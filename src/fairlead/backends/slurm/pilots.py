"""Allocations that are held for good, one for each node, in which runs take turns: what time-slicing needs.

Slurm keeps the GPUs of a job that it suspends, so no other job could have them meanwhile. Inside of one allocation nobody has to ask:
runs are its overlapping steps, each is told its GPUs, and one that is stopped leaves them to the next. Its memory stays taken.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import signal
import time
from collections.abc import Mapping, Sequence

from fairlead.backends.orders import LOGIN_PATH, Refused
from fairlead.backends.slurm import judge, runfiles
from fairlead.backends.slurm.commands import Slurm, SlurmError
from fairlead.backends.slurm.inventory import Site
from fairlead.backends.slurm.pilot import ALIVE, INBOX, TAKEN
from fairlead.backends.slurm.rows import Row
from fairlead.backends.slurm.runs import Run
from fairlead.backends.slurm.settings import SlurmSettings
from fairlead.runtime.protocols import Order, Report, ReportKind, Suspension

log = logging.getLogger(__name__)
#: how long a pilot that nobody uses waits for a scheduler to come back
PATIENCE_S = 3600.0
NOT_YET = "fairlead's allocation of it has not begun"


class Pilots:
    def __init__(
        self, path: str, site: Site, settings: SlurmSettings, slurm: Slurm, library: str, instance: str
    ) -> None:
        self._path = os.path.join(path, "pilots")
        self._site, self._settings, self._slurm, self._library = site, settings, slurm, library
        self._prefix = f"fairlead:{instance}:pilot:"
        self.ids: dict[str, str] = {}  #: by node, those that run
        self._asked_s: dict[str, float] = {}

    def folder(self, node: str) -> str:
        return os.path.join(self._path, node)

    # -- runs ----------------------------------------------------------------------------------------------------------

    def notes(self, nodes: Sequence[str], before: Run | None) -> runfiles.Doc:
        """What is written down with a run. `before`: its last one, whose processes it may go on with."""
        doc: runfiles.Doc = {"pilots": {node: self.ids.get(node, "") for node in nodes}}
        doc["slurm_id"] = self.ids.get(nodes[0], "-")
        return doc | ({"continues": before.run} if before is not None and not before.is_over else {})

    def deliver(self, run: Run, before: Run | None) -> None:
        """Into the inboxes of its nodes; or on with the processes that its last run has left there. Raises OSError, and may be
        repeated: whoever has it already is left alone."""
        if "continues" in run.notes:
            if before is not None and not before.is_over and not run.has_begun():
                before.write_ask(f"{runfiles.CONTINUE} {os.path.basename(run.path)}")
        else:
            for number, node in enumerate(run.nodes):
                if not self._has_it(run, number):
                    self._make(node)
                    with open(f"{self.folder(node)}/.new", "w", encoding="utf-8") as file:
                        file.write(f"{run.path}\n{run.order['log']}\n")
                    os.rename(f"{self.folder(node)}/.new", self._entry(run, node, INBOX))
        run.is_delivered = True

    def _entry(self, run: Run, node: str, part: str) -> str:
        return os.path.join(self.folder(node), part, os.path.basename(run.path))

    def _has_it(self, run: Run, number: int) -> bool:
        """Looked for in the order in which a pilot moves it."""
        node = run.nodes[number]
        return any(os.path.lexists(self._entry(run, node, part)) for part in (INBOX, TAKEN)) or run.has_begun(number)

    def _make(self, node: str) -> None:
        for part in (INBOX, TAKEN):
            os.makedirs(os.path.join(self.folder(node), part), 0o700, exist_ok=True)

    def call_off(self, run: Run) -> bool:
        """Whether no pilot had taken it yet."""
        if "continues" in run.notes:
            return False
        run.is_delivered = True
        taken, back = False, []
        for number, node in enumerate(run.nodes):
            try:
                os.rename(self._entry(run, node, INBOX), f"{self.folder(node)}/.off")
                back.append(number)
            except FileNotFoundError:
                taken = taken or self._has_it(run, number)
        if taken:
            self._speak_for(run, back)
        return not taken

    @staticmethod
    def _speak_for(run: Run, parts: Sequence[int]) -> None:
        """Where no agent will ever come, somebody has to say so, or the run would wait for that part's end."""
        folder = runfiles.open_dir(os.path.join(run.path, runfiles.OUT))
        try:
            for number in parts:
                runfiles.mark(folder, runfiles.claim(number), "called off")
                doc = {"phase": runfiles.FAILED, "time_s": time.time(), "called_off": True}
                runfiles.put(folder, runfiles.part(number), doc)
        finally:
            os.close(folder)

    def concluded(self, run: Run) -> None:
        for node in run.nodes:
            for part in (INBOX, TAKEN):
                with contextlib.suppress(OSError):
                    os.unlink(self._entry(run, node, part))

    def judge(self, run: Run, before: Run | None, rows: Mapping[str, Row], rows_s: float) -> Report | None:
        """Lost, where the pilot of one of its nodes is gone, or an agent. `before`: the run whose processes it is to go on with;
        `rows_s`: when Slurm was asked."""
        if "continues" in run.notes and not run.has_begun() and (before is None or before.is_over):
            what = f"run {run.notes['continues']} ended before it could go on"
            return run.report(ReportKind.FAILED_TO_START, time_s=time.time(), message=what)
        ids = run.notes.get("pilots", {})
        gone = []
        for node, number in ids.items():
            row = rows.get(number)
            if number and (row is None or row.is_terminal):
                gone.append(node)
        now_s = time.monotonic()
        what = f"fairlead's allocation of {', '.join(gone)} is gone"
        if not gone and run.was_ended_from_outside and not run.unfinished():
            all_run = all(rows[number].state == "RUNNING" for number in ids.values() if number)
            return self._after_scancel(run, all_run, now_s, rows_s)
        if not gone:
            run.gone_s = None
            lease_s = self._settings.lease_s
            if run.silent_s(now_s, lease_s / 8) < lease_s + judge.MARGIN_S:
                return None
            what = f"one of its agents has not been heard of for {lease_s + judge.MARGIN_S:g} s"
        else:
            run.gone_s = run.gone_s or now_s
            if now_s - run.gone_s < judge.SETTLE_S:
                return None
        if run.has_begun() and run.unfinished():
            judge.fence(run, now_s, what)
            assert run.fenced_s is not None
            if now_s - run.fenced_s < self._settings.lease_s + judge.MARGIN_S:
                return None
        if run.asked == runfiles.SUSPEND:
            return run.report(ReportKind.SUSPENDED, time_s=time.time(), method=Suspension.REQUEUE)
        return run.report(ReportKind.LOST, time_s=time.time(), message=what)

    @staticmethod
    def _after_scancel(run: Run, all_run: bool, now_s: float, rows_s: float) -> Report | None:
        """Its processes were ended, and not by us: of its own, if its pilots still run once Slurm was asked again."""
        run.gone_s = run.gone_s or now_s
        if not all_run or rows_s < run.gone_s or now_s - run.gone_s < judge.SETTLE_S:
            return None
        worst = run.worst()
        code, signum = worst.get("exit_code"), worst.get("signal")
        if not code and not signum:
            code, signum = None, signal.SIGTERM
        said = "its step was cancelled in Slurm (scancel)"
        return run.report(ReportKind.ENDED, exit_code=code, signal=signum, message=said)

    # -- allocations ---------------------------------------------------------------------------------------------------

    def learn(self, rows: Mapping[str, Row]) -> dict[str, str]:
        """Which of them run; by node why it takes no runs yet."""
        self.ids = {}
        for row in rows.values():
            if row["comment"].startswith(self._prefix) and row.state == "RUNNING":
                self.ids[row["comment"][len(self._prefix) :]] = row.id
        return {node: NOT_YET for node in self._site.nodes if node not in self.ids}

    async def keep(self, rows: Mapping[str, Row], down: set[str]) -> None:
        """One for each node that can have one; of two for the same node the later goes."""
        mine = [row for row in rows.values() if row["comment"].startswith(self._prefix) and not row.is_terminal]
        have: set[str] = set()
        for row in sorted(mine, key=lambda row: (row.state == "PENDING", row.count("number"))):
            node = row["comment"][len(self._prefix) :]
            if node in have:
                with contextlib.suppress(SlurmError):
                    await self._slurm.call("scancel", row.id)
            have.add(node)
        for node in self._site.nodes:
            self._make(node)
            alive = os.path.join(self.folder(node), ALIVE)
            with contextlib.suppress(OSError), open(alive, "w", encoding="ascii"):
                os.utime(alive)
            recently = time.monotonic() - self._asked_s.get(node, -1e9) < 2 * self._settings.poll_s
            if node not in have and node not in down and not recently:
                self._asked_s[node] = time.monotonic()
                try:
                    await self._slurm.call(*self._words(node), stdin=self._script(node), patient=True)
                except SlurmError as error:
                    log.warning("node %s can't be allocated: %s", node, error)

    def _words(self, node: str) -> list[str]:
        machine = self._site.nodes[node]
        words = [
            "sbatch",
            "--parsable",
            "--no-requeue",
            "--export=NIL",
            "--chdir=/",
            "--job-name=fairlead-pilot",
            f"--comment={self._prefix}{node}",
            f"--partition={self._site.runs_in}",
            f"--nodelist={node}",
            "--nodes=1",
            "--ntasks=1",
            "--exclusive",
            "--mem=0",
            f"--output={os.path.join(self.folder(node), 'log').replace('%', '%%')}",
            f"--time={self._site.time_limit}",
        ]
        return words + ([f"--gres=gpu:{machine.spec.gpus}"] if machine.spec.gpus else [])

    def _script(self, node: str) -> str:
        return (
            f"#!/bin/bash\nexport PATH=${{PATH:-{LOGIN_PATH}}} PYTHONPATH={shlex.quote(self._library)}\n"
            f"export PYTHONDONTWRITEBYTECODE=1\n"
            f"exec {shlex.quote(self._settings.python)} -s -m fairlead.backends.slurm.pilot "
            f"{shlex.quote(self.folder(node))} {PATIENCE_S:g}\n"
        )


def check_that_it_can_follow(order: Order, before: Run, doc: runfiles.Doc) -> None:
    """A run whose processes are still there: only they can go on, where they are."""
    where, there = ([(part["node"], part["gpus"]) for part in one["parts"]] for one in (doc, before.order))
    if not order.resumes or before.phase != runfiles.SUSPENDED:
        raise Refused(f"run {before.run} of it has not left yet; it must before run {order.run} begins")
    if where != there:
        raise Refused(f"it was stopped on {there} and can't go on on {where}; it can be stopped and started again")
