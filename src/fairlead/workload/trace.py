"""A workload as columns: what every reader returns, every generator makes and the simulator runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]


class Status(IntEnum):
    """How the job ended where the trace was recorded."""

    UNKNOWN = 0
    PASSED = 1
    FAILED = 2
    KILLED = 3


@dataclass(frozen=True)
class Names:
    """A column of names as dense codes: `values[codes[i]]` is job i's name, a code of -1 means none."""

    codes: Ints
    values: tuple[str, ...]


@dataclass(frozen=True)
class Trace:
    """Jobs in order of submission (ties in the file's order). Optional columns are None where the trace has none.

    Times are seconds from the first submission (`origin` says when that was, where the trace tells).
    """

    submit_s: Floats
    gpus: Ints  #: whole GPUs; 0 for a CPU job; 1 where gpu_share_milli is below 1000
    duration_s: Floats  #: how long it runs, uninterrupted, on what it asked for
    job_ids: Longs | Sequence[str] | None = None  #: None: the position is the id
    tenant: Names | None = None
    user: Names | None = None
    group: Names | None = None  #: the same for repeated runs of one thing (a name, a script hash)
    gpu_type: Names | None = None  #: required GPU type, -1 for any
    profile: Names | None = None  #: what it trains; looked up among profiles for its rates
    gpu_share_milli: Ints | None = None  #: part of one GPU, 1..1000; 1000 for whole GPUs
    gpu_memory_mib: Longs | None = None
    cpu_milli: Longs | None = None  #: of the whole job, divided over its nodes as its GPUs are
    memory_mib: Longs | None = None
    priority: Ints | None = None  #: larger goes first
    estimate_s: Floats | None = None  #: what the user or a model says of its duration
    status: npt.NDArray[np.int8] | None = None
    attempts: Ints | None = None
    min_gpus: Ints | None = None
    max_gpus: Ints | None = None
    preemptible: npt.NDArray[np.int8] | None = None  #: 0: once it runs, no policy takes its GPUs
    num_nodes: Ints | None = None  #: exactly so many nodes, an equal part of gpus on each; 0: as the placer likes
    topology: Names | None = None  #: a level of the cluster's tree, inside one domain of which it must be; -1 for none
    origin: str | None = None  #: ISO time of submit_s == 0
    source: str = ""  #: file or generator, for titles
    notes: tuple[str, ...] = field(default=())  #: what the reader changed or left out, one sentence each

    def __len__(self) -> int:
        return len(self.submit_s)

    def job_id(self, index: int) -> str:
        return str(index) if self.job_ids is None else str(self.job_ids[index])

    def columns(self) -> dict[str, Any]:
        """The columns that are present, by name, in declaration order."""
        skip = {"origin", "source", "notes"}
        return {k: v for k, v in self.__dict__.items() if k not in skip and v is not None}
