"""Tiresias's placement: jobs with skewed messages on the fewest nodes, the others wherever there are GPUs.

A model whose largest tensor holds more than `limit` of its parameters suffers from being spread. The paper fits the limit
but does not publish it; any value from 0.15 to 0.61 separates the models it measured.
"""

from __future__ import annotations

from fairlead.kernels.columns import (
    F8,
    S_GPUS,
    S_MILLI,
    S_SKEW,
    WHOLE,
    Cluster,
)
from fairlead.kernels.picks import enough_free, relaxed
from fairlead.placement.base import Placer
from fairlead.placement.consolidate import strict
from fairlead.placement.scan import cpu_only, pick_gpu, tightest_gpu


def place(c: Cluster, s: int, seed: int, job: int, start: int, pp: F8) -> int:
    if c.shape[S_GPUS, s] == 0:
        return cpu_only(c, s)
    if c.shape[S_MILLI, s] < WHOLE:
        return pick_gpu(c, tightest_gpu(c, s))
    rows = strict(c, s)
    if rows < 0 and c.shape[S_SKEW, s] <= pp[0] * 1000.0 and enough_free(c, s):
        rows = relaxed(c, s, -1, 0)
    return rows


class Skew(Placer):
    """Fewest nodes for jobs whose model is skewed above limit, any nodes for the rest."""

    name = "skew"
    parameters = {"limit": 0.3}
    place = staticmethod(place)
