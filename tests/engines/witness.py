"""What jobs themselves write down of their runs, whoever started them: proof from outside that each ran, and ran once."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

PROGRAM = """
import os, sys, time
name = os.environ['FAIRLEAD_JOB_ID']
def say(what):
    line = f'{name} {os.getpid()} {what} {time.time():.3f}\\n'
    fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(fd, line.encode())
    os.close(fd)
say('begin')
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    time.sleep(0.05)
    say('runs')
say('end')
"""


def program(file: Path, seconds: float) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", PROGRAM, str(file), f"{seconds:.2f}")


def shell(file: Path, seconds: float) -> str:
    """The same for a job that somebody gives to Slurm, in words that every user's shell knows."""
    say = f'say() {{ echo "slurm-$SLURM_JOB_ID $$ $1 $(date +%s.%N)" >> {file}; }}'
    return f"{say}\nsay begin\nfor i in $(seq {round(seconds * 10)}); do sleep 0.1; say runs; done\nsay end"


@dataclass
class Run:
    job: str
    pid: int
    begin_s: float
    last_s: float
    is_whole: bool = False


def runs(file: Path) -> dict[str, list[Run]]:
    """By job, in the order in which they began."""
    found: dict[tuple[str, str], Run] = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        job, pid, what, at = line.split()
        if what == "begin":
            found[job, pid] = Run(job, int(pid), float(at), float(at))
        found[job, pid].last_s = float(at)
        found[job, pid].is_whole |= what == "end"
    made: dict[str, list[Run]] = {}
    for run in sorted(found.values(), key=lambda run: run.begin_s):
        made.setdefault(run.job, []).append(run)
    return made


def check_once(file: Path, jobs: list[str]) -> None:
    """Each has one whole run, and no two of its runs were there at the same time."""
    seen = runs(file)
    for job in jobs:
        mine = seen.get(job, [])
        assert sum(run.is_whole for run in mine) == 1, (
            f"job {job} ended {sum(run.is_whole for run in mine)} times: {mine}"
        )
        for one, other in pairwise(mine):
            assert one.last_s <= other.begin_s, f"job {job} ran twice at the same time: {one}, {other}"


def most_at_once(file: Path, gpus: dict[str, int]) -> int:
    """GPUs that these jobs held together at the worst moment, by when their programs really ran."""
    steps = []
    for job, mine in runs(file).items():
        for run in mine if job in gpus else ():
            steps += [(run.begin_s, gpus[job]), (run.last_s, -gpus[job])]
    held = most = 0
    for _, change in sorted(steps):
        held += change
        most = max(most, held)
    return most
