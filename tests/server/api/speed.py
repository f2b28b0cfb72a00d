"""How fast the API is with a full queue. Run it by hand, server and client on one core:

taskset -c 0 python -m tests.server.api.speed
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .service import Service, service

QUEUED, MORE, AT_ONCE = 10_000, 3_000, 16


async def submit_many(url: str, token: str, jobs: int) -> float:
    """Jobs a second. The client is as lean as can be: it is not what is measured."""
    host, port = url.removeprefix("http://").split(":")
    left = iter(range(jobs))

    async def some() -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        for i in left:
            job = {"name": f"job-{i}", "run": "python train.py", "resources": {"gpus": 8}, "env": {"SEED": str(i)}}
            body = json.dumps(job).encode()
            head = f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
            head += f"Idempotency-Key: k-{time.time_ns()}-{i}\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 201 "), answer
            await reader.readexactly(int(answer.lower().split(b"content-length: ")[1].split(b"\r")[0]))
        writer.close()
        await writer.wait_closed()

    began = time.perf_counter()
    await asyncio.gather(*(some() for _ in range(AT_ONCE)))
    return jobs / (time.perf_counter() - began)


def in_own_process(live: Service, jobs: int) -> str:
    """A client that does not share our interpreter."""
    asks = f"submit_many({live.url!r}, {live.token['ann']!r}, {jobs})"
    program = f"import asyncio; from tests.server.api.speed import submit_many; print(asyncio.run({asks}))"
    began = time.process_time()
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    cpu_ms = (time.process_time() - began) / jobs * 1000
    return f"{float(done.stdout):4.0f}/s, {cpu_ms:.2f} ms of the scheduler's CPU time each"


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
        print(f"submissions, filling the queue to {QUEUED:,}: {in_own_process(live, QUEUED)}")
        print(f"submissions, {QUEUED:,} queued:              {in_own_process(live, MORE)}")
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
