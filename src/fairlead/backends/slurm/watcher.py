"""Looks at a Slurm and never touches it: what shadow mode goes by."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping

from fairlead.backends.slurm import parse
from fairlead.backends.slurm.arrivals import arrival, foreign_name, gpus
from fairlead.backends.slurm.commands import Slurm
from fairlead.backends.slurm.inventory import Site, survey
from fairlead.backends.slurm.rows import ACTIVE, Row, all_jobs, node_states
from fairlead.backends.slurm.settings import SlurmSettings, capabilities
from fairlead.model.cluster import ClusterSpec
from fairlead.model.errors import InputError
from fairlead.runtime.protocols import Arrival, Capabilities, Phase, Scene, Sighting


class SlurmWatcher:
    """`await SlurmWatcher.open(settings)`. It runs squeue, sinfo and `scontrol show`, as anybody may, and writes nothing."""

    name = "slurm"

    def __init__(self, settings: SlurmSettings, slurm: Slurm, site: Site) -> None:
        self.slurm, self.site = slurm, site
        self._settings = settings
        self._names: dict[
            str, Arrival
        ] = {}  #: as they were when they were first seen: a requeued job has another submit time
        self._ended: set[str] = set()

    @classmethod
    async def open(cls, settings: SlurmSettings) -> SlurmWatcher:
        slurm = Slurm(settings)
        return cls(settings, slurm, await survey(slurm, settings.partition, only_looks=True))

    @property
    def capabilities(self) -> Capabilities:
        return capabilities(self._settings.mode)

    async def inventory(self) -> ClusterSpec:
        return self.site.spec

    async def look(self) -> Scene:
        time_s = time.time()
        rows = await all_jobs(self.slurm)
        down = await node_states(self.slurm, self.site.partition)
        jobs = tuple(sighting for row in rows.values() if (sighting := self._see(row)) is not None)
        self._names = {number: job for number, job in self._names.items() if number in rows}
        self._ended &= set(rows)
        return Scene(time_s, jobs, {node: why for node, why in down.items() if why and node in self.site.nodes})

    def _see(self, row: Row) -> Sighting | None:
        own = (self.site.partition, self.site.runs_in)
        if not set(row["partition"].split(",")) & set(own):
            return None
        known = self._names.get(row.id)
        if known is None:
            try:
                known = arrival(self.site, row, foreign_name(self.site, row))
            except InputError:  # nothing that could be placed here
                return None
            self._names[row.id] = known
        if row.is_terminal:
            if row.id in self._ended:
                return None
            self._ended.add(row.id)
            return Sighting(known, Phase.ENDED, row.time_s("start"), row.time_s("end"), self._held(row))
        self._ended.discard(row.id)
        if row.state in ACTIVE:
            return Sighting(known, Phase.RUNNING, row.time_s("start"), None, self._held(row))
        return Sighting(known, Phase.WAITING)

    def _held(self, row: Row) -> tuple[tuple[str, int], ...]:
        return held(row, self.site.nodes)

    async def close(self) -> None:
        """Nothing is open."""


def held(row: Row, nodes: Mapping[str, object]) -> tuple[tuple[str, int], ...]:
    """By node. Slurm says it for each node only where it is asked about one job; GPUs of a whole job are spread evenly, the rest
    to the first."""
    names = parse.hosts(row["nodes"])
    count, _, is_per_node = gpus(row)
    if not names:
        return ()
    found: dict[str, int] = defaultdict(int)
    for i, name in enumerate(names):
        found[name] += count if is_per_node else count // len(names) + (i < count % len(names))
    return tuple((name, n) for name, n in found.items() if name in nodes)
