"""One simulated run as the command line does it: timed, folded, and put into words."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairlead.cli.render import say
from fairlead.model.errors import InputError

if TYPE_CHECKING:
    from fairlead.cli.inputs import Source
    from fairlead.model.cluster import ClusterSpec
    from fairlead.record.journal import Journal
    from fairlead.record.metrics import CoreMetrics, Metrics
    from fairlead.sim.profiles import Profiles
    from fairlead.sim.run import Progress, Run
    from fairlead.state.rules import Options

DEFAULT_PLACER = "consolidate"


@dataclass(frozen=True)
class Done:
    """A run and what was folded from it at once."""

    run: Run
    core: CoreMetrics
    wall_s: float  #: from the trace in memory to metrics folded
    load_s: float
    notes: tuple[str, ...]

    @property
    def policy(self) -> str:
        return str(self.run.journal.run["policy"])

    @property
    def placer(self) -> str:
        return str(self.run.journal.run["placer"])

    @property
    def name(self) -> str:
        return name_of(self.policy, self.placer)

    def metrics(self) -> Metrics:
        from fairlead.record.metrics import fold_metrics

        return fold_metrics(self.run.journal, self.run.outcome)

    def to_json(self, cluster: str) -> dict[str, Any]:
        """The names up to journal_sha256 are fixed: tools rely on them."""
        from fairlead.cli.refusals import refusals
        from fairlead.record.report.run import describe_cluster

        run, journal = self.run, self.run.journal
        return {
            "policy": self.policy,
            **self.core.to_json(),
            "migrations": run.migrations,
            "load_s": self.load_s,
            "compile_s": run.compile_s,
            "wall_s": self.wall_s,
            "events": run.events,
            "journal_sha256": journal.sha256,
            "placer": self.placer,
            "seed": journal.run.get("seed", 0),
            "cluster": cluster,
            "cluster_is": describe_cluster(journal.cluster),
            "source": journal.run.get("source", ""),
            "options": {k: v for k, v in journal.run.items() if k not in ("policy", "placer", "seed", "source")},
            "refused": {one.reason: one.jobs for one in refusals(journal, run.outcome)},
            "given_up": _given_up(journal),
            "charged_gpu_s": run.charged_gpu_s,
            "lost_gpu_s": run.lost_gpu_s,
            "journal_rows": len(journal),
            "notes": list(self.notes),
            **self._predictions(),
        }

    def _predictions(self) -> dict[str, Any]:
        """How good the predictions were, where the policy went by any."""
        from fairlead.record.estimates import prediction_error

        run = self.run
        if run.estimate_s is None:
            return {}
        return {"predictions": prediction_error(run.estimate_s, run.journal.jobs.duration_s, run.outcome.finish_s)}


def name_of(policy: str, placer: str) -> str:
    """In comparisons: the placer is said where it is not the usual one."""
    return policy if placer == DEFAULT_PLACER else f"{policy} / {placer}"


def run_once(
    source: Source,
    cluster: ClusterSpec,
    policy: str,
    placer: str,
    options: Options,
    profiles: Profiles,
    progress: Progress | None = None,
) -> Done:
    from fairlead.record.metrics import core_metrics
    from fairlead.sim.run import simulate

    run = simulate(source.trace, cluster, policy, placer, options, profiles, progress)
    started = time.perf_counter()
    journal = run.journal
    core = core_metrics(journal.jobs, run.outcome, capacity_gpus=cluster.gpus, end_s=_end_s(journal))
    wall_s = run.run_s + time.perf_counter() - started
    notes = source.trace.notes + _notes(source, options, profiles)
    return Done(run, core, wall_s, source.load_s, notes)


def check_choices(pairs: Iterable[tuple[str, str]]) -> None:
    """Raise for a policy or placer that does not exist or can't be written so, before anything runs."""
    from fairlead.core.plugs import parse_choice
    from fairlead.placement.registry import find_placer
    from fairlead.policy.registry import find_policy

    for policy, placer in dict.fromkeys(pairs):
        find_policy(parse_choice(policy).name)
        find_placer(parse_choice(placer).name)


def announce_compiling() -> None:
    """Say so whenever the core is compiled from now on: silence would look like a hang."""
    from fairlead.kernels import jit

    if jit.DISABLED:
        return
    try:
        jit.CACHE_DIR.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"compiled code can't be kept here: {error.strerror}",
            file=str(jit.CACHE_DIR.parent),
            accepts="a folder to write to, named by FAIRLEAD_CACHE_DIR",
        ) from None

    def tell() -> None:
        say(f"compiling the scheduler core, once: about twenty seconds; it is kept in {jit.CACHE_DIR.parent}")

    jit.before_compiling = tell


def _end_s(journal: Journal) -> float | None:
    """When the last run of a job ended; None where none ran."""
    import numpy as np

    from fairlead.model.event import EventKind

    kinds = (EventKind.SUSPEND, EventKind.FINISH, EventKind.FAIL, EventKind.GIVE_UP, EventKind.KILL)
    last = len(journal)
    while last > 0:
        first = max(last - 4096, 0)  # the end is near: nearly every journal closes with a finish
        ends = np.flatnonzero(np.isin(journal.kind[first:last], kinds))
        if len(ends):
            return float(journal.time_s[first + int(ends[-1])])
        last = first
    return None


def _given_up(journal: Journal) -> int:
    import numpy as np

    from fairlead.model.event import EventKind

    return int(np.count_nonzero(journal.kind == EventKind.GIVE_UP))


def _notes(source: Source, options: Options, profiles: Profiles) -> tuple[str, ...]:
    """What was asked for and can have no effect on this trace."""
    trace, notes = source.trace, []
    if options.resume_cost_s_per_gib and trace.gpu_memory_mib is None:
        notes.append("the trace has no gpu_memory column, so only the fixed part of --preempt-cost is charged")
    if profiles.by_name:
        used = set(trace.profile.values) if trace.profile is not None else set()
        if not used & set(profiles.by_name):
            notes.append("no job of the trace names one of the --profiles, so only the default one has an effect")
    return tuple(notes)
