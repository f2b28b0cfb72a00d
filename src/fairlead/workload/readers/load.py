"""The one way in: a path, or several, to a Trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairlead.model.errors import InputError
from fairlead.workload.readers.build import Builder
from fairlead.workload.readers.detect import Found, detect
from fairlead.workload.readers.registry import Format, get_format
from fairlead.workload.readers.report import BadRow, Report
from fairlead.workload.readers.table import Pass, read_jobs
from fairlead.workload.trace import Trace


@dataclass(frozen=True)
class Loaded:
    """A trace and what became of the rows that are not in it."""

    trace: Trace
    format: str
    bad: list[BadRow]  #: the first hundred
    bad_count: int  #: all of them
    dropped: dict[str, int]  #: rows that are right but left out, by reason
    shift_s: float  #: what was taken off the file's times so that the first submission is at 0


def load_trace(
    path: str | Path | Sequence[str | Path],
    *,
    format: str | None = None,
    skip_bad: bool = False,
    limit: int | None = None,
) -> Loaded:
    """Read a trace; its format is found out from its content unless `format` names it.

    Several paths, or a folder, are one trace: the tables of a format that has several, or parts to be joined.
    `limit` keeps the first jobs in the order of the file. A row that can't be used raises InputError, or is
    counted and listed with `skip_bad`.
    """
    if format is not None:
        get_format(format)
    if limit is not None and limit < 1:
        raise InputError("the limit is too small", value=limit, accepts="1 or more")
    given = [path] if isinstance(path, str | Path) else list(path)
    if not given:
        raise InputError("no trace file was given", accepts="a path")
    found = [(file, kind) for one in given for file, kind in _files(Path(one), format)]
    form = _one_format(found)
    load = Pass(Report(skip_bad), Builder(), limit, [])
    _read(form, found, load)
    return _loaded(form, " + ".join(str(one) for one in given), load)


def _files(path: Path, format: str | None) -> list[tuple[Path, Found]]:
    """The file, or what is a trace among the files of a folder."""
    if not path.is_dir():
        return [(path, detect(path, format))]
    found: list[tuple[Path, Found]] = []
    for file in sorted(path.iterdir()):
        if file.is_file() and not file.name.startswith("."):
            try:
                found.append((file, detect(file, format)))
            except InputError:
                continue  # a folder also has read-mes, machine lists and usage tables
    if not found:
        raise InputError("no file in this folder is a trace", file=str(path), accepts="a trace file")
    if len(found) > 1 and found[0][1].format.table_of is None:
        names = ", ".join(file.name for file, _ in found)
        raise InputError(f"several files in this folder are traces: {names}", file=str(path), accepts="one of them")
    return found


def _one_format(found: list[tuple[Path, Found]]) -> Format:
    first, kind = found[0]
    for file, other in found[1:]:
        if other.format.name != kind.format.name:
            raise InputError(
                f"this is {other.format.name}, but {first.name} is {kind.format.name}",
                file=str(file),
                accepts="files of one format",
            )
    return kind.format


def _read(form: Format, found: list[tuple[Path, Found]], load: Pass) -> None:
    if form.read_tables is not None:
        tables: dict[str, Path] = {}
        for file, kind in found:
            if kind.table in tables:
                raise InputError(
                    f"this is a {kind.table} table, and so is {tables[kind.table].name}",
                    file=str(file),
                    accepts="one file of each table",
                )
            tables[kind.table] = file
        form.read_tables(tables, load)
    elif form.read is not None:
        form.read([file for file, _ in found], load)
    else:
        assert form.table is not None
        assert form.convert is not None
        for file, _ in found:
            if not load.full:
                read_jobs(file, form.table, form.convert, load)


def _loaded(form: Format, source: str, load: Pass) -> Loaded:
    report = load.report
    if not load.builder.rows:
        reasons = [f"{count} {reason}" for reason, count in report.dropped.items()]
        if report.bad_count:
            reasons.append(f"{report.bad_count} could not be read")
        why = f" that can be run ({', '.join(reasons)})" if reasons else ""
        first = report.bad[0] if report.bad else None
        raise InputError(
            f"the trace has no jobs{why}",
            file=source,
            line=first.line if first else None,
            accepts="at least one job",
        )
    unused = {f"column {name!r} is not used" for name in form.unused}
    notes = [note for note in load.notes if note not in unused] + list(form.notes)
    notes += [f"left out {count} jobs: {reason}" for reason, count in report.dropped.items()]
    if report.bad_count:
        notes.append(f"skipped {report.bad_count} bad rows")
    trace, shift_s = load.builder.trace(origin=load.origin, dated=form.dated, source=source, notes=notes)
    if load.limit is not None and len(trace) > load.limit:
        raise AssertionError("a reader went past the limit")
    return Loaded(trace, form.name, report.bad, report.bad_count, report.dropped, shift_s)
