"""How fast jobs run where: by GPU type, by how far they are spread, by who shares their GPU, by how many GPUs they have; and
what they use of a GPU. Without it all rates are 1 on what a job asked for, and GPUs are fully used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fairlead.kernels.columns import (
    F8,
    I4,
)
from fairlead.model.cluster import ClusterSpec
from fairlead.state.cluster import gpu_types
from fairlead.state.rules import Rates
from fairlead.workload.trace import Longs, Names


@dataclass(frozen=True)
class Profile:
    """One kind of job. Factors multiply; what is not named is 1."""

    speed: Mapping[str, float] = field(default_factory=dict)  #: by GPU type, over the cluster's own speeds
    #: spread over: one node, one domain of the innermost level, … ; the last holds for anything wider
    locality: tuple[float, ...] = (1.0,)
    #: alone on its GPU, with one co-tenant, … ; the last holds for more. A job that asked for a part of a GPU runs at 1 there
    #: where this is not given; one that asked for a whole GPU and is put on a part of it gets its even share of the time
    sharing: tuple[float, ...] = ()
    skew: float = 0.0  #: the largest tensor's share of the model
    #: speed on 1, 2, … GPUs in any unit, the last holds for more; where it is not given, speed goes by the number
    scale: tuple[float, ...] = ()
    utilization: float | None = None  #: how much of a GPU that it has to itself it uses; None: not known
    gpu_memory_gib: float | None = None  #: per GPU, for jobs whose trace does not tell


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
        return self._milli(column, {name: one.utilization or 0.0 for name, one in self.by_name.items()})

    @staticmethod
    def _milli(column: Names | None, shares: Mapping[str, float]) -> I4 | None:
        """Each job's share in thousandths, 0 where its profile is not known; None where all are 0."""
        if column is None or not any(shares.values()):
            return None
        table = [round(1000 * shares.get(name, 0.0)) for name in column.values]
        return np.array([*table, 0], np.int32)[column.codes]

    def memory_gib(self, column: Names | None, given_mib: Longs | None, jobs: int) -> F8 | None:
        """GPU memory per job: the trace's where it tells, else the profile's, else 0; None where nobody does."""
        if given_mib is not None:
            return given_mib / 1024.0
        if all(profile.gpu_memory_gib is None for profile in (self.default, *self.by_name.values())):
            return None
        default = self.default.gpu_memory_gib or 0.0
        if column is None:
            return np.full(jobs, default)
        table = [self.by_name.get(name, self.default).gpu_memory_gib or 0.0 for name in column.values]
        return np.array([*table, default])[column.codes]

    def rates(self, spec: ClusterSpec, most_gpus: int = 1) -> Rates:
        """`most_gpus`: the largest number of GPUs that a job may be given."""
        rows = [self.default, *self.by_name.values()]
        types = gpu_types(spec)
        spans = len(spec.levels) + 2
        seats = max(2, *(len(p.sharing) for p in rows))
        return Rates(
            speed=np.array([[spec.speeds.get(t, 1.0) * p.speed.get(t, 1.0) for t in types] for p in rows]),
            locality=np.array([_stretch(p.locality, spans) for p in rows]),
            sharing=np.array([_stretch(p.sharing or (1.0,), seats) for p in rows]),
            packed=np.array([_stretch(p.sharing or tuple(1.0 / (n + 1) for n in range(seats)), seats) for p in rows]),
            scale=np.array([_stretch(p.scale or tuple(range(1, most_gpus + 1)), most_gpus) for p in rows], np.float64),
            use=np.array([[1.0 if p.utilization is None else p.utilization] for p in rows]),
        )


def _stretch(values: tuple[float, ...], size: int) -> list[float]:
    return [values[min(i, len(values) - 1)] for i in range(size)]


__all__ = ["Profile", "Profiles"]
