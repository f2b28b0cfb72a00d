"""Look at an engine again and again, and say each time what would be decided from how things stand there.

The core is built anew for each look, from what the engine shows and nothing else: what was decided before was not done, so it
has no part in what is decided next.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fairlead.model.cluster import ClusterSpec
from fairlead.model.event import EventKind
from fairlead.model.job import WHOLE_MILLI
from fairlead.record.story import REFUSED
from fairlead.runtime.live import Decision, LiveCore
from fairlead.runtime.live_jobs import LiveJob, Standing, Status
from fairlead.runtime.protocols import Phase, Place, Scene, Sighting, Watcher
from fairlead.server.jobs import asked
from fairlead.server.places import PlaceMap
from fairlead.server.shadow.journal import Row, ShadowJournal, cluster_to_json
from fairlead.workload.job_document import job_to_json

log = logging.getLogger(__name__)


@dataclass
class Seen:
    """A job of the engine's, as of the last look."""

    phase: str
    start_s: float | None = None
    ran_s: float = 0.0  #: in runs that are over
    starts: int = 0
    would: tuple[str, ...] = ()  #: what was last said of it: the deed, then where or why
    would_s: float = 0.0  #: and since when


@dataclass
class Tally:
    looks: int = 0
    jobs: int = 0
    starts: int = 0  #: that the engine made
    foreseen: int = 0  #: of which had been said before
    would: Counter[str] = field(default_factory=Counter)
    unplaced: int = 0  #: running jobs that do not fit the books: nodes that are not known, more than a node has or than was asked for


class Shadow:
    def __init__(
        self, watcher: Watcher, spec: ClusterSpec, journal: ShadowJournal, *, policy: str, placer: str
    ) -> None:
        self.watcher, self.spec, self.journal = watcher, spec, journal
        self.policy, self.placer = policy, placer
        self.tally = Tally()
        self._map = PlaceMap(spec)
        self._jobs: dict[str, Seen] = {}
        self._down: dict[str, str] = {}

    def go_on(self, rows: list[Row], now: float) -> None:
        """From what an earlier watch has written, so that no job is seen for the first time twice."""
        for row in rows:
            job = str(row.get("job", ""))
            if row["kind"] == "seen":
                self._jobs[job] = Seen("waiting")
            elif row["kind"] in ("start", "requeue", "end") and job in self._jobs:
                seen = self._jobs[job]
                if row["kind"] == "start":
                    seen.phase, seen.start_s, seen.starts = "running", row["start_s"], seen.starts + 1
                else:
                    seen.ran_s, seen.start_s = row.get("ran_s", seen.ran_s), None
                    seen.phase = "waiting" if row["kind"] == "requeue" else "ended"
        self.journal.write(
            "watch",
            now,
            engine=self.watcher.name,
            policy=self.policy,
            placer=self.placer,
            cluster=cluster_to_json(self.spec),
        )
        self.journal.flush()

    async def run(self, stop: asyncio.Event, every_s: float) -> None:
        """Until told to stop. An engine that can't be asked for a while is asked again."""
        while not stop.is_set():
            try:
                self.look(await self.watcher.look())
            except (OSError, RuntimeError, ValueError) as error:
                log.warning("%s can't be looked at: %s", self.watcher.name, error)
            try:
                await asyncio.wait_for(stop.wait(), every_s)
            except TimeoutError:
                continue

    def look(self, scene: Scene) -> list[Decision]:
        self.tally.looks += 1
        for sighting in scene.jobs:
            self._note(sighting, scene.time_s)
        self._note_nodes(scene)
        self.journal.flush()  # what was seen is worth having, whatever comes of deciding about it
        present = [one for one in scene.jobs if one.phase != Phase.ENDED]
        decisions = self._decide(scene, present)
        self._say(decisions, scene.time_s)
        here = {one.job.foreign for one in scene.jobs}
        for name in [name for name in self._jobs if name not in here]:
            seen = self._jobs.pop(name)
            if seen.phase != "ended":  # it left between two looks, and nobody saw how
                self._end(name, seen, scene.time_s, scene.time_s, missed=True)
        self.journal.flush()
        return decisions

    # -- what is seen ---------------------------------------------------------------------------------------------------------

    def _note(self, one: Sighting, now: float) -> None:
        name = one.job.foreign
        seen = self._jobs.get(name)
        if seen is None:
            if one.phase == Phase.ENDED and one.start_s is None:
                return
            seen = self._jobs[name] = Seen("waiting")
            self.tally.jobs += 1
            self.journal.write(
                "seen",
                now,
                job=name,
                user=one.job.user,
                tenant=one.job.tenant or one.job.user,
                submit_s=round(one.job.submit_s, 3),
                spec=job_to_json(one.job.spec.without_secrets()),
            )
        if seen.phase == "ended":
            return
        if one.phase != Phase.WAITING and one.start_s is not None and one.start_s != seen.start_s:
            if seen.start_s is not None:  # it was requeued and started again between two looks
                self._requeue(name, seen, one.start_s, now)
            self._start(name, seen, one, now)
        if one.phase == Phase.WAITING and seen.phase == "running":
            self._requeue(name, seen, now, now)
        if one.phase == Phase.ENDED:
            self._end(name, seen, one.end_s if one.end_s is not None else now, now)

    def _start(self, name: str, seen: Seen, one: Sighting, now: float) -> None:
        assert one.start_s is not None
        foreseen = bool(seen.would) and seen.would[0] == "start"
        self.tally.starts += 1
        self.tally.foreseen += foreseen
        seen.phase, seen.start_s, seen.starts = "running", one.start_s, seen.starts + 1
        earlier_s = round(max(one.start_s - seen.would_s, 0.0), 3) if foreseen else None
        self.journal.write(
            "start", now, job=name, start_s=round(one.start_s, 3), gpus=list(one.gpus), would_earlier_s=earlier_s
        )
        seen.would = ()

    def _requeue(self, name: str, seen: Seen, at_s: float, now: float) -> None:
        seen.ran_s += max(at_s - (seen.start_s or at_s), 0.0)
        seen.phase, seen.start_s, seen.would = "waiting", None, ()
        self.journal.write("requeue", now, job=name, ran_s=round(seen.ran_s, 3))

    def _end(self, name: str, seen: Seen, at_s: float, now: float, missed: bool = False) -> None:
        if seen.start_s is not None:
            seen.ran_s += max(at_s - seen.start_s, 0.0)
        seen.phase, seen.start_s, seen.would = "ended", None, ()
        self.journal.write(
            "end", now, job=name, end_s=round(at_s, 3), ran_s=round(seen.ran_s, 3), missed=missed or None
        )

    def _note_nodes(self, scene: Scene) -> None:
        for node, why in scene.down.items():
            if self._down.get(node) != why:
                self.journal.write("down", scene.time_s, node=node, why=why)
        for node in self._down.keys() - scene.down.keys():
            self.journal.write("up", scene.time_s, node=node)
        self._down = dict(scene.down)

    # -- what would be decided ------------------------------------------------------------------------------------------------

    def _decide(self, scene: Scene, present: list[Sighting]) -> list[Decision]:
        entries = self._entries(present, scene.time_s)
        down = [number for name in scene.down if (number := self._map.node(name)) is not None]
        core = LiveCore(self.spec, self.policy, self.placer, jobs=entries, down=down, now=scene.time_s)
        return core.step(scene.time_s)

    def _entries(self, present: list[Sighting], now: float) -> list[tuple[LiveJob, Standing]]:
        free = {node.name: [WHOLE_MILLI] * node.gpus for node in self.spec.nodes}
        can, entries = self.watcher.capabilities, []
        for one in sorted(present, key=lambda one: (one.job.submit_s, one.job.foreign)):
            seen = self._jobs[one.job.foreign]
            tenant = one.job.tenant or one.job.user
            asks = asked(one.job.spec, one.job.foreign, tenant, min(one.job.submit_s, now), can)
            standing = Standing(Status.WAITING, since_s=asks.submit_s, ran_s=seen.ran_s, done_s=seen.ran_s)
            if one.phase == Phase.RUNNING:
                held, as_asked = _holds(one, asks)
                share = asks.share_milli if as_asked else WHOLE_MILLI
                places = _fit(held, free, share)
                ids = None if places is None else self._map.gpu_ids(places)
                self.tally.unplaced += ids is None or not as_asked
                if not ids:
                    continue
                if not as_asked:  # what it holds is taken all the same, by a job that asks for just that
                    asks = replace(asks, gpus=len(ids), share_milli=share, min_gpus=0, max_gpus=0)
                    asks = replace(asks, num_nodes=0, topology="", preemptible=False)
                began_s = now if one.start_s is None else min(one.start_s, now)
                standing = Standing(
                    Status.RUNNING,
                    ids,
                    began_s,
                    first_start_s=began_s,
                    starts=max(seen.starts, 1),
                    ran_s=seen.ran_s,
                    done_s=seen.ran_s,
                    held_s=seen.ran_s,
                    milli=share,
                )
            entries.append((asks, standing))
        return entries

    def _say(self, decisions: list[Decision], now: float) -> None:
        """What is new; what was said before and still holds is not repeated."""
        said: dict[str, tuple[str, ...]] = {}
        for one in decisions:
            if one.kind == EventKind.REFUSE:
                said[one.job] = ("refuse", REFUSED[one.reason])
            elif one.kind == EventKind.SUSPEND:
                said[one.job] = ("suspend", one.reason.name.lower().replace("_", "-"))
            else:
                said[one.job] = ("start", *(place.node for place in self._map.places(one.gpu_ids, one.milli)))
        for name, seen in self._jobs.items():
            deed = said.get(name, ())
            if deed[:1] != seen.would[:1]:
                seen.would_s = now
                if deed:
                    self.tally.would[deed[0]] += 1
                    where = {"nodes": list(deed[1:])} if deed[0] == "start" else {"why": deed[1]}
                    self.journal.write(f"would-{deed[0]}", now, job=name, **where)
            seen.would = deed


def _holds(one: Sighting, asks: LiveJob) -> tuple[Sequence[tuple[str, int]], bool]:
    """By node, how many GPUs it has; and whether that is what it asked for. An engine may give fractions of GPUs on several nodes
    to one job; asked for is a whole number, or a share of one."""
    held = [(node, gpus) for node, gpus in one.gpus if gpus] if asks.gpus else one.gpus[:1]
    count = sum(max(gpus, 1) for _, gpus in held)
    return held, count == max(asks.gpus, 1) or 0 < asks.min_gpus <= count <= asks.max_gpus


def _fit(held: Sequence[tuple[str, int]], free: dict[str, list[int]], share: int) -> list[Place] | None:
    """GPUs of the nodes that a job is on, by number: engines say how many, and which ones does not matter here."""
    places = []
    for node, count in held:
        there = free.get(node)
        if there is None:
            return None
        indices = [gpu for gpu, left in enumerate(there) if left >= share][:count]
        if len(indices) < count:
            return None
        for gpu in indices:
            there[gpu] -= share
        places.append(Place(node, tuple(indices), share))
    return places
