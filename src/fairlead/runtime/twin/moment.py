"""The live state at one moment, frozen: all that the twin needs to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fairlead.model.cluster import ClusterSpec, NodeSpec
from fairlead.runtime.live import LiveCore
from fairlead.runtime.live_jobs import LiveJob, Memo, NoProfiles, Profiles, Standing
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
