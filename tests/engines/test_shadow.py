"""In the shadow of a real Slurm that runs its jobs by itself: all is seen, nothing is touched."""

from __future__ import annotations

import json
import os
import signal
import stat
from pathlib import Path

from cli.live.daemon import Daemon, run, until
from engines.test_daemon import shared
from fairlead.server.shadow.journal import FILE, rows
from servers.slurm import SlurmCluster

__all__ = ["shared"]
PATIENCE_S = 120.0
#: each of Slurm's commands leaves its words behind before it is run
WRAPPER = """#!/bin/sh
echo "${{0##*/}} $*" >> {log}
exec {real} "$@"
"""
CHANGES = ("sbatch", "scancel", "salloc", "srun", "update", "hold", "release", "requeue", "suspend", "reconfigure")


def spied_on(folder: Path, log: Path, real: str) -> str:
    """A PATH in which Slurm's commands tell what they are asked."""
    folder.mkdir()
    log.touch()
    for name in ("squeue", "sinfo", "scontrol", "sbatch", "scancel", "sacct", "srun", "salloc"):
        found = next((Path(part) / name for part in real.split(":") if (Path(part) / name).exists()), None)
        if found is not None:
            (folder / name).write_text(WRAPPER.format(log=log, real=found))
            (folder / name).chmod(stat.S_IRWXU)
    return f"{folder}:{real}"


def test_in_the_shadow_of_slurm_all_is_seen_and_nothing_touched(shared: Path, slurm_cluster: SlurmCluster) -> None:
    slurm_cluster.clear()
    log = shared / "asked"
    env = {**slurm_cluster.env, "FAIRLEAD_POLL": "300ms"}
    env["PATH"] = spied_on(shared / "bin", log, env["PATH"])
    daemon = Daemon(shared / "daemon", ("--engine", "slurm", "--partition", "other", "--shadow"), env=env)
    process = daemon.begin()
    try:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(5)]
        assert "touches nothing" in said[0], daemon.errors
        slurm_cluster.wait_idle()
        busy = [
            slurm_cluster.sbatch("sleep 4", "-p", "other", "--gres=gpu:8", f"-w{node}") for node in slurm_cluster.nodes
        ]
        waits = slurm_cluster.sbatch("sleep 1", "-p", "other", "--gres=gpu:2", "--account=vision")

        def ended() -> bool:
            told = [row for row in rows(daemon.state_dir) if row["kind"] == "end"]
            return len(told) == len(busy) + 1

        try:
            until(ended, PATIENCE_S)
        except AssertionError:
            raise AssertionError(slurm_cluster.run("squeue", "-a") + slurm_cluster.run("sinfo", "-a")) from None
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        daemon.end()
    found = list(rows(daemon.state_dir))
    last = next(row["job"] for row in found if row["kind"] == "seen" and f":{waits}:" in row["job"])
    kinds = [row["kind"] for row in found if row.get("job") == last]
    assert (kinds[0], kinds[-2:]) == ("seen", ["start", "end"])
    assert {state for number, state in slurm_cluster.jobs().items() if number in {*busy, waits}} <= {"COMPLETED"}
    asked = log.read_text().splitlines()
    assert asked, "nobody asked Slurm anything"
    touched = [line for line in asked if any(word in line.split() for word in CHANGES)]
    assert not touched, touched
    told = run("shadow", "report", "-o", "json", "--policy", "fifo", "--policy", "sjf", cwd=shared,
               env={**os.environ, "FAIRLEAD_STATE_DIR": str(daemon.state_dir)})  # fmt: skip
    assert told.code == 0, told.err
    report = json.loads(told.out)
    assert report["jobs"]["compared"] == len(busy) + 1
    assert [row["policy"] for row in report["rows"]] == ["slurm as it is", "fifo", "sjf"]
    assert (daemon.state_dir / FILE).stat().st_mode & 0o077 == 0
