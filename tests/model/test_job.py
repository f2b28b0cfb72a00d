"""What a job may be, and what it is told when it may not."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from fairlead.model.errors import InputError
from fairlead.model.job import SUSPEND_METHODS, Dependency, JobSpec
from fairlead.runtime.protocols import Suspension

BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "nothing to run": ({"run": " "}, "run", "the job has nothing to run"),
    "an empty program": ({"run": ("", "x")}, "run", "the job has nothing to run"),
    "a zero byte": ({"run": "a\0b"}, "run", "without zero bytes"),
    "half a character": ({"setup": "\ud800"}, "setup", "UTF-8"),
    "negative GPUs": ({"gpus": -1}, "resources.gpus", "0 (none) to 1,000,000"),
    "a share of nothing": ({"gpu_share_milli": 0}, "resources.gpu_share", "more than 0 and less than 1"),
    "a share of two": ({"gpu_share_milli": 500, "gpus": 2}, "resources.gpu_share", "gpus: 1"),
    "a share on two nodes": ({"gpu_share_milli": 500, "num_nodes": 2}, "resources.gpu_share", "no num_nodes"),
    "a type of no GPU": ({"gpus": 0, "gpu_type": "A100"}, "resources.gpu_type", "gpus: 1 or more"),
    "memory of no GPU": ({"gpus": 0, "gpu_memory_mib": 5}, "resources.gpu_memory", "gpus: 1 or more"),
    "no memory": ({"memory_mib": 0}, "resources.memory", "such as 16GiB"),
    "negative CPUs": ({"cpu_milli": -1}, "resources.cpus", "0 or more"),
    "no nodes": ({"num_nodes": 0}, "num_nodes", "at least one node"),
    "too much in all": ({"gpus": 1000, "num_nodes": 10_000}, "num_nodes", "1,000,000 GPUs in all"),
    "more than it asks for": ({"gpus": 2, "min_gpus": 4}, "min_gpus", "1 to 2"),
    "fewer than it asks for": ({"gpus": 4, "max_gpus": 2}, "max_gpus", "4 or more"),
    "an elastic job of nodes": ({"gpus": 4, "max_gpus": 8, "num_nodes": 2}, "max_gpus", "without gpu_share"),
    "an elastic job of none": ({"gpus": 0, "max_gpus": 8}, "max_gpus", "gpus: 1 or more"),
    "no time": ({"time_limit_s": 0.0}, "time_limit", "such as 2h30m"),
    "endless time": ({"estimate_s": float("inf")}, "estimate", "such as 2h30m"),
    "not a time": ({"deadline_s": float("nan")}, "deadline", "such as 2h30m"),
    "two deadlines": ({"deadline_s": 1.0, "deadline_at_s": 2.0}, "deadline", "not both"),
    "negative grace": ({"grace_s": -1.0}, "grace_period", "such as 30s"),
    "a variable with a space": ({"env": {"A B": "1"}}, "env", "letters, digits and _"),
    "a name of two lines": ({"name": "a\nb"}, "name", "printable"),
    "a long name": ({"name": "a" * 201}, "name", "up to 200"),
    "a tenant of spaces": ({"tenant": " a"}, "tenant", "printable"),
    "a relative folder": ({"workdir": "here"}, "workdir", "/a/folder"),
    "a huge priority": ({"priority": 2**31}, "priority", "larger goes first"),
    "a way that is not": ({"suspend": ("sleep",)}, "suspend", "checkpoint, driver, stop, requeue"),
    "a way twice": ({"suspend": ("stop", "stop")}, "suspend", "each once"),
    "a deaf signal": ({"checkpoint_signal": "SIGKILL"}, "checkpoint.signal", "such as SIGUSR1"),
    "indices that fall": ({"array": (2, 1)}, "array", "rising"),
    "the same job twice": ({"depends_on": (Dependency("1"), Dependency("1"))}, "depends_on", "each once"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_can_not_be_is_said_with_its_field_and_what_would_do(case: str) -> None:
    fields, column, words = BAD[case]
    with pytest.raises(InputError) as error:
        JobSpec(**{"run": "true", **fields})
    assert error.value.column == column
    assert words in str(error.value)


def test_the_value_of_a_variable_is_never_repeated() -> None:
    with pytest.raises(InputError) as error:
        JobSpec(run="true", env={"TOKEN": "hush\0hush"})
    assert "hush" not in str(error.value)
    spec = JobSpec(run="true", env={"TOKEN": "hush"})
    assert "hush" not in str(spec.without_secrets())
    assert list(spec.without_secrets().env) == ["TOKEN"]


def test_gpus_are_of_each_node_where_the_number_of_nodes_is_fixed() -> None:
    assert JobSpec(run="true", gpus=8).total_gpus == 8
    assert JobSpec(run="true", gpus=8, num_nodes=2).total_gpus == 16
    assert JobSpec(run="true", gpus=0, num_nodes=1).total_gpus == 0
    with pytest.raises(InputError, match="a job without GPUs runs on one node"):
        JobSpec(run="true", gpus=0, num_nodes=2)


@pytest.mark.parametrize("run", ['echo "$A and $0"; false', ("sh", "-c", 'echo "$A and $0"; false', "it")])
def test_setup_prepares_the_shell_that_runs_the_job(run: Any) -> None:
    command = JobSpec(run=run, setup="A=1\nexport A").command
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("1 and ")
    assert done.returncode == 1


def test_a_setup_that_fails_ends_the_job() -> None:
    done = subprocess.run(JobSpec(run="echo ran", setup="exit 7").command, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (7, b"")
    done = subprocess.run(JobSpec(run="echo ran", setup="false").command, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")


def test_a_task_knows_which_one_it_is() -> None:
    env = JobSpec(run="true", array=(3, 5, 9)).array_env("812", 5)
    assert env == {
        "FAIRLEAD_ARRAY_ID": "812",
        "FAIRLEAD_ARRAY_INDEX": "5",
        "FAIRLEAD_ARRAY_COUNT": "3",
        "FAIRLEAD_ARRAY_MIN": "3",
        "FAIRLEAD_ARRAY_MAX": "9",
    }


def test_a_job_may_be_requeued_unless_it_says_otherwise() -> None:
    assert JobSpec(run="true").may_requeue
    assert not JobSpec(run="true", preemptible=False).may_requeue
    assert not JobSpec(run="true", suspend=("stop",)).may_requeue


def test_the_ways_to_suspend_are_the_executors() -> None:
    assert tuple(Suspension) == SUSPEND_METHODS
