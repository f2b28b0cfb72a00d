"""What a placer is: one function, compiled, and its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from fairlead.model.cluster import ClusterSpec


class Placer:
    """Subclass in one file: a name, a docstring of one line, `place`, and parameters with their defaults.

    `place(cluster, shape, seed, job, start, parameters)` writes rows (node, GPUs there, GPU id for a share or -1) to
    `cluster.pick` and returns how many, or -1 where the shape does not fit now. It changes nothing else.
    """

    name: ClassVar[str]
    parameters: ClassVar[Mapping[str, Any]] = {}
    #: True: reads cluster.gpu_free even where no job asks for a share
    needs_gpu_parts: ClassVar[bool] = False
    #: True: looks at how much of a GPU a job uses, so that jobs that differ in it are different shapes
    needs_utilization: ClassVar[bool] = False
    place: ClassVar[Callable[..., int]]

    @classmethod
    def numbers(cls, values: dict[str, object], cluster: ClusterSpec) -> list[float]:
        """The parameters as the array that `place` gets: the numbers among them, in the order of `parameters`."""
        return [float(values[name]) for name in cls.parameters]  # type: ignore[arg-type]

    @classmethod
    def reach(cls, values: dict[str, object], cluster: ClusterSpec) -> int:
        """How many levels out from the node a job may be spread: 0 one node, 1 a domain of the innermost level, …"""
        return len(cluster.levels) + 1

    @classmethod
    def takes_fewest_nodes(cls, values: dict[str, object]) -> bool:
        """True where a job is never placed on more nodes than the fewest that could hold it."""
        return False
