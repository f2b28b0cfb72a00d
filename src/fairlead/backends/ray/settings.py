"""What a person can set about running jobs on Ray."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from fairlead.backends.local.settings import PASSED_ON
from fairlead.model.errors import InputError
from fairlead.runtime.protocols import Capabilities, Suspension

#: a suspended job is gone from its nodes, so it can go on anywhere and on any number; which of a node's GPUs it gets is Ray's choice
CAPABILITIES = Capabilities(
    suspend=True,
    frees_memory=True,
    migrate=True,
    resize=True,
    share=True,
    choose_gpus=False,
    ways=(Suspension.CHECKPOINT, Suspension.STOP, Suspension.REQUEUE),
)


@dataclass(frozen=True)
class RaySettings:
    """`state_dir` is on a file system that the nodes share: runs write down there what became of them."""

    state_dir: Path
    address: str = "auto"  #: HOST:PORT of the head; "auto": that of the cluster this machine belongs to
    poll_s: float = 2.0  #: how often the cluster is asked for nodes, actors and placement groups, all at once
    python: str = sys.executable  #: a Python that has Ray, of the version that the cluster has
    #: how long Ray may take to give a run the GPUs that are free by our count
    start_s: float = 60.0
    #: after a node's death its own processes are certain to be gone: Ray's processes leave a head that they have not
    #: reached for a minute, and what they started dies with them
    fence_s: float = 90.0
    connect_s: float = 60.0  #: how long the first connection may take
    log_limit_bytes: int = 64 << 20
    log_keep: int = 3  #: older files of a job's log
    umask: int = 0o022
    pass_env: tuple[str, ...] = PASSED_ON  #: what of a node's own environment jobs get to see

    def __post_init__(self) -> None:
        for name in ("poll_s", "start_s", "fence_s", "connect_s"):
            value = getattr(self, name)
            if not value > 0:
                raise InputError("this is no time to wait", column=name, value=value, accepts="more than 0 seconds")
