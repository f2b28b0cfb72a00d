"""Alibaba lingjun 2023 (Cao et al., SIGCOMM'24): job.csv has the times, worker.csv each pod's resources."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

from fairlead.model.errors import InputError
from fairlead.workload.readers.block import NameTable
from fairlead.workload.readers.rows import MOST_GPUS, Rows
from fairlead.workload.readers.table import Pass, Table, read_jobs, read_rows
from fairlead.workload.readers.values import MEMORY

_JOB_TIMES = ("gmt_job_submitted", "gmt_job_running", "gmt_job_finished")
TABLES = {
    "job": Table(
        required=("job_name", "status", *_JOB_TIMES),
        numbers=frozenset({"priority"}),
        texts=frozenset({"job_name", "status", "tenant_id", "user_id", "gmt_job_stopped", *_JOB_TIMES}),
        time_column="gmt_job_submitted",
    ),
    "worker": Table(required=("job_name", "RES"), numbers=frozenset(), texts=frozenset({"job_name", "RES"})),
}
NOTES = (
    "times are whole minutes, so durations are off by up to a minute",
    "a job that asks for no GPU is left out",
)
_GPU_KEY = re.compile(r"(^|[./])gpu$")
_RESOURCES = 'JSON such as {"nvidia.com/gpu": "8", "cpu": "90", "memory": "500Gi"}'


def table_of(header: tuple[str, ...]) -> str | None:
    names = set(header)
    if {"job_name", "RES"} <= names:
        return "worker"
    return "job" if {"job_name", "gmt_job_submitted"} <= names else None


def read(tables: dict[str, Path], load: Pass) -> None:
    for name, what in (
        ("job", "job.csv, which has the jobs' times"),
        ("worker", "worker.csv, which has their GPUs"),
    ):
        if name not in tables:
            given = ", ".join(str(path) for path in tables.values())
            raise InputError(f"{what}, is not there", file=given, accepts="both files, or the folder with them")
    known_notes = len(load.notes)
    demands = _Demands()
    for rows in read_rows(
        tables["worker"], TABLES["worker"], _worker, Pass(load.report, load.builder, None, load.notes)
    ):
        demands.add(rows)
    del load.notes[known_notes:]  # both files have dozens of columns of no use here
    read_jobs(tables["job"], TABLES["job"], demands.convert_jobs, load)
    del load.notes[known_notes:]


def _worker(rows: Rows) -> None:
    rows.reject(rows.block.missing("job_name"), "job_name", "the cell is empty", "a name")
    table = NameTable()
    codes = rows.codes("RES", table)
    wrong = np.array([_resources(text) is None for text in table.values] + [False])[codes]
    rows.reject(wrong, "RES", "these are no resources", _RESOURCES)


def _resources(text: str) -> tuple[float, float, float] | None:
    """GPUs, thousandths of CPUs, MiB of one worker; None where that can't be told."""
    try:
        found = json.loads(text)
        gpus = sum(float(value) for key, value in found.items() if _GPU_KEY.search(key))
        cpu = str(found.get("cpu", 0))
        cpu_milli = float(cpu[:-1]) if cpu.endswith("m") else 1000 * float(cpu)
        memory = str(found.get("memory", 0))
        # Kubernetes means bytes where there is no unit
        memory_mib = float(memory) / 2**20 if memory.replace(".", "").isdigit() else MEMORY.parse(memory)
    except (ValueError, TypeError, AttributeError):
        return None
    return (gpus, cpu_milli, memory_mib) if 0 <= gpus <= MOST_GPUS and cpu_milli >= 0 else None


class _Demands:
    """What all workers of a job ask for together."""

    def __init__(self) -> None:
        self.jobs = NameTable()
        self.sums: list[list[float]] = []

    def add(self, rows: Rows) -> None:
        table = NameTable()
        job = rows.block.names("job_name", self.jobs, rows.keep)
        codes = rows.block.names("RES", table, rows.keep)
        each = [_resources(text) or (0.0, 0.0, 0.0) for text in table.values]
        self.sums += [[0.0, 0.0, 0.0] for _ in range(len(self.jobs.codes) - len(self.sums))]
        for j, code in zip(job.tolist(), codes.tolist()):
            if code >= 0:
                total, part = self.sums[j], each[code]
                total[0] += part[0]
                total[1] += part[1]
                total[2] += part[2]

    def convert_jobs(self, rows: Rows) -> None:
        rows.id("job_name")
        table = NameTable()
        codes = rows.codes("job_name", table)
        nothing = [0.0, 0.0, 0.0]
        by_code = [self.sums[self.jobs.codes[name]] if name in self.jobs.codes else nothing for name in table.values]
        demand = np.array([*by_code, nothing])[codes]
        rows.set("gpus", np.ceil(demand[:, 0]))
        rows.set("cpu_milli", np.rint(demand[:, 1]))
        rows.set("memory_mib", np.ceil(demand[:, 2]))
        rows.set("submit_s", rows.times("gmt_job_submitted", required=True))
        end = rows.times("gmt_job_finished")
        if rows.has("gmt_job_stopped"):
            end = np.where(np.isnan(end), rows.times("gmt_job_stopped"), end)
        rows.set("duration_s", rows.span(rows.times("gmt_job_running"), end, "gmt_job_finished"))
        rows.drop(demand[:, 0] == 0, "asks for no GPU")
        rows.set("status", rows.status("status"))
        rows.name("tenant", "tenant_id")
        rows.name("user", "user_id")
        if rows.has("priority"):
            rows.set("priority", rows.whole("priority", low=-(2**31), high=2**31 - 1, fill=0))
