"""What docs/gpu.md reports, measured on this machine's first GPU with `fairlead up`:

    python tests/gpu/measure.py [--sizes 1 10 25] [--turns-gib 45] [--free-gib 60] [-o figures.json]

How long suspending and resuming take by memory size; and two trainings that each need most of the GPU memory that is free, which
take turns: neither could run beside the other, and both end with the very losses of a run that nobody disturbed. `--turns-gib 0`
and `--sizes` with nothing after it leave a part out.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairlead import Client

TRAIN = str(Path(__file__).with_name("train.py"))
HOLD = "import sys, torch; held = torch.empty(int(sys.argv[1]) << 20, dtype=torch.uint8, device='cuda'); print('held', flush=True); sys.stdin.read()"


@contextlib.contextmanager
def scheduler(folder: Path, policy: str) -> Iterator[Client]:
    command = [sys.executable, "-m", "fairlead", "up", "--state-dir", str(folder), "--port", "0", "--policy", policy]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        assert process.stdout is not None
        try:
            told = []
            for line in process.stdout:
                told.append(line.rstrip())
                url = next((word for word in line.split() if word.startswith("http://")), "")
                if url:
                    break
            with Client(url, (folder / "token").read_text().strip()) as client:
                yield client
        finally:
            process.send_signal(signal.SIGTERM)


def used_mib() -> int:
    ask = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0"]
    return int(subprocess.run(ask, capture_output=True, text=True, check=True).stdout)


def gpu() -> str:
    ask = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader", "-i", "0"]
    return subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()


def submit(client: Client, gib: float, steps: int, **more: Any) -> str:
    run = [sys.executable, TRAIN, str(gib), str(steps)]
    return client.submit({"run": run, "resources": {"gpus": 1}, "grace_period": 60, **more}).id


def log(client: Client, job: str) -> list[str]:
    return b"".join(client.logs(job)).decode().splitlines()


def until_trains(client: Client, job: str, more_than: int = 0) -> None:
    while True:
        if sum(line.startswith("step") for line in log(client, job)) > more_than:
            return
        if client.job(job).ended:
            raise AssertionError(f"{client.job(job)}\n" + "\n".join(log(client, job)[-20:]))
        time.sleep(0.2)


def events(client: Client, job: str) -> list[Any]:
    return list(client.job_events(job).events)


def until(client: Client, job: str, kind: str, count: int) -> list[Any]:
    while True:
        found = [event for event in events(client, job) if event.kind == kind]
        if len(found) >= count:
            return found
        time.sleep(0.05)


def by_size(client: Client, sizes: list[float], again: int) -> list[dict[str, Any]]:
    rows = []
    for gib in sizes:
        job = submit(client, gib, 10_000_000)
        until_trains(client, job, 5)
        for number in range(1, again + 1):
            before_mib = used_mib()
            began = time.monotonic()
            client.suspend(job)
            suspended = until(client, job, "suspended", number)[-1]
            suspend_s = time.monotonic() - began
            left_mib = used_mib()
            steps = sum(line.startswith("step") for line in log(client, job))
            began = time.monotonic()
            client.resume(job)
            until(client, job, "resumed", number)
            resume_s = time.monotonic() - began
            until_trains(client, job, steps + 3)
            rows.append(
                {
                    "gib": gib,
                    "method": suspended.args["method"],
                    "used_gib": round(before_mib / 1024, 1),
                    "left_gib": round(left_mib / 1024, 1),
                    "suspend_s": round(suspend_s, 2),
                    "resume_s": round(resume_s, 2),
                }
            )
            print(rows[-1], flush=True)
        client.cancel(job)
        client.wait(job)
    return rows


def turns(client: Client, gib: float, free_gib: float, steps: int) -> dict[str, Any]:
    total_mib = int(gpu().split(",")[1].split()[0])
    alone = submit(client, gib, steps)
    began = time.monotonic()
    assert client.wait(alone).ok, log(client, alone)[-5:]
    alone_s = time.monotonic() - began
    print(f"alone: {alone_s:.1f} s", flush=True)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(int(total_mib - free_gib * 1024))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as holder:  # fmt: skip
        assert holder.stdout is not None
        assert holder.stdin is not None
        holder.stdout.readline()
        began = time.monotonic()
        both = [submit(client, gib, steps) for _ in range(2)]
        ended = [client.wait(job) for job in both]
        for event in (event for job in both for event in events(client, job)):
            print(f"{event.time_s:.1f} {event.job}.{event.run} {event.kind} {event.args}", flush=True)
        both_s = time.monotonic() - began
        holder.stdin.close()
    want = [line for line in log(client, alone) if line.startswith("step")]
    return {
        "gib": gib,
        "free_gib": free_gib,
        "steps": steps,
        "alone_s": round(alone_s, 1),
        "both_s": round(both_s, 1),
        "states": [job.state for job in ended],
        "suspensions": [job.preemptions for job in ended],
        "methods": [sorted({e.args["method"] for e in events(client, job) if e.kind == "suspended"}) for job in both],
        "same_losses": [[line for line in log(client, job) if line.startswith("step")] == want for job in both],
        "loss_first_last": [float.fromhex(want[0].split()[2]), float.fromhex(want[-1].split()[2])],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=float, nargs="*", default=[1, 10, 25])
    parser.add_argument("--again", type=int, default=2)
    parser.add_argument("--turns-gib", type=float, default=45)
    parser.add_argument("--free-gib", type=float, default=60)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--policy", default="las:quantum=40")
    parser.add_argument("-o", "--output", type=Path)
    asked = parser.parse_args()
    found: dict[str, Any] = {
        "gpu": gpu(),
        "host_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
    }
    with tempfile.TemporaryDirectory() as folder, scheduler(Path(folder), asked.policy) as client:
        for name, measure in (
            ("turns", lambda: asked.turns_gib and turns(client, asked.turns_gib, asked.free_gib, asked.steps)),
            ("by_size", lambda: by_size(client, asked.sizes, asked.again)),
        ):
            try:
                found[name] = measure()
            except Exception as error:
                found[name] = f"failed: {error!r}"
            print(name, json.dumps(found[name]), flush=True)
            if asked.output:
                asked.output.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
