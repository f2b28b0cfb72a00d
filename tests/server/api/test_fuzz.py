"""Every operation with whatever its description allows and forbids: nothing that is sent makes the service fail, and every answer is
what the description says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from .service import Service, service

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


#: what answers on and on
_STREAMS = ("/v1/events", "/v1/jobs/{job_id}/events", "/v1/jobs/{job_id}/logs", "/v1/cluster")


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """With something in it, so that not every path leads to a 404. No job that is sent ever starts."""
    with service(tmp_path_factory.mktemp("fuzz") / "state", max_array=10) as made:
        for node in ("node-0", "node-1"):
            made.ask("ada", "POST", f"/v1/nodes/{node}/drain")
        for i in range(3):
            made.submit(name=f"job-{i}", **({"array": "0-1"} if i == 2 else {}))
        trace = made.ask(
            "ann", "POST", "/v1/studio/traces", content="job_id,submit_s,gpus,duration_s\n1,0,1,60\n"
        ).json()
        for policy in ("fifo", "sjf"):
            wanted = {"trace": trace["id"], "cluster": "1x8", "policies": [policy]}
            assert made.ask("ann", "POST", "/v1/studio/runs", json=wanted).status_code == 202
        yield made


@pytest.fixture(scope="module")
def described(fuzzed: Service) -> Any:
    return schemathesis.openapi.from_url(f"{fuzzed.url}/v1/openapi.json")


def fuzz(fuzzed: Service, described: Any, examples: int) -> None:
    found = [operation.ok() for operation in described.get_all_operations()]
    assert len(found) >= 40
    shelf = fuzzed.app.state.desk.studio.shelf
    there = {"job_id": ["1", "2", "3_0", "3"], "name": ["node-0", "vision"], "token_id": [fuzzed.token_id["bob"]]}
    # a test before this one may have deleted them all
    there |= {"trace_id": list(shelf.traces) or ["gone"], "run_id": list(shelf.runs) or ["gone"]}
    with requests.Session() as session:
        for who in ("ada", "ann"):
            session.headers["Authorization"] = f"Bearer {fuzzed.token[who]}"
            for operation in found:
                for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                    _fuzz_one(session, operation, mode, there, examples)


def _fuzz_one(session: requests.Session, operation: Any, mode: GenerationMode, there: Any, examples: int) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def one(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(mode))
        if operation.path in _STREAMS:
            case.query = {name: value for name, value in (case.query or {}).items() if name != "follow"}
        for name in case.path_parameters or {}:
            if data.draw(st.booleans()):
                case.path_parameters[name] = data.draw(st.sampled_from(there[name]))
        case.call_and_validate(session=session, checks=CHECKS, timeout=20)

    # where nothing is asked for, nothing can be asked for wrongly
    with suppress(Unsatisfiable) if mode is GenerationMode.NEGATIVE else nullcontext():
        one()


def test_nothing_that_is_sent_makes_it_fail(fuzzed: Service, described: Any) -> None:
    fuzz(fuzzed, described, examples=6)
    # and it goes on as if nothing had been
    for node in ("node-0", "node-1"):
        fuzzed.ask("ada", "POST", f"/v1/nodes/{node}/undrain")
    assert fuzzed.ask("ada", "GET", "/healthz").status_code == 200
    assert not fuzzed.scheduler.failure.done()


# -- jobs that somebody could mean ---------------------------------------------------------------------------------------------------


def some(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


WHOLE = st.integers(-1, 9)
RESOURCES = st.fixed_dictionaries(
    {},
    optional={
        "gpus": WHOLE,
        "gpu_share": st.sampled_from([0.5, "25%", 1.5, 0]),
        "gpu_memory": st.sampled_from(["1GiB", 512, "0"]),
        "cpus": st.sampled_from([0, 1.5, -1]),
        "memory": st.sampled_from(["2GiB", 100, "much"]),
    },
)
JOBS = st.fixed_dictionaries(
    {"run": st.sampled_from(["true", ["sleep", "1"], "", []])},
    optional={
        "name": st.text(max_size=8),
        "resources": some(RESOURCES),
        "num_nodes": some(st.integers(0, 3)),
        "min_gpus": some(WHOLE),
        "max_gpus": some(WHOLE),
        "env": st.dictionaries(st.text(max_size=3), st.text(max_size=3) | st.integers(), max_size=2),
        "priority": st.integers(-3, 0),
        "preemptible": st.booleans(),
        "time_limit": some(st.sampled_from(["2h", 0, 5.5, "x"])),
        "estimate": some(st.floats(-1, 1e9)),
        "deadline": st.sampled_from(["12h", "2031-01-01T08:00Z", "2031-01-01", 5]),
        "suspend": st.lists(st.sampled_from(["checkpoint", "driver", "stop", "requeue"]), max_size=3),
        "array": st.sampled_from(["0-3", 2, "1,4,7-9", "0-99", "x"]),
        "depends_on": st.lists(st.sampled_from(["1", "2", "3", "3_0", "99"]), max_size=2),
        "grace_period": st.sampled_from([0, "30s", -1]),
    },
)


def test_jobs_that_somebody_could_mean_are_taken_or_told_why_not(fuzzed: Service) -> None:
    taken = []

    @settings(max_examples=80, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
    @given(JOBS, st.booleans())
    def one(job: dict[str, Any], dry: bool) -> None:
        answer = fuzzed.ask("ann", "POST", "/v1/jobs", params={"dry_run": dry}, json=job)
        assert answer.status_code in (200, 201, 422), answer.text
        if answer.status_code == 201:
            taken.append(answer.json()["jobs"][0])

    one()
    assert len(taken) > 5
    for job in taken:
        found = fuzzed.ask("ann", "GET", f"/v1/jobs/{job}")
        again = fuzzed.ask("ann", "POST", "/v1/jobs", params={"dry_run": True}, json=found.json()["spec"])
        assert (found.status_code, again.status_code) == (200, 200)  # what is shown can be sent again
        assert fuzzed.ask("ann", "GET", f"/v1/jobs/{job}/explain").status_code == 200
    assert not fuzzed.scheduler.failure.done()


@pytest.mark.long
def test_nothing_that_is_sent_for_long_makes_it_fail(fuzzed: Service, described: Any) -> None:
    fuzz(fuzzed, described, examples=100)
    assert not fuzzed.scheduler.failure.done()
