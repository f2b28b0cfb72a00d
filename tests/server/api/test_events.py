"""The journal as pages and as a stream."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from tests.server.build import submission, submit

from fairlead.server.api import desk, nodes
from fairlead.server.api import events as api_events
from fairlead.server.api.desk import answer_rows
from fairlead.server.api.events import of_journal
from fairlead.server.auth import Role
from fairlead.server.store import Batch, Store

from .service import Service, wait_for


class Stream:
    """Events of a stream, as a browser's EventSource would have them."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._lines = answer.iter_lines()
        self.last_id = ""

    def __iter__(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        fields: dict[str, str] = {}
        for line in self._lines:
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            else:
                self.last_id = fields.get("id", self.last_id)
                if "data" in fields:
                    yield fields["id"], fields["event"], json.loads(fields["data"])
                fields = {}


@contextmanager
def stream(live: Service, who: str, path: str = "/v1/events?follow=true", **headers: str) -> Iterator[Stream]:
    with live.client(who) as client, client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Stream(answer)


def all_events(live: Service, who: str, **asked: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    since = 0
    while True:
        page = live.ask(who, "GET", "/v1/events", params={"since": since, **asked}).json()
        found += page["events"]
        if page["last"] == since:
            return found
        since = page["last"]


def test_what_happened_to_a_job_in_order(live: Service) -> None:
    job = live.submit(run="true")
    live.until("ann", job, "done")
    page = live.ask("ann", "GET", f"/v1/jobs/{job}/events").json()
    kinds = [event["kind"] for event in page["events"]]
    assert (kinds[0], kinds[-1]) == ("submit", "end")
    assert "start" in kinds
    numbers = [event["seq"] for event in page["events"]]
    assert numbers == sorted(numbers)
    assert {event["job"] for event in page["events"]} == {job}
    first = live.ask("ann", "GET", f"/v1/jobs/{job}/events", params={"limit": 1}).json()
    assert (first["events"], first["last"]) == (page["events"][:1], numbers[0])
    rest = live.ask("ann", "GET", f"/v1/jobs/{job}/events", params={"since": first["last"]}).json()
    assert rest["events"] == page["events"][1:]


def test_pages_of_the_journal_come_to_its_end(live: Service) -> None:
    for _ in range(3):
        live.until("bob", live.submit("bob", run="true"), "done")
    every = all_events(live, "ada", limit=1000)
    assert [event["seq"] for event in every] == list(range(1, len(every) + 1))
    assert all_events(live, "ada", limit=4) == every
    ends = all_events(live, "ada", kinds="end,start", limit=3)
    assert ends == [event for event in every if event["kind"] in ("end", "start")]
    beyond = live.ask("ada", "GET", "/v1/events?since=99999999").json()
    assert beyond == {"events": [], "last": every[-1]["seq"]}


def test_a_stream_tells_what_happens_and_is_taken_up_where_it_broke_off(live: Service) -> None:
    with stream(live, "ada") as first:
        told = iter(first)
        one = live.submit(run="true", name="streamed")
        seen = []
        for number, kind, event in told:
            assert int(number) == event["seq"]
            if event["job"] == one:
                seen.append(kind)
            if kind == "start" and event["job"] == one:
                break
    assert seen == ["submit", "start"]
    live.until("ann", one, "done")
    with stream(live, "ada", **{"Last-Event-ID": number}) as second:
        for later, kind, event in second:
            assert int(later) == int(number) + 1  # none is missed, none comes twice
            number = later
            if event["job"] == one and kind == "end":
                break


def test_a_stream_of_a_user_is_of_its_own_jobs(live: Service) -> None:
    since = live.scheduler.last_event
    live.ask("ada", "POST", "/v1/nodes/node-1/drain", json={"reason": "a test"})
    live.ask("ada", "POST", "/v1/nodes/node-1/undrain")
    bobs, anns = live.submit("bob", run="true"), live.submit("ann", run="true")
    live.until("bob", bobs, "done")
    with stream(live, "ann", f"/v1/events?since={since}", Accept="text/event-stream") as told:
        seen = []
        for _, kind, event in told:
            seen.append((kind, event["job"]))
            if (kind, event["job"]) == ("end", anns):
                break
    assert bobs not in {job for _, job in seen}
    assert ("drain", None) in seen


def test_what_somebody_was_refused_by_an_engine_is_not_for_everybody(live: Service) -> None:
    since, batch = live.scheduler.last_event, Batch()
    batch.record("declined", live.scheduler.now(), foreign="slurm:7", user="bob", message="more GPUs than there are")
    batch.record("node-down", live.scheduler.now(), node="node-1", message="")
    live.call(live.scheduler._tell(live.store.write(batch).last_event))

    def kinds(who: str) -> list[str]:
        found = live.ask(who, "GET", "/v1/events", params={"since": since}).json()["events"]
        return [event["kind"] for event in found if event["job"] is None]

    assert kinds("ann") == ["node-down"]
    assert kinds("ada") == kinds("vic") == ["declined", "node-down"]


def test_a_stream_of_one_job(live: Service) -> None:
    job = live.submit(run="true")
    with stream(live, "ann", f"/v1/jobs/{job}/events?since=0&follow=true") as told:
        kinds = []
        for _, kind, event in told:
            assert event["job"] == job
            kinds.append(kind)
            if kind == "end":
                break
    assert kinds[0] == "submit"


def test_a_quiet_stream_says_that_it_is_there(live: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_events, "_BEAT_S", 0.02)
    with live.client("ann") as client, client.stream("GET", "/v1/events?follow=true") as answer:
        lines = answer.iter_lines()
        assert next(lines) == "retry: 2000"
        while (line := next(lines)) != ": still here":
            assert line == ""
        assert next(lines).startswith("id: ")


def test_a_stream_ends_with_its_token(live: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_events, "_BEAT_S", 0.02)
    token, row = live.tokens.issue("ann", Role.USER)
    headers = {"Authorization": f"Bearer {token}"}
    with live.client(None) as client, client.stream("GET", "/v1/events?follow=true", headers=headers) as answer:
        lines = answer.iter_lines()
        next(lines)
        live.tokens.revoke(row.id)
        assert [line for line in lines if line.startswith("data")] == []


def test_a_token_has_so_many_streams_and_no_more(live: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.server.api.limits.MOST_STREAMS", 2)
    with stream(live, "vic"), stream(live, "vic"):
        assert live.ask("vic", "GET", "/v1/events?follow=true").status_code == 429
        with stream(live, "ann"):
            pass
    # a stream whose reader left is not counted any more
    wait_for(lambda: live.ask("vic", "HEAD", "/v1/events?follow=true").status_code == 200)


def test_a_reader_that_does_not_read_holds_up_nobody(live: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its stream stops reading the store; others go on, and it finds everything later."""
    reads: list[int] = []
    plain = live.store.events

    def counted(since: int = 0, **options: Any) -> Any:
        reads.append(since)
        return plain(since, **options)

    batch = Batch()
    for i in range(20_000):
        batch.record("noise", live.scheduler.now(), text="x" * 2000, number=i)
    last = live.store.write(batch).last_event
    live.call(live.scheduler._tell(last))
    monkeypatch.setattr(live.store, "events", counted)
    with live.client("ada") as client, client.stream("GET", "/v1/events?follow=true&since=0") as answer:
        blocks = answer.iter_raw()
        seen = next(blocks).count(b"\ndata: ")
        threading.Event().wait(0.5)
        assert len(reads) < 20  # of more than 40 pages: what the sockets hold, and no more
        assert live.ask("ann", "GET", "/v1/me").status_code == 200
        # a row may be cut in two where a block ends
        while seen < last * 0.98:
            seen += next(blocks).count(b"\ndata: ")


def test_rare_rows_are_looked_for_a_bounded_piece_at_a_time(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_events, "_LOOKED_AT", 10)
    monkeypatch.setattr(api_events, "_MOST_QUERIES", 3)
    jobs = submit(sqlite_store, *(submission(f"j{i}", user="bob" if i < 95 else "ann") for i in range(100)))
    assert len(jobs) == 100
    reading = of_journal(sqlite_store, lambda: 100, (), "ann")
    assert reading(0, 10) == ([], 30)
    assert reading(60, 10)[1] == 90
    found, last = reading(90, 3)
    assert ([event.job_id for event in found], last) == (["96", "97", "98"], 98)
    found, last = reading(98, 3)
    assert ([event.job_id for event in found], last) == (["99", "100"], 100)


@pytest.mark.parametrize(
    ("path", "module", "maker"), [("events", api_events, "event_out"), ("nodes", nodes, "_node_out")]
)
def test_long_answers_are_made_beside_the_scheduler(
    live: Service, monkeypatch: pytest.MonkeyPatch, path: str, module: Any, maker: str
) -> None:
    """Its own thread decides meanwhile."""
    made_in: set[int] = set()
    plain = getattr(module, maker)

    def watched(*args: Any) -> Any:
        made_in.add(threading.get_ident())
        return plain(*args)

    async def own_thread() -> int:
        return threading.get_ident()

    monkeypatch.setattr(module, maker, watched)
    assert live.ask("ada", "GET", f"/v1/{path}").json()[path]
    assert made_in
    assert live.call(own_thread()) not in made_in


def test_many_rows_are_turned_into_json_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    content = {"events": [{"seq": i, "text": 'a "b"'} for i in range(3)], "last": 3, "next": None}
    assert json.loads(answer_rows("events", content["events"], last=3, next=None).body) == content
    assert json.loads(answer_rows("events", ()).body) == {"events": []}
    at_once: list[object] = []
    monkeypatch.setattr(desk, "_json", lambda content: at_once.append(content) or json.dumps(content))
    answer_rows("events", content["events"])
    assert at_once == ["events", *content["events"]]


def test_long_lists_are_turned_into_json_a_piece_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for length in (0, 1, desk._PIECE, desk._PIECE + 1, 3 * desk._PIECE):
        content = {"holder": list(range(length)), "jobs": [{"a": "],["}] * length, "last": None, "by": {"x": [1]}}
        assert json.loads(desk.in_pieces(content)) == content
    at_once: list[Any] = []
    monkeypatch.setattr(desk, "_json", lambda content: at_once.append(content) or json.dumps(content))
    desk.in_pieces({"holder": list(range(2 * desk._PIECE + 1))})
    assert [len(one) for one in at_once if isinstance(one, list)] == [desk._PIECE, desk._PIECE, 1]
