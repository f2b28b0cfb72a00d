"""Chunks of jobs become one Trace: in order of submission, from second 0, names numbered as they appear."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timezone
from typing import Any

import numpy as np

from fairlead.workload.readers.block import NameTable
from fairlead.workload.readers.rows import Chunk, Column
from fairlead.workload.readers.strings import PackedStrings
from fairlead.workload.readers.values import iso_time
from fairlead.workload.trace import Floats, Ints, Longs, Names, Trace

NAME_COLUMNS = ("tenant", "user", "group", "gpu_type", "profile", "topology")
_TYPES: dict[str, Any] = {
    "submit_s": np.float64,
    "gpus": np.int32,
    "duration_s": np.float64,
    "gpu_share_milli": np.int32,
    "gpu_memory_mib": np.int64,
    "cpu_milli": np.int64,
    "memory_mib": np.int64,
    "priority": np.int32,
    "estimate_s": np.float64,
    "status": np.int8,
    "attempts": np.int32,
    "min_gpus": np.int32,
    "max_gpus": np.int32,
    "preemptible": np.int8,
    "num_nodes": np.int32,
}
#: what a job has in a column that only other files of the same trace have
_ABSENT = {"gpu_share_milli": 1000, "attempts": 1, "preemptible": 1}
_ABSENT_AS = {"estimate_s": "duration_s", "min_gpus": "gpus", "max_gpus": "gpus"}


class Builder:
    """Grows by chunks; a column may be absent from some of them."""

    def __init__(self) -> None:
        self.rows = 0
        self.zone: timezone | None = None  #: of the times in the trace, where they have one
        self._columns: dict[str, list[tuple[int, Column]]] = {}
        self._tables: dict[str, NameTable] = {}
        self._ids: list[Longs | PackedStrings] = []

    def add(self, chunk: Chunk) -> None:
        if not chunk.rows:
            return
        for name, values in chunk.columns.items():
            self._put(name, values)
        for name, (column, unless) in chunk.names.items():
            table = self._tables.setdefault(name, NameTable())
            codes = chunk.block.names(column, table, chunk.keep)
            if unless:
                codes = np.array([-1 if unless in v else i for i, v in enumerate(table.values)] + [-1], np.int32)[codes]
            self._put(name, codes)
        ids = chunk.ids()
        if ids is not None:
            self._ids.append(ids)
        self.rows += chunk.rows

    def add_columns(
        self, columns: dict[str, Column], names: dict[str, Names], ids: Longs | PackedStrings | None
    ) -> None:
        """For formats that join tables and have their names coded already."""
        for name, values in columns.items():
            self._put(name, values)
        for name, coded in names.items():
            table = self._tables.setdefault(name, NameTable())
            recode = np.array([table.code(value) for value in coded.values] + [-1], np.int32)
            self._put(name, recode[coded.codes])
        if ids is not None:
            self._ids.append(ids)
        self.rows += len(columns["submit_s"])

    def _put(self, name: str, values: Column) -> None:
        self._columns.setdefault(name, []).append((self.rows, values.astype(_TYPES.get(name, np.int32), copy=False)))

    def trace(self, *, origin: str | None, dated: bool, source: str, notes: Sequence[str]) -> tuple[Trace, float]:
        """The trace, and how many seconds were taken off its times. `dated`: they counted from 1970."""
        submit_s = self._whole("submit_s")
        shift_s = float(submit_s.min())
        if dated:
            origin = iso_time(shift_s, self.zone)
        if shift_s:
            submit_s -= shift_s
        order = None if _is_sorted(submit_s) else np.argsort(submit_s, kind="stable")
        columns: dict[str, Any] = {"submit_s": submit_s if order is None else submit_s[order]}
        for name in [*_TYPES, *NAME_COLUMNS]:
            if name == "submit_s" or name not in self._columns:
                continue
            values = self._whole(name)
            values = values if order is None else values[order]
            if name not in NAME_COLUMNS:
                columns[name] = values
            elif (names := self._names(name, values)).values:
                columns[name] = names
        columns["job_ids"] = self._job_ids(order)
        return Trace(**columns, origin=origin, source=source, notes=tuple(notes)), shift_s

    def _whole(self, name: str) -> Any:
        """Join the chunks of one column, letting go of them, and fill the gaps."""
        parts = self._columns[name] if name in ("duration_s", "gpus") else self._columns.pop(name)
        if len(parts) == 1 and len(parts[0][1]) == self.rows:
            return parts[0][1]
        if name in _ABSENT_AS and sum(len(values) for _, values in parts) < self.rows:
            whole = self._whole(_ABSENT_AS[name]).astype(_TYPES[name])
        else:
            absent = -1 if name in NAME_COLUMNS else _ABSENT.get(name, 0)
            whole = np.full(self.rows, absent, _TYPES.get(name, np.int32))
        while parts:
            start, values = parts.pop()
            whole[start : start + len(values)] = values
        if name in ("duration_s", "gpus"):
            self._columns[name] = [(0, whole)]
        return whole

    def _names(self, name: str, codes: Ints) -> Names:
        """Renumber in order of first appearance, so that the same jobs give the same codes from any file."""
        values = self._tables[name].values
        first = np.full(len(values) + 1, len(codes), np.int64)
        first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
        seen = np.argsort(first[:-1], kind="stable")[: int((first[:-1] < len(codes)).sum())]
        recode = np.full(len(values) + 1, -1, np.int32)
        recode[seen] = np.arange(len(seen), dtype=np.int32)
        return Names(recode[codes], tuple(values[i] for i in seen.tolist()))

    def _job_ids(self, order: Longs | None) -> Longs | PackedStrings | None:
        if not self._ids:
            return None
        numbers = [ids for ids in self._ids if not isinstance(ids, PackedStrings)]
        if len(numbers) == len(self._ids):
            ids = np.concatenate(numbers) if len(numbers) > 1 else numbers[0]
            ids = ids if order is None else ids[order]
            return None if np.array_equal(ids, np.arange(len(ids))) else ids
        texts = [ids if isinstance(ids, PackedStrings) else PackedStrings.of(_printed(ids)) for ids in self._ids]
        self._ids.clear()
        packed = PackedStrings.concat(texts) if len(texts) > 1 else texts[0]
        return packed if order is None else packed.take(order)


def _printed(ids: Longs) -> list[str]:
    return [str(number) for number in ids.tolist()]


def _is_sorted(values: Floats) -> bool:
    return bool((values[1:] >= values[:-1]).all())
