"""What a person can set about running jobs through Slurm."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fairlead.model.errors import InputError
from fairlead.runtime.protocols import Capabilities, Suspension

JOBS, PILOT = "jobs", "pilot"
#: the partition in which released jobs run is called like the one that people submit to, and this
RUNS = "-fairlead"


def capabilities(mode: str) -> Capabilities:
    """A Slurm job gives its GPUs back by ending; it comes back on whichever nodes, with whichever GPUs of them, and however many:
    that is how one is resized. Runs that share a pilot's allocation are stopped where they are, and their memory stays taken."""
    if mode == PILOT:
        stops = (Suspension.CHECKPOINT, Suspension.STOP, Suspension.REQUEUE)
        return Capabilities(suspend=True, share=True, choose_gpus=True, ways=stops)
    ends = (Suspension.CHECKPOINT, Suspension.REQUEUE)
    return Capabilities(suspend=True, frees_memory=True, migrate=True, resize=True, choose_gpus=False, ways=ends)


@dataclass(frozen=True)
class SlurmSettings:
    """`partition` is what is handed to us, "" for Slurm's default one. `state_dir` must be on a filesystem that the nodes share."""

    state_dir: Path
    partition: str = ""
    mode: str = JOBS  #: a Slurm job for each run; or "pilot": steps of allocations that are held for good
    poll_s: float = 2.0  #: how often Slurm is asked how things stand
    lease_s: float = (
        60.0  #: how long a run goes on when its node can't reach `state_dir`; a lost run is certain after as long
    )
    calls_per_s: float = 5.0  #: that are for one job each, on the average
    calls_at_once: int = 40  #: and so many before that average counts
    call_timeout_s: float = 30.0
    python: str = "python3"  #: on the nodes, 3.8 or newer
    account: str = ""  #: Slurm's account for jobs that were submitted to us; "": the user's default

    def __post_init__(self) -> None:
        if self.mode not in (JOBS, PILOT):
            raise InputError("there is no such way to use Slurm", value=self.mode, accepts=f"{JOBS} or {PILOT}")
        if not self.poll_s > 0:
            raise InputError("Slurm can't be asked so often", value=self.poll_s, accepts="more than 0 seconds")
        if not self.lease_s >= 4:
            raise InputError(
                "a lease so short ends with every hiccup of the filesystem", value=self.lease_s, accepts="4 s or more"
            )
