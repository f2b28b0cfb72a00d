"""The real command in a process of its own, as people run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: compiling the core is part of the first run
PATIENCE_S = 300
#: jobs of PAPERS.md's first claim, (GPUs, seconds), all submitted at 0
CLAIM = "job_id,submit_s,gpus,duration_s\na,0,2,2\nb,0,1,8\nc,0,2,6\n"


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


def fairlead(*args: str | Path, cwd: Path | None = None, **env: str) -> Ran:
    """Compiled code is kept where it always is, so that only the first test of all compiles."""
    done = subprocess.run(
        [sys.executable, "-m", "fairlead", *map(str, args)],
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)
