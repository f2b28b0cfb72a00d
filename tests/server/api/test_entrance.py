"""What every request meets: tokens, limits, bodies that are none, methods, and what is said when something breaks."""

from __future__ import annotations

import json
import logging
import re
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from fairlead.server.auth import Role
from fairlead.server.store import StoreError, StoreFull

from .service import Service, service, wait_for

PROBLEM = "application/problem+json"


def operations(live: Service) -> list[tuple[str, str]]:
    paths = live.ask(None, "GET", "/v1/openapi.json").json()["paths"]
    return [(method.upper(), path) for path, ways in paths.items() for method in ways]


def assert_problem(answer: httpx.Response, status: int, says: str) -> dict[str, Any]:
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM), answer.text
    told: dict[str, Any] = answer.json()
    assert told["status"] == status
    assert says in told["detail"]
    assert set(told) == {"type", "title", "status", "detail", "field", "value", "accepts"}
    return told


# -- tokens ------------------------------------------------------------------------------------------------------------------------


def test_every_operation_but_the_open_ones_wants_a_token(live: Service) -> None:
    found = operations(live)
    assert len(found) >= 27
    for method, path in found:
        answer = live.ask(None, method, path.replace("{", "").replace("}", ""))
        if path == "/healthz":
            assert answer.json() == {"status": "ok", "trouble": ""}
        else:
            assert_problem(answer, 401, "no token was given")
            assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "header", ["Bearer fl_wrong", "Bearer", "Basic YTpi", "fl_wrong", "Bearer \xe9\xff", "bearer  x y"]
)
def test_a_wrong_token_is_not_told_what_is_wrong(live: Service, header: str) -> None:
    answer = live.ask(None, "GET", "/v1/me", headers={b"Authorization": header.encode("latin-1")})
    assert answer.status_code == 401
    assert answer.json()["detail"] in ("no token was given", "this token is not known")


def test_a_token_that_has_expired_or_was_revoked_does_not_count(live: Service) -> None:
    short, _ = live.tokens.issue("ann", Role.USER, lifetime_s=0.05)

    def status(token: str) -> int:
        return live.ask(None, "GET", "/v1/me", headers={"Authorization": f"Bearer {token}"}).status_code

    wait_for(lambda: status(short) == 401)
    made = live.ask("ann", "POST", "/v1/tokens", json={"label": "laptop"}).json()
    assert status(made["token"]) == 200
    assert live.ask("ann", "DELETE", f"/v1/tokens/{made['id']}").json()["revoked_s"] is not None
    assert status(made["token"]) == 401


# -- bodies ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [b"{", b"nothing", b'{"run": NaN}', b"\xff\xfe{", b"[" * 100_000, b'{"run": "x"} trailing', b"1" * 5000],
    ids=["open", "word", "NaN", "not UTF-8", "deep", "trailing", "long number"],
)
def test_what_is_no_json_is_refused(live: Service, body: bytes) -> None:
    assert_problem(live.ask("ann", "POST", "/v1/jobs", content=body), 400, "the body is no JSON")


@pytest.mark.parametrize(
    ("body", "field", "says"),
    [
        ({}, "run", "the field is missing"),
        ([], None, "no mapping"),
        ({"run": "true", "priorty": 1}, "priorty", "did you mean 'priority'?"),
        ({"run": "true", "gpus": 2}, "gpus", "it stands under resources"),
        ({"run": "true", "resources": {"gpus": -1}}, "resources.gpus", "so many GPUs"),
        ({"run": "true", "resources": {"gpus": 9}}, "resources.gpus", "more GPUs than the cluster has"),
        ({"run": "true", "time_limit": "soon"}, "time_limit", "no duration"),
        ({"run": "true", "depends_on": ["nope"]}, "depends_on", "no job with this id"),
    ],
)
def test_a_job_that_can_not_be_is_told_why(live: Service, body: object, field: str | None, says: str) -> None:
    told = assert_problem(live.ask("ann", "POST", "/v1/jobs", json=body), 422, says)
    assert told["field"] == field


def test_an_unknown_tenant_is_told_the_nearest(live: Service) -> None:
    answer = live.ask("ada", "POST", "/v1/jobs", json={"run": "true", "tenant": "visoin"})
    assert_problem(answer, 422, "did you mean 'vision'?")


def test_an_idempotency_key_that_is_none(live: Service) -> None:
    answer = live.ask("ann", "POST", "/v1/jobs", json={"run": "true"}, headers={"Idempotency-Key": "k" * 201})
    assert_problem(answer, 422, "no idempotency key")


def test_a_body_that_says_it_is_too_large_is_not_even_read(live: Service) -> None:
    """The server answers though nothing of the body was sent."""
    host, port = live.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        head = f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {live.token['ann']}\r\n"
        connection.sendall(f"{head}Content-Length: 99999999999\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_a_body_that_turns_out_too_large_is_cut_off(live: Service) -> None:
    def endless() -> Any:
        for _ in range(100):
            yield b" " * 65536

    answer = live.ask("ann", "POST", "/v1/jobs", content=endless())
    assert_problem(answer, 413, "1,048,576 bytes")


# -- paths and methods ---------------------------------------------------------------------------------------------------------------


def test_paths_that_are_not_there(live: Service) -> None:
    for path in ("/v1", "/v1/jobs/", "/ui/nothing", "/docs", "/redoc", "/openapi.json", "/v1/nothing"):
        assert_problem(live.ask("ann", "GET", path), 404, "nothing at this path")


def test_methods_that_are_not_there(live: Service) -> None:
    answer = live.ask("ann", "PATCH", "/v1/jobs")
    assert_problem(answer, 405, "PATCH can't be done here")
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS, POST"


def test_options_says_what_can_be_done_and_lets_no_other_site_in(live: Service) -> None:
    answer = live.ask("ann", "OPTIONS", "/v1/policy", headers={"Origin": "https://elsewhere.example"})
    assert (answer.status_code, answer.headers["allow"], answer.content) == (204, "GET, HEAD, OPTIONS, PUT", b"")
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert live.ask("ann", "OPTIONS", "/v1/nothing").status_code == 404


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/me", "/healthz", "/v1/events?follow=true", "/v1/nothing"])
def test_head_has_the_headers_and_no_body(live: Service, path: str) -> None:
    head = live.ask("ann", "HEAD", path)
    assert head.content == b""
    if "follow" not in path:
        got = live.ask("ann", "GET", path)
        assert (head.status_code, head.headers["content-type"]) == (got.status_code, got.headers["content-type"])
    # the connection is in order afterwards
    with live.client("ann") as client:
        assert client.head(path).status_code == head.status_code
        assert client.get("/v1/me").status_code == 200


# -- limits --------------------------------------------------------------------------------------------------------------------------


def test_each_token_and_each_stranger_has_a_rate(tmp_path: Path) -> None:
    with service(tmp_path / "s", nodes=1, request_rate=0.5, request_burst=5) as made:
        with made.client("ann") as client:
            statuses = [client.get("/v1/me").status_code for _ in range(7)]
            assert statuses == [200] * 5 + [429] * 2
            answer = client.get("/v1/me")
            assert_problem(answer, 429, "there is room for another in")
            assert 1 <= int(answer.headers["retry-after"]) <= 2
        assert made.ask("bob", "GET", "/v1/me").status_code == 200
        strangers = [made.ask(None, "GET", "/v1/me").status_code for _ in range(7)]
        assert (strangers[0], strangers[-1]) == (401, 429)


# -- what is said and written down ---------------------------------------------------------------------------------------------------


def access_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "fairlead.server.access"]


def test_every_answer_has_a_number_and_every_request_a_line(live: Service, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "fairlead.server.access"):
        answer = live.ask("ann", "GET", "/v1/me?x=1", headers={"X-Request-Id": "mine-1"})
        live.ask("ann", "GET", "/v1/%0a%0dforged", headers={"X-Request-Id": "no good"})
        # a line is written when the answer has gone out
        first, second = wait_for(lambda: len(lines := access_lines(caplog)) >= 2 and lines[-2:])
    assert answer.headers["x-request-id"] == "mine-1"
    assert (answer.headers["x-content-type-options"], answer.headers["cache-control"]) == ("nosniff", "no-store")
    assert re.fullmatch(r"127\.0\.0\.1 ann GET /v1/me 422 \d+ bytes \d+\.\d ms mine-1", first)
    assert re.fullmatch(r"127\.0\.0\.1 ann GET /v1/%0a%0dforged 404 \d+ bytes \d+\.\d ms [0-9a-f]{16}", second)
    assert live.token["ann"] not in caplog.text


def test_what_nobody_expected_is_logged_and_not_told(
    live: Service, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Any:
        raise ZeroDivisionError("the inside of the scheduler")

    monkeypatch.setattr(live.scheduler, "closed", broken)
    answer = live.ask("ann", "GET", "/v1/cluster")
    told = assert_problem(answer, 500, answer.headers["x-request-id"])
    assert "inside" not in json.dumps(told)
    (record,) = [one for one in caplog.records if one.name == "fairlead.server.errors"]
    assert answer.headers["x-request-id"] in record.getMessage()
    assert "ZeroDivisionError" in caplog.text


def test_a_store_that_fails_says_what_ails_it_but_not_where_it_is(
    live: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> Any:
        raise StoreFull("/secret/place.db", "there is no space left for it")

    monkeypatch.setattr(live.store, "jobs", full)
    answer = live.ask("ann", "GET", "/v1/jobs")
    told = assert_problem(answer, 503, "there is no space left for it; free some space")
    assert "secret" not in json.dumps(told)
    assert answer.headers["retry-after"]


def test_a_scheduler_in_trouble_is_not_well(live: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live.scheduler, "trouble", "the disk is full")
    answer = live.ask(None, "GET", "/healthz")
    assert (answer.status_code, answer.json()) == (503, {"status": "trouble", "trouble": "the disk is full"})
    assert_problem(live.ask("ann", "POST", "/v1/jobs", json={"run": "true"}), 503, "the disk is full")
    assert live.ask("ann", "GET", "/v1/cluster").json()["trouble"] == "the disk is full"
    assert issubclass(StoreFull, StoreError)
