"""Looks at a Ray cluster and never touches: who has GPUs there, who waits for some, whoever they are."""

from __future__ import annotations

import asyncio
import math
import os
import time

from fairlead.backends.local.rundir import Doc
from fairlead.backends.ray.bridge import Bridge
from fairlead.backends.ray.nodes import Nodes
from fairlead.backends.ray.settings import CAPABILITIES, RaySettings
from fairlead.model.cluster import ClusterSpec
from fairlead.model.errors import InputError
from fairlead.model.job import JobSpec
from fairlead.runtime.protocols import Arrival, Phase, Scene, Sighting

#: Ray knows no users; whoever wants to be known says so in the job's metadata as "user"
NOBODY = "ray"


class RayWatcher:
    """`await RayWatcher.open(settings)`. It shows up in Ray as one more driver, which asks for nothing."""

    name = "ray"
    capabilities = CAPABILITIES

    def __init__(self, settings: RaySettings, folder: str) -> None:
        self._settings = settings
        self._nodes = Nodes(os.path.join(folder, "nodes.json"))
        self._seen: dict[str, Sighting] = {}  #: those that waited or ran at the last look
        self._told: asyncio.Queue[Doc] = asyncio.Queue()
        self._first_poll = asyncio.Event()
        self._bridge = Bridge(settings, "fairlead-watch", "", folder, self._hear)

    @classmethod
    async def open(cls, settings: RaySettings) -> RayWatcher:
        folder = os.path.join(os.path.abspath(settings.state_dir), "ray-watch")
        os.makedirs(folder, 0o700, exist_ok=True)
        watcher = cls(settings, folder)
        try:
            await asyncio.wait_for(watcher._first_poll.wait(), settings.connect_s)
        except TimeoutError:
            await watcher.close()
            raise InputError(
                f"no Ray cluster could be reached within {settings.connect_s:g} s: {watcher._bridge.trouble}",
                value=settings.address,
                accepts="HOST:PORT of a running head, on one of whose nodes this runs",
            ) from None
        return watcher

    def _hear(self, message: Doc) -> None:
        if message["event"] == "poll":
            self._nodes.update(message["nodes"], time.monotonic())
            self._first_poll.set()
        elif message["event"] in ("scene", "lost"):
            self._told.put_nowait(message)

    async def inventory(self) -> ClusterSpec:
        return self._nodes.cluster()

    async def look(self) -> Scene:
        """OSError where Ray can't be asked at present."""
        while not self._told.empty():
            self._told.get_nowait()
        if not self._bridge.tell(op="look"):
            raise OSError(f"the Ray head can't be reached: {self._bridge.trouble}")
        message = await self._told.get()
        if message["event"] == "lost" or "error" in message:
            raise OSError(f"the Ray head can't be asked: {message.get('error') or message.get('message')}")
        return self._scene(message, time.time())

    def _scene(self, message: Doc, now: float) -> Scene:
        self._nodes.update(message["nodes"], time.monotonic())
        names = {node.id: node.name for node in self._nodes.by_name.values()}
        found = {one["id"]: self._sighting(one, message["jobs"], names, now) for one in message["things"]}
        for key, before in self._seen.items():  # Ray forgets groups and actors that are gone
            if key not in found:
                found[key] = Sighting(before.job, Phase.ENDED, before.start_s, now, before.gpus)
        jobs = [one for key, one in found.items() if one.phase != Phase.ENDED or key in self._seen]
        self._seen = {key: one for key, one in found.items() if one.phase != Phase.ENDED}
        down = {node.name: node.message for node in self._nodes.by_name.values() if not node.is_up}
        return Scene(now, tuple(sorted(jobs, key=lambda one: (one.job.submit_s, one.job.foreign))), down)

    def _sighting(self, one: Doc, jobs: Doc, names: dict[str, str], now: float) -> Sighting:
        before = self._seen.get(one["id"])
        phase = Phase(one["phase"])
        submit_s = before.job.submit_s if before else (one["submit_ms"] or one["start_ms"] or now * 1000) / 1000
        job = Arrival(
            foreign=f"ray:{one['id']}",
            spec=_spec(one),
            user=jobs.get(one["job"], {}).get("user") or NOBODY,
            tenant="",
            submit_s=submit_s,
        )
        held: dict[str, float] = {}
        for bundle in one["bundles"]:
            if bundle["gpus"] and bundle["node"] in names and phase != Phase.WAITING:
                name = names[bundle["node"]]
                held[name] = held.get(name, 0.0) + bundle["gpus"]
        return Sighting(
            job,
            phase,
            one["start_ms"] / 1000 if phase != Phase.WAITING and one["start_ms"] else None,
            (one["end_ms"] / 1000 or now) if phase == Phase.ENDED else None,
            tuple((name, _whole(gpus)) for name, gpus in sorted(held.items())) or (before.gpus if before else ()),
        )

    async def close(self) -> None:
        await self._bridge.close()


def _whole(gpus: float) -> int:
    """So many are in use. Ray counts ten-thousandths, and what is left beyond those is an error of the sum."""
    return max(1, math.ceil(round(gpus, 4)))


def _spec(one: Doc) -> JobSpec:
    """A strategy that must hold becomes one; what Ray only prefers is left to the placer."""
    wants = [bundle["gpus"] for bundle in one["bundles"] if bundle["gpus"]]
    total = round(sum(wants), 4)
    name = "".join(c for c in str(one["name"]) if c.isprintable()).strip()[:200]
    run = f"Ray {one['kind']} {name or one['id']}"
    if total < 1:
        return JobSpec(run=run, name=name, gpus=1, gpu_share_milli=max(1, round(total * 1000)))
    if one["strategy"] == "STRICT_SPREAD" and len(set(wants)) == 1 and wants[0] >= 1:
        return JobSpec(run=run, name=name, gpus=_whole(wants[0]), num_nodes=len(wants))
    topology = "node" if one["strategy"] == "STRICT_PACK" else ""
    return JobSpec(run=run, name=name, gpus=_whole(total), topology=topology)
