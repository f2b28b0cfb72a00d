"""Every policy on one small workload: a row per policy, worked out by hand. And docs/add-a-policy.md, which adds one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fairlead.core.plugs import parse_choice
from fairlead.model.cluster import parse_cluster_shape
from fairlead.model.errors import InputError
from fairlead.policy.base import CompiledPlanner, Planner, QueuePolicy, changes_of
from fairlead.policy.registry import find_policy, policies
from fairlead.sim.run import simulate
from fairlead.workload.trace import Names, Trace

ROOT = Path(__file__).resolve().parents[1]

# One node of 4 GPUs. z has them all until 2; then five jobs compete: long and narrow, wide, important, short, or of the
# tenant that has had nothing yet.
#
#            submit  GPUs  duration  tenant  priority
WORKLOAD = """
        z       0     4       2      red       0
        a       1     2       6      red       0
        b       1     4       4      red       2
        c       1     2       4      blue      0
        d       2     2       1      red       0
        e       2     1       4      blue      1
"""

#: the policy as one would type it, and when each job finishes, in that order
ROWS = [
    ("drf", "z=2 c=6 a=8 d=9 e=10 b=14"),
    ("easy-backfill", "z=2 c=6 d=7 a=8 b=12 e=16"),
    ("fair-share", "z=2 c=6 e=6 d=7 a=12 b=16"),
    ("fifo", "z=2 a=8 b=12 d=13 c=16 e=17"),
    ("fifo-backfill", "z=2 c=6 d=7 a=8 e=11 b=15"),
    # b takes turns with z, of its size; of the others, e has the higher priority, and d takes a turn of c
    ("gandiva:quantum=1", "z=2 b=6 e=10 a=12 d=12 c=15"),
    ("las:quantum=1", "d=4 e=7 z=8 c=11 a=13 b=14"),
    ("priority", "z=2 b=6 e=10 a=12 d=13 c=14"),
    ("priority:preempt=true", "b=5 e=9 z=10 a=12 d=13 c=14"),
    ("quota", "z=2 c=6 a=8 e=10 b=14 d=15"),
    ("sjf", "z=2 d=3 c=6 e=7 a=12 b=16"),
    ("smallest-first", "z=2 e=6 a=8 d=9 c=10 b=14"),
    ("srsf", "z=2 d=3 e=6 c=7 a=12 b=16"),
    ("srtf", "z=2 d=3 c=6 e=7 b=11 a=16"),
    ("tiresias:thresholds=4", "d=5 e=8 z=9 a=10 c=11 b=14"),
    ("tiresias:thresholds=4,knob=1", "z=3 d=7 c=8 a=11 e=13 b=14"),
    ("yarn-cs", "c=5 e=6 z=7 a=13 b=17 d=18"),
]


def workload(text: str = WORKLOAD) -> tuple[str, Trace]:
    """The names of the jobs, one letter each, and the trace."""
    names, submit_s, gpus, duration_s, tenants, priority = zip(*(line.split() for line in text.strip().splitlines()))
    known = tuple(dict.fromkeys(tenants))
    trace = Trace(
        submit_s=np.array(submit_s, np.float64),
        gpus=np.array(gpus, np.int32),
        duration_s=np.array(duration_s, np.float64),
        tenant=Names(np.array([known.index(tenant) for tenant in tenants], np.int32), known),
        priority=np.array(priority, np.int32),
    )
    return "".join(names), trace


def finishes(policy: str) -> str:
    names, trace = workload()
    finish_s = simulate(trace, parse_cluster_shape("1x4"), policy).outcome.finish_s.tolist()
    return " ".join(
        f"{name}={at:g}" for at, name in sorted(zip(finish_s, names), key=lambda x: (x[0], names.index(x[1])))
    )


@pytest.mark.parametrize(("policy", "want"), ROWS)
def test_jobs_finish_as_the_policy_ranks_them(policy: str, want: str) -> None:
    assert finishes(policy) == want


def test_every_queue_policy_has_a_row() -> None:
    """Planners have tests of their own."""
    ours = {
        name
        for name, policy in policies().items()
        if policy.__module__.startswith("fairlead.") and issubclass(policy, QueuePolicy)
    }
    tested = {parse_choice(text).name for text, _ in ROWS}
    assert ours - tested == set(), "these policies have no row in ROWS"


def test_no_two_rows_are_the_same() -> None:
    assert len({want for _, want in ROWS}) == len(ROWS), "the workload does not tell these policies apart"


# -- a user's own -----------------------------------------------------------------------------------------------------------


def write(tmp_path: Path, body: str) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(f"import math\nfrom fairlead.policy.base import Planner, QueuePolicy\n{body}", encoding="utf-8")
    return path


def test_a_policy_of_three_lines_runs_from_its_file(tmp_path: Path) -> None:
    path = write(tmp_path, "class Lifo(QueuePolicy):\n    def key(job, now, p):\n        return -job.submit_s\n")
    assert finishes(f"{path}:Lifo") == "z=2 d=3 e=6 a=9 c=10 b=14"


def test_the_parameters_of_a_file_are_set_as_any_others_are(tmp_path: Path) -> None:
    body = "class Mixed(QueuePolicy):\n    parameters = {'w': 1.0}\n    def key(job, now, p):\n        return p[0] * job.gpus\n"
    path = write(tmp_path, body)
    assert finishes(f"{path}:Mixed:w=1") == finishes("smallest-first")
    assert finishes(f"{path}:Mixed:w=0") == finishes("fifo-backfill")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("fifi", "no policy is called 'fifi'; did you mean 'fifo'?"),
        ("nowhere.py:Fifo", "no such policy file"),
        ("{file}:Lifoo", "no policy class is called 'Lifoo'; did you mean 'Lifo'?"),
        ("{file}:Empty", "policy class Empty has no `key` function"),
        ("sjf:strickt=true", "no parameter of sjf is called 'strickt'; did you mean 'strict'?"),
        ("sjf:strict=perhaps", "this parameter is a switch"),
        ("sjf:quantum=-1", "a quantum is not negative"),
    ],
)
def test_a_policy_that_can_not_be_used_is_an_error_with_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    lifo = "class Lifo(QueuePolicy):\n    def key(job, now, p):\n        return -job.submit_s\nclass Empty(QueuePolicy):\n    pass\n"
    with pytest.raises(InputError, match=re.escape(sentence)):
        finishes(text.format(file=write(tmp_path, lifo)))


def test_a_file_that_does_not_run_says_why(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"mine\.py: the policy file does not run: ZeroDivisionError"):
        find_policy(f"{write(tmp_path, '1 / 0')}:Lifo")


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        (lambda job, now, p: job.submit_s + p[0], "never"),
        (lambda job, now, p: job.remaining_s * job.gpus, "running"),
        (lambda job, now, p: job.waiting_s, "always"),
        (lambda job, now, p: now - job.submit_s, "always"),
        (lambda job, now, p: max(job.submit_s, job.ran_s), "running"),
        (lambda job, now, p: finishes(job), "always"),
    ],
)
def test_when_a_key_can_change_is_read_off_what_it_looks_at(key, changes: str) -> None:  # type: ignore[no-untyped-def]
    assert changes_of(type("Mine", (QueuePolicy,), {"key": staticmethod(key)})) == changes


def test_every_policy_is_a_queue_policy_or_a_planner() -> None:
    assert all(issubclass(policy, QueuePolicy | Planner | CompiledPlanner) for policy in policies().values())


# -- the document -------------------------------------------------------------------------------------------------------------

FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


def follow_document(document: str, folder: Path) -> int:
    """Write the files of a document and run its commands, each of which must print exactly what is shown: how many ran."""
    ran = 0
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }
    for fence in FENCE.finditer((ROOT / "docs" / document).read_text(encoding="utf-8")):
        kind, _, name = fence["info"].partition(" file=")
        if name:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(fence["body"], encoding="utf-8")
        if kind != "console":
            continue
        for step in re.split(r"^\$ ", fence["body"], flags=re.MULTILINE)[1:]:
            command, _, shown = step.partition("\n")
            done = subprocess.run(
                command, shell=True, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False
            )
            assert done.returncode == 0, f"{command}\n{done.stderr}"
            assert done.stdout == shown, command
            ran += 1
    return ran


def test_the_commands_of_add_a_policy_run_and_print_what_it_shows(tmp_path: Path) -> None:
    assert follow_document("add-a-policy.md", tmp_path) >= 4


def test_add_a_policy_shows_the_table_of_this_file_as_it_is() -> None:
    text = (ROOT / "docs" / "add-a-policy.md").read_text(encoding="utf-8")
    assert WORKLOAD.strip("\n") in text
    assert '("sjf", "z=2 d=3 c=6 e=7 a=12 b=16"),' in text
