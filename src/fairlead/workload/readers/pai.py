"""Alibaba PAI 2020 (Weng et al., NSDI'22): headerless tables of jobs, tasks, instances, group tags.

A job is a gang of its tasks' instances. plan_gpu and plan_cpu are per instance and in percent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fairlead.model.errors import InputError
from fairlead.workload.readers.block import NameTable
from fairlead.workload.readers.rows import MOST_GPUS, Column, Rows
from fairlead.workload.readers.strings import PackedStrings
from fairlead.workload.readers.table import Pass, Table, read_rows
from fairlead.workload.readers.values import NUMBER, STATUS_WORDS
from fairlead.workload.trace import Floats, Ints, Names, Status

_TIMES = frozenset({"start_time", "end_time"})
TABLES = {
    "job": Table(
        required=(),
        numbers=_TIMES,
        texts=frozenset({"job_name", "inst_id", "user", "status"}),
        fixed_header=("job_name", "inst_id", "user", "status", "start_time", "end_time"),
    ),
    "task": Table(
        required=(),
        numbers=_TIMES | {"inst_num", "plan_cpu", "plan_mem", "plan_gpu"},
        texts=frozenset({"job_name", "status"}),
        fixed_header=(
            *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
            *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
        ),
    ),
    "instance": Table(
        required=(),
        numbers=_TIMES,
        texts=frozenset({"job_name"}),
        fixed_header=(
            *("job_name", "task_name", "inst_name", "worker_name", "inst_id"),
            *("status", "start_time", "end_time", "machine"),
        ),
    ),
    "group_tag": Table(
        required=(),
        numbers=frozenset(),
        texts=frozenset({"inst_id", "gpu_type_spec", "group"}),
        fixed_header=("inst_id", "user", "gpu_type_spec", "group", "workload"),
    ),
}
#: where each table has a word for the status; in a table without a header it is what tells them apart
_STATUS_AT = {"job": 3, "task": 3, "instance": 5}
_STATUSES = frozenset({"Terminated", "Failed", "Running", "Waiting", "Interrupted"})
NOTES = (
    "a job's GPUs are the sum over its instances, rounded up to whole ones from 1 on",
    "jobs without a GPU are kept (gpus=0): the machine list has CPUs and memory",
)


def table_of(row: tuple[str, ...]) -> str | None:
    """Which table a first row is from."""
    for name, table in TABLES.items():
        if row == table.fixed_header:
            return name
    for name, at in _STATUS_AT.items():
        if len(row) == len(TABLES[name].fixed_header or ()) and row[at] in _STATUSES:
            return name
    if len(row) == 5 and len(row[0]) >= 32 and all(c in "0123456789abcdef" for c in row[0]):
        return "group_tag"
    return None


def read(tables: dict[str, Path], load: Pass) -> None:
    if "task" not in tables:
        raise InputError(
            "the tasks, which say how many GPUs a job has, are not there",
            file=", ".join(str(path) for path in tables.values()),
            accepts="pai_task_table, best with pai_job_table",
        )
    jobs = _Jobs()
    # the limit is on jobs, which are known only after the join
    whole = Pass(load.report, load.builder, None, load.notes)
    for rows in read_rows(tables["task"], TABLES["task"], _task, whole):
        jobs.add_tasks(rows)
    if "instance" in tables:
        for rows in read_rows(tables["instance"], TABLES["instance"], _timed, whole):
            jobs.add_instances(rows)
    if "job" in tables:
        for rows in read_rows(tables["job"], TABLES["job"], _timed, whole):
            jobs.add_jobs(rows, tagged="group_tag" in tables)
    else:
        load.notes.append("without the job table a job is submitted when its first task starts")
        jobs.submit_from_tasks()
    if "group_tag" in tables and "job" in tables:
        for rows in read_rows(tables["group_tag"], TABLES["group_tag"], _tag, whole):
            jobs.add_tags(rows)
    else:
        load.notes.append("gpu_type is the type a task got, not one it asked for, so any type will do")
    jobs.finish(load)


def _task(rows: Rows) -> None:
    _needs(rows, "job_name")
    rows.number("inst_num", low=0, high=1e6, fill=1)
    rows.number("plan_gpu", low=0, high=100.0 * MOST_GPUS, fill=0)
    rows.number("plan_cpu", low=0, high=1e9, fill=0)
    rows.number("plan_mem", low=0, high=1e9, fill=0)
    _timed(rows)


def _timed(rows: Rows) -> None:
    _needs(rows, "job_name")
    rows.number("start_time", fill=np.nan)
    rows.number("end_time", fill=np.nan)


def _tag(rows: Rows) -> None:
    _needs(rows, "inst_id")


def _needs(rows: Rows, column: str) -> None:
    rows.reject(rows.block.missing(column), column, "the cell is empty", "a name")


class _Jobs:
    """Sums and extremes by job, grown block by block."""

    def __init__(self) -> None:
        self.names = NameTable()
        self.gpu = self.cpu = self.memory_gib = np.zeros(0)
        self.first = self.last = self.submit_s = np.zeros(0)
        self.instances = np.zeros(0)
        self.status = np.zeros(0, np.int8)
        self.user = np.zeros(0, np.int32)
        self.users, self.groups, self.types = NameTable(), NameTable(), NameTable()
        self.group = self.type = np.zeros(0, np.int32)
        self.job_of: dict[str, int] = {}
        self.order: list[Ints] = []

    def _grow(self) -> None:
        size = len(self.names.codes)
        self.gpu, self.cpu = _longer(self.gpu, size, 0.0), _longer(self.cpu, size, 0.0)
        self.memory_gib, self.instances = (
            _longer(self.memory_gib, size, 0.0),
            _longer(self.instances, size, 0.0),
        )
        self.first, self.last = _longer(self.first, size, np.inf), _longer(self.last, size, -np.inf)

    def add_tasks(self, rows: Rows) -> None:
        keep = rows.keep
        job = rows.block.names("job_name", self.names, keep)
        self._grow()
        count = _filled(rows, "inst_num", 1.0)[keep]
        np.add.at(self.gpu, job, count * _filled(rows, "plan_gpu", 0.0)[keep] / 100)
        np.add.at(self.cpu, job, count * _filled(rows, "plan_cpu", 0.0)[keep] / 100)
        np.add.at(self.memory_gib, job, count * _filled(rows, "plan_mem", 0.0)[keep])
        np.add.at(self.instances, job, count)
        self._span(rows, job)

    def add_instances(self, rows: Rows) -> None:
        """Times only: a job of which no task is known keeps 0 instances, and is dropped for it."""
        job = rows.block.names("job_name", self.names, rows.keep)
        self._grow()
        self._span(rows, job)

    def _span(self, rows: Rows, job: Ints) -> None:
        start = _filled(rows, "start_time", np.nan)[rows.keep]
        end = _filled(rows, "end_time", np.nan)[rows.keep]
        np.minimum.at(self.first, job, np.where(np.isnan(start), np.inf, start))
        np.maximum.at(self.last, job, np.where(np.isnan(end), -np.inf, end))

    def add_jobs(self, rows: Rows, *, tagged: bool) -> None:
        keep = rows.keep
        job = rows.block.names("job_name", self.names, keep)
        self._grow()
        size = len(self.names.codes)
        self.submit_s = _longer(self.submit_s, size, np.nan)
        self.status = _longer(self.status, size, np.int8(0))
        self.user = _longer(self.user, size, np.int32(-1))
        self.submit_s[job] = _filled(rows, "start_time", np.nan)[keep]
        self.status[job] = rows.status("status")[keep]
        self.user[job] = rows.block.names("user", self.users, keep)
        self.order.append(job)
        if not tagged:
            return
        instances = NameTable()
        codes = rows.block.names("inst_id", instances, keep)
        texts = instances.values
        self.job_of.update((texts[code], int(j)) for code, j in zip(codes.tolist(), job.tolist()) if code >= 0)

    def submit_from_tasks(self) -> None:
        size = len(self.names.codes)
        self.submit_s = np.where(np.isfinite(self.first), self.first, np.nan)
        self.status = np.full(size, int(STATUS_WORDS["unknown"]), np.int8)
        self.user = np.full(size, -1, np.int32)
        self.order.append(np.arange(size, dtype=np.int32))

    def add_tags(self, rows: Rows) -> None:
        size = len(self.names.codes)
        self.group, self.type = (
            _longer(self.group, size, np.int32(-1)),
            _longer(self.type, size, np.int32(-1)),
        )
        instances = NameTable()
        codes = rows.block.names("inst_id", instances, rows.keep)
        job_of = np.array([self.job_of.get(text, -1) for text in instances.values], np.int64)[codes]
        found = job_of >= 0
        self.group[job_of[found]] = rows.block.names("group", self.groups, rows.keep)[found]
        self.type[job_of[found]] = rows.block.names("gpu_type_spec", self.types, rows.keep)[found]

    def finish(self, load: Pass) -> None:
        job = np.concatenate(self.order) if self.order else np.zeros(0, np.int32)
        with np.errstate(invalid="ignore"):
            duration_s = self.last[job] - self.first[job]
        out = np.zeros(len(job), bool)
        for reason, where in (
            ("has no tasks", self.instances[job] == 0),
            ("never started", np.isinf(self.first[job]) | np.isnan(self.submit_s[job])),
            ("still running when the trace ends", np.isinf(self.last[job])),
            ("ends before it starts", duration_s < 0),
            ("ran for 0 s", duration_s == 0),
        ):
            load.report.add_dropped(reason, int((where & ~out).sum()))
            out |= where
        job = job[~out][: load.limit]
        self._rounded(job, load)
        texts = np.array(self.names.values, dtype=object)
        load.builder.add_columns(
            self._columns(job, duration_s[~out][: load.limit]),
            self._names(job),
            PackedStrings.of([str(text) for text in texts[job]]),
        )

    def _columns(self, job: Ints, duration_s: Floats) -> dict[str, Column]:
        gpu_milli = np.rint(self.gpu[job] * 1000)
        partial = (gpu_milli > 0) & (gpu_milli < 1000)
        columns: dict[str, Column] = {
            "submit_s": self.submit_s[job],
            "gpus": np.ceil(gpu_milli / 1000),
            "duration_s": duration_s,
            "gpu_share_milli": np.where(partial, gpu_milli, 1000),
            "cpu_milli": np.rint(self.cpu[job] * 1000),
            "memory_mib": np.ceil(self.memory_gib[job] * 1024),
        }
        if (self.status[job] != Status.UNKNOWN).any():
            columns["status"] = self.status[job]
        return columns

    def _names(self, job: Ints) -> dict[str, Names]:
        names = {}
        for column, codes, table in (
            ("user", self.user, self.users),
            ("group", self.group, self.groups),
            ("gpu_type", self.type, self.types),
        ):
            if len(codes) and table.codes:
                names[column] = Names(_longer(codes, len(self.names.codes), np.int32(-1))[job], table.values)
        return names

    def _rounded(self, job: Ints, load: Pass) -> None:
        gpu_milli = np.rint(self.gpu[job] * 1000)
        up = int(((gpu_milli > 1000) & (gpu_milli % 1000 > 0)).sum())
        shared = int(((gpu_milli < 1000) & (gpu_milli > 0) & (self.instances[job] > 1)).sum())
        if up:
            load.notes.append(f"{up} jobs of more than one GPU had a fraction, rounded up to whole GPUs")
        if shared:
            load.notes.append(f"{shared} jobs of several instances on less than one GPU count as one share, their sum")


def _longer(values: Any, size: int, fill: Any) -> Any:
    """The same array, or a longer one with `fill` behind; it doubles, so that growing stays cheap."""
    if len(values) >= size:
        return values
    longer = np.full(max(size, 2 * len(values)), fill, values.dtype)
    longer[: len(values)] = values
    return longer


def _filled(rows: Rows, column: str, fill: float) -> Floats:
    """The column once more: the checks in `convert` passed, only the empty cells are left."""
    values, _ = rows.block.floats(column, NUMBER)
    return values if np.isnan(fill) else np.nan_to_num(values, nan=fill)
