"""Stands by on one node, in an allocation of all its GPUs: `python3 -m fairlead.backends.slurm.pilot FOLDER PATIENCE_S`.

It starts what it finds in its inbox, each as an overlapping step of its own Slurm job, and knows no more about it: a run's agent looks
after the run. Where nobody has wanted anything for long, and the scheduler is gone too, it gives the node back.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time

from fairlead.backends.slurm import runfiles
from fairlead.backends.slurm.runfiles import FAILED

LOOK_S = 0.2
INBOX, TAKEN, ALIVE = "inbox", "taken", "alive"
AGENT = "fairlead.backends.slurm.agent"


class Pilot:
    def __init__(self, folder: str, patience_s: float) -> None:
        self.folder, self.patience_s = folder, patience_s
        self.node = os.environ["SLURMD_NODENAME"]
        self.steps: dict[str, subprocess.Popen[bytes]] = {}

    def main(self) -> None:
        while self.steps or not self._is_forsaken():
            with contextlib.suppress(OSError):
                for name in sorted(os.listdir(os.path.join(self.folder, INBOX))):
                    self._take(name)
            self._reap()
            time.sleep(LOOK_S)

    def _is_forsaken(self) -> bool:
        try:
            return time.time() - os.stat(os.path.join(self.folder, ALIVE)).st_mtime > self.patience_s
        except OSError:
            return False

    def _take(self, name: str) -> None:
        """Whoever renames it has it: we, or the scheduler that has changed its mind."""
        taken = os.path.join(self.folder, TAKEN, name)
        os.rename(os.path.join(self.folder, INBOX, name), taken)
        with open(taken, encoding="utf-8") as file:
            rundir, log = file.read().split("\n")[:2]
        self.steps[name] = subprocess.Popen(
            [
                "srun",
                f"--jobid={os.environ['SLURM_JOB_ID']}",
                "--overlap",
                "--nodes=1",
                "--ntasks=1",
                f"--nodelist={self.node}",
                "--export=ALL",
                f"--job-name={name}",
                f"--output={log.replace('%', '%%')}",
                "--open-mode=append",
                "--input=none",
                "--unbuffered",
                sys.executable,
                "-s",
                "-m",
                AGENT,
                rundir,
            ],
            stdin=subprocess.DEVNULL,
        )

    def _reap(self) -> None:
        for name, step in list(self.steps.items()):
            if step.poll() is not None:
                del self.steps[name]
                with contextlib.suppress(OSError, KeyError, ValueError):
                    self._make_sure(name, step.returncode)

    def _make_sure(self, name: str, code: int) -> None:
        """A step that could not even begin has no agent to say so."""
        with open(os.path.join(self.folder, TAKEN, name), encoding="utf-8") as file:
            rundir = file.read().split("\n")[0]
        folder = runfiles.open_dir(rundir)
        out = runfiles.open_dir(runfiles.OUT, folder)
        order = runfiles.get(folder, runfiles.ORDER) or {}
        number = [part["node"] for part in order["parts"]].index(self.node)
        if runfiles.mark(out, runfiles.claim(number), "pilot"):
            said = f"its step on {self.node} could not be started (srun: {code})"
            runfiles.put(out, runfiles.part(number), {"phase": FAILED, "time_s": time.time(), "message": said})
        for fd in (out, folder):
            os.close(fd)


def main() -> None:
    Pilot(sys.argv[1], float(sys.argv[2])).main()


if __name__ == "__main__":
    main()
