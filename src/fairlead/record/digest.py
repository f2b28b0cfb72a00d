"""The journal's SHA-256, taken on a second thread while the run goes on."""

from __future__ import annotations

import hashlib
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fairlead.record.journal import JobTable


class Rows(Protocol):
    """The columns of a journal that is being written."""

    @property
    def time(self) -> npt.NDArray[np.float64]: ...
    @property
    def what(self) -> npt.NDArray[np.int32]: ...
    @property
    def gpu_ids(self) -> npt.NDArray[np.int32]: ...


#: rows and ids go into the digest in blocks of this many, so that it does not depend on when it was fed
BLOCK = 1 << 16


class RowDigest:
    """Feed it whenever there are more rows; rows that it has seen must not change any more."""

    def __init__(self, jobs: JobTable) -> None:
        self._jobs = hashlib.sha256()
        self._rows = hashlib.sha256()
        self._ids = hashlib.sha256()
        self._rows_done = 0
        self._ids_done = 0
        self._thread = ThreadPoolExecutor(1)
        self._last: Future[None] = self._thread.submit(self._table, jobs)

    def _table(self, jobs: JobTable) -> None:
        for column, kind in ((jobs.submit_s, "<f8"), (jobs.gpus, "<i4"), (jobs.duration_s, "<f8")):
            self._jobs.update(_bytes(column, kind))

    def feed(self, log: Rows, rows: int, ids: int) -> None:
        """Digest all whole blocks below these counts, in the background."""
        rows -= rows % BLOCK
        ids -= ids % BLOCK
        if rows == self._rows_done and ids == self._ids_done:
            return
        self._last = self._thread.submit(self._take, log, self._rows_done, rows, self._ids_done, ids)
        self._rows_done, self._ids_done = rows, ids

    def _take(self, log: Rows, row: int, rows: int, at: int, ids: int) -> None:
        for start in range(row, rows, BLOCK):
            self._block(log, start, min(start + BLOCK, rows))
        self._ids.update(_bytes(log.gpu_ids[at:ids], "<i4"))

    def _block(self, log: Rows, start: int, end: int) -> None:
        self._rows.update(_bytes(log.time[start:end], "<f8"))
        for column in range(3):
            self._rows.update(_bytes(log.what[column, start:end], "<i4"))

    def finish(self, log: Rows, rows: int, ids: int) -> str:
        """The digest of all rows, all GPU ids and the job table."""
        self._last.result()
        self._thread.shutdown()
        self._take(log, self._rows_done, rows, self._ids_done, ids)
        return hashlib.sha256(self._rows.digest() + self._ids.digest() + self._jobs.digest()).hexdigest()


def _bytes(column: npt.NDArray[Any], kind: str) -> memoryview:
    """The column's bytes, little-endian whatever the machine."""
    return np.ascontiguousarray(column, kind).data.cast("B")
