"""What people get wrong, and what they are told: one line, exit 2, never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .command import fairlead

RUN = ("sim", "run", "claim.csv", "--cluster", "1x2", "--policy")
FILES = {
    "bad.csv": "job_id,submit_s,gpus,duration_s\na,0,2,2\nb,0,x,8\n",
    "bad.yaml": "groups: [\n",
    "prof.yaml": "resnet: {sped: {V100: 1}}\n",
    "nodes.csv": "time_s,node,up\n5,node-9,0\n",
    "broken.py": "def f(:\n",
    "strange.py": "from fairlead.policy.base import QueuePolicy\n\nclass A(QueuePolicy):\n    pass\n",
}
CASES = [
    (("sim", "run", "none.csv", "--cluster", "1x2", "--policy", "fifo"), "none.csv: there is no such file"),
    (("sim", "run", "folder", "--cluster", "1x2", "--policy", "fifo"), "no file in this folder is a trace"),
    (("sim", "run", "bad.csv", "--cluster", "1x2", "--policy", "fifo"), "bad.csv:3, column 'gpus'"),
    (("sim", "run", "claim.csv", "--cluster", "bad.yaml", "--policy", "fifo"), "the YAML is broken"),
    (("sim", "run", "claim.csv", "--cluster", "1xx", "--policy", "fifo"), "no cluster shape"),
    (("sim", "run", "gen:phily", "--cluster", "1x2", "--policy", "fifo"), "did you mean 'philly-like'?"),
    (("sim", "run", "gen:poisson:jobs=x", "--cluster", "1x2", "--policy", "fifo"), "jobs must be a whole number"),
    (("sim", "run", "gen:poisson:jobs", "--cluster", "1x2", "--policy", "fifo"), "a setting is written key=value"),
    ((*RUN, "fif"), "did you mean 'fifo'?"),
    ((*RUN, "las:quantm=2"), "did you mean 'quantum'?"),
    ((*RUN, "las:quantum=x"), "this parameter is a number; got 'x'"),
    ((*RUN, "las:quantum"), "a parameter is written key=value"),
    ((*RUN, "none.py:Mine"), "no such policy file"),
    ((*RUN, "broken.py:Mine"), "broken.py: the policy file does not run: SyntaxError"),
    ((*RUN, "strange.py:B"), "no policy class is called 'B'"),
    ((*RUN, "strange.py:A"), "has no `key` function"),
    ((*RUN, "fifo", "--placer", "sprad"), "did you mean 'spread'?"),
    ((*RUN, "fifo", "--jobs-out", "none/x.csv"), "there is no such folder"),
    ((*RUN, "fifo", "--jobs-out", "folder"), "this is a folder"),
    ((*RUN, "fifo", "--journal", "x.txt"), "expected .parquet or .jsonl"),
    ((*RUN, "fifo", "--node-events", "nodes.csv"), "nodes.csv:2, column 'node': there is no such node"),
    ((*RUN, "fifo", "--node-events", "none.csv"), "none.csv: this can't be read"),
    ((*RUN, "fifo", "--profiles", "prof.yaml"), "did you mean 'speed'?"),
    ((*RUN, "fifo", "--profiles", "bad.yaml"), "bad.yaml:2: the YAML is broken"),
    ((*RUN, "fifo", "--preempt-cost", "dear"), "--preempt-cost: this is no cost; got 'dear'"),
    ((*RUN, "fifo", "--job-failures", "2"), "a chance lies between 0 and 1"),
    ((*RUN, "fifo", "--node-mttr", "2"), "--node-mtbf too"),
    ((*RUN, "fifo", "--quota", "a=1"), "the trace names no tenants"),
    ((*RUN, "fifo", "--story", "zz"), "no job with this id; got 'zz'"),
    ((*RUN, "fifo", "--seed", "-1"), "a seed is not negative"),
    ((*RUN, "fifo", "--limit", "0"), "the limit is too small"),
    ((*RUN, "fifo", "--format", "phily"), "did you mean 'philly'?"),
    ((*RUN, "fifo", "--limt", "3"), "--limit"),
    ((*RUN, "fifo", "-o", "xml"), "'xml' is not one of"),
    (("sim", "run"), "Missing argument 'TRACE'"),
    (("sim", "compare", "claim.csv", "--cluster", "1x2"), "nothing to compare"),
    (("sim", "sweep", "claim.csv", "--policy", "las"), "no cluster was given"),
    (("sim", "sweep", "claim.csv", "--policy", "las", "--cluster", "1x2", "--seeds", "a"), "no list of seeds"),
    (("sim", "sweep", "claim.csv", "--policy", "las", "--cluster", "1x2", "--set", "x"), "written key=a,b"),
    (("trace", "generate"), "no generator was named"),
    (("trace", "generate", "poisson"), "nowhere to write it"),
    (("trace", "generate", "poisson", "-o", "x.txt"), "this kind of file can't be written"),
    (("trace", "convert", "claim.csv", "x.txt"), "this kind of file can't be written"),
    (("trace", "describe", "none.csv"), "there is no such file"),
    (("nothing",), "No such command 'nothing'"),
]


@pytest.mark.parametrize(("args", "told"), CASES, ids=[told for _, told in CASES])
def test_a_mistake_is_told_in_a_line_and_exits_2(args: tuple[str, ...], told: str, claim: Path, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "folder").mkdir()
    ran = fairlead(*args, cwd=tmp_path)
    assert ran.code == 2, ran.err
    assert ran.out == ""
    said = [line for line in ran.err.splitlines() if line.startswith("fairlead: ")]
    assert len(said) == 1, ran.err
    assert told in said[0]
    assert "Traceback" not in ran.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_a_file_without_permission_is_a_mistake_too(claim: Path) -> None:
    claim.chmod(0)
    ran = fairlead("trace", "describe", claim)
    assert ran.code == 2
    assert "Permission denied" in ran.err


def test_a_policy_that_breaks_off_is_a_failed_run(claim: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from fairlead.model.plan import Plan\nfrom fairlead.policy.base import Planner\n\n\n"
        "class Mine(Planner):\n"
        "    def plan(self, view, now):\n"
        '        raise RuntimeError("out of ideas")\n',
        encoding="utf-8",
    )
    ran = fairlead("sim", "run", claim, "--cluster", "1x2", "--policy", "mine.py:Mine", cwd=tmp_path)
    assert ran.code == 1
    assert "fairlead: failed: RuntimeError: out of ideas" in ran.err
    assert "Traceback" not in ran.err


def test_an_interrupt_exits_130_without_a_word() -> None:
    ask = [sys.executable, "-m", "fairlead", "sim", "run", "gen:philly-like:jobs=4000000,gpus=6400,load=0.9",
           "--cluster", "800x8", "--policy", "fifo-backfill"]  # fmt: skip
    with subprocess.Popen(ask, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while "llvmlite" not in Path(f"/proc/{process.pid}/maps").read_text():
            time.sleep(0.05)  # it is still starting
        time.sleep(1.0)  # past the imports, into generating or simulating
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert out == ""
    assert "Traceback" not in err


def test_a_reader_that_has_gone_is_no_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "fairlead", "trace", "formats", "-o", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        err = process.stderr.read()
    assert err == ""


def test_a_group_without_a_command_shows_its_help() -> None:
    ran = fairlead("sim")
    assert ran.code == 2
    assert ran.err.startswith("Usage: ")
    assert "compare" in ran.err
