"""`fairlead top`: the whole cluster on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.live.connect import Reach, talks
from fairlead.cli.live.watch import EveryOption, watch
from fairlead.cli.render import Output, OutputOption, emit, grid
from fairlead.model.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.client import Client, Cluster, Job, Node, Tenant

_SHOWN_JOBS, _SHOWN_NODES = 20, 16
_BAR = 24  #: characters of a node's bar at most


def register(app: typer.Typer, panel: str) -> None:
    app.command("top", rich_help_panel=panel)(top)


@talks
def top(
    once: Annotated[bool, typer.Option("--once", help="Print it once and leave.")] = False,
    every: EveryOption = 2.0,
    output: OutputOption = Output.table,
    *,
    reach: Reach,
) -> None:
    """Watch GPUs, queues and running jobs, live."""
    from fairlead.cli.live.words import plain

    with reach.client() as client:
        if output is not Output.table and not once:
            raise InputError("only a table can be watched", file="--output", value=str(output), accepts="--once too")
        if once:
            seen = _Seen(client)
            emit(plain(vars(seen)), output, lambda: seen.drawn())
        else:
            watch(lambda: _Seen(client).drawn(), every)


class _Seen:
    """One look at everything."""

    def __init__(self, client: Client) -> None:
        self.cluster: Cluster = client.cluster()
        self.nodes: tuple[Node, ...] = client.nodes()
        self.tenants: tuple[Tenant, ...] = client.tenants()
        self.running: tuple[Job, ...] = client.jobs(
            state=("running",), sort="started", descending=True, limit=_SHOWN_JOBS
        ).jobs

    def drawn(self) -> RenderableType:
        from rich.console import Group

        return Group(*self._head(), self._nodes(), self._tenants(), self._jobs())

    def _head(self) -> list[RenderableType]:
        from rich.text import Text

        from fairlead.cli.live.words import ago, counts, gpus

        c = self.cluster
        lines: list[RenderableType] = [
            Text(
                f"{gpus(c.gpus_used)} of {c.gpus} GPUs in use on {c.nodes} node{'s' if c.nodes != 1 else ''}; "
                f"policy {c.policy}, placer {c.placer}; fairlead {c.version}, up {ago(c.started_s, c.now_s)}"
            ),
            Text(f"jobs: {counts(c.jobs) or 'none'}"),
        ]
        return lines + ([Text(f"trouble: {c.trouble}", style="bold red")] if c.trouble else [])

    def _nodes(self) -> RenderableType:
        from fairlead.cli.live.words import gpus

        # the busiest first, where not all can be shown
        shown = sorted(self.nodes, key=lambda node: -node.gpus_used)[:_SHOWN_NODES]
        order = {node.name: i for i, node in enumerate(self.nodes)}
        rows = []
        for node in sorted(shown, key=lambda node: order[node.name]):
            rows.append(
                [
                    node.name,
                    _bar(node.gpus_used, node.gpus),
                    f"{gpus(node.gpus_used)}/{node.gpus}",
                    node.gpu_type,
                    node.state,
                ]
            )
        left = len(self.nodes) - len(shown)
        return grid(["node", "GPUs", "used", "type", "state"], rows, caption=f"and {left:,} more nodes" if left else "")

    def _tenants(self) -> RenderableType:
        from fairlead.cli.live.words import gpus

        rows = []
        for tenant in self.tenants:
            running = tenant.jobs.get("running", 0)
            queued = sum(tenant.jobs.get(state, 0) for state in ("waiting", "suspended", "held", "blocked"))
            quota = "–" if tenant.quota_gpus is None else str(tenant.quota_gpus)
            if running or queued or tenant.quota_gpus is not None:
                rows.append([tenant.name, gpus(tenant.gpus_used), quota, str(running), str(queued)])
        heads = ["tenant", "GPUs", "quota", "running", "queued"]
        return grid(heads, rows, numbers=heads[1:])

    def _jobs(self) -> RenderableType:
        from fairlead.cli.live.words import lasting, where

        rows = [
            [job.id, job.name, job.tenant, job.user, str(job.gpus), lasting(job.ran_s), where(job)]
            for job in self.running
        ]
        left = self.cluster.jobs.get("running", 0) - len(rows)
        return grid(
            ["job", "name", "tenant", "user", "GPUs", "ran", "where"],
            rows,
            numbers=("GPUs", "ran"),
            caption=f"and {left:,} more that run" if left > 0 else "",
        )


def _bar(used: float, of: int) -> str:
    """A mark for each GPU, or for an equal part of them where there are many."""
    marks = min(of, _BAR)
    filled = round(used / of * marks) if of else 0
    return "█" * filled + "·" * (marks - filled)
