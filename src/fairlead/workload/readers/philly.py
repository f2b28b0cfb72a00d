"""Microsoft Philly `cluster_job_log` (Jeon et al., ATC'19): one JSON list, decoded job by job."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from fairlead.model.errors import InputError
from fairlead.workload.readers.block import NameTable
from fairlead.workload.readers.report import BadRow
from fairlead.workload.readers.source import open_bytes, read_chunk
from fairlead.workload.readers.strings import PackedStrings
from fairlead.workload.readers.table import Pass
from fairlead.workload.readers.values import NOTHING, STATUS_WORDS, TIME
from fairlead.workload.trace import Names

NOTES = ("a job's duration is the sum of its attempts; the gaps between them are not counted",)
_CHUNK_BYTES = 1 << 20
_FLUSH_JOBS = 1 << 16


def looks_like(data: bytes) -> bool:
    return data.lstrip()[:1] == b"[" and b'"attempts"' in data


def read(paths: list[Path], load: Pass) -> None:
    for path in paths:
        if load.full:
            return
        jobs = _Jobs(str(path), load)
        try:
            for line, entry in entries(path):
                jobs.add(line, entry)
                if load.limit is not None and load.builder.rows + len(jobs.gpus) >= load.limit:
                    break
        except InputError as error:
            if error.line is None or not load.report.skip_bad:
                raise
            load.report.add_bad([BadRow(str(path), error.line, None, None, error.what, error.accepts or "")])
        jobs.flush()


def entries(path: Path) -> Iterator[tuple[int, Any]]:
    """The elements of the list with the line each begins on; what is decoded is let go."""
    with open_bytes(path) as file:
        text = _Text(file, path)
        if text.sign() != "[":
            raise text.broken("a list of jobs")
        text.skip(1)
        if text.sign() == "]":
            return
        while True:
            yield text.element()
            sign = text.sign()
            text.skip(1)
            if sign == "]":
                return
            if sign != ",":
                text.skip(-1)
                raise text.broken("a comma or the end of the list")


class _Text:
    """A window on the file, which moves forward; `line` is where it stands."""

    _space = re.compile(r"[\ufeff \t\r\n]*")
    _decode = json.JSONDecoder().raw_decode

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self.file, self.path = file, path
        self.text, self.at, self.line = "", 0, 1
        self.ended = False
        self._utf8 = codecs.getincrementaldecoder("utf-8")()

    def skip(self, count: int) -> None:
        self.at += count

    def sign(self) -> str:
        """The next character that is not white space; empty at the end of the file."""
        while True:
            found = self._space.match(self.text, self.at)
            end = found.end() if found else self.at
            self._pass(end)
            if end < len(self.text) or not self._more():
                return self.text[end : end + 1]

    def element(self) -> tuple[int, Any]:
        self.sign()
        while True:
            try:
                value, end = self._decode(self.text, self.at)
            except json.JSONDecodeError as error:
                if self._more():
                    continue
                line = self.line + self.text.count("\n", self.at, error.pos)
                raise _syntax(self.path, line, self.text[error.pos :], "JSON", error.msg) from None
            line = self.line
            self._pass(end)
            return line, value

    def broken(self, accepts: str) -> InputError:
        if self.at >= len(self.text):
            return InputError("the list has no end", file=str(self.path), line=self.line, accepts="a whole file")
        return _syntax(self.path, self.line, self.text[self.at :], accepts)

    def _pass(self, end: int) -> None:
        self.line += self.text.count("\n", self.at, end)
        self.at = end

    def _more(self) -> bool:
        """Read on, letting go of what has been passed. A job longer than a chunk doubles what is read."""
        if self.ended:
            return False
        left = self.text[self.at :]
        raw = read_chunk(self.file, self.path, max(_CHUNK_BYTES, len(left)), self.line)
        self.ended = not raw
        try:
            self.text, self.at = left + self._utf8.decode(raw, final=self.ended), 0
        except UnicodeDecodeError as error:
            line = self.line + left.count("\n") + raw[: error.start].count(b"\n")
            raise InputError("the file is not UTF-8", file=str(self.path), line=line, accepts="UTF-8") from None
        return not self.ended


def _syntax(path: Path, line: int, text: str, accepts: str, why: str = "") -> InputError:
    what = f"the JSON is broken: {why.lower()}" if why else "the JSON is broken"
    return InputError(what, file=str(path), line=line, value=text[:40], accepts=accepts)


class _WrongError(Exception):
    """Where in the job, what is there, why it won't do, what would."""


class _Jobs:
    """Collects jobs as columns."""

    def __init__(self, file: str, load: Pass) -> None:
        self.file, self.load = file, load
        self.tenants, self.users = NameTable(), NameTable()
        self._clear()

    def _clear(self) -> None:
        self.ids: list[str] = []
        self.submit_s: list[float] = []
        self.gpus: list[int] = []
        self.duration_s: list[float] = []
        self.attempts: list[int] = []
        self.status: list[int] = []
        self.tenant: list[int] = []
        self.user: list[int] = []

    def add(self, line: int, entry: Any) -> None:
        try:
            reason = self._take(entry)
        except _WrongError as wrong:
            column, value, why, accepts = wrong.args
            shown = json.dumps(value)[:80]
            self.load.report.add_bad([BadRow(self.file, line, column, shown, why, accepts)])
            return
        if reason:
            self.load.report.add_dropped(reason, 1)
        elif len(self.gpus) >= _FLUSH_JOBS:
            self.flush()

    def _take(self, entry: Any) -> str | None:
        if not isinstance(entry, dict):
            raise _WrongError("", entry, "the element is no job", "an object with jobid, submitted_time and attempts")
        for key in ("jobid", "submitted_time", "attempts", "status"):
            if key not in entry:
                raise _WrongError(key, sorted(entry), "the key is missing", "jobid, status, submitted_time, attempts")
        attempts = entry["attempts"]
        if not isinstance(attempts, list):
            raise _WrongError("attempts", attempts, "this is no list", "a list of attempts")
        submit_s = _time(entry, "submitted_time", "submitted_time")
        if submit_s is None:
            raise _WrongError("submitted_time", entry["submitted_time"], "the time is missing", TIME.accepts)
        gpus, duration_s, ran, last_end = 0, 0.0, 0, None
        for number, attempt in enumerate(attempts):
            where = f"attempts[{number}]"
            if not isinstance(attempt, dict):
                raise _WrongError(where, attempt, "the attempt is no object", "start_time, end_time and detail")
            gpus = gpus or _gpus(attempt, where)
            start_s = _time(attempt, "start_time", f"{where}.start_time")
            last_end = _time(attempt, "end_time", f"{where}.end_time")
            if start_s is not None and last_end is not None:
                if last_end < start_s:
                    raise _WrongError(
                        f"{where}.end_time", attempt["end_time"], "this is before start_time", "a later time"
                    )
                duration_s += last_end - start_s
                ran += 1
        if not attempts or (not ran and last_end is None and _no_start(attempts)):
            return "never started"
        if last_end is None:
            return "still running when the trace ends"
        if not gpus:
            return "lists no GPU"
        if not duration_s:
            return "ran for 0 s"
        self.ids.append(str(entry["jobid"]))
        self.submit_s.append(submit_s)
        self.gpus.append(gpus)
        self.duration_s.append(duration_s)
        self.attempts.append(len(attempts))
        self.status.append(int(STATUS_WORDS.get(str(entry["status"]).lower(), 0)))
        self.tenant.append(self.tenants.code(str(entry.get("vc") or "")))
        self.user.append(self.users.code(str(entry.get("user") or "")))
        return None

    def flush(self) -> None:
        if not self.gpus:
            return
        self.load.builder.add_columns(
            {
                "submit_s": np.array(self.submit_s, np.float64),
                "gpus": np.array(self.gpus, np.int32),
                "duration_s": np.array(self.duration_s, np.float64),
                "attempts": np.array(self.attempts, np.int32),
                "status": np.array(self.status, np.int8),
            },
            {
                "tenant": Names(np.array(self.tenant, np.int32), self.tenants.values),
                "user": Names(np.array(self.user, np.int32), self.users.values),
            },
            PackedStrings.of(self.ids),
        )
        self._clear()


def _no_start(attempts: list[Any]) -> bool:
    return all(attempt.get("start_time") in (None, *NOTHING) for attempt in attempts)


def _gpus(attempt: dict[str, Any], where: str) -> int:
    detail = attempt.get("detail") or []
    if not isinstance(detail, list) or not all(isinstance(part, dict) for part in detail):
        raise _WrongError(f"{where}.detail", detail, "this is no list of machines", "[{ip, gpus: [..]}, ..]")
    lists = [part.get("gpus") or [] for part in detail]
    if not all(isinstance(gpus, list) for gpus in lists):
        raise _WrongError(f"{where}.detail", detail, "gpus is no list", "[{ip, gpus: [..]}, ..]")
    return sum(len(gpus) for gpus in lists)


def _time(holder: dict[str, Any], key: str, where: str) -> float | None:
    value = holder.get(key)
    if value is None or value in NOTHING:
        return None
    try:
        return TIME.parse(value)
    except (ValueError, AttributeError, TypeError):
        raise _WrongError(where, value, "this is not a time", TIME.accepts) from None
