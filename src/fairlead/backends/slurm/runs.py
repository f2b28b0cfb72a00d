"""One run as the scheduler sees it: its directory, what was noted about it, and what its agents have written."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from dataclasses import dataclass, field
from typing import Any

from fairlead.backends.local.rundir import dir_name
from fairlead.backends.slurm import runfiles
from fairlead.backends.slurm.runfiles import ENDED, FAILED, FENCE, RUNNING, SUSPENDED, Doc
from fairlead.runtime.protocols import Found, Report, ReportKind, Suspension

#: what was asked for, the last word last: a later one may not be taken back by an earlier one
_STRENGTH = ("", runfiles.SUSPEND, runfiles.STOP, FENCE)


@dataclass
class Run:
    job: str
    run: int
    path: str
    order: Doc
    notes: Doc = field(default_factory=dict)
    parts: dict[int, Doc] = field(default_factory=dict)
    is_silent: bool = False  #: adopted, and nobody has asked yet what was found: `found` will tell
    told: str = ""  #: the phase that was reported last
    known_s: float = 0.0  #: since when its Slurm job is known, by the clock that never falls back
    begun_s: float = 0.0  #: since when an agent is known to have it, though Slurm said that it waits
    gone_s: float | None = None  #: since when Slurm has it no more, by the same clock
    looked_s: float = 0.0  #: when its files were last looked at past all caches
    fenced_s: float | None = None
    asked_s: float = 0.0
    tries: int = 0
    was_free: bool = False  #: a user's job: it was seen released
    is_held_by_owner: bool = False
    odd_s: float | None = None  #: since when Slurm has said that it waits for something that we know nothing of
    given_up: str = ""  #: why it is taken back before it has begun
    is_hurried: bool = False  #: asked to be suspended, its agents were told to end
    #: by part what its agent wrote last to say that it is there, and since when that is so
    beats: dict[int, tuple[str, float]] = field(default_factory=dict)
    beats_s: float = 0.0  #: when that was looked at
    is_delivered: bool = False  #: its pilots have it
    trouble: str = ""  #: why it can't be judged at present, as it was logged
    _seen_ns: int = -1

    @property
    def key(self) -> tuple[str, int]:
        return self.job, self.run

    @property
    def slurm_id(self) -> str:
        return str(self.notes.get("slurm_id", ""))

    @property
    def foreign(self) -> str:
        return str(self.order.get("foreign", ""))

    @property
    def asked(self) -> str:
        return str(self.notes.get("asked", ""))

    @property
    def nodes(self) -> list[str]:
        return [part["node"] for part in self.order["parts"]]

    @property
    def is_over(self) -> bool:
        return "result" in self.notes

    # -- files ---------------------------------------------------------------------------------------------------------

    @classmethod
    def create(cls, parent: str, order: Doc, owner: tuple[int, int] | None, notes: Doc) -> Run:
        """With its first notes, all of it or nothing. FileExistsError where this run has been ordered before."""
        job, number = order["job"], order["run"]
        name = dir_name(job, number)
        temporary, final = os.path.join(parent, f".{name}.{os.getpid()}"), os.path.join(parent, name)
        shutil.rmtree(temporary, ignore_errors=True)
        os.mkdir(temporary, 0o711)
        try:
            os.chmod(temporary, 0o711)
            out = os.path.join(temporary, runfiles.OUT)
            os.mkdir(out, 0o700)
            folder = runfiles.open_dir(temporary)
            try:
                runfiles.put(folder, runfiles.ORDER, order, 0o400)
                runfiles.put(folder, runfiles.NOTES, notes)
                runfiles.mark(folder, runfiles.ASK)
                os.chmod(runfiles.ASK, 0o644, dir_fd=folder)
            finally:
                os.close(folder)
            if owner:
                os.chown(out, *owner)
                os.chown(os.path.join(temporary, runfiles.ORDER), *owner)
            if os.path.exists(final):
                raise FileExistsError(final)
            os.rename(temporary, final)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        return cls(job, number, final, order, notes)

    @staticmethod
    def clear_away(path: str) -> None:
        shutil.rmtree(path, ignore_errors=True)

    @classmethod
    def load(cls, path: str) -> Run | None:
        """None where nobody has finished writing it: nothing was done about it either, and the order will be given again."""
        folder = runfiles.open_dir(path)
        try:
            order = runfiles.get(folder, runfiles.ORDER) or {}
            notes = runfiles.get(folder, runfiles.NOTES) or {}
        finally:
            os.close(folder)
        if "job" not in order or "parts" not in order or not notes.keys() & {"slurm_id", "words", "result"}:
            return None
        # how long ago it was asked to leave nobody knows any more: it has its grace period from now on
        return cls(order["job"], order["run"], path, order, notes, is_silent=True, asked_s=time.monotonic())

    def note(self, **what: Any) -> None:
        """Written down before anything is done about it, and before it is believed: where the disk is full nothing has changed,
        and whoever noticed will notice again."""
        notes = self.notes | what
        folder = runfiles.open_dir(self.path)
        try:
            runfiles.put(folder, runfiles.NOTES, notes)
        finally:
            os.close(folder)
        self.notes = notes

    def ask(self, word: str) -> bool:
        """Tell its agents; False where they were told the same or more already. OSError where that is to be tried again."""
        if _STRENGTH.index(word) <= _STRENGTH.index(self.asked):
            return False
        self.write_ask(word)
        self.note(asked=word)
        self.asked_s = time.monotonic()
        return True

    def write_ask(self, word: str) -> None:
        fd = os.open(os.path.join(self.path, runfiles.ASK), os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.write(fd, word.encode())
            os.fsync(fd)
        finally:
            os.close(fd)

    def look_hard(self) -> None:
        """What its agents have written, past what a network filesystem has in its caches: which files a directory has, and has not, is
        asked for anew once we have changed it ourselves."""
        out, name = os.path.join(self.path, runfiles.OUT), f".look-{os.urandom(6).hex()}"
        with contextlib.suppress(OSError):
            folder = runfiles.open_dir(out)
            try:
                runfiles.mark(folder, name)
                os.unlink(name, dir_fd=folder)
            finally:
                os.close(folder)
        self._seen_ns = -1
        self.read()

    def read(self) -> bool:
        """What its agents have written; whether there was news."""
        out = os.path.join(self.path, runfiles.OUT)
        try:
            changed_ns = os.stat(out).st_mtime_ns
            if changed_ns == self._seen_ns and time.time_ns() - changed_ns > 5_000_000_000:
                return False
            folder = runfiles.open_dir(out)
        except OSError:
            return False
        news = False
        try:
            for number in range(len(self.order["parts"])):
                doc = _sane(runfiles.get(folder, runfiles.part(number), runfiles.LARGEST_PART))
                if doc and self._claims_to_be_stopped(doc):
                    continue
                if doc and doc != self.parts.get(number):
                    self.parts[number] = doc
                    news = True
        finally:
            os.close(folder)
        self._seen_ns = changed_ns
        return news

    def _claims_to_be_stopped(self, doc: Doc) -> bool:
        """Where no agent would stop it: it would keep its GPUs while others are given them."""
        is_stopped = (doc["phase"], doc["method"]) == (SUSPENDED, Suspension.STOP)
        return is_stopped and Suspension.STOP not in self.order["methods"]

    def has_begun(self, part: int | None = None) -> bool:
        """Whether an agent has it: that of one part, or of any."""
        return any(
            os.path.lexists(os.path.join(self.path, runfiles.OUT, runfiles.claim(number)))
            for number in (range(len(self.order["parts"])) if part is None else (part,))
        )

    def silent_s(self, now_s: float, every_s: float) -> float:
        """For how long one of its agents that has begun and is not done has said nothing. Looked at no more often than `every_s`."""
        if now_s - self.beats_s >= every_s:
            self.beats_s = now_s
            for number in self.unfinished():
                text = self._beat(number)
                if self.has_begun(number) and text != self.beats.get(number, ("", 0.0))[0]:
                    self.beats[number] = text, now_s
                elif self.has_begun(number):
                    self.beats.setdefault(number, (text, now_s))
        return max((now_s - self.beats[number][1] for number in self.unfinished() if number in self.beats), default=0.0)

    def _beat(self, number: int) -> str:
        with contextlib.suppress(OSError):
            folder = runfiles.open_dir(os.path.join(self.path, runfiles.OUT))
            try:
                return runfiles.get_text(folder, runfiles.beat(number), 100)
            finally:
                os.close(folder)
        return ""

    def remove(self) -> None:
        grave = os.path.join(os.path.dirname(self.path), f".gone-{os.path.basename(self.path)}")
        with contextlib.suppress(OSError):
            os.rename(self.path, grave)
        shutil.rmtree(grave, ignore_errors=True)

    # -- what its agents say -------------------------------------------------------------------------------------------

    @property
    def phase(self) -> str:
        """Of all parts together: "" before all of them run; final once none is left."""
        parts = list(self.parts.values())
        if len(parts) < len(self.order["parts"]):
            return ""
        phases = {part.get("phase") for part in parts}
        if phases <= {ENDED, FAILED} or all(self.is_final(part) for part in parts):
            if FAILED in phases:
                return FAILED
            return SUSPENDED if phases == {SUSPENDED} else ENDED
        if phases == {SUSPENDED}:
            return SUSPENDED
        return RUNNING

    @staticmethod
    def is_final(part: Doc) -> bool:
        """No process of it is left."""
        return part.get("phase") in (ENDED, FAILED) or (
            part.get("phase") == SUSPENDED and part.get("method") != Suspension.STOP
        )

    def unfinished(self) -> list[int]:
        return [n for n in range(len(self.order["parts"])) if n not in self.parts or not self.is_final(self.parts[n])]

    @property
    def was_fenced(self) -> bool:
        return any(part.get("why") == FENCE for part in self.parts.values())

    @property
    def was_ended_from_outside(self) -> bool:
        return any(part.get("why") == "outside" for part in self.parts.values())

    def time_s(self) -> float:
        return max((float(part.get("time_s", 0.0)) for part in self.parts.values()), default=0.0) or time.time()

    def worst(self) -> Doc:
        """The part whose end is the run's: of those that failed the first, before those that were stopped because of it."""
        parts = sorted(
            self.parts.values(),
            key=lambda part: (
                not part.get("failed"),
                part.get("why") in ("rank", "outside", "stop", FENCE),
                float(part.get("time_s", 0.0)),
            ),
        )
        return parts[0] if parts else {}

    def own_report(self) -> Report | None:
        """What the agents' words alone come to; None where that is nothing to report."""
        phase = self.phase
        if phase == RUNNING:
            resumed = any(part.get("continues") is not None for part in self.parts.values())
            kind = ReportKind.RESUMED if resumed else ReportKind.STARTED
            return self.report(kind, method=Suspension.STOP if resumed else None)
        if phase == SUSPENDED:
            methods = {part.get("method") for part in self.parts.values()}
            method = Suspension.REQUEUE if Suspension.REQUEUE in methods else Suspension(str(self.worst()["method"]))
            return self.report(ReportKind.SUSPENDED, method=method, message=self.worst().get("message", ""))
        if phase == FAILED:
            part = next(part for part in self.parts.values() if part.get("phase") == FAILED)
            if part.get("called_off"):
                return self.called_off()
            return self.report(ReportKind.FAILED_TO_START, message=part.get("message", ""))
        if phase == ENDED:
            if self.asked == runfiles.SUSPEND and (
                self.was_ended_from_outside or any(p.get("phase") == SUSPENDED for p in self.parts.values())
            ):  # Slurm had to help; or some had left as they were asked to, and the others ended because of that
                return self.report(ReportKind.SUSPENDED, method=Suspension.REQUEUE, message=self.worst()["message"])
            worst = self.worst()
            return self.report(
                ReportKind.ENDED,
                exit_code=worst.get("exit_code"),
                signal=worst.get("signal"),
                message=worst.get("message", ""),
            )
        return None

    def unseen_start(self) -> Report | None:
        """That it started, where that was so short a time ago that nobody has said it before its end."""
        if self.foreign and not self.told and "started_s" in self.notes:
            return self.report(ReportKind.STARTED, time_s=self.notes["started_s"])
        if self.told or self.phase in ("", FAILED) or not any(part.get("began_s") for part in self.parts.values()):
            return None
        resumed = any(part.get("continues") is not None for part in self.parts.values())
        kind = ReportKind.RESUMED if resumed else ReportKind.STARTED
        return self.report(kind, time_s=max(float(part.get("began_s") or 0.0) for part in self.parts.values()))

    def called_off(self) -> Report:
        """It was to leave before it had come."""
        message = "it was called off before it began"
        if self.asked == runfiles.SUSPEND:
            return self.report(ReportKind.SUSPENDED, method=Suspension.REQUEUE, message=message)
        return self.report(ReportKind.ENDED, signal=signal.SIGTERM, message=message)

    def report(self, kind: ReportKind, **more: Any) -> Report:
        return Report(kind, more.pop("time_s", None) or self.time_s(), self.job, self.run, **more)

    # -- results -------------------------------------------------------------------------------------------------------

    def keep(self, report: Report) -> None:
        """Its end, or its suspension without anything left."""
        doc = {
            "kind": str(report.kind),
            "time_s": report.time_s,
            "exit_code": report.exit_code,
            "signal": report.signal,
        }
        doc |= {"method": str(report.method or ""), "message": report.message, "retry": report.retry}
        self.note(result=doc)

    def result(self) -> Report | None:
        doc = self.notes.get("result")
        if not isinstance(doc, dict):
            return None
        return self.report(
            ReportKind(doc["kind"]),
            time_s=doc["time_s"],
            exit_code=doc["exit_code"],
            signal=doc["signal"],
            method=Suspension(doc["method"]) if doc["method"] else None,
            message=doc["message"],
            retry=doc["retry"],
        )

    def found(self) -> Found:
        report = self.result()
        if report is not None:
            return Found(self.job, self.run, running=False, suspended=report.method, report=report)
        if self.phase == SUSPENDED:
            return Found(self.job, self.run, running=False, suspended=Suspension.STOP, report=self.own_report())
        return Found(self.job, self.run, running=True)


def _words(value: object) -> str:
    """Nothing that a terminal or a database would stumble over."""
    if not isinstance(value, str):
        return ""
    return "".join(c if c.isprintable() else " " for c in value[:2000])


def _sane(doc: Doc | None) -> Doc | None:
    """What an agent says, as far as it makes sense: the file is the user's, who could have written anything there."""
    if not doc or doc.get("phase") not in (RUNNING, SUSPENDED, ENDED, FAILED):
        return None
    clean: Doc = {"phase": doc["phase"]}
    for name, least, most in (("time_s", 0, 1e11), ("began_s", 0, 1e11)):
        value = doc.get(name)
        clean[name] = float(value) if isinstance(value, int | float) and least <= value <= most else 0.0
    for name, most in (("exit_code", 255), ("signal", 64), ("continues", 1 << 31)):
        value = doc.get(name)
        clean[name] = value if isinstance(value, int) and 0 <= value <= most else None
    for name in ("message", "why"):
        clean[name] = _words(doc.get(name))
    for name in ("failed", "called_off"):
        clean[name] = bool(doc.get(name))
    known = doc.get("method") in (Suspension.CHECKPOINT, Suspension.STOP, Suspension.REQUEUE)
    clean["method"] = doc["method"] if known else str(Suspension.REQUEUE)
    return clean
