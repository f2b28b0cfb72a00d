"""The live scheduler's figures: a full queue through the API, and memory over many jobs."""

from __future__ import annotations

import asyncio
import re
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from fairlead.cli.bench import Bench, Row
from fairlead.cli.live.own import Own, own_scheduler
from fairlead.cli.render import say

QUEUED, MORE, AT_ONCE = 10_000, 3_000, 16
FINISHED, WARM = 50_000, 10_000
SUBMITS_PER_S, JOBS_S, PASS_S, GROWTH_MIB = 300.0, 0.2, 0.1, 10.0
#: a client that submits as fast as it can is what is measured, not what is limited
_SETTINGS = {"FAIRLEAD_REQUEST_RATE": "1000000", "FAIRLEAD_REQUEST_BURST": "1000000"}
_OPTIONS = ("--gpus", "8")


def live(run: Bench) -> Iterator[Row]:
    """Ten thousand jobs wait behind one that holds all GPUs."""
    with (
        tempfile.TemporaryDirectory() as folder,
        own_scheduler(Path(folder), _OPTIONS, _SETTINGS) as own,
        _client(own) as client,
    ):
        first = client.post("/v1/jobs", json=_job("first", "sleep 100000")).json()["jobs"][0]
        asyncio.run(_submit(own, 200, "true", 8))
        filling = asyncio.run(_submit(own, QUEUED, "true", 8))
        more = asyncio.run(_submit(own, MORE, "true", 8))
        yield Row(
            f"submissions, {QUEUED:,} queued", more, "jobs/s", SUBMITS_PER_S, True, f"{filling:.0f}/s while filling"
        )
        took = [_timed(client, "/v1/jobs?limit=100&sort=submitted") for _ in range(15)]
        yield Row(
            f"`jobs`, {QUEUED:,} queued", statistics.median(took), "s", JOBS_S, detail=f"{max(took):.3f} s at most"
        )
        passes, within_s, mean_s = _passes(client)
        yield Row(
            f"999 of 1,000 decision passes, {QUEUED:,} queued",
            within_s,
            "s",
            PASS_S,
            detail=f"within that, of {passes:,}; mean {1000 * mean_s:.2f} ms",
        )
        client.post(f"/v1/jobs/{first}/cancel")


def live_memory(run: Bench) -> Iterator[Row]:
    """Fifty thousand jobs come, run and end."""
    with tempfile.TemporaryDirectory() as folder, own_scheduler(Path(folder), _OPTIONS, _SETTINGS) as own:
        seen: list[tuple[int, float]] = []
        with _client(own) as client:
            began = time.perf_counter()
            for number in range(0, FINISHED, WARM // 10):
                asyncio.run(_submit(own, WARM // 10, "true", 1))
                while _live_jobs(client) > WARM // 10:
                    time.sleep(0.05)
                seen.append((number + WARM // 10, _resident_mib(own.pid)))
            while _live_jobs(client):
                time.sleep(0.05)
            rate = FINISHED / (time.perf_counter() - began)
        warm = max(mib for jobs, mib in seen if jobs <= WARM)
        say("  ".join(f"{jobs // 1000}k: {mib:.0f} MiB" for jobs, mib in seen[9::10]))
        yield Row(
            f"memory gained from {WARM:,} to {FINISHED:,} finished jobs",
            max(_resident_mib_last(seen) - warm, 0.0),
            "MiB",
            GROWTH_MIB,
            detail=f"{warm:.0f} MiB before; {rate:.0f} jobs/s started and ended",
        )


def _resident_mib_last(seen: list[tuple[int, float]]) -> float:
    return statistics.median(mib for _, mib in seen[-5:])


def _client(own: Own) -> httpx.Client:
    headers = {"Authorization": f"Bearer {own.token}"}
    return httpx.Client(base_url=own.url, headers=headers, timeout=60.0, trust_env=False)


def _job(name: str, run: str, gpus: int = 8) -> dict[str, Any]:
    return {"name": name, "run": ["sh", "-c", run], "resources": {"gpus": gpus}, "workdir": "/"}


async def _submit(own: Own, jobs: int, run: str, gpus: int) -> float:
    """Jobs a second, over several connections at once."""
    left = iter(range(jobs))
    headers = {"Authorization": f"Bearer {own.token}"}
    async with httpx.AsyncClient(
        base_url=own.url, headers=headers, timeout=60.0, trust_env=False, limits=httpx.Limits(max_connections=AT_ONCE)
    ) as client:

        async def some() -> None:
            for i in left:
                answer = await client.post("/v1/jobs", json=_job(f"job-{i}", run, gpus))
                answer.raise_for_status()

        began = time.perf_counter()
        await asyncio.gather(*(some() for _ in range(AT_ONCE)))
        return jobs / (time.perf_counter() - began)


def _timed(client: httpx.Client, path: str) -> float:
    began = time.perf_counter()
    client.get(path).raise_for_status()
    return time.perf_counter() - began


def _passes(client: httpx.Client) -> tuple[int, float, float]:
    """How many passes decided who runs, the bound of the histogram that 99.9 % of them are within, and the mean."""
    text = client.get("/metrics").text
    name = "fairlead_admission_attempt_duration_seconds"
    within: dict[float, float] = {}
    for bound, number in re.findall(rf'^{name}_bucket{{le="([^"]+)",.*}} (\S+)$', text, re.M):
        within[float(bound)] = within.get(float(bound), 0.0) + float(number)
    total = within[float("inf")]
    spent = sum(float(n) for n in re.findall(rf"^{name}_sum{{.*}} (\S+)$", text, re.M))
    return int(total), min(bound for bound, number in within.items() if number >= 0.999 * total), spent / total


def _live_jobs(client: httpx.Client) -> int:
    found = client.get("/v1/cluster").json()["jobs"]
    return sum(found.get(state, 0) for state in ("blocked", "waiting", "running", "suspended", "held"))


def _resident_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", text)
    assert found is not None
    return int(found[1]) / 1024
