"""How jobs ended, and after how many attempts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fairlead.workload.generate.mix import Outcomes
from fairlead.workload.trace import Floats, Ints, Status


def draw(rng: np.random.Generator, outcomes: Outcomes, gpu_seconds: Floats) -> tuple[npt.NDArray[np.int8], Ints]:
    """Status and attempts. Longer and larger jobs end badly more often, as the published shares show."""
    size = np.log10(np.maximum(gpu_seconds, 1.0))
    failed = np.exp(outcomes.failed[0] + outcomes.failed[1] * size)
    killed = np.exp(outcomes.killed[0] + outcomes.killed[1] * size)
    rank = rng.random(len(size)) * (1.0 + failed + killed)
    status = np.full(len(size), Status.PASSED, dtype=np.int8)
    status[rank < failed + killed] = Status.KILLED
    status[rank < failed] = Status.FAILED

    attempts = np.ones(len(size), dtype=np.int32)
    if outcomes.retry > 0:
        which = np.flatnonzero(status == Status.FAILED)
        tries = rng.geometric(1.0 - outcomes.retry, size=len(which))
        attempts[which] = np.minimum(tries, outcomes.max_attempts)
    return status, attempts
