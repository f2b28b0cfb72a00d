"""Jobs from YAML, from JSON and from the command line; each wrong one with its place."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.errors import InputError
from fairlead.model.job import SIGNALS, SUSPEND_METHODS, Dependency, JobSpec, When
from fairlead.workload.job_document import (
    JobDocument,
    job_from_document,
    job_from_json,
    job_to_document,
    job_to_json,
)
from fairlead.workload.job_yaml import job_from_options, parse_job, read_job_file

ROOT = Path(__file__).resolve().parents[2]


def test_the_example_in_the_docs_uses_every_field() -> None:
    text = (ROOT / "docs" / "job-file.md").read_text()
    example = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert example
    spec = parse_job(example[1])
    assert spec == JobSpec(
        name="resnet",
        tenant="vision",
        gpus=4,
        gpu_type="H200",
        gpu_memory_mib=40 * 1024,
        cpu_milli=16_000,
        memory_mib=64 * 1024,
        min_gpus=2,
        max_gpus=8,
        setup="source .venv/bin/activate",
        run="python train.py --epochs 90",
        env={"WANDB_MODE": "offline", "SEED": "1"},
        workdir="/home/ann/resnet",
        priority=10,
        preemptible=True,
        suspend=("checkpoint", "driver"),
        time_limit_s=12 * 3600.0,
        estimate_s=9000.0,
        deadline_at_s=1925020800.0,
        topology="rack",
        grace_s=60.0,
        checkpoint_signal="SIGUSR1",
        checkpoint_every_s=1800.0,
        array=tuple(range(10)),
        depends_on=(Dependency("812"), Dependency("813", When.AFTER_ANY)),
    )
    named = set(re.findall(r"^\| `([a-z_., `]+)` \|", text, re.MULTILINE))
    listed = {name for row in named for name in re.split(r"[`, ]+", row)}
    assert {*JobDocument.model_fields, *JobDocument.model_fields["resources"].annotation.model_fields} <= listed


BAD = {
    "an unknown field": ("run: x\nresource: {gpus: 2}\n", 2, "resource", "did you mean 'resources'?"),
    "an unknown resource": ("run: x\nresources:\n  gpu_typ: A\n", 3, "resources.gpu_typ", "did you mean 'gpu_type'?"),
    "a resource at the top": ("run: x\ngpus: 2\n", 2, "gpus", "it stands under resources"),
    "a field among resources": ("run: x\nresources: {priority: 2}\n", 2, "resources.priority", "stands at the top"),
    "another scheduler's word": ("run: x\nresources: {accelerators: A100}\n", 2, "resources.accelerators", "gpu_type"),
    "nothing to run": ("name: x\n", None, "run", "the field is missing"),
    "half a GPU": ("run: x\nresources:\n  gpus: 0.5\n", 3, "resources.gpus", "gpu_share: 0.5"),
    "a whole share": ("run: x\nresources: {gpu_share: 1}\n", 2, "resources.gpu_share", "gpus: 1"),
    "a share of words": ("run: x\nresources: {gpu_share: half}\n", 2, "resources.gpu_share", "such as 0.5"),
    "a duration of words": ("run: x\ntime_limit: soon\n", 2, "time_limit", "2h30m"),
    "a size of words": ("run: x\nresources: {memory: lots}\n", 2, "resources.memory", "16GiB"),
    "a negative count": ("run: x\nresources: {gpus: -1}\n", 2, "resources.gpus", "0 (none)"),
    "less than least": ("run: x\nmin_gpus: 4\nmax_gpus: 2\n", 3, "max_gpus", "4 or more"),
    "yes for a name": ("run: x\nname: yes\n", 2, "name", "in quotes"),
    "maybe": ("run: x\npreemptible: maybe\n", 2, "preemptible", "true or false"),
    "true for a variable": ("run: x\nenv: {A: true}\n", 2, "env", "in quotes"),
    "a time without a zone": ("run: x\ndeadline: 2030-01-01 08:00\n", 2, "deadline", "zone"),
    "no time at all": ("run: x\ndeadline: whenever\n", 2, "deadline", "12h"),
    "no indices": ("run: x\narray: 5-1\n", 2, "array", "0-99:10"),
    "a condition that is not": ("run: x\ndepends_on: {after: [1]}\n", 2, "depends_on", "after_ok"),
    "a way that is not": ("run: x\nsuspend: [nap]\n", 2, "suspend", "requeue"),
    "a deaf signal": ("run: x\ncheckpoint: KILL\n", 2, "checkpoint.signal", "SIGUSR1"),
    "no mapping": ("run: x\nresources: 8\n", 2, "resources", "fields such as"),
    "a list": ("- 1\n", None, None, "no job file"),
    "nothing": ("", None, None, "no job file"),
    "a number to run": ("run: 5\n", 1, "run", "shell line"),
    "a field twice": ("run: x\nrun: y\n", 2, None, "written twice"),
    "an open bracket": ("run: [\n", 2, None, "broken at column 1"),
    "a tab": ("run: x\n\tname: a\n", 2, None, "broken at column 1"),
    "two colons": ("a: b: c\n", 1, None, "broken at column 5"),
    "a control character": ("run: x\nname: \x01\n", 2, None, "special characters"),
    "a deep nest": ("[" * 5000, None, None, "nested too deep"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_wrong_file_is_told_the_line_the_field_and_what_would_do(case: str, tmp_path: Path) -> None:
    text, line, column, words = BAD[case]
    path = tmp_path / "job.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_job_file(path)
    assert (error.value.file, error.value.line, error.value.column) == (str(path), line, column)
    assert words in str(error.value)


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_job_file(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        read_job_file(tmp_path / "bytes.yaml")


def test_a_field_left_open_is_not_given() -> None:
    assert parse_job("run: x\ntenant:\nresources:\n  gpus:\n") == JobSpec(run="x")


def test_times_are_read_as_they_look() -> None:
    spec = parse_job("run: x\ntime_limit: 1:30:00\nestimate: 1:30\ngrace_period: 5\ndeadline: 12h\n")
    assert (spec.time_limit_s, spec.estimate_s, spec.grace_s, spec.deadline_s) == (5400, 90, 5, 43200)


def test_an_elastic_job_that_names_no_size_takes_its_smallest() -> None:
    assert parse_job("run: x\nmin_gpus: 4\nmax_gpus: 8\n").gpus == 4
    assert parse_job("run: x\nmax_gpus: 8\n").gpus == 1


def test_the_command_line_says_the_same_as_a_file() -> None:
    options = {"gpus": "2", "time_limit": "2h", "env": ["A=1", "B=x=y"], "checkpoint_signal": "usr1", "tenant": None}
    assert job_from_options(["python", "train.py"], options) == JobSpec(
        run=("python", "train.py"),
        gpus=2,
        time_limit_s=7200.0,
        env={"A": "1", "B": "x=y"},
        checkpoint_signal="SIGUSR1",
    )


def test_options_stand_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("run: x\nresources: {gpus: 1, gpu_type: A}\nenv: {A: 1, B: 2}\ncheckpoint: USR1\n")
    spec = read_job_file(path, {"gpus": 4, "env": ["B=3"], "checkpoint_every": "5m"}, base=tmp_path)
    assert (spec.gpus, spec.gpu_type, spec.env, spec.workdir) == (4, "A", {"A": "1", "B": "3"}, str(tmp_path))
    assert (spec.checkpoint_signal, spec.checkpoint_every_s) == ("SIGUSR1", 300)


def test_a_wrong_option_is_named_as_it_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    for options, words in [
        ({"gpus": "x"}, "--gpus: this is no number of GPUs; got 'x'"),
        ({"time_limit": "soon"}, "--time-limit: this is no duration"),
        ({"gpus": 2, "min_gpus": 4}, "--min-gpus: this is not between 1"),
        ({"checkpoint_evry": 1}, "did you mean 'every'?"),
        ({"zzz": 1}, "no such option"),
        ({"env": ["NOT_SET_ANYWHERE"]}, "not set here"),
    ]:
        with pytest.raises(InputError, match=re.escape(words)):
            job_from_options(["x"], options)
    monkeypatch.setenv("SET_HERE", "yes")
    assert job_from_options(["x"], {"env": ["SET_HERE"]}).env == {"SET_HERE": "yes"}


# -- both ways ----------------------------------------------------------------------------------------------------------------

_words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
_names = st.text(st.characters(categories=["L", "N", "P"]), max_size=20)
_times = st.floats(1e-6, 2.0**52, exclude_min=True)


@st.composite
def specs(draw: st.DrawFn) -> JobSpec:
    def maybe(one: st.SearchStrategy[Any]) -> Any:
        return draw(st.none() | one)

    elastic = draw(st.booleans())
    gpus = draw(st.integers(1 if elastic else 0, 500))
    share = draw(st.integers(1, 1000)) if gpus == 1 and not elastic else 1000
    late = draw(st.booleans())
    run = draw(_words.filter(str.strip) | st.tuples(_words.filter(str.strip), _words))
    return JobSpec(
        run=run,
        name=draw(_names),
        tenant=draw(_names),
        gpus=gpus,
        gpu_type=draw(_names) if gpus else "",
        gpu_share_milli=share,
        gpu_memory_mib=maybe(st.integers(1, 2**40)) if gpus else None,
        cpu_milli=maybe(st.integers(0, 10**6)),
        memory_mib=maybe(st.integers(1, 2**40)),
        num_nodes=None if elastic or share < 1000 else maybe(st.integers(1, 100 if gpus else 1)),
        min_gpus=maybe(st.integers(1, gpus)) if elastic else None,
        max_gpus=maybe(st.integers(gpus, 1000)) if elastic else None,
        setup=draw(_words),
        env=draw(st.dictionaries(st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True), _words, max_size=3)),
        workdir=draw(st.just("") | _words.map("/".__add__)),
        priority=draw(st.integers(-(2**31) + 1, 2**31 - 1)),
        preemptible=draw(st.booleans()),
        suspend=tuple(draw(st.lists(st.sampled_from(SUSPEND_METHODS), unique=True))),
        time_limit_s=maybe(_times),
        estimate_s=maybe(_times),
        deadline_s=None if late else maybe(_times),
        deadline_at_s=maybe(st.integers(1, 2**41).map(lambda ms: ms / 1000)) if late else None,
        topology=draw(_names),
        grace_s=draw(st.floats(0, 1e6)),
        checkpoint_signal=draw(st.just("") | st.sampled_from(SIGNALS)),
        checkpoint_every_s=maybe(_times),
        array=tuple(sorted(draw(st.sets(st.integers(0, 10**6), max_size=5)))),
        depends_on=tuple(
            Dependency(job, draw(st.sampled_from(When)))
            for job in draw(st.lists(_names.filter(bool), unique=True, max_size=3))
        ),
    )


@given(specs())
def test_a_spec_comes_back_from_json_as_it_went(spec: JobSpec) -> None:
    back = job_from_json(job_to_json(spec))
    # waiting for others comes back by condition, which says the same in another order
    assert set(back.depends_on) == set(spec.depends_on)
    for one in fields(JobSpec):
        if one.name != "depends_on":
            assert getattr(back, one.name) == getattr(spec, one.name), one.name
    assert job_to_json(back) == job_to_json(spec)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_keys = st.sampled_from([*JobDocument.model_fields, "gpus", "x"])


@given(st.dictionaries(_keys, _json, max_size=5) | _json)
def test_whatever_is_sent_is_a_job_or_an_error_for_its_sender(document: object) -> None:
    if isinstance(document, dict):
        document.setdefault("run", "true")
    with contextlib.suppress(InputError):
        assert job_from_document(document)


def test_json_that_is_none() -> None:
    with pytest.raises(InputError, match="no JSON"):
        job_from_json("{")


def test_the_document_has_a_schema_for_the_api() -> None:
    schema = JobDocument.model_json_schema()
    assert json.dumps(schema)
    assert schema["required"] == ["run"]
    assert schema["properties"]["time_limit"]["anyOf"][0] == {"type": "number"}
    assert job_to_document(JobSpec(run="x")) == {"run": "x", "resources": {"gpus": 1}}
