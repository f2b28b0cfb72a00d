from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from fairlead.model.event import EventKind
from fairlead.model.reason import Reason
from fairlead.record import jobs_csv as module
from fairlead.record.jobs_csv import jobs_csv
from fairlead.record.journal import Journal
from fairlead.record.outcome import fold_outcome

from .build import Builder, random_journal


def three_jobs() -> Journal:
    build = Builder()
    done, refused, running = build.job(0, 1, 10), build.job(0.5, 99, 1), build.job(1, 1, 1e6)
    build.start(0.1 + 0.2, done, [0]).row(0.5, EventKind.REFUSE, refused, Reason.TOO_MANY_GPUS)
    return build.start(1, running, [1]).finish(10.25, done).build()


@pytest.mark.parametrize("many", [0, 10**9])
def test_fields_are_empty_where_it_did_not_happen(tmp_path: Path, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MANY", many)
    journal = three_jobs()
    path = tmp_path / "jobs.csv"
    jobs_csv(journal, fold_outcome(journal), ["a", 'b,"c', "d"], path)
    assert path.read_text() == (
        "job_id,submit_s,start_s,finish_s,wait_s,preemptions\n"
        "a,0.0,0.30000000000000004,10.25,0.30000000000000004,0\n"
        '"b,""c",0.5,,,,0\n'
        "d,1.0,1.0,,,0\n"
    )


@pytest.mark.parametrize("many", [0, 10**9])
def test_every_number_reads_back_as_itself(tmp_path: Path, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MANY", many)
    journal = random_journal(3, jobs=40)
    journal.jobs.submit_s[:] += np.linspace(0, 1, 40) ** 7 / 3
    outcome = fold_outcome(journal)
    path = tmp_path / "jobs.csv"
    jobs_csv(journal, outcome, None, path)
    with path.open(newline="") as source:
        rows = list(csv.DictReader(source))
    assert [int(row["job_id"]) for row in rows] == list(range(40))
    assert [float(row["submit_s"]) for row in rows] == journal.jobs.submit_s.tolist()
    assert [float(row["finish_s"] or "nan") for row in rows] == pytest.approx(outcome.finish_s, nan_ok=True, abs=0)
    assert [int(row["preemptions"]) for row in rows] == outcome.preemptions.tolist()
