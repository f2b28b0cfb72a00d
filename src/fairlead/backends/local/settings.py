"""What a person can set about running jobs on this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from fairlead.model.errors import InputError

#: what of the scheduler's own environment jobs get to see; the rest may hold its secrets
PASSED_ON = (
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "LD_LIBRARY_PATH",
)


@dataclass(frozen=True)
class LocalSettings:
    """`gpus` of None: this machine's own, through NVML. A number: so many virtual GPUs on each of `nodes` nodes."""

    state_dir: Path
    gpus: int | None = None
    nodes: int = 1
    gpu_type: str = ""  #: of virtual GPUs
    gpu_memory_mib: int | None = None  #: of virtual GPUs
    keep_memory: bool = False  #: a stopped job may keep its GPU memory, where nothing better can be done
    log_limit_bytes: int = 64 << 20
    log_keep: int = 3  #: older files of a job's log
    umask: int = 0o022
    pass_env: tuple[str, ...] = PASSED_ON
    cgroup: str = ""  #: a delegated cgroup (v2) to put jobs with a memory limit into; "": our own, if it may be used
    mps_pipe_dir: str = field(default_factory=lambda: os.environ.get("CUDA_MPS_PIPE_DIRECTORY", ""))

    def __post_init__(self) -> None:
        if self.gpus is None and self.nodes != 1:
            raise InputError(
                "several nodes on one machine need virtual GPUs", value=self.nodes, accepts="gpus=NUMBER too"
            )
        if self.nodes < 1:
            raise InputError("a cluster needs at least one node", value=self.nodes, accepts="nodes=1 or more")
        if self.gpus is not None and self.gpus < 0:
            raise InputError("a node can't have fewer than no GPUs", value=self.gpus, accepts="gpus=0 or more")
        if self.log_limit_bytes < 1024:
            raise InputError(
                "so small a log can't be rotated", value=self.log_limit_bytes, accepts="1024 bytes or more"
            )
        if self.log_keep < 0:
            raise InputError("fewer than no old logs can't be kept", value=self.log_keep, accepts="log_keep=0 or more")
