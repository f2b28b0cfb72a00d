"""The append-only record of one run. Metrics, reports and replays read this and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fairlead.model.cluster import ClusterSpec


@dataclass(frozen=True)
class JobTable:
    """What was submitted: one line per job, in order of submission. The submit events of the journal."""

    submit_s: npt.NDArray[np.float64]
    gpus: npt.NDArray[np.int32]
    duration_s: npt.NDArray[np.float64]
    share_milli: npt.NDArray[np.int32] | None  #: None: all jobs take whole GPUs
    tenant: npt.NDArray[np.int32] | None
    tenant_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Journal:
    """Rows in order of time; `kind` is a model.event.EventKind and says what `arg` means.

    A START row's GPUs are `gpu_ids[arg : arg + k]` where k is the job's GPU count (1 for a share; a CPU job has one
    entry, -1 - node). A START_AS row's are too, but k is `gpu_ids[arg - 2]`, and the job holds `gpu_ids[arg - 1]` milli-GPUs
    of each. GPU ids run through the nodes in the cluster's order: node 0 has 0..g0-1, node 1 the next, and so on.
    """

    cluster: ClusterSpec
    jobs: JobTable
    time_s: npt.NDArray[np.float64]
    kind: npt.NDArray[np.int32]
    job: npt.NDArray[np.int32]
    arg: npt.NDArray[np.int32]
    gpu_ids: npt.NDArray[np.int32]
    sha256: str = ""
    #: policy, placer, seed and options of the run, as JSON values
    run: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.time_s)


@dataclass(frozen=True)
class Outcome:
    """What became of each job, folded from the journal. NaN where it did not happen."""

    start_s: npt.NDArray[np.float64]  #: first start
    finish_s: npt.NDArray[np.float64]
    ran_s: npt.NDArray[np.float64]  #: seconds on its GPUs, all runs together, overheads included
    preemptions: npt.NDArray[np.int32]
    refused: npt.NDArray[np.int8]  #: a model.reason.Reason, 0 where it was accepted
    held_gpu_s: npt.NDArray[np.float64] | None = None  #: None: every job held what it asked for, all the while
