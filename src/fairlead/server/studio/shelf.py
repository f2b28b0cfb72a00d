"""What the studio keeps, in files: each user's traces and comparisons, a folder for each.

Nothing of it is needed to go on scheduling, so it is not in the store: a folder that is deleted is a trace or a report less.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

_ABOUT = "about.json"
_ID_BYTES = 8


@dataclass(frozen=True)
class KeptTrace:
    id: str
    user: str
    name: str  #: as its owner calls the file
    bytes: int
    made_s: float
    #: what the reader found in it: format, jobs, span_s, gpu_hours, largest_gpus, tenants, notes
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class KeptRun:
    """`state` is queued, running, done, failed or cancelled."""

    id: str
    user: str
    made_s: float
    request: Mapping[str, Any]
    workload: str  #: in words
    cluster: str  #: in words
    names: Sequence[str]  #: of what is compared
    state: str = "queued"
    begun_s: float | None = None
    ended_s: float | None = None
    at: int = 0  #: how many of them are done
    part: float = 0.0  #: of the one that runs
    problem: Mapping[str, Any] | None = None
    results: Sequence[Mapping[str, Any]] = ()

    @property
    def ended(self) -> bool:
        return self.state in ("done", "failed", "cancelled")


T = TypeVar("T", KeptTrace, KeptRun)


class Shelf:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.traces: dict[str, KeptTrace] = {}
        self.runs: dict[str, KeptRun] = {}

    def load(self) -> None:
        """What was left by a scheduler before this one. A comparison that it had not ended will not be ended any more, and an upload
        that it had not finished takes no room any more."""
        for kind in (KeptTrace, KeptRun):
            for folder in sorted(self._folder.glob(f"*/{_kind(kind)}/*")):
                if not (folder / _ABOUT).exists():
                    self.remove_folder(folder)
        self.traces = self._found(KeptTrace)
        self.runs = self._found(KeptRun)
        told = {"detail": "the scheduler was stopped before it had ended", "accepts": "to run it again"}
        for run in list(self.runs.values()):
            if not run.ended:  # not written: the next one sees it as well, and a full disk is no reason not to start
                self.runs[run.id] = replace(run, state="failed", problem=told)

    def _found(self, kind: type[T]) -> dict[str, T]:
        paths = sorted(self._folder.glob(f"*/{_kind(kind)}/*/{_ABOUT}"))
        read = [(path.parent.name, _read(kind, path)) for path in paths]
        return {name: one for name, one in read if one is not None and one.id == name}

    def new_id(self) -> str:
        return secrets.token_hex(_ID_BYTES)

    def folder_of(self, kind: type, user: str, id: str) -> Path:
        """A user's name may hold anything, so its folder is called after a hash of it."""
        whose = hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self._folder / whose / _kind(kind) / id

    def make_folder(self, kind: type, user: str, id: str) -> Path:
        folder = self.folder_of(kind, user, id)
        folder.mkdir(mode=0o700, parents=True)
        return folder

    def data_of(self, trace: KeptTrace) -> Path:
        return self.folder_of(KeptTrace, trace.user, trace.id) / "data"

    def report_of(self, run: KeptRun) -> Path:
        return self.folder_of(KeptRun, run.user, run.id) / "report.html"

    def keep(self, one: KeptTrace | KeptRun) -> None:
        """On disk, whole or as it was before; what can't be written there is not here either."""
        path = self.folder_of(type(one), one.user, one.id) / _ABOUT
        unfinished = path.with_suffix(".new")
        unfinished.write_text(json.dumps(asdict(one)), encoding="utf-8")
        os.replace(unfinished, path)
        if isinstance(one, KeptTrace):
            self.traces[one.id] = one
        else:
            self.runs[one.id] = one

    def remove(self, one: KeptTrace | KeptRun) -> None:
        (self.traces if isinstance(one, KeptTrace) else self.runs).pop(one.id, None)
        self.remove_folder(self.folder_of(type(one), one.user, one.id))

    def remove_folder(self, folder: Path) -> None:
        with suppress(OSError):
            shutil.rmtree(folder)


def _kind(kind: type) -> str:
    return "traces" if kind is KeptTrace else "runs"


def _read(kind: type[T], path: Path) -> T | None:
    """None for what is damaged or of another version: it is as if it were not there."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return kind(**{one.name: data[one.name] for one in fields(kind) if one.name in data})
    except (OSError, ValueError, TypeError):
        return None
