"""What a file is, by what it begins with; its name says nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fairlead.model.errors import InputError
from fairlead.workload.readers.registry import FORMATS, Format, get_format
from fairlead.workload.readers.source import head
from fairlead.workload.readers.table import header_names, is_parquet

#: cluster inventories that people hand over as a trace
_INVENTORIES = (
    {"sn", "cpu_milli", "gpu"},
    {"machine", "cap_cpu", "cap_gpu"},
    {"machineId", "number of GPUs"},
    {"ip", "DSW", "PSW"},
    {"date", "total"},
)


@dataclass(frozen=True, slots=True)
class Found:
    """A format, and which of its tables the file is where it has several."""

    format: Format
    table: str = ""


def detect(path: Path, only: str | None = None) -> Found:
    """The file's format; with `only`, which of that format's tables it is."""
    data = b"" if is_parquet(path) else head(path)
    if only is not None:
        form = get_format(only)
        if form.table_of is None:
            return Found(form)
        row = first_row(path, data)
        table = form.table_of(row)
        if table is None:
            raise InputError(
                f"this is no table of {only}", file=str(path), value=",".join(row)[:80], accepts=form.about
            )
        return Found(form, table)
    for form in FORMATS.values():
        if form.looks_like is not None and data and form.looks_like(data):
            return Found(form)
    row = first_row(path, data)
    for form in FORMATS.values():
        if form.table is not None and set(form.table.required) <= set(row):
            return Found(form)
        if form.table_of is not None and (table := form.table_of(row)):
            return Found(form, table)
    return _nearest(path, row)


def first_row(path: Path, data: bytes) -> tuple[str, ...]:
    """The first line that is no comment, in fields."""
    if not data:
        from fairlead.workload.readers.parquet import column_names

        return column_names(path)
    for raw in data.split(b"\n"):
        if raw.strip() and not raw.startswith(b"#"):
            return header_names(raw)
    raise InputError("the file has no header and no rows", file=str(path))


def _nearest(path: Path, row: tuple[str, ...]) -> Found:
    """With most columns of some format, leave it to that format to say what is missing."""
    names = set(row)
    if any(inventory <= names for inventory in _INVENTORIES):
        raise InputError(
            "this is a list of machines, not of jobs",
            file=str(path),
            accepts="a trace here, this as the cluster",
        )
    shares = {
        form.name: len(names & set(form.table.required)) / len(form.table.required)
        for form in FORMATS.values()
        if form.table is not None
    }
    best = max(shares, key=lambda name: shares[name])
    if shares[best] >= 0.5:
        return Found(FORMATS[best])
    raise InputError(
        "this is none of the trace formats known here",
        file=str(path),
        line=1,
        value=",".join(row)[:80],
        accepts="; ".join(f"{form.name} ({form.about})" for form in FORMATS.values()),
    )
