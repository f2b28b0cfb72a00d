"""What the command line folds by itself is what the metrics say."""

from __future__ import annotations

from fairlead.cli.inputs import read_cluster, read_source
from fairlead.cli.work import run_once
from fairlead.sim.profiles import Profiles
from fairlead.state.rules import Options


def test_the_quick_numbers_are_those_of_the_full_metrics() -> None:
    source = read_source(["gen:philly-like:jobs=2000,gpus=64,load=1.1,seed=3"])
    options = Options(seed=2, job_failures=0.2, retries=1)
    done = run_once(source, read_cluster("8x8"), "las", "consolidate", options, Profiles())
    metrics = done.metrics()
    assert done.core == metrics.core
    assert done.run.migrations == metrics.migrations > 0
    assert done.to_json("8x8")["given_up"] == metrics.failed > 0
    assert done.wall_s >= done.run.run_s
