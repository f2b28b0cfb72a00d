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
_STREAMS = ("/v1/events", "/v1/jobs/{job_id}/events", "/v1/jobs/{job_id}/logs")


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """With something in it, so that not every path leads to a 404. No job that is sent ever starts."""
    with service(tmp_path_factory.mktemp("fuzz") / "state", max_array=10) as made:
        for node in ("node-0", "node-1"):
            made.ask("ada", "POST", f"/v1/nodes/{node}/drain")
        for i in range(3):
            made.submit(name=f"job-{i}", **({"array": "0-1"} if i == 2 else {}))
        yield made


@pytest.fixture(scope="module")
def described(fuzzed: Service) -> Any:
    return schemathesis.openapi.from_url(f"{fuzzed.url}/v1/openapi.json")


def fuzz(fuzzed: Service, described: Any, examples: int) -> None:
    found = [operation.ok() for operation in described.get_all_operations()]
    assert len(found) >= 27
    there = {"job_id": ["1", "2", "3_0", "3"], "name": ["node-0", "vision"], "token_id": [fuzzed.token_id["bob"]]}
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


@pytest.mark.long
def test_nothing_that_is_sent_for_long_makes_it_fail(fuzzed: Service, described: Any) -> None:
    fuzz(fuzzed, described, examples=200)
    assert not fuzzed.scheduler.failure.done()
