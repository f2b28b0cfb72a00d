"""The agent of a run by itself, as a Slurm task starts it, with a run's directory made by hand."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.backends.slurm import runfiles

PATIENCE_S = 60.0


class AgentBench:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []

    def rundir(self, run: int = 1, **order: Any) -> Path:
        path = self.folder / f"job@{run}"
        (path / "out").mkdir(parents=True)
        part = {"node": "node1", "gpus": [], "first_rank": 0, "ranks": [{"RANK": "0"}]}
        usual = {"job": "job", "run": run, "env": {"PATH": os.environ["PATH"]}, "workdir": "/", "umask": 0o022}
        usual |= {"user": None, "parts": [part], "grace_s": 1.0, "lease_s": 60.0, "checkpoint_signal": 0}
        (path / runfiles.ORDER).write_text(json.dumps(usual | {"methods": ["requeue"]} | order))
        (path / runfiles.ASK).touch()
        return path

    def start(self, path: Path, stdout: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        env = {"PATH": os.environ["PATH"], "SLURMD_NODENAME": "node1", "PYTHONPATH": os.pathsep.join(sys.path)}
        words = [sys.executable, "-m", "fairlead.backends.slurm.agent", str(path)]
        self.processes.append(subprocess.Popen(words, env=env, stdout=stdout))
        return self.processes[-1]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[AgentBench]:
    one = AgentBench(tmp_path)
    yield one
    for process in one.processes:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


def part(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((path / "out" / runfiles.part(0)).read_text())
    except FileNotFoundError:
        return {}
    return found


def wait(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_it_kills_though_its_own_output_hangs(bench: AgentBench, tmp_path: Path) -> None:
    """A filesystem that hangs has the log on it too: whoever writes there waits, and somebody else has to kill."""
    command = ["sh", "-c", f"echo $$ > {tmp_path}/pid; exec yes"]
    path = bench.rundir(command=command, lease_s=1.0)
    bench.start(path, stdout=subprocess.PIPE)  # which nobody reads
    wait(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
    pid = int((tmp_path / "pid").read_text())
    (path / runfiles.ASK).unlink()
    wait(lambda: not is_running(pid))


def test_what_was_killed_for_its_lease_is_said_to_be_lost(bench: AgentBench) -> None:
    path = bench.rundir(command=["sleep", "1000"], lease_s=1.0)
    agent = bench.start(path)
    wait(lambda: part(path).get("phase") == "running")
    (path / runfiles.ASK).unlink()
    assert agent.wait(PATIENCE_S) == 128 + signal.SIGKILL
    assert (part(path)["phase"], part(path)["why"]) == ("ended", "fence")


def test_an_agent_that_goes_on_again_and_again_lets_go_of_what_was(bench: AgentBench) -> None:
    path = bench.rundir(command=["sleep", "1000"], methods=["stop"])
    agent = bench.start(path)
    open_files = Path(f"/proc/{agent.pid}/fd")
    counts = []
    for run in (2, 3, 4):
        wait(lambda path=path: part(path).get("phase") == "running")  # type: ignore[misc]
        counts.append(len(list(open_files.iterdir())))
        (path / runfiles.ASK).write_text("suspend")
        wait(lambda path=path: part(path).get("phase") == "suspended")  # type: ignore[misc]
        after = bench.rundir(run=run, command=["sleep", "1000"], methods=["stop"])
        (path / runfiles.ASK).write_text(f"continue {after.name}")
        path = after
    wait(lambda: part(path).get("phase") == "running")
    assert max(counts) - min(counts) <= 2  # whoever looks just now has a file open
    assert len(list(open_files.iterdir())) <= max(counts) + 1
    (path / runfiles.ASK).write_text("stop")
    assert agent.wait(PATIENCE_S) == 128 + signal.SIGTERM


def test_a_run_is_started_and_its_end_written_down(bench: AgentBench) -> None:
    path = bench.rundir(command=["sh", "-c", "exit 3"])
    assert bench.start(path).wait(PATIENCE_S) == 3
    assert (part(path)["phase"], part(path)["exit_code"]) == ("ended", 3)


def test_whoever_allows_only_a_checkpoint_is_asked_until_it_can(bench: AgentBench, tmp_path: Path) -> None:
    """It is no trouble of the job's that it was asked before it was ready, and no reason to kill it."""
    program = "import os,signal,sys,time; time.sleep(1.5); signal.signal(signal.SIGUSR1, lambda *_: os._exit(0)); time.sleep(1000)"
    path = bench.rundir(
        command=[sys.executable, "-c", program],
        methods=["checkpoint"],
        checkpoint_signal=int(signal.SIGUSR1),
        grace_s=0.3,
    )
    agent = bench.start(path)
    wait(lambda: part(path).get("phase") == "running")
    (path / runfiles.ASK).write_text("suspend")
    assert agent.wait(PATIENCE_S) == 0
    assert (part(path)["phase"], part(path)["method"]) == ("suspended", "checkpoint")


def test_a_slow_checkpoint_is_waited_for_where_nothing_else_is_allowed(bench: AgentBench) -> None:
    saves = "trap 'sleep 1.5; exit 0' USR1; while :; do sleep 0.1; done"
    path = bench.rundir(
        command=["bash", "-c", saves], methods=["checkpoint"], checkpoint_signal=int(signal.SIGUSR1), grace_s=0.3
    )
    agent = bench.start(path)
    wait(lambda: part(path).get("phase") == "running")
    time.sleep(0.5)  # for its trap
    (path / runfiles.ASK).write_text("suspend")
    assert agent.wait(PATIENCE_S) == 0
    assert (part(path)["phase"], part(path)["method"]) == ("suspended", "checkpoint")
