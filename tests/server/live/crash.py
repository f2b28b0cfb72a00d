"""Kill a scheduler again and again while people submit jobs; then prove from outside that nothing was lost or doubled."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from fairlead.server.store import Store

WITNESS = Path(__file__).with_name("witness.py")
GPUS, NODES = 4, 2


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass
class Crash:
    path: Path
    policy: str = "srtf"
    seed: int = 1
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    acknowledged: dict[str, str] = field(default_factory=dict)  #: by key, the job's id
    trouble: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        # one for each thread
        url = f"http://127.0.0.1:{self.port}"
        self.looking, self.submitting = (httpx.Client(base_url=url, timeout=5.0, trust_env=False) for _ in range(2))
        for name in ("runs", "ends", "locks", "progress"):
            (self.path / "witness" / name).mkdir(parents=True)

    # -- the scheduler ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        with open(self.path / "scheduler.log", "ab") as out:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "fairlead", "up", "--state-dir", str(self.path / "state")),
                    *("--gpus", str(GPUS), "--nodes", str(NODES), "--policy", self.policy, "--port", str(self.port)),
                ],
                stdout=out,
                stderr=out,
                env=os.environ | {"FAIRLEAD_RUN_AS": "self"},
            )

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def is_well(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return self.looking.get("/healthz").status_code == 200
        return False

    def until_well(self, patience_s: float = 60.0) -> None:
        deadline = time.monotonic() + patience_s
        while not self.is_well():
            assert self.process is not None
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError((self.path / "scheduler.log").read_text()[-5000:])
            time.sleep(0.02)

    # -- people -----------------------------------------------------------------------------------------------------------------

    def headers(self) -> dict[str, str]:
        return {"Authorization": "Bearer " + (self.path / "state" / "token").read_text().strip()}

    def document(self) -> dict[str, Any]:
        kind = self.random.choice(["checkpoint", "stop"])
        seconds = self.random.choice([0.05, 0.2, 0.5, 1.5])
        gpus = self.random.choice([1, 1, 2, 4])
        made: dict[str, Any] = {
            "run": [sys.executable, "-S", str(WITNESS), str(self.path / "witness"), str(seconds), kind],
            "resources": {"gpus": gpus},
            "estimate": seconds * self.random.choice([0.5, 1, 2, 50]),
            "grace_period": 10,
        }
        if kind == "checkpoint":
            made["checkpoint"] = "SIGUSR1"
            # never just stopped: a process that keeps its locks while it is would accuse whoever has the GPU then
            made["suspend"] = ["checkpoint", "requeue"]
        return made

    def submit(self, key: str, document: dict[str, Any], stop: threading.Event) -> None:
        """Until it is acknowledged: the same key every time."""
        while not stop.is_set():
            try:
                headers = self.headers() | {"Idempotency-Key": key}
                answer = self.submitting.post("/v1/jobs", json=document, headers=headers)
            except (httpx.HTTPError, OSError):
                time.sleep(0.05)
                continue
            if answer.status_code in (200, 201):
                self.acknowledged[key] = answer.json()["jobs"][0]
            elif answer.status_code != 503:
                self.trouble.append(f"{key}: {answer.status_code} {answer.text}")
            if answer.status_code != 503:
                return
            time.sleep(0.05)

    def keep_submitting(self, stop: threading.Event, most_live: int = 60) -> None:
        number = 0
        while not stop.is_set():
            if len(self.acknowledged) - len(os.listdir(self.path / "witness" / "ends")) < most_live:
                self.submit(f"key-{number}", self.document(), stop)
                number += 1
            time.sleep(self.random.uniform(0.0, 0.1))

    # -- the test -----------------------------------------------------------------------------------------------------------------

    def play(self, kills: int) -> None:
        stop = threading.Event()
        self.start()
        self.until_well(300.0)  # the first on this machine compiles
        people = threading.Thread(target=self.keep_submitting, args=(stop,))
        people.start()
        try:
            for _ in range(kills):
                if self.random.random() < 0.3:  # while it starts
                    time.sleep(self.random.uniform(0.0, 2.0))
                else:
                    self.until_well()
                    time.sleep(self.random.uniform(0.0, 0.8))
                self.kill()
                self.start()
            self.until_well()
        finally:
            stop.set()
            people.join()
        self._until_all_ended()

    def _until_all_ended(self, patience_s: float = 120.0) -> None:
        deadline = time.monotonic() + patience_s
        while True:
            left = []
            for state in ("blocked", "waiting", "running", "suspended", "held"):
                found = self.looking.get("/v1/jobs", params={"state": state, "limit": 5}, headers=self.headers())
                left += found.json()["jobs"]
            if not left:
                return
            assert time.monotonic() < deadline, left[:5]
            time.sleep(0.1)

    def end(self) -> None:
        self.looking.close()
        self.submitting.close()
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()

    def findings(self) -> list[str]:
        """Everything that is wrong, by the witnesses and by the journal. Only once the scheduler is gone."""
        found = list(self.trouble)
        witness = self.path / "witness"
        if (witness / "wrong").exists():
            found += (witness / "wrong").read_text().splitlines()
        ends, runs = set(os.listdir(witness / "ends")), os.listdir(witness / "runs")
        if len(set(self.acknowledged.values())) != len(self.acknowledged):
            found.append("two keys got one job")
        with Store(self.path / "state" / "fairlead.db", write=False) as store:
            total = store.count()
            found += [f"{total} jobs are there, {len(self.acknowledged)} were acknowledged"] * (
                not len(self.acknowledged) <= total <= len(self.acknowledged) + 1
            )
            for job in self.acknowledged.values():
                row = store.job(job)
                if (row.state, row.exit_code) != ("done", 0) or job not in ends:
                    found.append(f"job {job} is {row.state}, {row.exit_code}, {row.message}; witnessed: {job in ends}")
                begun = [int(name.split(".")[1]) for name in runs if name.split(".")[0] == job]
                if max(begun) > row.run:
                    found.append(f"job {job} had run {max(begun)}, the store knows of {row.run}")
            found += double_booked(store)
        return found


def double_booked(store: Store) -> list[str]:
    """By the journal: two jobs that had one GPU at a time, or a job that was started while it ran."""
    found: list[str] = []
    holder: dict[tuple[str, int], int] = {}
    holds: dict[int, list[tuple[str, int]]] = {}
    since = 0
    while events := store.events(since):
        since = events[-1].seq
        for event in events:
            if event.job is None:
                continue
            if event.kind in ("start", "suspend", "hold", "requeue", "end"):
                for gpu in holds.pop(event.job, []):
                    del holder[gpu]
                    if event.kind == "start":
                        found.append(f"event {event.seq}: job {event.job} was started while it ran")
            if event.kind == "start":
                mine = [(node, gpu) for node, gpus, _ in event.args["places"] for gpu in gpus]
                for at in mine:
                    if at in holder:
                        found.append(f"event {event.seq}: {at} of {holder[at]} went to {event.job}")
                    holder[at] = event.job
                holds[event.job] = mine
    return found
