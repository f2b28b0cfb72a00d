"""The live state at one moment, frozen: all that the twin needs to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fairlead.model.cluster import ClusterSpec, NodeSpec
from fairlead.model.errors import InputError
from fairlead.model.suggest import unknown
from fairlead.runtime.live import LiveCore
from fairlead.runtime.live_jobs import LiveJob, Memo, NoProfiles, Profiles, Standing, Status
from fairlead.state.rules import Options


@dataclass(frozen=True)
class Moment:
    spec: ClusterSpec
    policy: str
    placer: str
    now: float  #: seconds since 1970, as all times
    jobs: tuple[tuple[LiveJob, Standing], ...]  #: those that have not ended, in order of submission
    down: frozenset[int] = frozenset()  #: nodes that take no more jobs
    used: Mapping[str, tuple[float, float]] = field(default_factory=dict)  #: as LiveCore.used gives it
    options: Options = field(default_factory=Options)
    profiles: Profiles = field(default_factory=NoProfiles)
    memo: Memo | None = None  #: what the policy's planner has noted beside what is in the jobs' standings

    def with_job(self, job: LiveJob) -> Moment:
        """The same, had this job been submitted just now: for a dry run."""
        return replace(self, jobs=(*self.jobs, (replace(job, submit_s=self.now), Standing())))


def moment_of(core: LiveCore, now: float) -> Moment:
    """A copy of where the core stands. Jobs that it was told have ended are not there any more."""
    now, ending = max(now, core.reached_s), core.ending()
    jobs = tuple(entry for entry in core.snapshot(now) if entry[0].id not in ending)
    return Moment(
        core.spec,
        core.policy,
        core.placer,
        now,
        jobs,
        core.closed(),
        core.used(),
        core.options,
        core.profiles,
        core.memo(),
    )


def without(moment: Moment, names: Sequence[str]) -> Moment:
    """The same, were these nodes gone: what runs on them waits again, with what it has done so far. What the policy's planner had noted
    is forgotten, since it may speak of places that are not there any more."""
    if not names:
        return moment
    known = [node.name for node in moment.spec.nodes]
    for name in names:
        if name not in known:
            raise unknown("node", name, known)
    gone = set(names)
    if gone >= set(known):
        raise InputError("a cluster needs at least one node", value=", ".join(names), accepts="to leave one of them")
    kept = [i for i, name in enumerate(known) if name not in gone]
    spec = replace(moment.spec, nodes=tuple(moment.spec.nodes[i] for i in kept))
    new_node = {old: new for new, old in enumerate(kept)}
    places = _Places(moment.spec, new_node)
    jobs = tuple((job, places.moved(at, moment.now)) for job, at in moment.jobs)
    down = frozenset(new_node[i] for i in moment.down if i in new_node)
    return replace(moment, spec=spec, jobs=jobs, down=down, memo=None)


class _Places:
    """From GPU numbers of the whole cluster to those of what is left."""

    def __init__(self, spec: ClusterSpec, new_node: Mapping[int, int]) -> None:
        self._new_node = new_node
        self._new_gpu: dict[int, int] = {}
        first = 0
        for number, node in enumerate(spec.nodes):
            for gpu in range(first, first + node.gpus) if number in new_node else ():
                self._new_gpu[gpu] = len(self._new_gpu)
            first += node.gpus

    def moved(self, at: Standing, now: float) -> Standing:
        if at.status != Status.RUNNING:
            return replace(at, memo=None)
        left = [self._of(gpu) for gpu in at.gpu_ids]
        kept = [gpu for gpu in left if gpu is not None]
        if len(kept) == len(left):
            return replace(at, gpu_ids=tuple(kept), memo=None)
        ran_s = max(now - at.since_s, 0.0)
        done_s = max(now - (at.since_s if at.counted_s is None else at.counted_s), 0.0)
        return replace(
            at,
            status=Status.WAITING,
            gpu_ids=(),
            since_s=now,
            ran_s=at.ran_s + ran_s,
            done_s=at.done_s + done_s,
            held_s=at.held_s + ran_s,
            milli=0,
            counted_s=None,
            memo=None,
        )

    def _of(self, gpu: int) -> int | None:
        """A job without GPUs has -1 - node for its one id."""
        if gpu >= 0:
            return self._new_gpu.get(gpu)
        node = self._new_node.get(-1 - gpu)
        return None if node is None else -1 - node


def grown(spec: ClusterSpec, nodes: Sequence[NodeSpec]) -> ClusterSpec:
    """The cluster with these nodes beside its own. They get a name and domains of their own where theirs do not do."""
    taken = {node.name for node in spec.nodes}
    more: list[NodeSpec] = []
    for node in nodes:
        name, number = node.name, len(more)
        while name in taken:
            name, number = f"new-{number}", number + 1
        taken.add(name)
        path = node.path if len(node.path) == len(spec.levels) else ("new",) * len(spec.levels)
        more.append(replace(node, name=name, path=path))
    return replace(spec, nodes=(*spec.nodes, *more)) if more else spec
