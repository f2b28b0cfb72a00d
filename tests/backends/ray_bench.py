"""A Ray executor on a real cluster, with its reports collected."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fairlead.backends.ray import RayExecutor, RaySettings
from fairlead.runtime.protocols import Place, Report, ReportKind
from servers.ray_cluster import RayCluster

from .harness import Bench

PATIENCE_S = 90.0
ONE = (Place("node-1", (0,)),)


class RayBench(Bench):
    executor: RayExecutor  # type: ignore[assignment]

    async def wait(self, kind: ReportKind, job: str = "job", run: int = 1, patience_s: float = PATIENCE_S) -> Report:
        return await super().wait(kind, job, run, patience_s)

    async def start(self, *command: str, places: Any = ONE, **more: Any) -> None:
        await super().start(*command, places=places, **more)

    async def wait_node(self, kind: ReportKind, node: str) -> Report:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for report in self.seen:
                    if (report.kind, report.node) == (kind, node):
                        return report
                self.seen.append(await anext(self.reports))

    def state(self, job: str = "job", run: int = 1, part: int = 0) -> dict[str, Any]:
        file = self.executor.settings.state_dir / "ray" / "runs" / f"{job}@{run}" / str(part) / "state.json"
        return json.loads(file.read_text()) if file.exists() else {}


async def until(true: Callable[[], object]) -> None:
    """Wait for a condition that nobody reports. Ray's workers take seconds to begin on a machine that is busy."""
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            await asyncio.sleep(0.02)


def settings(path: Path, cluster: RayCluster, **more: Any) -> RaySettings:
    more.setdefault("poll_s", 0.5)
    return RaySettings(path, cluster.address, python=str(cluster.python), **more)


@asynccontextmanager
async def on_ray(path: Path, cluster: RayCluster, **more: Any) -> AsyncIterator[RayBench]:
    executor = await RayExecutor.open(settings(path, cluster, **more))
    try:
        await executor.found()
        yield RayBench(executor)
    finally:
        await executor.close()


def environment(cluster: RayCluster) -> dict[str, str]:
    """This Python with the cluster's Ray behind its own packages."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    own, its = (root / "lib" / version / "site-packages" for root in (Path(sys.prefix), cluster.python.parents[1]))
    source = Path(__file__).resolve().parents[2] / "src"
    env = {name: value for name, value in cluster.environment().items() if name.startswith("RAY_")}
    return env | {"FAIRLEAD_POLL": "0.5s", "PYTHONPATH": f"{source}:{own}:{its}", "RAY_ADDRESS": cluster.address}
