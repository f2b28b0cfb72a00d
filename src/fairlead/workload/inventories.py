"""Published lists of machines as clusters, told apart by their columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairlead.model.cluster import ClusterSpec, NodeSpec, TenantSpec
from fairlead.model.errors import InputError
from fairlead.workload.readers.build import Builder
from fairlead.workload.readers.detect import first_row
from fairlead.workload.readers.report import BadRow, Report
from fairlead.workload.readers.rows import MOST_GPUS, Rows
from fairlead.workload.readers.source import head
from fairlead.workload.readers.table import Pass, Table, read_rows
from fairlead.workload.readers.values import MEMORY
from fairlead.workload.trace import Longs

_GPUS_PER_NODE = 8  #: of Helios and lingjun, whose lists don't say
_MOST_MIB = 1e12


@dataclass(frozen=True)
class Inventory:
    about: str
    required: frozenset[str]
    make: Callable[[Path, tuple[str, ...], str | None], ClusterSpec]


def read_inventory(path: Path, day: str | None = None) -> ClusterSpec:
    """`day` picks the day of a list that has one row per day (the last one otherwise)."""
    row = first_row(path, head(path))
    for inventory in INVENTORIES:
        if inventory.required <= set(row):
            return inventory.make(path, row, day)
    if len(row) == len(_PAI_COLUMNS) and all(cell.replace(".", "").isdigit() for cell in row[2:]):
        return _pai(path, (), None)  # as published: without a header
    raise InputError(
        "this is no list of machines known here",
        file=str(path),
        value=",".join(row)[:80],
        accepts="; ".join(inventory.about for inventory in INVENTORIES),
    )


def _openb(path: Path, header: tuple[str, ...], day: str | None) -> ClusterSpec:
    nodes = []
    limits = {"gpu": MOST_GPUS, "cpu_milli": 1e9, "memory_mib": _MOST_MIB}
    for rows, (gpus, cpu_milli, memory_mib) in _rows(path, texts=("sn", "model"), wholes=limits):
        for i in range(rows.count):
            name, model = rows.block.text("sn", i) or f"node-{i}", rows.block.text("model", i) or ""
            nodes.append(NodeSpec(name, int(gpus[i]), model, int(cpu_milli[i]), int(memory_mib[i])))
    return ClusterSpec(tuple(nodes))


_PAI_COLUMNS = ("machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu")


def _pai(path: Path, header: tuple[str, ...], day: str | None) -> ClusterSpec:
    nodes = []
    fixed = None if header else _PAI_COLUMNS
    limits = {"cap_cpu": 1e6, "cap_mem": 1e9, "cap_gpu": MOST_GPUS}
    for rows, (cpus, memory_gib, gpus) in _rows(path, texts=_PAI_COLUMNS[:2], wholes=limits, fixed=fixed):
        for i in range(rows.count):
            kind = rows.block.text("gpu_type", i) or ""
            nodes.append(
                NodeSpec(
                    rows.block.text("machine", i) or f"node-{i}",
                    int(gpus[i]),
                    "" if kind == "CPU" else kind,
                    int(cpus[i]) * 1000,
                    int(memory_gib[i]) * 1024,
                )
            )
    return ClusterSpec(tuple(nodes))


def _philly(path: Path, header: tuple[str, ...], day: str | None) -> ClusterSpec:
    """Machines that list no GPU have nothing to offer: the trace has no CPU demands."""
    nodes = []
    limits = {"number of GPUs": MOST_GPUS}
    for rows, (gpus,) in _rows(path, texts=("machineId",), wholes=limits, optional=("single GPU mem",)):
        for i in range(rows.count):
            memory = rows.block.text("single GPU mem", i) if rows.has("single GPU mem") else None
            memory_mib = _gpu_memory_mib(memory, rows, i) if memory else None
            if gpus[i]:
                name = rows.block.text("machineId", i) or f"node-{i}"
                nodes.append(NodeSpec(name, int(gpus[i]), gpu_memory_mib=memory_mib))
    return ClusterSpec(tuple(nodes))


def _gpu_memory_mib(text: str, rows: Rows, row: int) -> int:
    try:
        return round(MEMORY.parse(text.strip().replace("GB", "GiB")))  # GPUs are sold in GB and have GiB
    except ValueError:
        line = rows.block.line(row)
        bad = BadRow(rows.file, line, "single GPU mem", text, "this is not a size", MEMORY.accepts)
        raise bad.error() from None


def _lingjun(path: Path, header: tuple[str, ...], day: str | None) -> ClusterSpec:
    """Switches are numbered anew below each switch above them, so a domain's name carries those above it."""
    nodes = []
    for rows, _ in _rows(path, texts=("ip", "DSW", "PSW", "ASW"), wholes={}):
        for i in range(rows.count):
            core, pod, rack = (str(rows.block.text(column, i)) for column in ("DSW", "PSW", "ASW"))
            nodes.append(
                NodeSpec(
                    str(rows.block.text("ip", i)), _GPUS_PER_NODE, path=(core, f"{core}/{pod}", f"{core}/{pod}/{rack}")
                )
            )
    return ClusterSpec(tuple(nodes), ("dsw", "psw", "asw"))


def _helios(path: Path, header: tuple[str, ...], day: str | None) -> ClusterSpec:
    """One day's GPUs of each virtual cluster as quotas, on as many nodes of eight GPUs as they need."""
    tenants = [name for name in header if name not in ("date", "total")]
    days: list[str] = []
    quotas: dict[str, int] | None = None
    for rows, columns in _rows(path, texts=("date",), wholes=dict.fromkeys(tenants, MOST_GPUS)):
        for i in range(rows.count):
            days.append(rows.block.text("date", i) or "")
            if day is None or days[-1] == day:
                quotas = {name: int(values[i]) for name, values in zip(tenants, columns)}
    if quotas is None:
        span = f"a day from {days[0]} to {days[-1]}" if days else "a file with days"
        raise InputError("there is no such day in it", file=str(path), column="date", value=day, accepts=span)
    count = -(-sum(quotas.values()) // _GPUS_PER_NODE)
    nodes = tuple(NodeSpec(f"node-{i}", _GPUS_PER_NODE) for i in range(count))
    return ClusterSpec(nodes, tenants={name: TenantSpec(name, quota) for name, quota in quotas.items()})


INVENTORIES = (
    Inventory(
        "openb 2023 nodes (sn, cpu_milli, memory_mib, gpu, model)",
        frozenset({"sn", "cpu_milli", "memory_mib", "gpu", "model"}),
        _openb,
    ),
    Inventory(f"PAI 2020 machines ({', '.join(_PAI_COLUMNS)})", frozenset(_PAI_COLUMNS), _pai),
    Inventory("Philly machines (machineId, number of GPUs)", frozenset({"machineId", "number of GPUs"}), _philly),
    Inventory("lingjun topo (ip, DSW, PSW, ASW)", frozenset({"ip", "DSW", "PSW", "ASW"}), _lingjun),
    Inventory(
        "Helios GPUs by day (date, one column per virtual cluster, total)", frozenset({"date", "total"}), _helios
    ),
)


def _rows(
    path: Path,
    *,
    texts: tuple[str, ...],
    wholes: Mapping[str, float],
    optional: tuple[str, ...] = (),
    fixed: tuple[str, ...] | None = None,
) -> Iterator[tuple[Rows, list[Longs]]]:
    """Blocks with their whole numbers, 0 up to what `wholes` says. The first text names the machine or day."""

    def check(rows: Rows) -> None:
        rows.reject(rows.block.missing(texts[0]), texts[0], "the cell is empty", "a name")
        for name, most in wholes.items():
            rows.set(name, rows.whole(name, low=0, high=most))

    table = Table((*texts, *wholes), frozenset(wholes), frozenset((*texts, *optional)), fixed_header=fixed)
    for rows in read_rows(path, table, check, Pass(Report(), Builder(), None, [])):
        columns = rows.chunk().columns
        yield rows, [columns[name].astype(np.int64) for name in wholes]
