"""Jobs that people gave to Slurm themselves, into the partition that is handed to us. Their scripts are not ours to change.

The partition they submit to is DOWN: Slurm takes jobs there and starts none, so nothing can start before we have seen it. Releasing
one moves it into the partition beside it, pinned to the nodes that were chosen, in one request. To suspend it is to requeue it held:
it has left its GPUs, stands in the queue as the same job, and its next release says that it may start now, since Slurm makes
requeued jobs wait for two minutes.

Fencing. Where a node fails Slurm puts the job back into its queue by itself, still pinned to the very nodes it ran on, two minutes in
the future. It is held there at once, and only called lost when those nodes have come back: by then Slurm has ended what was left
on them. So it can't run anywhere else while an unreachable node may still run it. One that is merely drained has not failed: Slurm
drains a node that could not launch a job, too.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Container, Iterable, Mapping

from fairlead.backends.slurm import parse, runfiles
from fairlead.backends.slurm.arrivals import arrival, foreign_name, refusal
from fairlead.backends.slurm.chores import Chores
from fairlead.backends.slurm.inventory import Site, answers
from fairlead.backends.slurm.rows import ACTIVE, NODE_LOST, Row
from fairlead.backends.slurm.runs import Run
from fairlead.model.errors import InputError
from fairlead.runtime.protocols import Report, ReportKind, Suspension

log = logging.getLogger(__name__)
WAITING, ORDERED, DECLINED, CANCELLED = "waiting", "ordered", "declined", "cancelled"
_TABLE = "arrivals.json"
_TRIES = 4
#: what an administrator says in a down node's reason: nothing runs there any more, it was reset or switched off
FENCED = "fenced"
#: how long a node must have been back before what ran there is surely gone
BACK_S = 5.0
#: after so long Slurm is asked again to cancel a job that it should have cancelled
AGAIN_S = 5.0
#: what a released job waits for while Slurm gets to it; anything else, for so long, and its GPUs are better given to others
_SOON = ("", "Priority", "Resources", "BeginTime")
ODD_S = 60.0
_BY_OWNER = "JobHeldUser"


class Guests:
    def __init__(self, path: str, site: Site, chores: Chores, emit: Callable[[Report], None]) -> None:
        self._path, self._site, self._chores, self._emit = path, site, chores, emit
        self._table: dict[str, dict[str, str]] = {}  #: by the name we gave it: its number in Slurm, and how it stands
        self._by_id: dict[str, str] = {}
        self._is_saved = True
        self._announced: set[str] = set()
        self._back_s: dict[tuple[str, int], float] = {}

    def load(self, runs: Iterable[Run]) -> None:
        folder = runfiles.open_dir(self._path)
        try:
            doc = runfiles.get(folder, _TABLE) or {}
        finally:
            os.close(folder)
        self._table = {str(name): dict(entry) for name, entry in doc.items()}
        for run in runs:
            if run.foreign and not run.is_over:
                self._table[run.foreign] = {"id": _number(run.foreign), "state": ORDERED}
        self._by_id = {entry["id"]: name for name, entry in self._table.items()}

    def _save(self) -> None:
        """Where the disk is full the next look tries again: all of it can be found out anew, from the runs and from Slurm."""
        self._is_saved = False
        try:
            folder = runfiles.open_dir(self._path)
            try:
                runfiles.put(folder, _TABLE, self._table)
            finally:
                os.close(folder)
        except OSError as error:
            log.warning("what is known of Slurm's own jobs could not be written down: %s", error)
        else:
            self._is_saved = True

    def _put(self, foreign: str, number: str, state: str) -> None:
        held = {"held": "here"} if "held" in self._table.get(foreign, {}) else {}
        self._table[foreign] = {"id": number, "state": state} | held
        self._by_id[number] = foreign

    # -- those that wait -----------------------------------------------------------------------------------------------

    def has_news(self, rows: Mapping[str, Row]) -> bool:
        return self._site.adopts and any(self._is_new(row) for row in rows.values())

    def look(self, rows: Mapping[str, Row], excluded: Mapping[str, str], own: Container[str]) -> None:
        """Who has come, who has gone. `excluded`: by job the nodes it must not have; `own`: the numbers of fairlead's own jobs."""
        if not self._site.adopts:
            return
        news = [row for row in rows.values() if self._is_new(row)]
        gone = [name for name, entry in self._table.items() if self._has_gone(name, entry, rows)]
        refused = {}
        for row in news:
            name = foreign_name(self._site, row)
            self._put(name, row.id, WAITING)
            refused[name] = refusal(row, excluded.get(row.id, ""))
        for name in gone:
            del self._by_id[self._table.pop(name)["id"]]
        if news or gone or not self._is_saved:
            self._save()
        for name in gone:
            self._announced.discard(name)
            self._emit(Report(ReportKind.WITHDRAWN, time.time(), foreign=name, message="it was cancelled in Slurm"))
        for name, why in refused.items():
            if why:
                self.decline(name, why, False)
        for name, entry in list(self._table.items()):
            there = rows.get(entry["id"])
            if there is None:
                continue
            if entry["state"] == CANCELLED:
                self._chores.cancel(entry["id"])
            elif entry["state"] != DECLINED and name not in self._announced:
                self._announce(name, there)
        self._send_back(rows, own)

    def _is_new(self, row: Row) -> bool:
        """Waiting for nothing but us: not held by its owner, not for another job, not for a time to come."""
        return (
            row.state == "PENDING"
            and self._site.partition in row["partition"].split(",")
            and row.id not in self._by_id
            and not row.is_held
            and not row["dependency"]
            and (row.time_s("eligible") or 0.0) <= time.time() + 1
        )

    def _has_gone(self, name: str, entry: Mapping[str, str], rows: Mapping[str, Row]) -> bool:
        if entry["state"] == ORDERED:
            return False
        row = rows.get(entry["id"])
        if row is None or row.is_terminal:
            return True
        # its number may be another job's by now, which nobody has cancelled; one that we have requeued was submitted anew by that
        return entry["state"] == CANCELLED and "held" not in entry and foreign_name(self._site, row) != name

    def _announce(self, foreign: str, row: Row) -> None:
        self._announced.add(foreign)
        try:
            found = arrival(self._site, row, foreign)
        except InputError as error:
            self.decline(foreign, str(error), False)
            return
        self._emit(Report(ReportKind.APPEARED, time.time(), foreign=foreign, arrival=found))

    def _send_back(self, rows: Mapping[str, Row], own: Container[str]) -> None:
        """Whoever submitted past us, into the partition where jobs run, or moved a job there, comes to wait like everybody. We go
        by what we have ordered: a comment is its owner's to write."""
        ordered = {entry["id"] for entry in self._table.values() if entry["state"] == ORDERED}
        for row in rows.values():
            if (
                row.state == "PENDING"
                and self._site.runs_in in row["partition"].split(",")
                and not row.is_held
                and row.id not in ordered
                and row.id.partition("+")[0] not in own
            ):
                self._chores.line(f"update JobId={row.id} Partition={self._site.partition}")

    def decline(self, foreign: str, why: str, cancel: bool) -> None:
        entry = self._table.get(foreign, {"id": _number(foreign), "state": WAITING})
        if entry["state"] == ORDERED:
            return
        if cancel:  # written down: Slurm is asked until it has done it
            self._put(foreign, entry["id"], CANCELLED)
            self._save()
            self._chores.cancel(entry["id"])
            return
        self._put(foreign, entry["id"], DECLINED)
        self._save()
        plain = "".join(c if c.isprintable() and c not in "\"'\\" else " " for c in why)[:400]
        self._chores.line(f'update JobId={entry["id"]} Comment="fairlead: not released: {plain}"')

    # -- those that run ------------------------------------------------------------------------------------------------

    def notes(self, foreign: str, rows: Mapping[str, Row]) -> runfiles.Doc:
        """What is written down with a run of it. How often Slurm has started it tells a later start from this one."""
        entry = self._table.get(foreign)
        number = entry["id"] if entry else _number(foreign)
        row = rows.get(number)
        doc: runfiles.Doc = {"slurm_id": number, "held_here": bool(entry and entry.get("held"))}
        return doc | ({} if row is None else {"restarts": row.count("restarts")})

    def order(self, run: Run, row: Row | None) -> None:
        self._put(run.foreign, run.slurm_id, ORDERED)
        self._save()
        if row is None or not self._is_its_owners_hold(run, row):
            self._release(run)

    @staticmethod
    def _is_its_owners_hold(run: Run, row: Row) -> bool:
        """Rather than ours: Slurm gives the same reason for one that we have requeued held."""
        return row.is_held and row["reason"] == _BY_OWNER and (run.was_free or not run.notes.get("held_here"))

    def _release(self, run: Run) -> None:
        nodes = run.nodes
        self._chores.line(
            f"update JobId={run.slurm_id} Partition={self._site.runs_in} ReqNodeList={','.join(nodes)} "
            f"NumNodes={len(nodes)}-{len(nodes)} StartTime=now AdminComment={os.path.basename(run.path)}"
        )
        self._chores.line(f"release {run.slurm_id}")

    def ask(self, run: Run, row: Row | None) -> None:
        if run.asked == runfiles.STOP:
            self._chores.cancel(run.slurm_id)
        elif row is None or row.state not in ACTIVE:
            self._chores.line(f"hold {run.slurm_id}")
        elif run.order["methods"][0] == Suspension.CHECKPOINT:
            run.note(checkpoint=True)
            self._chores.signal(signal.Signals(run.order["checkpoint_signal"]).name[3:], run.slurm_id)
        else:
            self._requeue(run)

    def _requeue(self, run: Run) -> None:
        self._chores.line(f"requeuehold {run.slurm_id}")

    def judge(self, run: Run, row: Row | None, down: Mapping[str, str]) -> Report | None:
        if row is None:
            if run.asked == runfiles.STOP:
                return run.report(ReportKind.ENDED, time_s=time.time(), signal=signal.SIGTERM, message="it is gone")
            kind = ReportKind.LOST if run.told else ReportKind.FAILED_TO_START
            return run.report(kind, time_s=time.time(), message="Slurm knows nothing of it any more")
        if row.state == "PENDING":
            return self._waits(run, row, down)
        if row.is_terminal:
            return self._has_ended(run, row)
        return self._runs(run, row)

    def _waits(self, run: Run, row: Row, down: Mapping[str, str]) -> Report | None:
        if run.asked == runfiles.STOP:
            self._chores.cancel(run.slurm_id)
            return None
        has_run = bool(run.told) or row.count("restarts") > int(run.notes.get("restarts", row.count("restarts")))
        if run.asked or has_run:
            if not row.is_held:
                self._chores.line(f"hold {run.slurm_id}")
                return None
            if run.asked:
                left = bool(run.notes.get("checkpoint")) and not run.notes.get("forced")
                method = Suspension.CHECKPOINT if left else Suspension.REQUEUE
                return run.report(ReportKind.SUSPENDED, time_s=time.time(), method=method)
            return self._after_failure(run, down)
        if "restarts" not in run.notes:
            run.note(restarts=row.count("restarts"))
        return self._not_begun(run, row, down)

    def _not_begun(self, run: Run, row: Row, down: Mapping[str, str]) -> Report | None:
        """It was ordered, and Slurm has not started it yet."""
        if self._is_its_owners_hold(run, row):
            run.is_held_by_owner = True
            return self._later(run, "its owner holds it in Slurm")
        if run.given_up and row.is_held:
            return self._later(run, run.given_up)
        if row.is_held or row["partition"] != self._site.runs_in:
            run.tries += 1
            if run.tries > _TRIES:
                return self._later(run, f"Slurm did not release it: {row['reason']}")
            self._release(run)
            return None
        run.was_free = True
        run.given_up = run.given_up or self._why_not(run, row, down)
        if run.given_up:
            self._chores.line(f"hold {run.slurm_id}")
        return None

    @staticmethod
    def _later(run: Run, why: str) -> Report:
        return run.report(ReportKind.FAILED_TO_START, time_s=time.time(), message=why, retry=True)

    @staticmethod
    def _why_not(run: Run, row: Row, down: Mapping[str, str]) -> str:
        """Why Slurm won't start it where it is to, "" where it may yet."""
        closed = "; ".join(f"{node} is {why}" for node in run.nodes if (why := down.get(node)))
        if closed:
            return f"its node takes no jobs: {closed}"
        if row["reason"] in _SOON:
            run.odd_s = None
            return ""
        now_s = time.monotonic()
        run.odd_s = run.odd_s or now_s
        return f"Slurm does not start it: {row['reason']}" if now_s - run.odd_s > ODD_S else ""

    def _after_failure(self, run: Run, down: Mapping[str, str]) -> Report | None:
        """Slurm has it in its queue again, and nobody here asked for that: a node failed, or could not launch it and was drained for
        that, or somebody has requeued it."""
        now_s = time.monotonic()
        reasons = [why for node in run.nodes if (why := down.get(node, "")) and not answers(why)]
        if reasons and not run.notes.get("node_lost"):
            run.note(node_lost=True)
        if any(FENCED not in why for why in reasons):
            self._back_s[run.key] = now_s
            return None
        if now_s - self._back_s.setdefault(run.key, now_s) < BACK_S:
            return None
        if run.notes.get("node_lost"):
            what = "its node failed, and was fenced" if reasons else "its node failed, and is back"
            return run.report(ReportKind.LOST, time_s=time.time(), message=what)
        return run.report(
            ReportKind.SUSPENDED, time_s=time.time(), method=Suspension.REQUEUE, message="it was requeued in Slurm"
        )

    def _runs(self, run: Run, row: Row) -> Report | None:
        run.given_up = ""
        if row.state == "RUNNING" and row["nodes"] and set(parse.hosts(row["nodes"])) != set(run.nodes):
            # somebody has changed it between its release and its start: those GPUs are others' by our books
            if run.order["methods"]:
                self._requeue(run)
            else:
                self._chores.cancel(run.slurm_id)
            return None
        since_s = time.monotonic() - run.asked_s
        if run.asked == runfiles.STOP and since_s > AGAIN_S:
            self._chores.cancel(run.slurm_id)
        if run.asked == runfiles.SUSPEND:
            late = since_s > float(run.order["grace_s"])
            if not run.notes.get("checkpoint"):
                self.ask(run, row)  # it had not begun when it was asked
            elif late and not run.notes.get("forced"):
                run.note(forced=True)
            if run.notes.get("forced"):
                self._requeue(run)
        if row.state != "RUNNING":
            return None
        if "started_s" not in run.notes:  # one that is opened later must know: what has run may run still
            run.note(started_s=row.time_s("start") or time.time())
        return run.report(ReportKind.STARTED, time_s=run.notes["started_s"])

    def _has_ended(self, run: Run, row: Row) -> Report | None:
        at_s = row.time_s("end") or time.time()
        if not run.told and row.time_s("start") and row["nodes"]:
            run.notes["started_s"] = row.time_s("start")  # written down with its result
        if run.asked == runfiles.SUSPEND and run.notes.get("checkpoint") and row.state != "CANCELLED":
            run.tries += 1
            if run.tries <= _TRIES:
                self._requeue(run)
                return None
        if row.state in NODE_LOST:  # one that its owner does not want requeued
            return run.report(ReportKind.LOST, time_s=at_s, message=f"its node failed ({row.state.lower()} in Slurm)")
        code, signum = row.ending
        said = {
            "CANCELLED": "it was cancelled in Slurm (scancel)",
            "TIMEOUT": "it reached Slurm's time limit",
            "OUT_OF_MEMORY": "Slurm ended it for want of memory",
        }.get(row.state, "")
        if said and not code and not signum:
            code, signum = None, signal.SIGTERM
        return run.report(ReportKind.ENDED, time_s=at_s, exit_code=code, signal=signum, message=said)

    def concluded(self, run: Run, report: Report) -> None:
        self._back_s.pop(run.key, None)
        comes_back = report.kind in (ReportKind.SUSPENDED, ReportKind.LOST) or report.retry
        if report.kind == ReportKind.LOST and not run.order["methods"]:
            comes_back = False
        if comes_back:
            self._put(run.foreign, run.slurm_id, WAITING)
            self._table[run.foreign]["held"] = "here"
            if run.is_held_by_owner:
                del self._table[run.foreign]["held"]
        elif run.foreign in self._table:
            # its number stays known as long as Slurm may show it; the next look drops it quietly
            del self._by_id[self._table.pop(run.foreign)["id"]]
        self._save()


def _number(foreign: str) -> str:
    return foreign.split(":")[2]
