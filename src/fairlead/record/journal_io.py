"""Journals as files: `.parquet` (small and fast) or `.jsonl` (for eyes and other tools). Both give back
every bit.

A Parquet journal is one table whose `part` column says what a row is; columns of the other parts are null:

* `job`: submit_s, gpus, duration_s, share_milli, tenant (a code) — a line of the job table, in order;
* `event`: time_s, kind, job, arg — a row of the journal, in order;
* `gpu`: gpu_id — one entry of gpu_ids, in order.

A JSON-lines journal has the header first, then a line per job, then a line per event by name; a start's
GPUs stand in its own line, and where they are not what the job asked for, also how many it got and the milli-GPUs of
each. Cluster, run metadata, tenant names and sha256 are in the header, which Parquet
keeps as the file's `fairlead` metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fairlead.model.cells import cells_from
from fairlead.model.cluster import ClusterSpec, NodeSpec, TenantSpec
from fairlead.model.errors import InputError
from fairlead.model.event import EventKind
from fairlead.record.journal import JobTable, Journal
from fairlead.record.runs import STARTS, held_by, rows_of

_FORMAT = "fairlead-journal-1"
_ENDINGS = "a file that ends in .parquet or .jsonl"

#: columns of each part with the types of the journal's contract
_PARTS: dict[str, dict[str, type[np.generic]]] = {
    "job": {
        "submit_s": np.float64,
        "gpus": np.int32,
        "duration_s": np.float64,
        "share_milli": np.int32,
        "tenant": np.int32,
    },
    "event": {"time_s": np.float64, "kind": np.int8, "job": np.int32, "arg": np.int32},
    "gpu": {"gpu_id": np.int32},
}


def write_journal(journal: Journal, path: str | Path) -> None:
    path = Path(path)
    if path.suffix == ".parquet":
        _write_parquet(journal, path)
    elif path.suffix == ".jsonl":
        with path.open("w", encoding="utf-8", newline="\n") as out:
            out.writelines(_lines(journal))
    else:
        raise InputError("a journal can't be written to this kind of file", file=str(path), accepts=_ENDINGS)


def read_journal(path: str | Path) -> Journal:
    path = Path(path)
    if path.suffix not in (".parquet", ".jsonl"):
        raise InputError("a journal can't be read from this kind of file", file=str(path), accepts=_ENDINGS)
    if not path.exists():
        raise InputError("there is no such file", file=str(path))
    return _read_parquet(path) if path.suffix == ".parquet" else _read_lines(path)


def _header(journal: Journal) -> dict[str, Any]:
    cluster = asdict(journal.cluster)
    return {
        "format": _FORMAT,
        "sha256": journal.sha256,
        "run": journal.run,
        "cluster": cluster,
        "tenant_names": journal.jobs.tenant_names,
        "jobs": len(journal.jobs.submit_s),
        "events": len(journal),
        "gpu_ids": len(journal.gpu_ids),
        "shares": journal.jobs.share_milli is not None,
        "tenants": journal.jobs.tenant is not None,
    }


def _parse_header(text: str | bytes, file: str) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise InputError(
            "this is no journal: its header is missing", file=file, accepts=f"a journal of format {_FORMAT}"
        )
    return header


def _cluster(data: dict[str, Any]) -> ClusterSpec:
    return ClusterSpec(
        nodes=tuple(NodeSpec(**{**node, "path": tuple(node["path"])}) for node in data["nodes"]),
        levels=tuple(data["levels"]),
        tenants={name: TenantSpec(**tenant) for name, tenant in data["tenants"].items()},
        speeds=data["speeds"],
        cells=None if data.get("cells") is None else cells_from(data["cells"]),
    )


def _columns(journal: Journal) -> dict[str, dict[str, npt.NDArray[Any] | None]]:
    jobs = journal.jobs
    return {
        "job": {name: getattr(jobs, name) for name in _PARTS["job"]},
        "event": {name: getattr(journal, name) for name in _PARTS["event"]},
        "gpu": {"gpu_id": journal.gpu_ids},
    }


def _journal(header: dict[str, Any], parts: dict[str, dict[str, npt.NDArray[Any]]]) -> Journal:
    job = parts["job"]
    return Journal(
        cluster=_cluster(header["cluster"]),
        jobs=JobTable(
            submit_s=job["submit_s"],
            gpus=job["gpus"],
            duration_s=job["duration_s"],
            share_milli=job["share_milli"] if header["shares"] else None,
            tenant=job["tenant"] if header["tenants"] else None,
            tenant_names=tuple(header["tenant_names"]),
        ),
        **parts["event"],
        gpu_ids=parts["gpu"]["gpu_id"],
        sha256=header["sha256"],
        run=header["run"],
    )


# ------------------------------------------------------------------------------------------------------
# Parquet


def _arrow() -> tuple[Any, Any]:
    """Imported when a Parquet journal is asked for: it takes longer than a small run. It has no types to check."""
    return import_module("pyarrow"), import_module("pyarrow.parquet")


def _schema(header: dict[str, Any]) -> Any:
    pa, _ = _arrow()

    fields = [("part", pa.dictionary(pa.int8(), pa.string()))]
    for columns in _PARTS.values():
        fields += [(name, pa.from_numpy_dtype(dtype)) for name, dtype in columns.items()]
    return pa.schema(fields, metadata={"fairlead": json.dumps(header)})


def _write_parquet(journal: Journal, path: Path) -> None:
    pa, pq = _arrow()

    schema = _schema(_header(journal))
    with pq.ParquetWriter(path, schema, compression="zstd") as out:
        for part, columns in _columns(journal).items():
            rows = len(next(column for column in columns.values() if column is not None))
            arrays: dict[str, Any] = {"part": pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int8), [part])}
            for field in schema:
                if field.name != "part":
                    column = columns.get(field.name)
                    arrays[field.name] = pa.nulls(rows, field.type) if column is None else pa.array(column)
            out.write_table(pa.table(arrays, schema=schema))


def _read_parquet(path: Path) -> Journal:
    pa, pq = _arrow()

    try:
        source = pq.ParquetFile(path)
    except pa.ArrowInvalid as broken:
        raise InputError(f"this is no Parquet file: {broken}", file=str(path)) from broken
    with source:
        header = _parse_header((source.schema_arrow.metadata or {}).get(b"fairlead", b""), str(path))
        parts: dict[str, dict[str, npt.NDArray[Any]]] = {}
        first = 0
        for part, count in (("job", header["jobs"]), ("event", header["events"]), ("gpu", header["gpu_ids"])):
            dtypes = _PARTS[part]
            table, first = _next_rows(source, first, count, list(dtypes))
            parts[part] = {
                name: table[name].fill_null(0).to_numpy().astype(dtype, copy=False) for name, dtype in dtypes.items()
            }
    return _journal(header, parts)


def _next_rows(source: Any, first: int, count: int, columns: list[str]) -> tuple[Any, int]:
    """The row groups from `first` on that hold the next `count` rows; parts never share a row group."""
    groups: list[int] = []
    rows = 0
    while rows < count:
        groups.append(first + len(groups))
        rows += source.metadata.row_group(groups[-1]).num_rows
    # a part of no rows still has a row group of its own in some writers' files: step over empty ones
    end = first + len(groups)
    while end < source.num_row_groups and source.metadata.row_group(end).num_rows == 0:
        end += 1
    return source.read_row_groups(groups, columns=columns), end


# --------------------------------------------------------------------------------------------------- JSON
# lines


def _lines(journal: Journal) -> Iterator[str]:
    jobs = journal.jobs
    yield _line({**_header(journal), "loose_gpu_ids": _loose_gpu_ids(journal)})
    names = [name for name in _PARTS["job"] if getattr(jobs, name) is not None]
    for values in zip(*(getattr(jobs, name).tolist() for name in names)):
        yield _line(dict(zip(names, values)))
    columns = (journal.time_s.tolist(), journal.kind.tolist(), journal.job.tolist(), journal.arg.tolist())
    for time_s, kind, job, arg in zip(*columns):
        event = {"time_s": time_s, "event": EventKind(kind).name, "job": job, "arg": arg}
        if kind == EventKind.START:
            event["gpus"] = journal.gpu_ids[arg : arg + max(int(jobs.gpus[job]), 1)].tolist()
        elif kind == EventKind.START_AS:
            event["got"] = journal.gpu_ids[arg - 2 : arg].tolist()
            event["gpus"] = journal.gpu_ids[arg : arg + max(int(journal.gpu_ids[arg - 2]), 1)].tolist()
        yield _line(event)


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


def _loose_gpu_ids(journal: Journal) -> dict[int, int]:
    """Entries of gpu_ids that no start refers to: none in a journal of ours, but nothing may get lost."""
    starts = rows_of(journal, STARTS)
    count = np.maximum(held_by(journal, starts)[0], 1)
    before = np.where(journal.kind[starts] == EventKind.START_AS, 2, 0)
    change = np.zeros(len(journal.gpu_ids) + 1, dtype=np.int64)
    np.add.at(change, journal.arg[starts] - before, 1)
    np.add.at(change, journal.arg[starts] + count, -1)
    loose = np.flatnonzero(np.cumsum(change[:-1]) == 0)
    return {int(at): int(journal.gpu_ids[at]) for at in loose}


def _read_lines(path: Path) -> Journal:
    with path.open(encoding="utf-8") as source:
        header = _parse_header(source.readline(), str(path))
        parts = {
            part: {name: np.zeros(header[size], dtype=dtype) for name, dtype in _PARTS[part].items()}
            for part, size in (("job", "jobs"), ("event", "events"), ("gpu", "gpu_ids"))
        }
        gpu_ids = parts["gpu"]["gpu_id"]
        for at, gpu in header["loose_gpu_ids"].items():
            gpu_ids[int(at)] = gpu
        line = 1
        try:
            for line, text in enumerate(source, start=2):
                _take_line(json.loads(text), line - 2, header["jobs"], parts, gpu_ids)
        except (ValueError, KeyError, IndexError, TypeError) as broken:
            raise InputError(
                f"this line of the journal can't be read: {broken!r}", file=str(path), line=line
            ) from broken
        if line - 1 != header["jobs"] + header["events"]:
            raise InputError(
                "the journal ends too early",
                file=str(path),
                line=line,
                accepts=f"{header['jobs']} jobs and {header['events']} events after the header",
            )
    return _journal(header, parts)


def _take_line(
    data: dict[str, Any],
    at: int,
    jobs: int,
    parts: dict[str, dict[str, npt.NDArray[Any]]],
    gpu_ids: npt.NDArray[Any],
) -> None:
    if at < jobs:
        for name, value in data.items():
            parts["job"][name][at] = value
        return
    event = parts["event"]
    event["time_s"][at - jobs] = data["time_s"]
    event["kind"][at - jobs] = EventKind[data["event"]]
    event["job"][at - jobs] = data["job"]
    event["arg"][at - jobs] = data["arg"]
    if "got" in data:
        gpu_ids[data["arg"] - 2 : data["arg"]] = data["got"]
    if "gpus" in data:
        gpu_ids[data["arg"] : data["arg"] + len(data["gpus"])] = data["gpus"]
