"""Server-sent events, answers as dataclasses, what is kept and what is forgotten: the parts that need no scheduler."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.client.errors import ApiError, UnexpectedAnswer
from fairlead.client.reading import read
from fairlead.client.sse import Message, Messages
from fairlead.client.types import Job, Node, Place, Submitted, Tenant
from fairlead.server.upkeep import remove_logs

STREAM = (
    b": hello\n\nretry: 2000\n\nid: 1\nevent: submit\ndata: {}\n\n"
    b"id: 2\r\ndata: a\r\ndata:b\r\n\r\nid: 3\rdata: \xe2\x80\xa8\r\r: still here\nid: 9\n\n"
)
WANT = [Message("1", "submit", "{}"), Message("2", "message", "a\nb"), Message("3", "message", "\u2028")]


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_messages_are_the_same_however_the_bytes_come_in(cuts: list[int]) -> None:
    messages, found = Messages(), []
    at = [0, *sorted(cuts), len(STREAM)]
    for begin, end in pairwise(at):
        found += messages.feed(STREAM[begin:end])
    assert found == WANT
    assert messages.last_id == "9"


def test_half_a_message_does_not_count() -> None:
    messages = Messages("4")
    assert list(messages.feed(b"id: 5\ndata: {}\n")) == []
    assert messages.last_id == "4"


def test_an_answer_of_a_newer_scheduler_is_read() -> None:
    job = read(
        Job,
        {"id": "1", "name": "", "user": "a", "tenant": "a", "state": "running", "gpus": 2, "submit_s": 5, "colour": "red",
         "places": [{"node": "n", "gpus": [0, 1], "milli": 1000}]},
    )  # fmt: skip
    assert job.places == (Place("n", (0, 1), 1000),)
    assert job.submit_s == 5.0
    assert job.nodes == ("n",)
    assert not job.ended
    assert read(Tenant, {"name": "a", "quota_gpus": None, "jobs": {"running": 1}}).jobs == {"running": 1}


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ([], "Node is [], no object"),
        ({"name": "n"}, "Node has no gpus"),
        ({"name": "n", "gpus": "8"}, "Node.gpus is '8', no int"),
        ({"name": "n", "gpus": True}, "Node.gpus is True, no int"),
        ({"name": "n", "gpus": 8, "jobs": ["1", 2]}, "Node.jobs[1] is 2, no str"),
    ],
)
def test_an_answer_that_is_not_understood_is_told(data: object, told: str) -> None:
    with pytest.raises(UnexpectedAnswer) as error:
        read(Node, data)
    assert told in str(error.value)


def test_an_error_says_what_the_problem_says() -> None:
    problem = {"title": "T", "detail": "it is wrong", "field": "gpus", "value": 9, "accepts": "8", "status": 422}
    assert str(ApiError.of_problem(422, problem)) == "gpus: it is wrong; got 9; expected 8"
    assert str(ApiError.of_problem(500, {"title": "T", "detail": "see the log"})) == "T: see the log"
    assert "502" in str(ApiError.of_problem(502, {}))
    assert not ApiError.of_problem(429, {}).is_mistake


@pytest.mark.parametrize(
    ("state", "exit_code", "signal", "code"),
    [("done", 0, None, 0), ("failed", 3, None, 3), ("failed", None, 9, 137), ("cancelled", None, 15, 143),
     ("cancelled", None, None, 1), ("lost", None, None, 1), ("failed", 0, None, 1)],
)  # fmt: skip
def test_a_shell_s_code_for_a_job(state: str, exit_code: int | None, signal: int | None, code: int) -> None:
    job = Job(id="1", name="", user="", tenant="", state=state, gpus=1, submit_s=0, exit_code=exit_code, signal=signal)
    assert job.shell_code == code


def test_what_stands_for_a_submission() -> None:
    assert Submitted(("5",)).id == "5"
    assert Submitted(("6", "7"), "a5").id == "a5"


def test_output_of_jobs_that_ended_long_ago_is_removed(tmp_path: Path) -> None:
    for name, age_s in (("old", 100), ("new", 1), ("live", 100)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "output.log").touch()
        for path in (tmp_path / name / "output.log", tmp_path / name):
            os.utime(path, (1000 - age_s, 1000 - age_s))
    assert remove_logs(tmp_path, 950, {"live"}.__contains__) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["live", "new"]
    assert remove_logs(tmp_path / "none", 950, {"live"}.__contains__) == 0
