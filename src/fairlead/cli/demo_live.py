"""The live half of the demo: a scheduler of its own, real programs of several tenants, and the forecast beside what happened."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.cli.live.own import own_scheduler
from fairlead.cli.render import console, say

if TYPE_CHECKING:
    from rich.table import Table

    from fairlead.client import Client, Job
    from fairlead.workload.trace import Trace

POLICY = "srtf"  #: shows suspensions soonest
NODES, GPUS, JOBS, MEAN_S, LOAD = 2, 4, 30, 3.0, 1.2
_STYLES = {"running": "green", "suspended": "yellow", "waiting": "dim", "done": "blue", "failed": "red"}
OPTIONS = ("--gpus", str(GPUS), "--nodes", str(NODES), "--policy", POLICY)


@dataclass(frozen=True)
class Foretold:
    start_s: float
    finish_s: float


def demo_live(seed: int) -> None:
    from fairlead.cli.rehearsal.workload import TENANTS, mix
    from fairlead.client import Client

    workload = mix(JOBS, NODES * GPUS, LOAD, MEAN_S, seed, GPUS)
    foretold = _foretell(workload)
    with tempfile.TemporaryDirectory(prefix="fairlead-demo-") as folder, own_scheduler(Path(folder), OPTIONS) as own:
        say(f"a scheduler at {own.url} with {NODES} nodes of {GPUS} virtual GPUs, policy {POLICY}")
        with Client(own.url, own.token) as client:
            for tenant in TENANTS:
                client.put_tenant(tenant)
            client.wait(client.submit({"name": "warm-up", "run": ["true"]}).id)  # what is loaded late is loaded now
            jobs = _live(client, workload)
            console().print(_beside(client, jobs, foretold))
            print(_summary(client, jobs, foretold, workload))


def _foretell(workload: Trace) -> list[Foretold]:
    from fairlead.model.cluster import parse_cluster_shape
    from fairlead.sim.run import simulate

    outcome = simulate(workload, parse_cluster_shape(f"{NODES}x{GPUS}"), POLICY, "consolidate").outcome
    return [Foretold(float(start), float(end)) for start, end in zip(outcome.start_s, outcome.finish_s, strict=True)]


def _live(client: Client, workload: Trace) -> list[str]:
    """Submit each at its time and watch until all have ended; their ids."""
    from rich.live import Live

    documents = [_document(workload, i) for i in range(len(workload))]
    ids: list[str] = []
    began_s = time.perf_counter()
    with Live(console=console(), refresh_per_second=8, transient=not sys.stdout.isatty()) as live:
        while True:
            while len(ids) < len(workload) and time.perf_counter() - began_s >= workload.submit_s[len(ids)]:
                ids.append(client.submit(documents[len(ids)]).id)
            jobs = [job for job in client.all_jobs(sort="submitted", descending=False) if job.name != "warm-up"]
            live.update(_now(jobs))
            if len(ids) == len(workload) and all(job.ended for job in jobs):
                return ids
            time.sleep(0.1)


def _document(workload: Trace, i: int) -> dict[str, Any]:
    from fairlead.cli.rehearsal.live_run import program

    assert workload.tenant is not None
    return {
        "name": f"train-{i}",
        "tenant": workload.tenant.values[int(workload.tenant.codes[i])],
        "resources": {"gpus": int(workload.gpus[i])},
        "estimate": float(workload.duration_s[i]),
        "run": list(program(float(workload.duration_s[i]))),
    }


def _now(jobs: Sequence[Job]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, title="jobs that wait, run and have just ended", title_justify="left")
    for name in ("job", "tenant", "GPUs", "state", "where", "suspended"):
        table.add_column(name)
    shown = [job for job in jobs if not job.ended] + [job for job in jobs if job.ended][-5:]
    for job in shown[:24]:
        where = ", ".join(f"{place.node}:{','.join(map(str, place.gpus))}" for place in job.places)
        state = Text(job.state, style=_STYLES.get(job.state, ""))
        table.add_row(job.name, job.tenant, str(job.gpus), state, where, str(job.preemptions or ""))
    return table


def _beside(client: Client, ids: Sequence[str], foretold: Sequence[Foretold]) -> Table:
    from rich.table import Table

    table = Table(box=None, title="what the simulator foretold, and what happened", title_justify="left")
    for name in ("job", "tenant", "GPUs", "start foretold", "start", "end foretold", "end", "suspended", "by"):
        table.add_column(name, justify="left" if name in ("job", "tenant", "by") else "right")
    zero = client.job(ids[0]).submit_s  # the first comes in the first second
    for job_id, told in zip(ids, foretold, strict=True):
        job = client.job(job_id)
        assert job.first_start_s is not None
        assert job.finished_s is not None
        table.add_row(
            job.name,
            job.tenant,
            str(job.gpus),
            f"{told.start_s:.1f} s",
            f"{job.first_start_s - zero:.1f} s",
            f"{told.finish_s:.1f} s",
            f"{job.finished_s - zero:.1f} s",
            f"{job.preemptions}x" if job.preemptions else "",
            job.suspension if job.preemptions else "",
        )
    return table


def _summary(client: Client, ids: Sequence[str], foretold: Sequence[Foretold], workload: Trace) -> str:
    jobs = [client.job(job_id) for job_id in ids]
    lived = [job.finished_s - job.submit_s for job in jobs if job.finished_s is not None]
    told = [one.finish_s - float(at) for one, at in zip(foretold, workload.submit_s, strict=True)]
    mean_lived, mean_told = sum(lived) / len(lived), sum(told) / len(told)
    return (
        f"\n{sum(job.ok for job in jobs)} of {len(jobs)} jobs ended well after {sum(job.preemptions for job in jobs)} suspensions. "
        f"Mean completion time: {mean_told:.2f} s foretold, {mean_lived:.2f} s lived ({mean_lived / mean_told - 1:+.1%}).\n"
        "Now your own: `fairlead up --gpus 8`, then `fairlead submit --gpus 2 -- python train.py` in another terminal."
    )
