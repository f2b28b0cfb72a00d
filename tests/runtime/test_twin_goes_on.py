"""A forecast from the middle of a run is how the run goes on: with costs, with planners, with jobs that run as something else."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairlead.kernels.columns import G_ROWS
from fairlead.model.cluster import ClusterSpec, parse_cluster_shape
from fairlead.model.event import EventKind
from fairlead.runtime.live import LiveCore
from fairlead.runtime.live_jobs import Standing
from fairlead.runtime.twin import Choice, explain, forecast, moment_of, whatif
from fairlead.sim.claims.random_cells import random_spec
from fairlead.state.rules import Options

from .past import workload

COSTS = Options(start_cost_s=2.0, resume_cost_s=5.0)
CELLS = random_spec(np.random.Generator(np.random.PCG64(4)), ("a", "b"))


@pytest.mark.parametrize(
    ("policy", "spec", "options"),
    [
        ("srtf", parse_cluster_shape("4x8"), COSTS),
        ("las:quantum=60", parse_cluster_shape("4x8"), COSTS),
        ("tiresias:thresholds=900", parse_cluster_shape("4x8"), COSTS),
        ("fifo-backfill", parse_cluster_shape("2x8@fast+2x8@slow"), Options(start_cost_s=3.0)),
        ("gandiva:quantum=60", parse_cluster_shape("4x8"), COSTS),
        ("hived", CELLS, Options()),
    ],
)
def test_a_forecast_from_the_middle_is_how_the_run_goes_on(policy: str, spec: ClusterSpec, options: Options) -> None:
    _, jobs = workload(5, 80)
    core = LiveCore(spec, policy, jobs=[(job, Standing()) for job in jobs], options=options, live=False)
    for now in (300.0, 1000.0, 1700.0):
        core.step(now)
        moment = moment_of(core, now)
        found = forecast(moment)
        twin = LiveCore(spec, policy, jobs=[(job, Standing()) for job in jobs], options=options, live=False)
        twin.step(math.inf)
        ends = _ends(twin, [job.id for job in jobs])
        left = {job.id for job, _ in moment.jobs}
        assert len(left) > 5
        assert {one.job: one.finish_s for one in found.expected.values()} == {name: ends.get(name) for name in left}
        for name in sorted(left)[:5]:
            explain(moment, name)
        rows = whatif(moment, [Choice(policy="fifo"), Choice(policy="gandiva"), Choice(policy="srtf")])
        assert [row.error for row in rows] == [""] * 4


def _ends(core: LiveCore, names: list[str]) -> dict[str, float]:
    state = core.core.state
    rows = int(state.counter[G_ROWS])
    at = np.flatnonzero(state.log.what[0, :rows] == EventKind.FINISH)
    return {names[i]: t for i, t in zip(state.log.what[1, at].tolist(), state.log.time[at].tolist(), strict=True)}
