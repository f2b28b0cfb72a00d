"""How fast the API is with a full queue. Run it by hand, server and client on one core:

taskset -c 0 python -m tests.server.api.speed
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

from .service import Service, service

QUEUED, MORE, AT_ONCE = 10_000, 3_000, 16


async def submit_many(url: str, token: str, jobs: int) -> float:
    """Jobs a second."""
    left = iter(range(jobs))
    limits = httpx.Limits(max_connections=AT_ONCE)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, limits=limits, timeout=60) as client:

        async def some() -> None:
            for i in left:
                body = {"name": f"job-{i}", "run": "python train.py", "resources": {"gpus": 8}, "env": {"SEED": str(i)}}
                answer = await client.post(
                    "/v1/jobs", json=body, headers={"Idempotency-Key": f"k-{time.time_ns()}-{i}"}
                )
                assert answer.status_code == 201, answer.text

        began = time.perf_counter()
        await asyncio.gather(*(some() for _ in range(AT_ONCE)))
        return jobs / (time.perf_counter() - began)


def in_own_process(live: Service, jobs: int) -> float:
    """A client that does not share our interpreter."""
    program = f"import asyncio; from tests.server.api.speed import submit_many as s; print(asyncio.run(s({live.url!r}, {live.token['ann']!r}, {jobs})))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return float(done.stdout)


def asked(live: Service, path: str, times: int = 15) -> str:
    with live.client("ann") as client:
        took = []
        for _ in range(times):
            began = time.perf_counter()
            client.get(path).raise_for_status()
            took.append((time.perf_counter() - began) * 1000)
    return f"{statistics.median(took):6.1f} ms median, {max(took):6.1f} ms at most"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, service(Path(folder) / "s") as live:
        first = live.submit(resources={"gpus": 8})  # everything else waits behind it
        live.until("ann", first, "running")
        in_own_process(live, 200)
        print(f"submissions, filling the queue to {QUEUED:,}: {in_own_process(live, QUEUED):.0f}/s")
        print(f"submissions, {QUEUED:,} queued:            {in_own_process(live, MORE):.0f}/s")
        for path in (
            "/v1/jobs?limit=100",
            "/v1/jobs?limit=1000",
            "/v1/jobs?limit=1000&state=waiting&sort=name",
            "/v1/jobs?limit=100&expect=true",
            "/v1/jobs/5000",
            "/v1/jobs/5000/explain",
            "/v1/cluster",
            "/v1/nodes",
            "/v1/events?limit=1000",
        ):
            print(f"{path:50} {asked(live, path)}")
        live.ask("ann", "POST", f"/v1/jobs/{first}/cancel")


if __name__ == "__main__":
    main()
