"""The formats by name. Adding one is a file beside this one and an entry here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fairlead.model.suggest import unknown
from fairlead.workload.readers import (
    acme,
    canonical,
    helios,
    helios_slice,
    itp,
    lingjun,
    openb,
    pai,
    philly,
    philly_merged,
)
from fairlead.workload.readers.rows import Rows
from fairlead.workload.readers.table import Pass, Table


@dataclass(frozen=True)
class Format:
    """Either `table` and `convert` (one job a row, any number of files), or a reader of its own."""

    name: str
    about: str
    notes: tuple[str, ...] = ()
    dated: bool = False  #: its times are dates, so the first submission is the origin
    table: Table | None = None
    convert: Callable[[Rows], None] | None = None
    unused: frozenset[str] = frozenset()  #: columns that are known and left out on purpose
    #: which of several tables a first row belongs to; such a format takes one file of each
    table_of: Callable[[tuple[str, ...]], str | None] | None = None
    read_tables: Callable[[dict[str, Path], Pass], None] | None = None
    #: for what is no table at all
    looks_like: Callable[[bytes], bool] | None = None
    read: Callable[[list[Path], Pass], None] | None = None


#: in the order in which they are tried on a file
FORMATS: Mapping[str, Format] = {
    form.name: form
    for form in (
        Format(
            "canonical",
            "fairlead's own CSV or Parquet: job_id, submit_s, gpus, duration_s, ...",
            table=canonical.TABLE,
            convert=canonical.convert,
        ),
        Format(
            "philly",
            "Microsoft Philly cluster_job_log, JSON",
            notes=philly.NOTES,
            dated=True,
            looks_like=philly.looks_like,
            read=philly.read,
        ),
        Format(
            "philly-merged",
            "Microsoft Philly as one CSV: job_id, submit_time, num_gpus, duration_s, vc",
            notes=philly_merged.NOTES,
            dated=True,
            table=philly_merged.TABLE,
            convert=philly_merged.convert,
            unused=philly_merged.UNUSED,
        ),
        Format(
            "helios",
            "SenseTime Helios cluster_log.csv",
            notes=helios.NOTES,
            dated=True,
            table=helios.TABLE,
            convert=helios.convert,
            unused=helios.UNUSED,
        ),
        Format(
            "helios-slice",
            "a slice of Helios with times in microseconds",
            notes=helios_slice.NOTES,
            table=helios_slice.TABLE,
            convert=helios_slice.convert,
            unused=helios_slice.UNUSED,
        ),
        Format(
            "acme",
            "Shanghai AI Lab Acme trace_seren.csv, trace_kalos.csv",
            notes=acme.NOTES,
            dated=True,
            table=acme.TABLE,
            convert=acme.convert,
            unused=acme.UNUSED,
        ),
        Format(
            "openb",
            "Alibaba openb 2023 pod list",
            notes=openb.NOTES,
            table=openb.TABLE,
            convert=openb.convert,
            unused=openb.UNUSED,
        ),
        Format(
            "itp",
            "Microsoft ITP 2021: job_id, submission_time, duration, num_gpu",
            notes=itp.NOTES,
            table=itp.TABLE,
            convert=itp.convert,
            unused=itp.UNUSED,
        ),
        Format(
            "lingjun",
            "Alibaba lingjun 2023 job.csv and worker.csv",
            notes=lingjun.NOTES,
            dated=True,
            table_of=lingjun.table_of,
            read_tables=lingjun.read,
        ),
        Format(
            "pai",
            "Alibaba PAI 2020 job, task, instance and group-tag tables",
            notes=pai.NOTES,
            table_of=pai.table_of,
            read_tables=pai.read,
        ),
    )
}


def format_names() -> tuple[str, ...]:
    return tuple(FORMATS)


def get_format(name: str) -> Format:
    if name not in FORMATS:
        raise unknown("trace format", name, FORMATS)
    return FORMATS[name]
