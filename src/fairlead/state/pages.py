"""Memory ahead of its use. The system hands out empty pages when they are first written to, which took a tenth of the time of a
million simple jobs; on a second thread it is done while the run goes on."""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading
from typing import Any

import numpy.typing as npt

from fairlead.kernels.columns import (
    J_BEGUN,
    J_DONE,
    J_DUE,
    J_FIRST,
    J_HELD,
    J_KEY,
    J_RAN,
    J_SINCE,
    J_TIMER,
    K_ALLOC,
    K_CHILD,
    K_LEVEL,
    K_NEXT,
    K_PREEMPTS,
    K_PREV,
    K_RESUMES,
    K_ROW,
    K_STAMP,
    K_STARTS,
    K_STATE,
    R_LEVELS,
    R_PREEMPTS,
    R_TIMERS,
)
from fairlead.state.state import State

#: smaller runs are over before it would pay
MANY = 100_000
_STEPS = 16
_POPULATE_WRITE = 23  # Linux 5.14
#: columns that are written to where jobs are suspended
_PREEMPTED_FLOATS = (J_DONE, J_RAN, J_HELD, J_BEGUN)
_PREEMPTED_INTS = (K_ROW, K_STAMP, K_CHILD, K_NEXT, K_PREV, K_PREEMPTS, K_RESUMES)


def ask_for_pages(state: State) -> None:
    """Have the pages made that such a run writes to, from the first row on. What is in them does not change."""
    if len(state.input) < MANY or sys.platform != "linux":
        return
    jobs, log, counter = state.jobs, state.log, state.counter
    preempts, timers = bool(counter[R_PREEMPTS]), bool(counter[R_TIMERS])
    rows, ids = (3 if preempts else 2) * len(state.input), int(state.input.gpus.sum())
    columns: list[npt.NDArray[Any]] = [log.time[:rows], *log.what[:, :rows], log.gpu_ids[:ids]]
    floats = (J_KEY, J_SINCE, J_FIRST, J_DUE, *(_PREEMPTED_FLOATS if preempts else ()), *((J_TIMER,) if timers else ()))
    ints = (
        K_STATE,
        K_ALLOC,
        K_STARTS,
        *(_PREEMPTED_INTS if preempts else ()),
        *((K_LEVEL,) if counter[R_LEVELS] else ()),
    )
    columns += [jobs.floats[column] for column in floats]
    columns += [jobs.ints[column] for column in ints]
    threading.Thread(target=_make_pages, args=(columns,), daemon=True).start()


def _make_pages(columns: list[npt.NDArray[Any]]) -> None:
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for step in range(_STEPS):
        for column in columns:
            begin, end = (column.nbytes * x // _STEPS for x in (step, step + 1))
            first, last = (-(-(column.ctypes.data + x) // mmap.PAGESIZE) * mmap.PAGESIZE for x in (begin, end))
            last = min(last, (column.ctypes.data + column.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE)
            if last > first and advise(first, last - first, _POPULATE_WRITE) != 0:
                return  # the kernel does not know how: pages come when they are written to
