"""Everything that a live core calls, called once: what is compiled or loaded late would keep people waiting in mid-request."""

from __future__ import annotations

from dataclasses import replace

from fairlead.model.cluster import ClusterSpec
from fairlead.runtime.live import LiveCore, judge
from fairlead.runtime.live_jobs import LiveJob
from fairlead.runtime.twin import explain, forecast, moment_of


def warm_up(spec: ClusterSpec, policy: str, placer: str) -> None:
    """With a job or two on an idle copy of the cluster. Nothing of it is kept."""
    first = spec.nodes[0]
    job = LiveJob("a", 0.0, min(first.gpus, 1), duration_s=10.0)
    judge(spec, policy, placer, job)
    judge(spec, policy, placer, replace(job, topology="node"))  # where a job must be is looked for by a part of its own
    core = LiveCore(spec, policy, placer, now=1.0)
    core.submit(job, 1.0)
    core.submit(LiveJob("b", 0.0, min(first.gpus, 1), duration_s=20.0, priority=1), 1.0)
    core.step(2.0)
    core.withdraw("a", 2.0)
    core.step(2.5)
    core.admit("a", 3.0)
    core.step(3.0)
    core.requeue("a", 4.0)
    core.close_node(0, 4.0)
    core.open_node(0, 4.5)
    core.step(5.0)
    moment = moment_of(core, 5.0)
    forecast(moment)
    explain(moment, "b")
    core.change(6.0, policy=policy)
    core.end("b", 7.0)
    core.forget("a", 8.0)
    core.step(9.0)
