"""How fast jobs run where: by GPU type, by how far they are spread, by who shares their GPU. All rates are 1 without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fairlead.kernels.columns import (
    I4,
)
from fairlead.model.cluster import ClusterSpec
from fairlead.state.cluster import gpu_types
from fairlead.state.rules import Rates
from fairlead.workload.trace import Names


@dataclass(frozen=True)
class Profile:
    """One kind of job. Factors multiply; what is not named is 1."""

    speed: Mapping[str, float] = field(default_factory=dict)  #: by GPU type, over the cluster's own speeds
    #: spread over: one node, one domain of the innermost level, … ; the last holds for anything wider
    locality: tuple[float, ...] = (1.0,)
    #: alone on its GPU, with one co-tenant, … ; the last holds for more
    sharing: tuple[float, ...] = (1.0,)
    skew: float = 0.0  #: the largest tensor's share of the model
    efficiency: float = 0.0  #: how much of a GPU's compute it uses, 0: not known


@dataclass(frozen=True)
class Profiles:
    by_name: Mapping[str, Profile] = field(default_factory=dict)
    default: Profile = Profile()

    def numbers(self, column: Names | None) -> I4 | None:
        """Each job's row in the rate tables: 0 where it names no profile or one that is not known."""
        if column is None or not self.by_name:
            return None
        row = {name: i + 1 for i, name in enumerate(self.by_name)}
        table = np.array([row.get(name, 0) for name in column.values] + [0], np.int32)
        return table[column.codes]

    def skews(self, column: Names | None) -> I4 | None:
        return self._milli(column, {name: one.skew for name, one in self.by_name.items()})

    def efficiencies(self, column: Names | None) -> I4 | None:
        return self._milli(column, {name: one.efficiency for name, one in self.by_name.items()})

    @staticmethod
    def _milli(column: Names | None, shares: Mapping[str, float]) -> I4 | None:
        """Each job's share in thousandths, 0 where its profile is not known; None where all are 0."""
        if column is None or not any(shares.values()):
            return None
        table = [round(1000 * shares.get(name, 0.0)) for name in column.values]
        return np.array([*table, 0], np.int32)[column.codes]

    def rates(self, spec: ClusterSpec) -> Rates:
        rows = [self.default, *self.by_name.values()]
        types = gpu_types(spec)
        spans = len(spec.levels) + 2
        seats = max(len(p.sharing) for p in rows)
        return Rates(
            speed=np.array([[spec.speeds.get(t, 1.0) * p.speed.get(t, 1.0) for t in types] for p in rows]),
            locality=np.array([_stretch(p.locality, spans) for p in rows]),
            sharing=np.array([_stretch(p.sharing, seats) for p in rows]),
        )


def _stretch(values: tuple[float, ...], size: int) -> list[float]:
    return [values[min(i, len(values) - 1)] for i in range(size)]


__all__ = ["Profile", "Profiles"]
