"""What a run is asked to do, as plain values: the policy's and placer's traits, and the options of the run."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fairlead.kernels.columns import (
    F8,
)


@dataclass(frozen=True)
class Options:
    """What the person running it chooses beside policy and placer. Every cost is off unless asked for."""

    seed: int = 0
    start_cost_s: float = 0.0
    resume_cost_s: float = 0.0  #: what suspending and resuming take together, charged at the resumption
    resume_cost_s_per_gib: float = 0.0  #: the same, per GiB of the job's GPU memory
    job_failures: float = 0.0  #: the chance that an attempt fails
    retries: int = 0
    checkpoint_s: float = 0.0  #: work between checkpoints; 0: a failure loses all work
    node_mtbf_s: float = 0.0  #: mean time between failures of a node; 0: none
    node_mttr_s: float = 0.0
    node_events: tuple[tuple[float, int, bool], ...] = ()  #: (time, node, up)
    profiler_noise: float = 0.02  #: how far off an observation of a job's rate or utilisation may be, either way

    @property
    def nodes_fail(self) -> bool:
        return bool(self.node_events) or self.node_mtbf_s > 0


@dataclass(frozen=True)
class Rates:
    """How fast jobs run; see kernels/rates.py. Row 0 is for jobs without a profile."""

    speed: F8 = field(default_factory=lambda: np.ones((1, 1)))
    locality: F8 = field(default_factory=lambda: np.ones((1, 1)))
    sharing: F8 = field(default_factory=lambda: np.ones((1, 1)))
    packed: F8 = field(default_factory=lambda: np.ones((1, 1)))  #: the same, for who asked for a whole GPU
    scale: F8 = field(default_factory=lambda: np.ones((1, 1)))  #: speed by number of GPUs, from one
    use: F8 = field(default_factory=lambda: np.ones((1, 1)))  #: GPU utilisation, alone on its GPU

    @property
    def vary(self) -> bool:
        return bool((self.speed != 1).any() or (self.locality != 1).any() or (self.sharing != 1).any())


@dataclass(frozen=True)
class Traits:
    """What the core must know of a policy and a placer to run them."""

    strict: bool = False
    preempts: bool = False
    easy: bool = False
    by_tenant: bool = False
    queues: bool = False  #: each tenant has a queue of its own
    borrows: bool = False  #: and may hold more than its guarantee
    changes: int = 0  #: 0 never, 1 while running, 2 always
    drifts: bool = False
    levels: bool = False
    rises: bool = False  #: a running job's key can grow with time
    timers: bool = False
    quantum: float = 0.0
    half_life: float = 0.0
    planned: int = 0  #: 1: by a planner, 2: by a compiled one
    tenant_classes: bool = False  #: jobs of different tenants wait apart
    priority_classes: bool = False  #: and so do jobs of different priorities
    own_quotas: bool = False  #: it sees to quotas itself
    fewest_nodes: bool = False
    forecasts: bool = False  #: estimates are predictions, made in the run
    retrain_s: float = 0.0  #: between trainings of the model, 0: it is never trained
    gpu_parts: bool = False
    reach: int = 1 << 20  #: how many levels out from the node the placer lets a job be spread
    packs: bool = False  #: it may start jobs on half of a GPU
    halves: bool = False  #: some job runs on half of a GPU already, whoever put it there
    resizes: bool = False  #: it may start elastic jobs on another number of GPUs
